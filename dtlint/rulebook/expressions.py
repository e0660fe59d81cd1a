"""The expressions of rules: a checked subset of Python's, with not-knowing and ranges as values.

Names, arity and types are checked when an expression is compiled. There are no powers, subscripts, attributes of
values or loops, so that an expression from a stranger can neither reach anything nor run long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from dtlint.record import NamedTuple
from dtlint.rulebook import syntax
from dtlint.rulebook.functions import Function, Scope, Type, invoke, type_of
from dtlint.rulebook.library import FUNCTIONS
from dtlint.rulebook.operands import Operand, Truth, arithmetic, as_truth, compare, negation, negative
from dtlint.rulebook.syntax import ExpressionError, Tree
from dtlint.rulebook.trees import tree_of
from dtlint.value import Unknown

__all__ = ["Expression", "ExpressionError", "Names", "compile_condition", "compile_expression", "suggestion"]

LONGEST_NAME = 100
"""Characters of the longest name for which a similar one is looked for."""

Evaluate = Callable[[Scope], Operand]


class Names(NamedTuple):
    """The names that an expression may use: the type of each, None for an unknown one; and all of them, for
    suggestions.
    """

    type_of: Callable[[str], Type | None]
    all: Callable[[], Iterable[str]]


class Expression(NamedTuple):
    """A checked expression. `names` are the names in it, in the order of the text."""

    text: str
    type: Type
    names: tuple[str, ...]
    evaluate: Evaluate


class _Part(NamedTuple):
    """A compiled part of an expression."""

    type: Type
    evaluate: Evaluate


class _Reader(NamedTuple):
    """What compiling needs to know: the text, the allowed names, and the list in which names used are noted."""

    text: str
    names: Names
    used: list[str]

    def error(self, message: str, tree: Tree) -> ExpressionError:
        """The error at a part of the text."""
        return ExpressionError(message, self.text, tree.offset)


def compile_expression(text: str, names: Names) -> Expression:
    """Check and compile `text`; ExpressionError for what is not allowed, an unknown name, or types that do not fit."""
    line = one_line(text)
    reader = _Reader(line, names, [])
    part = _compile(tree_of(line), reader)
    return Expression(line, part.type, tuple(dict.fromkeys(reader.used)), part.evaluate)


def one_line(text: str) -> str:
    """An expression as it is parsed: a rule file may break it into lines."""
    return text.replace("\n", " ").strip()


def compile_condition(text: str, names: Names) -> Expression:
    """As compile_expression, for what must be true or false."""
    found = compile_expression(text, names)
    if found.type not in ("flag", "any"):
        raise ExpressionError(f"a condition is needed, and this is a {found.type}", found.text, 0)
    return found


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name most like `name`, "" if none is alike."""
    from difflib import get_close_matches

    if len(name) > LONGEST_NAME:
        return ""
    names = list(known)
    near = get_close_matches(name, names, 1, 0.6) or [other for other in names if other.endswith(f".{name}")]
    return f"; did you mean '{near[0]}'?" if near else ""


def _compile(tree: Tree, reader: _Reader) -> _Part:
    return _COMPILERS[type(tree)](tree, reader)


def _constant(tree: syntax.Constant, reader: _Reader) -> _Part:
    value = tree.value
    return _Part(type_of(value), lambda scope: value)


def _name(tree: syntax.Name, reader: _Reader) -> _Part:
    name = tree.name
    return _Part(_known_type(name, tree, reader), lambda scope: scope.read(name))


def _known_type(name: str, tree: Tree, reader: _Reader) -> Type:
    found = reader.names.type_of(name)
    if found is None:
        raise reader.error(f"unknown name '{name}'{suggestion(name, reader.names.all())}", tree)
    reader.used.append(name)
    return found


def _needs(wanted: Type, tree: Tree, reader: _Reader) -> Evaluate:
    found = _compile(tree, reader)
    if found.type not in (wanted, "any"):
        raise reader.error(f"a {wanted} is needed here, and this is a {found.type}", tree)
    return found.evaluate


def _junction(tree: syntax.Junction, reader: _Reader) -> _Part:
    parts = tuple(_needs("flag", part, reader) for part in tree.operands)
    decisive = tree.word == "or"
    return _Part("flag", lambda scope: _combine(parts, decisive, scope))


def _combine(parts: tuple[Evaluate, ...], decisive: bool, scope: Scope) -> Truth:
    """Kleene's `or` (decisive true) and `and` (decisive false): one decisive part decides, whatever is unknown."""
    unknown: Unknown | None = None
    for part in parts:
        truth = as_truth(part(scope))
        if truth is decisive:
            return decisive
        if unknown is None and isinstance(truth, Unknown):
            unknown = truth
    return (not decisive) if unknown is None else unknown


def _denial(tree: syntax.Denial, reader: _Reader) -> _Part:
    condition = _needs("flag", tree.operand, reader)
    return _Part("flag", lambda scope: negation(as_truth(condition(scope))))


