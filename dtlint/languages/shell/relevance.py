"""Which branches of a script matter: those that start something, or set what reaches a command that is started."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from dtlint.languages.shell.syntax import (
    AndOr,
    Case,
    Condition,
    For,
    Function,
    Group,
    If,
    Node,
    Redirected,
    Redirection,
    Sequence,
    Simple,
    While,
    WordSyntax,
)
from dtlint.languages.shell.walk import assignments, command_name, names_read, names_set, walk

QUIET_WRITTEN = """
echo printf cd mkdir rm rmdir touch chmod chown ls pwd sleep wait set unset shopt ulimit true false : exit return
break continue export declare local readonly typeset read shift getopts trap test [ which type command hash module
conda pip pip3 git wget curl apt apt-get yum nvidia-smi date whoami id uname df free ps kill pkill killall cat head
tail grep wc sort tr cut seq basename dirname realpath readlink hostname let source . alias pushd popd cp mv ln tee
tar unzip gunzip umask logger sudo nvcc
"""
QUIET = frozenset(QUIET_WRITTEN.split())
"""Commands whose being started changes no run."""

MESSAGES = frozenset(("echo", "printf", "cat", "true", ":"))
"""Commands that do not fail."""

EXPORTED_OF_INTEREST = (
    r"(?:NCCL|CUDA|TORCH|PYTORCH|NVTE|OMP|MASTER|WORLD|PET|DS|FSDP|ACCELERATE|GLOO|UCX|FI|NVSHMEM|HIP|ROCR|XLA|TPU)_"
    r"|NNODES|NPROC|RANK"
)
LOG_TARGET = r"/dev/|log|err|out\b|\.txt|&"


def leaves(node: Node | None, functions: dict[str, Function], depth: int = 0) -> bool:
    """Whether a branch ends the script: its last command is exit, a failing return, or a function that does so, also
    behind messages (`echo usage && exit 1`).
    """
    if node is None or depth > 5:
        return False
    if isinstance(node, (Sequence, Group)):
        items = node.items if isinstance(node, Sequence) else node.body.items
        return bool(items) and any(
            leaves(item, functions, depth + 1) for item in items if isinstance(item, (Simple, Group, AndOr))
        )
    if isinstance(node, AndOr):
        return _is_behind_messages(node) and leaves(node.rest[-1][1], functions, depth + 1)
    if not isinstance(node, Simple):
        return False
    name = command_name(node)
    if name == "exit":
        return True
    if name == "return":
        return len(node.words) > 1 and node.words[1].span.text != "0"
    return name in functions and leaves(functions[name].body, functions, depth + 1)


def _is_behind_messages(node: AndOr) -> bool:
    """Whether only what prints a message stands before the last command of a list, so that it runs."""
    before = (node.first, *(command for _, command in node.rest[:-1]))
    prints = all(isinstance(each, Simple) and command_name(each) in MESSAGES for each in before)
    return prints and all(operator == "&&" for operator, _ in node.rest)


def writes_file(redirections: tuple[Redirection, ...]) -> bool:
    """Whether output goes to a file that is no log."""
    return any(
        ">" in each.operator and each.descriptor in ("", "1") and not re.search(LOG_TARGET, each.target.span.text)
        for each in redirections
    )


def starts_something(node: Node) -> bool:
    """Whether one command by itself starts a program or writes a file that a run may depend on."""
    if isinstance(node, Redirected):
        return writes_file(node.redirections)
    if not isinstance(node, Simple):
        return False
    name = command_name(node)
    return bool(name) and (name not in QUIET or writes_file(node.redirections))


def relevance(tree: Node) -> Callable[[Node], bool]:
    """The test whether a branch of `tree` matters: it starts something, or sets a variable that reaches what is
    started.
    """
    flow: dict[str, set[str]] = {}
    roots: set[str] = set()
    defined: dict[str, Node] = {}
    for node in walk(tree):
        if isinstance(node, Function):
            defined[node.name] = node.body
        _note_flow(node, flow, roots)
    relevant = set(roots)
    waiting = list(roots)
    while waiting:
        for name in flow.get(waiting.pop(), ()):
            if name not in relevant:
                relevant.add(name)
                waiting.append(name)
    return partial(_matters, relevant=frozenset(relevant), functions=defined)


def _note_flow(node: Node, flow: dict[str, set[str]], roots: set[str]) -> None:
    if isinstance(node, Simple):
        for each in assignments(node):
            flow.setdefault(each.name, set()).update(names_read(iter((each,))))
        if command_name(node) == "export":
            exported = (word.span.text.partition("=")[0] for word in node.words[1:])
            roots.update(name for name in exported if re.match(EXPORTED_OF_INTEREST, name))
        if starts_something(node):
            roots.update(names_read(iter(node.words)))
            roots.update(each.name for each in node.assignments)
            roots.update(
                names_read(
                    body for redirection in node.redirections for body in (*redirection.body, redirection.target)
                )
            )
    elif isinstance(node, For):
        flow.setdefault(node.name, set()).update(names_read(iter(node.words or ())))
    elif isinstance(node, (If, While, Case, Condition)):
        roots.update(_names_in_conditions(node))


def _names_in_conditions(node: Node) -> Iterator[str]:
    if isinstance(node, Case):
        yield from names_read(iter((node.subject,)))
    elif isinstance(node, Condition):
        yield from names_read(token for token in node.tokens if isinstance(token, WordSyntax))
    elif isinstance(node, (If, While)):
        conditions = [condition for condition, _ in node.arms] if isinstance(node, If) else [node.condition]
        for condition in conditions:
            yield from (
                name for each in walk(condition) if isinstance(each, Simple) for name in names_read(iter(each.words))
            )


def _matters(node: Node, relevant: frozenset[str], functions: dict[str, Node]) -> bool:
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        for each in walk(waiting.pop()):
            if any(name in relevant for name in names_set(each)):
                return True
            name = command_name(each) if isinstance(each, Simple) else ""
            if name in functions:
                if name not in seen:
                    seen.add(name)
                    waiting.append(functions[name])
            elif starts_something(each):
                return True
    return False
