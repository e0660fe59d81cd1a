"""The trees of expressions: the shipped rules bring theirs along, parsed when the rules were compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from dtlint.rulebook import syntax
from dtlint.rulebook.rule import Rule
from dtlint.rulebook.syntax import ExpressionError, Tree

_MAKERS: Mapping[str, Callable[[list[object]], object]] = {
    "tuple": tuple,
    **{
        kind.__name__: kind._make
        for kind in (
            syntax.Constant, syntax.Name, syntax.Call, syntax.Items, syntax.Negative, syntax.Arithmetic,
            syntax.Comparison, syntax.Denial, syntax.Junction, syntax.Conditional,
        )
    },
}  # fmt: skip


def tree_of(text: str) -> Tree:
    """The tree of an expression, from the shipped rules if one of them has it; ExpressionError as `grammar.parse`."""
    from dtlint.rulebook.load import shipped_trees

    known = shipped_trees().get(text)
    if known is not None:
        return cast("Tree", unpacked(cast("list[Any]", known)))
    from dtlint.rulebook.grammar import parse

    return parse(text)


def packed(part: object) -> object:
    """A tree, or a part of one, as JSON can hold it: a list of the kind's name and the fields."""
    return [type(part).__name__, *map(packed, part)] if isinstance(part, tuple) else part


def unpacked(part: list[Any]) -> object:
    """The tree that `packed` made a list of."""
    return _MAKERS[part[0]]([unpacked(each) if isinstance(each, list) else each for each in part[1:]])


def packed_trees(rules: Iterable[Rule]) -> dict[str, object]:
    """Every expression of the rules with its tree; one that has none is left for the check that needs it to refuse."""
    from dtlint.rulebook.grammar import parse

    found: dict[str, object] = {}
    for text in (text for rule in rules for text in _texts(rule) if text):
        with suppress(ExpressionError):
            found[text] = packed(parse(text))
    return found


def _texts(rule: Rule) -> Iterator[str]:
    """The texts of a rule's conditions, values and sentences that are expressions, as they are parsed."""
    from dtlint.rulebook.expressions import one_line
    from dtlint.rulebook.mistakes import conditions, sentences, values
    from dtlint.rulebook.sentences import expressions_in

    yield from (one_line(text) for _, text in (*conditions(rule), *values(rule)))
    yield from (one_line(text) for _, sentence in sentences(rule) for text in expressions_in(sentence))
