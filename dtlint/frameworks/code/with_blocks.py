"""The `with` statements of a function, which many questions about a call in it ask for."""

from __future__ import annotations

import ast

from dtlint.languages.python.places import Place
from dtlint.languages.python.program import of_file


def with_blocks(place: Place) -> tuple[ast.With, ...]:
    """The `with` statements in the function of a place, or in its module, in the order of `ast.walk`."""
    around = place.scope.node
    return of_file(place.program, "with blocks", around, lambda: _within(around))


def _within(around: ast.AST) -> tuple[ast.With, ...]:
    return tuple(node for node in ast.walk(around) if isinstance(node, ast.With))
