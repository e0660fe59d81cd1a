"""Code frames: marked lines of any files, whatever is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dtlint.report.frame import Mark, code_frame
from dtlint.report.terminal import cells, paragraphs, printable, width, wrap
from dtlint.source import Source, Span


def plain(text: str) -> str:
    return text


def at(source: Source, text: str) -> Span:
    start = source.text.index(text)
    return source.span(start, start + len(text))


def frame(*marks: tuple[Span, str], columns: int = 80) -> str:
    signs = ["^"] + ["-"] * len(marks)
    made = [Mark(span, label, sign, plain) for (span, label), sign in zip(marks, signs, strict=False)]
    return "\n".join(code_frame(made, columns, plain))


def test_several_places_of_one_file_stand_in_their_order() -> None:
    launch = Source("launch.sh", "GPUS=8\n\n\ntorchrun \\\n    --tp 16 \\\n    train.py\n")
    shown = frame((at(launch, "16"), "16 ranks"), (at(launch, "8"), "GPUs per node"))
    assert shown == (
        " --> launch.sh:5:10\n"
        "  |\n"
        "1 | GPUS=8\n"
        "  |      - GPUs per node\n"
        "...\n"
        "5 |     --tp 16 \\\n"
        "  |          ^^ 16 ranks"
    )


def test_each_further_file_is_named() -> None:
    config = Source("ds.json", '{"stage": 3}\n')
    launch = Source("launch.sh", "# a\n# b\ndeepspeed --pp 4 train.py\n")
    shown = frame((at(config, "3"), "ZeRO 3"), (at(launch, "4"), "4 stages"))
    assert shown == (
        " --> ds.json:1:11\n"
        "  |\n"
        '1 | {"stage": 3}\n'
        "  |           ^ ZeRO 3\n"
        " ::: launch.sh:3:16\n"
        "  |\n"
        "3 | deepspeed --pp 4 train.py\n"
        "  |                - 4 stages"
    )


def test_a_single_line_between_two_marked_ones_is_shown() -> None:
    launch = Source("a.sh", "A=1\nB=2\nC=3\n")
    assert "2 | B=2" in frame((at(launch, "3"), ""), (at(launch, "1"), ""))


def test_tabs_become_blanks_and_the_mark_stays_below_its_word() -> None:
    launch = Source("a.sh", "\tx\t--tp 8\n")
    *_, code, mark = frame((at(launch, "8"), "")).splitlines()
    assert code == "1 |     x   --tp 8"
    assert mark.index("^") == code.index("8")


def test_wide_characters_count_twice() -> None:
    launch = Source("a.sh", "日本 --tp 8\n")
    *_, code, mark = frame((at(launch, "8"), "")).splitlines()
    assert width(mark[: mark.index("^")]) == width(code[: code.index("8")])


def test_a_long_line_is_cut_around_its_mark() -> None:
    launch = Source("a.sh", "torchrun " + "--x " * 60 + "--tp 16 " + "--y " * 60 + "\n")
    *_, code, mark = frame((at(launch, "16"), "TP")).splitlines()
    assert code.startswith("1 | …")
    assert code.endswith("…")
    assert width(code) <= 80
    assert code[mark.index("^") : mark.index("^") + 2] == "16"


def test_escapes_in_a_file_do_not_reach_the_terminal() -> None:
    launch = Source("a\x1b[31m.sh", "TP=8 \x1b]0;owned\x07 \u202e\n")
    shown = frame((at(launch, "8"), "label \x1b[0m"))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\\x1b]0;owned\\x07 \\u202e" in shown


def test_a_file_without_text_has_no_code() -> None:
    assert frame((Source("data.bin", "").span(0, 0), "")) == " --> data.bin:1:1"


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 40), st.integers(40, 120))
def test_any_text_gives_lines_that_fit(text: str, start: int, length: int, columns: int) -> None:
    source = Source("f", text)
    low, high = min(start, len(text)), min(start + length, len(text))
    for line in frame((source.span(low, high), "label"), columns=columns).splitlines():
        assert width(line) <= columns
        assert printable(line) == line


@given(st.text(max_size=100))
def test_cells_are_printable_and_one_a_character(text: str) -> None:
    shown = list(cells(text))
    assert len(shown) == len(text)
    assert all(printable(cell) == cell for cell in shown)


@given(st.text(alphabet="ab\N{NO-BREAK SPACE} \n日", max_size=200), st.integers(40, 80))
def test_wrapping_keeps_the_words(text: str, columns: int) -> None:
    lines = wrap(text, "= ", "  ", columns)
    assert " ".join(line[2:] for line in lines).split() == text.split()


def test_a_no_break_space_holds_words_together() -> None:
    assert wrap("one two three", "", "", 8) == ["one two", "three"]
    assert wrap("one two\N{NO-BREAK SPACE}three", "", "", 8) == ["one", "two three"]


def test_paragraphs_keep_formulas_as_they_are() -> None:
    text = "A sentence\nof two lines.\n\n    idle = (P - 1) / (M + P - 1)\nMore."
    assert paragraphs(text, "  ", 80) == [
        "  A sentence of two lines.",
        "",
        "      idle = (P - 1) / (M + P - 1)",
        "  More.",
    ]
