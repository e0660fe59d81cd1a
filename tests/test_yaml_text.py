"""Texts in YAML scalars: every character knows where it stands in the file."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.languages.json_tree import Node
from dtlint.languages.traced import Piece
from dtlint.languages.yaml import read_documents
from dtlint.languages.yaml_text import EmbeddedSource, text_of
from dtlint.source import Source

TEXTS = st.text(st.sampled_from("ab $'\"\\#:-{}|>\n\t é\x07"), max_size=40)


def scalar(text: str) -> Node:
    """The value of the only key."""
    root = read_documents(Source("a.yaml", dedent(text)))[0].root
    assert root is not None
    return root.entries[0].node


def places(text: str) -> list[tuple[str | None, int, int]]:
    return [(piece.text, piece.span.line, piece.span.column) for piece in text_of(scalar(text))]


def test_lines_of_a_literal_block_stand_behind_their_indentation() -> None:
    found = places("""\
        run: |
          torchrun \\
            train.py
        """)
    assert found == [("torchrun \\", 2, 3), ("\n", 2, 13), ("  train.py", 3, 3), ("\n", 3, 13)]


def test_folded_lines_are_joined_by_a_blank_that_stands_at_the_line_end() -> None:
    assert places("run: >-\n  torchrun\n  train.py\n") == [("torchrun", 2, 3), (" ", 2, 11), ("train.py", 3, 3)]


def test_an_escape_stands_for_one_character() -> None:
    assert places('run: "a\\tb"\n') == [("a", 1, 7), ("\t", 1, 8), ("b", 1, 10)]


def test_a_doubled_quote_is_one() -> None:
    assert places("run: 'it''s'\n") == [("it", 1, 7), ("'", 1, 9), ("s", 1, 11)]


def test_what_a_template_fills_in_is_unknown() -> None:
    piece = text_of(scalar('args: "--nnodes={{ .Values.nodes }} x"\n'))[1]
    assert (piece.text, piece.span.text) == (None, "{{ .Values.nodes }}")
    assert piece.unknown == "{{ .Values.nodes }} is filled in by a template"


@pytest.mark.parametrize("written", ["run: 8\n", "run: true\n", "run: 0x10\n"])
def test_a_scalar_that_is_no_text_is_the_text_that_is_written(written: str) -> None:
    assert text_of(scalar(written))[0].text == written[5:-1]


def test_nothing_has_no_text() -> None:
    assert text_of(scalar("run:\n")) == ()


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from(["|", ">", '"', "'", None]), st.integers(8, 80), st.integers(2, 6))
def test_the_pieces_make_up_the_text_and_stand_where_they_say(
    text: str, style: str | None, width: int, indent: int
) -> None:
    tree = {"a": {"b": ["x", text]}}
    source = Source("a.yaml", yaml.dump(tree, default_style=style, width=width, indent=indent, allow_unicode=True))
    root = read_documents(source)[0].root
    assert root is not None
    node = root.entries[0].node.entries[0].node.items[1]
    pieces = text_of(node)
    if any(piece.text is None for piece in pieces):
        return
    expected = "" if node.kind == "null" else text
    assert "".join(piece.text or "" for piece in pieces) == expected
    assert all(stands_there(piece) for piece in pieces)


def stands_there(piece: Piece) -> bool:
    """Whether the characters are those of the place; what stands for an escape or a line end need not be."""
    written = piece.span.text
    return piece.text == written or len(written) != len(piece.text or "") or written.startswith(("\\", "'", "\n"))


@given(st.lists(st.text("abc-=", min_size=1, max_size=8), min_size=1, max_size=8), st.integers(1, 9), st.data())
def test_a_stretch_of_an_embedded_text_maps_to_the_same_stretch_of_the_file(
    lines: list[str], indent: int, data: st.DataObject
) -> None:
    body = "".join(f"{' ' * indent}{line}\n" for line in lines)
    source = Source("a.yaml", f"first: 1\nrun: |\n{body}")
    root = read_documents(source)[0].root
    assert root is not None
    embedded = EmbeddedSource("a.yaml", text_of(root.entries[1].node))
    number = data.draw(st.integers(0, len(lines) - 1))
    start = sum(len(line) + 1 for line in lines[:number])
    place = embedded.span(start, start + len(lines[number])).original()
    assert (place.text, place.line, place.column) == (lines[number], number + 3, indent + 1)
    whole = embedded.span(0, len(embedded.text) - 1).original()
    assert whole.text == body[indent:-1]
