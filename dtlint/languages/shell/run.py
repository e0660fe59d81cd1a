"""Follows commands as bash would run them, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dtlint.languages.shell import expand
from dtlint.languages.shell.flow import ExitShell
from dtlint.languages.shell.simple_commands import run_simple
from dtlint.languages.shell.state import MAX_DEPTH, Shell, Stopped, Verdict, opposite
from dtlint.languages.shell.streams import redirected
from dtlint.languages.shell.syntax import Function, Group, Node, Pipeline, Redirected, Sequence, Simple


def run_node(shell: Shell, node: Node) -> None:
    """Follow one command; its status is left in `shell.status`. Stopped ends a world that grows beyond its bounds."""
    shell.depth += 1
    if shell.depth > MAX_DEPTH:
        raise Stopped
    try:
        _runner_of(type(node))(shell, node)
    finally:
        shell.depth -= 1


def run_in_child(shell: Shell, child: Shell, node: Node) -> None:
    """Follow a command in a subshell; `exit` ends only that."""
    with suppress(ExitShell):
        run_node(child, node)
    shell.status = child.status


def _run_sequence(shell: Shell, node: Sequence) -> None:
    for number, item in enumerate(node.items):
        if number in node.background:
            child = shell.child()
            child.background = True
            run_in_child(shell, child, item)
            shell.status = Verdict(True)
        else:
            run_node(shell, item)


def _run_body(shell: Shell, body: Sequence) -> None:
    with suppress(ExitShell):
        run_node(shell, body)


expand.run_body.append(_run_body)


def _run_pipeline(shell: Shell, node: Pipeline) -> None:
    if len(node.commands) == 1:
        run_node(shell, node.commands[0])
        shell.status = opposite(shell.status)
        return
    output = shell.stdin
    for number, command in enumerate(node.commands):
        child = shell.child()
        child.stdin = output
        if number < len(node.commands) - 1:
            child.out = []
        run_in_child(shell, child, command)
        output = tuple(child.out) if child.out is not None else None
    if node.negated:
        shell.status = opposite(shell.status)


def _run_group(shell: Shell, node: Group) -> None:
    if node.subshell:
        run_in_child(shell, shell.child(), node.body)
    else:
        run_node(shell, node.body)


def _run_redirected(shell: Shell, node: Redirected) -> None:
    redirected(shell, node.redirections, lambda: run_node(shell, node.command))


def _define(shell: Shell, node: Function) -> None:
    shell.functions[node.name] = node
    shell.status = Verdict(True)


def _run_simple(shell: Shell, node: Simple) -> None:
    run_simple(shell, node, run_node)


RUNNERS: dict[type, Callable[[Shell, Any], None]] = {
    Simple: _run_simple,
    Sequence: _run_sequence,
    Pipeline: _run_pipeline,
    Function: _define,
    Group: _run_group,
    Redirected: _run_redirected,
}


def _runner_of(kind: type) -> Callable[[Shell, Any], None]:
    """What follows a kind of command; what decides and repeats is loaded with the first such command."""
    if kind in RUNNERS:
        return RUNNERS[kind]
    from dtlint.languages.shell.deciding import DECIDING

    return DECIDING[kind]
