"""Looks over a syntax tree without running it: what it sets, what it starts, and which variables matter for that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from dtlint.languages.shell.syntax import (
    AndOr,
    Arithmetic,
    ArithmeticCommand,
    ArithmeticFor,
    Assignment,
    Case,
    Condition,
    For,
    Function,
    Group,
    If,
    Literal,
    Node,
    Parameter,
    Part,
    Pipeline,
    Redirected,
    Redirection,
    Sequence,
    Simple,
    Substitution,
    While,
    WordSyntax,
)

QUIET_WRITTEN = """
echo printf cd mkdir rm rmdir touch chmod chown ls pwd sleep wait set unset shopt ulimit true false : exit return
break continue export declare local readonly typeset read shift getopts trap test [ which type command hash module
conda pip pip3 git wget curl apt apt-get yum nvidia-smi date whoami id uname df free ps kill pkill killall cat head
tail grep wc sort tr cut seq basename dirname realpath readlink hostname let source . alias pushd popd cp mv ln tee
tar unzip gunzip umask logger sudo nvcc
"""
QUIET = frozenset(QUIET_WRITTEN.split())
"""Commands whose being started changes no run."""

EXPORTED_OF_INTEREST = re.compile(
    r"(?:NCCL|CUDA|TORCH|PYTORCH|NVTE|OMP|MASTER|WORLD|PET|DS|FSDP|ACCELERATE|GLOO|UCX|FI|NVSHMEM|HIP|ROCR|XLA|TPU)_|NNODES|NPROC|RANK"
)
LOG_TARGET = re.compile(r"/dev/|log|err|out\b|\.txt|&")
NAME = re.compile(r"[A-Za-z_]\w*")
MAX_VISITS = 200_000


def children(node: Node) -> Iterator[Node]:
    """The commands inside a command (those of its words' substitutions left out)."""
    if isinstance(node, Sequence):
        yield from node.items
    elif isinstance(node, Pipeline):
        yield from node.commands
    elif isinstance(node, AndOr):
        yield node.first
        yield from (command for _, command in node.rest)
    elif isinstance(node, If):
        for arm in node.arms:
            yield from arm
        if node.otherwise is not None:
            yield node.otherwise
    elif isinstance(node, Case):
        yield from (body for _, body, _ in node.arms)
    elif isinstance(node, While):
        yield node.condition
        yield node.body
    elif isinstance(node, (For, ArithmeticFor, Function, Group)):
        yield node.body
    elif isinstance(node, Redirected):
        yield node.command


def walk(node: Node) -> Iterator[Node]:
    """A command and all that it holds."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(children(each))


def command_name(command: Simple) -> str:
    """The first word of a simple command if it is written literally, else "$" for one that is not, "" for none."""
    if not command.words:
        return ""
    first = command.words[0]
    if not isinstance(first, WordSyntax):
        return ""
    return "".join(part.text if isinstance(part, Literal) else "$" for part in first.parts)


def assignments(command: Simple) -> Iterator[Assignment]:
    """The assignments of a simple command, those of `export` and its like included."""
    yield from command.assignments
    yield from (word for word in command.words if isinstance(word, Assignment))


def assigned_names(tree: Node) -> frozenset[str]:
    """The variables that a script sets anywhere; a mere `X=$X` does not count."""
    names: set[str] = set()
    for node in walk(tree):
        names.update(names_set(node))
    return frozenset(names)


def names_set(node: Node) -> Iterator[str]:
    """The variables that one command sets by itself."""
    if isinstance(node, Simple):
        yield from (each.name for each in assignments(node) if not _copies_itself(each))
        if command_name(node) in ("read", "mapfile", "readarray", "getopts", "let", "printf", "unset"):
            yield from (text for word in node.words[1:] if NAME.fullmatch(text := word.span.text.partition("=")[0]))
    elif isinstance(node, For):
        yield node.name
    elif isinstance(node, ArithmeticFor):
        yield from (
            match[1]
            for clause in node.clauses
            for match in re.finditer(r"([A-Za-z_]\w*)\s*(?:=(?!=)|\+\+|--|[-+*]=)", clause.span.text)
        )
    elif isinstance(node, ArithmeticCommand):
        yield from (
            match[1]
            for match in re.finditer(r"([A-Za-z_]\w*)\s*(?:=(?!=)|\+\+|--|[-+*/%]=)", node.expression.span.text)
        )


def _copies_itself(assignment: Assignment) -> bool:
    parts = assignment.value.parts if assignment.value is not None else ()
    return (
        len(parts) == 1
        and isinstance(parts[0], Parameter)
        and parts[0].name == assignment.name
        and parts[0].operator in ("", ":?", "?")
    )


def names_read(words: Iterator[WordSyntax | Assignment]) -> Iterator[str]:
    """The variables that words mention, at any depth."""
    waiting: list[Part] = []
    for word in words:
        waiting.extend(_parts(word))
    visits = 0
    while waiting and visits < MAX_VISITS:
        part = waiting.pop()
        visits += 1
        if isinstance(part, Parameter):
            yield part.name
            waiting.extend(inner for operand in part.operands for inner in operand.parts)
        elif isinstance(part, Arithmetic):
            yield from NAME.findall(part.span.text)
        elif isinstance(part, Substitution):
            yield from re.findall(r"\$\{?([A-Za-z_]\w*|\d)", part.span.text)


def _parts(word: WordSyntax | Assignment) -> list[Part]:
    if isinstance(word, WordSyntax):
        return list(word.parts)
    values = [word.value] if word.value is not None else []
    values += [element for _, element in word.elements or ()]
    return [part for value in values for part in value.parts]


def leaves(node: Node | None, functions: dict[str, Function], depth: int = 0) -> bool:
    """Whether a branch ends the script: its last command is exit, a failing return, or a function that does so."""
    if node is None or depth > 5:
        return False
    if isinstance(node, (Sequence, Group)):
        items = node.items if isinstance(node, Sequence) else node.body.items
        return bool(items) and any(
            leaves(item, functions, depth + 1) for item in items if isinstance(item, (Simple, Group))
        )
    if not isinstance(node, Simple):
        return False
    name = command_name(node)
    if name == "exit":
        return True
    if name == "return":
        return len(node.words) > 1 and node.words[1].span.text != "0"
    return name in functions and leaves(functions[name].body, functions, depth + 1)


def writes_file(redirections: tuple[Redirection, ...]) -> bool:
    """Whether output goes to a file that is no log."""
    return any(
        ">" in each.operator and each.descriptor in ("", "1") and not LOG_TARGET.search(each.target.span.text)
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
            roots.update(
                name for word in node.words[1:] if EXPORTED_OF_INTEREST.match(name := word.span.text.partition("=")[0])
            )
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
