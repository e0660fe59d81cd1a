"""Follows the commands that decide and repeat: lists of `&&` and `||`, `if`, `case`, tests and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlint.languages.shell.arithmetic import number_of
from dtlint.languages.shell.branches import Choice, choose
from dtlint.languages.shell.conditions import evaluate_condition, matches_pattern
from dtlint.languages.shell.expand import expand_text
from dtlint.languages.shell.fallbacks import run_without, unset_in
from dtlint.languages.shell.labels import arm_label, condition_label, otherwise_label
from dtlint.languages.shell.loops import run_arithmetic_for, run_for, run_while
from dtlint.languages.shell.relevance import leaves
from dtlint.languages.shell.run import run_node
from dtlint.languages.shell.state import Shell, Verdict, both, either, opposite
from dtlint.languages.shell.syntax import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    Case,
    Condition,
    For,
    If,
    Node,
    Pipeline,
    Sequence,
    While,
    WordSyntax,
)
from dtlint.languages.shell.text import Text, place_of


def verdict_of(shell: Shell, node: Node) -> Verdict:
    """The answer of a command used as a condition; unlike a statement, an undecided part of it forks nothing."""
    if isinstance(node, Sequence):
        for item in node.items[:-1]:
            run_node(shell, item)
        return verdict_of(shell, node.items[-1]) if node.items else Verdict(True)
    if isinstance(node, AndOr):
        return _verdict_of_list(shell, node)
    if isinstance(node, Pipeline) and node.negated and len(node.commands) == 1:
        return opposite(verdict_of(shell, node.commands[0]))
    run_node(shell, node)
    return shell.status


def _verdict_of_list(shell: Shell, node: AndOr) -> Verdict:
    verdict = verdict_of(shell, node.first)
    for operator, command in node.rest:
        if verdict.value is (operator == "||"):
            continue
        right = verdict_of(shell, command)
        verdict = both(verdict, right) if operator == "&&" else either(verdict, right)
    return verdict


def _run_and_or(shell: Shell, node: AndOr) -> None:
    run_node(shell, node.first)
    written: Node = node.first
    for number, (operator, command) in enumerate(node.rest):
        verdict = shell.status
        value = True if verdict.assumed == "success" else verdict.value
        if value is None:
            _run_undecided(shell, node, number, condition_label(written))
            return
        if value is not (operator == "&&"):
            continue
        if _is_usage_check(shell, verdict, _rest(node, number)):
            shell.world.learn(verdict.fails if value else verdict.holds)
            shell.status = Verdict(True)
            if (otherwise := _otherwise(node, number)) is not None:
                run_node(shell, otherwise)
            return
        run_without(shell, unset_in(verdict, value), command, run_node)
        written = command


def _run_undecided(shell: Shell, node: AndOr, number: int, label: str) -> None:
    """Go on in a list where it is not known whether a command of it runs: with that one, or where the list goes on
    without it.
    """
    verdict, runs_after_success = shell.status, node.rest[number][0] == "&&"
    labels, facts = (label, f"not ({label})"), (verdict.holds, verdict.fails)
    way, other = (0, 1) if runs_after_success else (1, 0)
    taken = Choice(labels[way], facts[way], _rest(node, number), unset_in(verdict, runs_after_success))
    skipped = Choice(labels[other], facts[other], _otherwise(node, number))
    shell.status = Verdict(True, assumed="success")
    choose(shell, [taken, skipped], place_of(node.span), run_node)


def _rest(node: AndOr, number: int) -> Node:
    """A list from one of its commands on."""
    command, after = node.rest[number][1], node.rest[number + 1 :]
    return AndOr(command, after, node.span) if after else command


def _otherwise(node: AndOr, number: int) -> Node | None:
    """Where a list goes on if one of its commands does not run: behind the next other operator."""
    operator = node.rest[number][0]
    following = range(number + 1, len(node.rest))
    return next((_rest(node, each) for each in following if node.rest[each][0] != operator), None)


def _is_usage_check(shell: Shell, verdict: Verdict, body: Node) -> bool:
    """Whether a branch only ends the script because the caller has not set a variable that it must set."""
    return bool(verdict.assumed.startswith("the caller") and leaves(body, shell.functions))


def _run_if(shell: Shell, node: If) -> None:
    undecided: list[Choice] = []
    labels: list[str] = []
    unset: tuple[str, ...] = ()
    for condition, body in node.arms:
        verdict = verdict_of(shell, condition)
        if verdict.value is False:
            unset += unset_in(verdict, False)
            continue
        if _is_usage_check(shell, verdict, body):
            shell.world.learn(verdict.fails)
            continue
        if verdict.value is True and not undecided:
            run_without(shell, unset_in(verdict, True), body, run_node)
            return
        label = otherwise_label(labels) if verdict.value else condition_label(condition)
        undecided.append(Choice(label, verdict.holds, body, unset_in(verdict, True)))
        unset += unset_in(verdict, False)
        labels.append(label)
        if verdict.value is True:
            break
    else:
        if not undecided:
            shell.status = Verdict(True)
            if node.otherwise is not None:
                run_without(shell, unset, node.otherwise, run_node)
            return
        last = verdict.fails if len(node.arms) == 1 else ()
        undecided.append(Choice(otherwise_label(labels), last, node.otherwise, unset))
    choose(shell, undecided, place_of(node.span), run_node)


def _run_case(shell: Shell, node: Case) -> None:
    subject = expand_text(shell, node.subject)
    undecided: list[Choice] = []
    labels: list[str] = []
    for number, (patterns, body, _) in enumerate(node.arms):
        verdict = Verdict(False)
        for pattern in patterns:
            verdict = either(verdict, matches_pattern(shell, subject, pattern))
        if verdict.value is False:
            continue
        if verdict.value is True and not undecided:
            _run_arms(shell, node, number, subject)
            return
        label = otherwise_label(labels) if verdict.value else arm_label(node.subject, patterns)
        undecided.append(Choice(label, verdict.holds if len(patterns) == 1 else (), body))
        labels.append(label)
        if verdict.value is True:
            break
    else:
        if undecided:
            undecided.append(Choice(otherwise_label(labels), (), None))
    if undecided:
        choose(shell, undecided, place_of(node.span), run_node)


def _run_arms(shell: Shell, node: Case, number: int, subject: Text) -> None:
    """Run the arm that fits, then as its terminator says the next one (`;&`) or the next that fits (`;;&`)."""
    while number < len(node.arms):
        run_node(shell, node.arms[number][1])
        terminator = node.arms[number][2]
        number += 1
        if terminator == ";;&":
            while number < len(node.arms) and not _fits_arm(shell, node.arms[number][0], subject):
                number += 1
        elif terminator != ";&":
            return


def _fits_arm(shell: Shell, patterns: tuple[WordSyntax, ...], subject: Text) -> bool:
    return any(matches_pattern(shell, subject, pattern).value is True for pattern in patterns)


def _run_condition(shell: Shell, node: Condition) -> None:
    shell.step()
    shell.status = evaluate_condition(shell, node)


def _run_arithmetic(shell: Shell, node: ArithmeticCommand) -> None:
    shell.step()
    number = number_of(shell, expand_text(shell, node.expression), place_of(node.span))
    shell.status = Verdict(None if number is None else number != 0)


def _run_for(shell: Shell, node: For) -> None:
    run_for(shell, node, run_node)


def _run_arithmetic_for(shell: Shell, node: ArithmeticFor) -> None:
    run_arithmetic_for(shell, node, run_node)


def _run_while(shell: Shell, node: While) -> None:
    run_while(shell, node, run_node, verdict_of)


DECIDING: dict[type, Callable[[Shell, Any], None]] = {
    AndOr: _run_and_or,
    If: _run_if,
    Case: _run_case,
    For: _run_for,
    ArithmeticFor: _run_arithmetic_for,
    While: _run_while,
    Condition: _run_condition,
    ArithmeticCommand: _run_arithmetic,
}
