"""Applies assignments: plain, `+=`, to an element, of a whole array."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.languages.shell.expand import expand_text, expand_words
from dtlint.languages.shell.fallbacks import soft_array
from dtlint.languages.shell.parameters import element_key
from dtlint.languages.shell.state import Array, Shell
from dtlint.languages.shell.syntax import Assignment, WordSyntax
from dtlint.languages.shell.text import Text, bounded, literal, place_of, several
from dtlint.languages.shell.variables import assign, is_index, read_element, read_variable
from dtlint.languages.traced import Word


def apply_assignment(shell: Shell, assignment: Assignment, value: Text | None = None) -> None:
    """Set the variable as the assignment says, to `value` where its text has been expanded before."""
    if assignment.name in shell.references:
        assignment = assignment._replace(name=shell.references[assignment.name])
    if shell.exports_all:
        shell.exported = shell.exported | {assignment.name}
    if assignment.elements is not None:
        shell.variables[assignment.name] = soft_array(shell, assignment.name, _array(shell, assignment))
        return
    if value is None:
        value = expanded_value(shell, assignment)
    key = ""
    if assignment.subscript is not None:
        key = element_key(shell, assignment.name, expand_text(shell, assignment.subscript), assignment.span)
    before = read_element(shell, assignment.name, key, assignment.span) if assignment.append else ()
    if assignment.name in shell.integers:
        value = _integer(shell, before, value, assignment)
    elif assignment.append:
        value = bounded((*before, *value))
    assign(shell, assignment.name, value, key)


def expanded_value(shell: Shell, assignment: Assignment) -> Text:
    """The text that stands behind the `=`."""
    return expand_text(shell, assignment.value) if assignment.value is not None else ()


def _integer(shell: Shell, before: Text, value: Text, assignment: Assignment) -> Text:
    """What a variable declared with `-i` takes: the value of the expression, which `+=` adds to what it has."""
    from dtlint.languages.shell.arithmetic import evaluate

    place = place_of(assignment.span)
    if not before:
        return (evaluate(shell, value, place),)
    return (evaluate(shell, (*before, *literal(" + (", place), *value, *literal(")", place)), place),)


def _array(shell: Shell, assignment: Assignment) -> Array:
    before = read_variable(shell, assignment.name)
    shell.spend(len(before.items) if isinstance(before, Array) else 0)
    associative = isinstance(before, Array) and before.associative
    items = _kept(before) if assignment.append else {}
    rest = before.rest if isinstance(before, Array) and assignment.append else None
    for index, word in assignment.elements or ():
        if index is not None:
            items[element_key(shell, assignment.name, expand_text(shell, index), assignment.span)] = expand_text(
                shell, word
            )
            continue
        for each in expand_words(shell, (word,)):
            items[str(_next_index(items))] = several(each.pieces) if each.many else each.pieces
    return Array(items, associative, rest)


def _next_index(items: dict[str, Text]) -> int:
    return 1 + max((int(key) for key in items if is_index(key)), default=-1) if items else 0


def _kept(before: object) -> dict[str, Text]:
    if isinstance(before, Array):
        return dict(before.items)
    return {"0": before} if isinstance(before, tuple) and before else {}


def prefix_environment(shell: Shell, assignments: Sequence[Assignment]) -> dict[str, Text]:
    """What `A=1 B=2 command` adds to the command's environment."""
    environment: dict[str, Text] = {}
    for assignment in assignments:
        if assignment.value is not None and assignment.subscript is None:
            environment[assignment.name] = expand_text(shell, assignment.value)
    return environment


def expanded_values(shell: Shell, words: Sequence[WordSyntax | Assignment]) -> list[Text | None]:
    """The values that the arguments of `export`, `local`, ... assign: all are expanded before the first is set."""
    return [expanded_value(shell, word) if isinstance(word, Assignment) else None for word in words]


def declare(shell: Shell, word: WordSyntax | Assignment, value: Text | None = None) -> str | None:
    """Apply one argument of `export`, `local`, ... that assigns `value`, if it is an assignment; the name that it
    declares, None if it is an option or unknown.
    """
    if isinstance(word, Assignment):
        apply_assignment(shell, word, value)
        return word.name
    for each in expand_words(shell, (word,)):
        text = each.text
        if text is None or not text:
            return _declared_unknown(shell, each)
        name, equals, _ = text.partition("=")
        if equals and name.isidentifier():
            assign(shell, name, each.part(len(name) + 1).pieces)
        return name if name.isidentifier() else None
    return None


def _declared_unknown(shell: Shell, word: Word) -> str | None:
    """`export "$NAME=..."` or a value that is partly unknown: set it if at least the name is known."""
    name, equals, _ = word.shown.partition("=")
    if not equals or not name.isidentifier():
        return None
    assign(shell, name, word.part(len(name) + 1).pieces)
    return name