def _negative(tree: syntax.Negative, reader: _Reader) -> _Part:
    number = _needs("number", tree.operand, reader)
    return _Part("number", lambda scope: negative(number(scope)))


def _arithmetic(tree: syntax.Arithmetic, reader: _Reader) -> _Part:
    symbol = tree.symbol
    left, right = _needs("number", tree.left, reader), _needs("number", tree.right, reader)
    return _Part("number", lambda scope: arithmetic(symbol, left(scope), right(scope)))


def _comparison(tree: syntax.Comparison, reader: _Reader) -> _Part:
    parts = [_compile(operand, reader) for operand in tree.operands]
    links: list[Evaluate] = []
    for index, symbol in enumerate(tree.symbols):
        left, right = parts[index], parts[index + 1]
        _check_comparable(symbol, left.type, right.type, tree.operands[index + 1], reader)
        links.append(_link(symbol, left.evaluate, right.evaluate))
    chain = tuple(links)
    return _Part("flag", chain[0] if len(chain) == 1 else lambda scope: _combine(chain, False, scope))


def _link(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: compare(symbol, left(scope), right(scope))


def _check_comparable(symbol: str, left: Type, right: Type, tree: Tree, reader: _Reader) -> None:
    if symbol in ("in", "not in"):
        if right not in ("list", "any", "word") or (right == "word" and left not in ("word", "any")):
            raise reader.error(f"'{symbol}' needs a list on its right, and this is a {right}", tree)
        return
    alike = left == right or "any" in (left, right)
    if not alike and (symbol not in ("==", "!=") or "nothing" not in (left, right)):
        raise reader.error(f"a {left} is compared with a {right}", tree)
    if symbol not in ("==", "!=") and not {left, right} <= {"number", "word", "any"}:
        raise reader.error(f"a {left} has no order", tree)


def _items(tree: syntax.Items, reader: _Reader) -> _Part:
    parts = tuple(_compile(part, reader).evaluate for part in tree.parts)

    def evaluate(scope: Scope) -> Operand:
        values = tuple(part(scope) for part in parts)
        unknown = next((value for value in values if isinstance(value, Unknown)), None)
        return cast("Operand", values) if unknown is None else unknown

    return _Part("list", evaluate)


def _conditional(tree: syntax.Conditional, reader: _Reader) -> _Part:
    condition = _needs("flag", tree.condition, reader)
    one, other = _compile(tree.one, reader), _compile(tree.other, reader)

    def evaluate(scope: Scope) -> Operand:
        truth = as_truth(condition(scope))
        if not isinstance(truth, Unknown):
            return one.evaluate(scope) if truth else other.evaluate(scope)
        first, second = one.evaluate(scope), other.evaluate(scope)
        return first if type(first) is type(second) and first == second else truth

    return _Part(one.type if one.type == other.type else "any", evaluate)


def _call(tree: syntax.Call, reader: _Reader) -> _Part:
    found = FUNCTIONS.get(tree.function)
    if found is None:
        raise reader.error(f"unknown function '{tree.function}'{suggestion(tree.function, FUNCTIONS)}", tree)
    _check_arity(found, tree, reader)
    if found.manner == "named":
        return _named_call(found, tree, reader)
    types = [*found.parameters, *[found.more or "any"] * (len(tree.arguments) - len(found.parameters))]
    arguments = tuple(_argument(wanted, part, reader) for wanted, part in zip(types, tree.arguments, strict=True))
    return _Part(found.result, lambda scope: invoke(found, scope, tuple(argument(scope) for argument in arguments)))


def _argument(wanted: Type, tree: Tree, reader: _Reader) -> Evaluate:
    return _compile(tree, reader).evaluate if wanted == "any" else _needs(wanted, tree, reader)


def _check_arity(found: Function, tree: syntax.Call, reader: _Reader) -> None:
    least, given = len(found.parameters), len(tree.arguments)
    if given < least or (found.more is None and given > least):
        wanted = f"{least} argument{'s' * (least != 1)}" + (" or more" if found.more else "")
        raise reader.error(f"{found.name}() takes {wanted} ({found.signature}), not {given}", tree)


def _named_call(found: Function, tree: syntax.Call, reader: _Reader) -> _Part:
    setting = tree.arguments[0]
    if not isinstance(setting, syntax.Name):
        raise reader.error(f"{found.name}() takes the name of a setting", setting)
    name = setting.name
    _known_type(name, setting, reader)
    return _Part(found.result, lambda scope: found.call(scope, name))


_COMPILERS = cast(
    "dict[type[Tree], Callable[[Tree, _Reader], _Part]]",
    {
        syntax.Constant: _constant,
        syntax.Name: _name,
        syntax.Junction: _junction,
        syntax.Denial: _denial,
        syntax.Negative: _negative,
        syntax.Arithmetic: _arithmetic,
        syntax.Comparison: _comparison,
        syntax.Items: _items,
        syntax.Conditional: _conditional,
        syntax.Call: _call,
    },
)
