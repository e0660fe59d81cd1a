"""A Jupyter notebook's code cells as one Python text, whose places are those of the notebook's lines."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator

from dtlint.languages.json import read_json
from dtlint.languages.json_tree import Node, member
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span

MAX_CELLS = 1_000
"""Most code cells that are read."""

_PIECE = re.compile(r"[^\\]+|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_MAGIC = re.compile(r"^([ \t]*(?:\w[\w., ]*=[ \t]*)?)([!%?](?:[^\\\n]|\\.|\\\n)*|\w[\w.]*\?{1,2}[ \t]*$)", re.MULTILINE)
"""A line for IPython or the shell, with the lines that it goes on in."""
_WHOLE_CELL = re.compile(r"\s*%%(\w+)")
_AROUND_PYTHON = frozenset({"time", "timeit", "capture", "prun"})
"""Cell magics whose cell is Python all the same."""


class _Piece(NamedTuple):
    """Characters of the code, and where they stand in the notebook's file: `length` characters from `start` on."""

    text: str
    start: int
    length: int


class CodeSource(Source):
    """The code of a notebook. A place in it is that of the same characters in the notebook's JSON."""

    __slots__ = ("_at", "_notebook", "_pieces")

    def __init__(self, notebook: Source, pieces: tuple[_Piece, ...], text: str) -> None:
        super().__init__(notebook.path, text, notebook.file)
        self._notebook = notebook
        self._pieces = pieces
        self._at = [0]
        for piece in pieces:
            self._at.append(self._at[-1] + len(piece.text))

    def original(self, span: Span) -> Span:
        """The same stretch of the notebook's file."""
        start = self._offset(span.start)
        return self._notebook.span(
            start, max(start, self._offset(span.end - 1) + 1 if span.end > span.start else start)
        )

    def _offset(self, offset: int) -> int:
        if not self._pieces:
            return 0
        index = min(max(0, bisect_right(self._at, offset) - 1), len(self._pieces) - 1)
        piece, inside = self._pieces[index], offset - self._at[index]
        return piece.start + min(inside, piece.length - 1) if piece.length else piece.start


class Notebook(NamedTuple):
    """A notebook read: its code, and what of it is no Python."""

    code: CodeSource
    problems: tuple[Problem, ...] = ()


def read_notebook(source: Source) -> Notebook:
    """The Python cells of a notebook, in the order in which they stand; what IPython reads itself is left out.

    A cell that is no Python is left out with a problem; a file that is no notebook has no code.
    """
    document = read_json(source)
    broken = tuple(
        problem._replace(message=f"not a whole notebook: {problem.message}", fatal=False, loader="python")
        for problem in document.problems
        if problem.fatal
    )[:1]
    pieces: list[_Piece] = []
    problems = list(broken)
    for number, cell in enumerate(_code_cells(document.root), 1):
        found = _cell_pieces(source, cell)
        whole = CodeSource(source, tuple(found), "".join(piece.text for piece in found))
        plain = whole.text if _defect(whole, number) is None else _without_magics(whole.text)
        problem = _defect(CodeSource(source, tuple(found), plain), number)
        if problem is not None:
            problems.append(problem)
            plain = _blank(plain)
        pieces.extend(_rewritten(found, plain))
    return Notebook(CodeSource(source, tuple(pieces), "".join(piece.text for piece in pieces)), tuple(problems))


def _code_cells(root: Node | None) -> Iterator[Node]:
    """The texts of the code cells of a notebook in Python, those of the third format included."""
    if root is None or _language(root) not in ("", "python", "ipython"):
        return
    sheets = member(root, "worksheets")
    holders = [root, *(sheets.items if sheets is not None else ())]
    cells = [cell for holder in holders if (found := member(holder, "cells")) is not None for cell in found.items]
    for cell in cells[:MAX_CELLS]:
        kind, text = member(cell, "cell_type"), member(cell, "source") or member(cell, "input")
        if kind is not None and kind.value == "code" and text is not None:
            yield text


def _language(root: Node) -> str:
    found = member(root, "metadata", "language_info", "name") or member(root, "metadata", "kernelspec", "language")
    return str(found.value).lower() if found is not None and found.value else ""


def _cell_pieces(source: Source, text: Node) -> list[_Piece]:
    """The characters of a cell: one string, or a list of lines. The cell ends its last line."""
    strings = [node for node in (text.items or (text,)) if node.kind == "string"]
    found = [piece for node in strings for piece in _string_pieces(source, node.span)]
    end = strings[-1].span.end - 1 if strings else text.span.end - 1
    return [*found, _Piece("\n", end, 1)]


def _string_pieces(source: Source, span: Span) -> Iterator[_Piece]:
    body = source.text[span.start + 1 : span.end - 1]
    for match in _PIECE.finditer(body):
        yield _Piece(_decoded(match[0]), span.start + 1 + match.start(), len(match[0]))


def _decoded(raw: str) -> str:
    """What an escape stands for; half of a pair of surrogates is one unknown character, a `\\u` without digits a u."""
    if not raw.startswith("\\"):
        return raw
    if len(raw) > 2:
        character = chr(int(raw[2:], 16))
        return "\ufffd" if "\ud800" <= character <= "\udfff" else character
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(raw[1], raw[1])


def _without_magics(text: str) -> str:
    """The text with a `0` and blanks in the place of what IPython and the shell read, nothing moved."""
    whole = _WHOLE_CELL.match(text)
    if whole is not None and whole[1] not in _AROUND_PYTHON:
        return _blank(text)
    return _MAGIC.sub(lambda match: match[1] + "0" + _blank(match[2][1:]), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _defect(cell: CodeSource, number: int) -> Problem | None:
    """What keeps Python from reading a cell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(cell.text)
    except SyntaxError as error:
        start = cell.line_start(min(max(error.lineno or 1, 1), cell.line_count()))
        return _problem(cell, start, f"cell {number} is not valid Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return _problem(cell, 0, f"cell {number} is not valid Python: {str(error) or 'nested too deeply'}")
    return None


def _problem(cell: CodeSource, start: int, message: str) -> Problem:
    return Problem(cell.span(start, start + 1).original(), message, fatal=False, loader="python")


def _rewritten(pieces: list[_Piece], text: str) -> Iterator[_Piece]:
    """The pieces with other characters, as many as before."""
    at = 0
    for piece in pieces:
        yield piece._replace(text=text[at : at + len(piece.text)])
        at += len(piece.text)
