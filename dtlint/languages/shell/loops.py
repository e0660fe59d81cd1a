"""Loops: literal ones are unrolled, endless ones are cut, and undecided ones leave unknowns."""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.languages.shell.arithmetic import number_of
from dtlint.languages.shell.branches import merge
from dtlint.languages.shell.expand import expand_text, expand_words
from dtlint.languages.shell.flow import LeaveLoop, NextRound
from dtlint.languages.shell.labels import condition_label
from dtlint.languages.shell.named_options import by_option
from dtlint.languages.shell.relevance import starts_something
from dtlint.languages.shell.state import Array, Positional, Shell, Verdict
from dtlint.languages.shell.syntax import ArithmeticFor, For, Node, Simple, While
from dtlint.languages.shell.text import how_apart, place_of
from dtlint.languages.shell.variables import assign
from dtlint.languages.shell.walk import command_name, names_set, walk
from dtlint.languages.traced import OPEN_ARGUMENTS, Piece, Word
from dtlint.source import Problem

Run = Callable[[Shell, Node], None]
ARGUMENTS = r"\"?(?:\$#|\$\{#\}|\$\{?1\}?)\"?"
NONE = r"(?:-gt|-ne|>|!=)\s*(?:(?:[\"']{1,2}|[\"']?0[\"']?)\s*)?"
NONE_LEFT = r"\s*(?:\[\[?|test|\(\()\s*(?:-n\s+)?" + ARGUMENTS + r"\s*(?:" + NONE + r")?(?:\]|\)|;|$)"
"""The condition of a loop that runs while there are arguments."""

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
        if not shell.world.may_repeat(number):
            _cut_off(shell, node)
            return
        shell.step()
        assign(shell, node.name, word.pieces)
        if not _round(shell, node.body, run):
            return
    _blur_if_left(shell, node)


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
    number = 0
    while shell.world.may_repeat(number):
        number += 1
        shell.step()
        if condition.parts:
            answer = number_of(shell, expand_text(shell, condition), place)
            if answer is None:
                _run_once(shell, node.body, run, node)
                return
            if answer == 0:
                _blur_if_left(shell, node)
                return
        if not _round(shell, node.body, run):
            return
        number_of(shell, expand_text(shell, step), place)
    _cut_off(shell, node)


def run_while(shell: Shell, node: While, run: Run, verdict_of: Callable[[Shell, Node], Verdict]) -> None:
    """`while` and `until`."""
    number = 0
    while shell.world.may_repeat(number):
        number += 1
        shell.step()
        verdict = verdict_of(shell, node.condition)
        if verdict.value is None:
            _undecided_while(shell, node, run)
            return
        if verdict.value is node.until:
            shell.status = Verdict(True)
            _blur_if_left(shell, node)
            return
        if not _round(shell, node.body, run) or _blur_if_left(shell, node):
            return
    _cut_off(shell, node)


def _undecided_while(shell: Shell, node: While, run: Run) -> None:
    """A loop over options that were not given is passed by, what is learnt of a variable that it sets says nothing of
    the others; of another loop the body is followed once.
    """
    if OPTION_LOOP.search(node.condition.span.text):
        names = {name for each in walk(node.body) for name in names_set(each)}
        for name in names & shell.variables.keys():
            value = shell.variables[name]
            if not isinstance(value, Array):
                how = how_apart("--arg 1=... --arg 2=...", f"the option for {name}")
                shell.variables[name] = by_option(value, name, how, node.span)
        if _consumes_all(node):
            shell.positional = Positional(())
        return
    _run_once(shell, node.body, run, node)


def _consumes_all(node: While) -> bool:
    """Whether no argument is left behind a loop: it ends only when they are used up."""
    ends = re.compile(NONE_LEFT).match(node.condition.span.text)
    leaving = (
        each for each in walk(node.body) if isinstance(each, Simple) and command_name(each) in ("break", "return")
    )
    return ends is not None and next(leaving, None) is None


def _run_once(shell: Shell, body: Node, run: Run, node: While | ArithmeticFor) -> None:
    label = condition_label(node.condition) if isinstance(node, While) else condition_label(node)
    outcome = shell.child()
    _round(outcome, body, run)
    doubt = Piece(None, place_of(node.span), unknown=f"depends on how often the loop over {label} runs")
    merge(shell, [shell.child(), outcome], doubt)


def _cut_off(shell: Shell, node: For | While | ArithmeticFor) -> None:
    """Leave a loop that is not followed to its end; where it starts something, that is said."""
    blur(shell, node.body, "this loop runs more often than is followed", node)
    if any(starts_something(each) for each in walk(node.body)) and len(shell.world.problems) < 20:
        message = "this loop runs more often than is followed; what it starts later is not listed"
        shell.world.problems.append(Problem(place_of(node.span), message, fatal=False))


def _blur_if_left(shell: Shell, node: For | While | ArithmeticFor) -> bool:
    """Make what a loop sets unknown if an undecided condition may have ended it before; whether that is so."""
    if not shell.may_leave_loop:
        return False
    shell.may_leave_loop = False
    blur(shell, node.body, "depends on when this loop ends", node)
    return True


def blur(shell: Shell, body: Node, why: str, node: For | While | ArithmeticFor) -> None:
    """Make what a loop sets unknown, since it is not followed to its end."""
    for name in {name for each in walk(body) for name in names_set(each)}:
        shell.variables[name] = (Piece(None, place_of(node.span), unknown=why),)
