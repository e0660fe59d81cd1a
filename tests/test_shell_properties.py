"""Whatever the text is, reading it raises nothing, stays within bounds, and keeps the place of every character."""

from __future__ import annotations

import time
from pathlib import Path
from timeit import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.languages.shell import read_script
from dtlint.languages.shell.reader import read_tree
from dtlint.languages.traced import Piece, WrittenSource
from dtlint.source import Source

CASES = (Path(__file__).parent / "data" / "bash_answers.txt").read_text(encoding="utf-8")
WRITTEN = r"""
" ' ` $( ${ $(( )) } ) ( { < > | & \ # if then do done case esac [[ ]] for while $@ * (( ! eval $X = +=( ;; x 1 f()
"""
TOKENS = (*WRITTEN.split(), "<<EOF\n", "\n", "fi\n", "\\\n", "torchrun")

texts = st.lists(st.sampled_from(TOKENS) | st.text(max_size=3), max_size=40).map(" ".join)


def pieces(text: str) -> list[Piece]:
    worlds = read_script(Source("a.sh", text)).worlds
    return [piece for world in worlds for command in world.commands for word in command.argv for piece in word.pieces]


def assert_placed(text: str) -> None:
    for piece in pieces(text):
        assert not isinstance(piece.span.source, WrittenSource)
        assert 0 <= piece.span.start <= piece.span.end <= len(text)
        if piece.text is not None and len(piece.text) == piece.span.end - piece.span.start and not piece.chain:
            assert piece.span.text == piece.text or "\\" in text or "$" in text


@given(texts)
@settings(max_examples=150, deadline=None)
def test_any_tokens_are_read(text: str) -> None:
    assert_placed(text)


@given(st.integers(0, len(CASES) - 600), st.integers(0, 600), st.sampled_from(TOKENS))
@settings(max_examples=100, deadline=None)
def test_a_script_with_a_token_thrown_in_is_read(start: int, place: int, token: str) -> None:
    script = CASES[start : start + 600]
    assert_placed(script[:place] + token + script[place:])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\ue000"), max_size=8), max_size=6))
@settings(max_examples=100, deadline=None)
def test_quoted_words_come_out_as_they_are(words: list[str]) -> None:
    quoted = ["'" + word.replace("'", "'\\''") + "'" for word in words]
    (world,) = read_script(Source("a.sh", "torchrun " + " ".join(quoted))).worlds
    assert [word.text for word in world.commands[0].argv[1:]] == words


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(1, 50))
@settings(max_examples=50, deadline=None)
def test_arithmetic_is_that_of_integers(a: int, b: int, c: int) -> None:
    (world,) = read_script(
        Source("a.sh", f"A={a}; torchrun $((A + {b} * {c})) $(((A - {b}) / {c})) $(( A > {b} ? A : {b} ))")
    ).worlds
    assert [word.text for word in world.commands[0].argv[1:]] == [str(a + b * c), str(int((a - b) / c)), str(max(a, b))]


HOSTILE = {
    "parentheses": "(" * 20_000,
    "substitutions": "$(" * 5_000,
    "arithmetic that is none": "$(( " * 60 + "1" + " ) ) " * 60,
    "braces": "torchrun " + "{a,b}" * 40,
    "range": "for i in {1..100000000}; do torchrun $i; done",
    "quotes": '"$(' * 3_000,
    "endless loops": "while true; do " * 20 + ":;" + " done;" * 20,
    "recursion": "f() { f; f; }; f",
    "doubling": "X=a\n" + 'X="$X$X"\n' * 60 + "torchrun $X",
    "eval of itself": 'X="eval \\"\\$X\\""; eval "$X"',
    "shell in itself": 'bash -c \'bash -c "$0" "$0"\' \'bash -c "$0" "$0"\'',
    "costly patterns": "X=" + "a" * 3_000 + '; torchrun ${X%%*a*a*a*b} $(echo $X | sed "s/\\(a*\\)*b/x/")',
    "power": "torchrun $((2**2**2**60))",
    "width": "torchrun $(printf '%999999999s' x)",
    "unclosed": "for i in a; do\nif x; then\n" * 500,
    "placeholders": "torchrun " + "<a" * 5_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_scripts_end_soon(text: str) -> None:
    start = time.process_time()
    script = read_script(Source("a.sh", text))
    assert script.worlds
    assert time.process_time() - start < 3


@pytest.mark.parametrize("line", ["cat > f <<EOF\n$A\nEOF\n", "X=`echo 1`\n"], ids=["heredocs", "backticks"])
def test_what_is_read_apart_is_read_once(line: str) -> None:
    def seconds(lines: int) -> float:
        source = Source("a.sh", line * lines)
        return min(repeat(lambda: read_tree(source), timer=time.process_time, number=1, repeat=2))

    assert seconds(10_000) < 20 * seconds(1_000)  # 10 where the time grows with the length, 100 with its square


def test_reading_is_linear() -> None:
    def seconds(lines: int) -> float:
        source = Source("a.sh", 'A="x $B" # note\ntorchrun --a $A "b c" $((1 + 2)) \\\n  --d\n' * lines)
        start = time.process_time()
        read_script(source)
        return time.process_time() - start

    seconds(10)
    assert seconds(1_000) < 40 * max(seconds(100), 0.001)
