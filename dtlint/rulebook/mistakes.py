"""What is wrong in the expressions, sentences and names of a rule: checked at load for house rules, by tests for the
shipped ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from dtlint.plan import vocabulary
from dtlint.record import NamedTuple
from dtlint.rulebook.expressions import ExpressionError, compile_condition, compile_expression, suggestion
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import Rule
from dtlint.rulebook.sentences import compile_sentence

Path = tuple[str | int, ...]
"""Where in a rule file something stands: keys and indexes from the top. A part that the file writes as one value has
no index."""


class Mistake(NamedTuple):
    """Something in a rule that is not allowed: the field at fault, what is wrong, and the error of its expression, if
    it is one.
    """

    path: Path
    message: str
    error: ExpressionError | None = None
    part: Literal["key", "value"] = "value"


def mistakes(rule: Rule) -> Iterator[Mistake]:
    """Everything wrong in a rule: expressions, sentences, and settings that do not exist. Compiles all of the rule."""
    names = ReadyRule(rule, {}).names
    for path, text in conditions(rule):
        yield from _tried(path, text, lambda text: compile_condition(text, names))
    for path, text in values(rule):
        yield from _tried(path, text, lambda text: compile_expression(text, names))
    for path, text in sentences(rule):
        yield from _tried(path, text, lambda text: compile_sentence(text, names))
    yield from _unknown_settings(rule)


def conditions(rule: Rule) -> Iterator[tuple[Path, str]]:
    """The expressions of a rule that must be true or false."""
    yield ("applies",), rule.applies
    for index, verdict in enumerate(rule.verdicts):
        yield ("when", index, "when"), verdict.when
    for index, cure in enumerate(rule.cures):
        yield ("remedies", index, "when"), cure.when
    for index, formula in enumerate(rule.formulas):
        yield ("formula", index, "when"), formula.when


def values(rule: Rule) -> Iterator[tuple[Path, str]]:
    """The expressions of a rule that give a value."""
    yield ("share",), rule.share
    for part, text in rule.cost.items():
        if part != "unit":
            yield ("cost", part), text
    for index, cure in enumerate(rule.cures):
        for setting, text in cure.set.items():
            yield ("remedies", index, "set", setting), text


def sentences(rule: Rule) -> Iterator[tuple[Path, str]]:
    """The texts of a rule that are filled with numbers."""
    yield ("say",), rule.say
    for index, verdict in enumerate(rule.verdicts):
        yield ("when", index, "say"), verdict.say
    yield ("cost", "unit"), rule.cost.get("unit", "")
    for index, cure in enumerate(rule.cures):
        yield ("remedies", index, "text"), cure.text
        yield ("remedies", index, "say"), cure.say
    for index, formula in enumerate(rule.formulas):
        yield ("formula", index, "say"), formula.say


def _tried(path: Path, text: str, compile_: Callable[[str], object]) -> Iterator[Mistake]:
    if not text:
        return
    try:
        compile_(text)
    except ExpressionError as error:
        yield Mistake(path, error.message, error)


def _unknown_settings(rule: Rule) -> Iterator[Mistake]:
    for index, setting in enumerate(rule.at):
        if setting not in vocabulary():
            yield Mistake(("at", index), _no_setting(setting))
    for index, verdict in enumerate(rule.verdicts):
        for setting in verdict.at:
            if setting not in vocabulary():
                yield Mistake(("when", index, "at"), _no_setting(setting))
    for index, cure in enumerate(rule.cures):
        for setting in cure.set:
            if setting not in vocabulary():
                yield Mistake(("remedies", index, "set", setting), _no_setting(setting), part="key")


def _no_setting(name: str) -> str:
    return f"unknown setting '{name}'{suggestion(name, vocabulary())}"
