"""Loops: literal ones are unrolled, endless ones are cut, and undecided ones leave unknowns."""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.languages.shell.arithmetic import number_of
from dtlint.languages.shell.branches import merge
from dtlint.languages.shell.expand import expand_text, expand_words
from dtlint.languages.shell.flow import LeaveLoop, NextRound
from dtlint.languages.shell.labels import condition_label
from dtlint.languages.shell.state import MAX_LOOP, Array, Shell, Verdict
from dtlint.languages.shell.syntax import ArithmeticFor, For, Node, While
from dtlint.languages.shell.text import place_of, soften
from dtlint.languages.shell.variables import assign
from dtlint.languages.shell.walk import names_set, walk
from dtlint.languages.traced import OPEN_ARGUMENTS, Piece, Word

Run = Callable[[Shell, Node], None]
OPTION_LOOP = re.compile(r"\$#|\$\{#\}|\$\{?1\b|getopt|\bread\b|\$@")


def _round(shell: Shell, body: Node, run: Run) -> bool:
    """Run the body once; False if it left the loop."""
    try:
        run(shell, body)
    except NextRound as leave:
        if leave.levels > 1:
            raise NextRound(leave.levels - 1) from None
    except LeaveLoop as leave:
        if leave.levels > 1:
            raise LeaveLoop(leave.levels - 1) from None
        return False
    return True


def run_for(shell: Shell, node: For, run: Run) -> None:
    """`for NAME in words`: once per word; words that are not known at all are stood for by one round with an unknown
    value.
    """
    shell.step()
    shell.status = Verdict(True)
    for number, word in enumerate(_loop_words(shell, node)):
        if number >= MAX_LOOP:
            blur(shell, node.body, f"this loop runs more than {MAX_LOOP} times", node)
            return
        shell.step()
        assign(shell, node.name, word.pieces)
        if not _round(shell, node.body, run):
            return


def _loop_words(shell: Shell, node: For) -> list[Word]:
    if node.words is not None:
        words = expand_words(shell, node.words)
        return [word for word in words if not (word.many and _arguments(word))]
    return [Word(text, place_of(node.span)) for text in shell.positional.words]


def _arguments(word: Word) -> bool:
    """Whether an open word is the script's argument list, which is taken as empty when no argument is given."""
    return any(piece.unknown == OPEN_ARGUMENTS for piece in word.pieces)


def run_arithmetic_for(shell: Shell, node: ArithmeticFor, run: Run) -> None:
    """`for ((start; condition; step))`."""
    start, condition, step = node.clauses
    place = place_of(node.span)
    number_of(shell, expand_text(shell, start), place)
    for _ in range(MAX_LOOP):
        shell.step()
        if condition.parts:
            answer = number_of(shell, expand_text(shell, condition), place)
            if answer is None:
                _run_once(shell, node.body, run, node)
                return
            if answer == 0:
                return
        if not _round(shell, node.body, run):
            return
        number_of(shell, expand_text(shell, step), place)
    blur(shell, node.body, f"this loop runs more than {MAX_LOOP} times", node)


def run_while(shell: Shell, node: While, run: Run, verdict_of: Callable[[Shell, Node], Verdict]) -> None:
    """`while` and `until`."""
    for _ in range(MAX_LOOP):
        shell.step()
        verdict = verdict_of(shell, node.condition)
        if verdict.value is None:
            _undecided_while(shell, node, run)
            return
        if verdict.value is node.until:
            shell.status = Verdict(True)
            return
        if not _round(shell, node.body, run):
            return
    blur(shell, node.body, f"this loop runs more than {MAX_LOOP} times", node)


def _undecided_while(shell: Shell, node: While, run: Run) -> None:
    """A loop over options that were not given is passed by; of another the body is followed once."""
    if OPTION_LOOP.search(node.condition.span.text):
        names = {name for each in walk(node.body) for name in names_set(each)}
        for name in names & shell.variables.keys():
            value = shell.variables[name]
            if not isinstance(value, Array):
                shell.variables[name] = soften(value, f"an option of the script may set {name}", node.span)
        return
    _run_once(shell, node.body, run, node)


def _run_once(shell: Shell, body: Node, run: Run, node: While | ArithmeticFor) -> None:
    label = condition_label(node.condition) if isinstance(node, While) else condition_label(node)
    outcome = shell.child()
    _round(outcome, body, run)
    doubt = Piece(None, place_of(node.span), unknown=f"depends on how often the loop over {label} runs")
    merge(shell, [shell.child(), outcome], doubt)


def blur(shell: Shell, body: Node, why: str, node: For | While | ArithmeticFor) -> None:
    """Make what a loop sets unknown, since it is not followed to its end."""
    for name in {name for each in walk(body) for name in names_set(each)}:
        shell.variables[name] = (Piece(None, place_of(node.span), unknown=why),)
