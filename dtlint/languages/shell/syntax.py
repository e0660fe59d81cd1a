"""The syntax tree of a shell script: words are made of parts, commands of words, every node with its span.

Nodes that may hold themselves are plain classes: type checkers compare tuples by their structure, which would have no
end.
"""

from __future__ import annotations

from dtlint.record import NamedTuple
from dtlint.source import Span


class Literal(NamedTuple):
    """Characters that stand for themselves (for an escape: the character it yields). `quoted` text is not split and
    not a pattern.
    """

    text: str
    span: Span
    quoted: bool = False


class Placeholder(NamedTuple):
    """A stretch such as `<Specify path>` that the user has yet to fill in."""

    span: Span


class Parameter(NamedTuple):
    """`$NAME` or `${NAME[subscript]operator operands}`.

    `operator` is the written one, or "length", "keys" and "names" for `${#x}`, `${!x[@]}` and `${!x@}`.
    """

    name: str
    span: Span
    quoted: bool = False
    subscript: WordSyntax | None = None
    operator: str = ""
    operands: tuple[WordSyntax, ...] = ()
    indirect: bool = False


class Arithmetic(NamedTuple):
    """`$(( expression ))`."""

    expression: WordSyntax
    span: Span
    quoted: bool = False


class Substitution(NamedTuple):
    """`$( commands )` or backticks."""

    body: Sequence
    span: Span
    quoted: bool = False


class ProcessSubstitution(NamedTuple):
    """`<( commands )` or `>( commands )`: a file name that the shell makes up."""

    body: Sequence
    span: Span


Part = Literal | Placeholder | Parameter | Arithmetic | Substitution | ProcessSubstitution


class WordSyntax:
    """One word before expansion."""

    __slots__ = ("parts", "span")

    def __init__(self, parts: tuple[Part, ...], span: Span) -> None:
        self.parts = parts
        self.span = span


class Assignment(NamedTuple):
    """`NAME=value`, `NAME+=value`, `NAME[subscript]=value`, or with `elements` `NAME=( ... )`; an element may have an
    index of its own.
    """

    name: str
    span: Span
    value: WordSyntax | None = None
    elements: tuple[tuple[WordSyntax | None, WordSyntax], ...] | None = None
    subscript: WordSyntax | None = None
    append: bool = False


class Redirection(NamedTuple):
    """`operator` with its `target`; `body` holds the text of a heredoc or here-string once it has been read."""

    descriptor: str
    operator: str
    target: WordSyntax
    body: list[WordSyntax]
    span: Span


class Simple(NamedTuple):
    """Assignments, words and redirections. The words of `export`, `local` and their like may be assignments."""

    assignments: tuple[Assignment, ...]
    words: tuple[WordSyntax | Assignment, ...]
    redirections: tuple[Redirection, ...]
    span: Span


class Pipeline:
    """Commands joined by `|`, or one command behind `!`."""

    __slots__ = ("commands", "negated", "span")

    def __init__(self, commands: tuple[Node, ...], negated: bool, span: Span) -> None:
        self.commands = commands
        self.negated = negated
        self.span = span


class AndOr:
    """`first && a || b`: the operators with what follows them."""

    __slots__ = ("first", "rest", "span")

    def __init__(self, first: Node, rest: tuple[tuple[str, Node], ...], span: Span) -> None:
        self.first = first
        self.rest = rest
        self.span = span


class Sequence:
    """Commands one after the other; `background` holds the indexes of those followed by `&`."""

    __slots__ = ("background", "items", "span")

    def __init__(self, items: tuple[Node, ...], background: frozenset[int], span: Span) -> None:
        self.items = items
        self.background = background
        self.span = span


class If(NamedTuple):
    """`if` and its `elif` arms as (condition, body), and the `else` body."""

    arms: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None
    span: Span


class Case(NamedTuple):
    """`case`: the subject and the arms as (patterns, body, terminator)."""

    subject: WordSyntax
    arms: tuple[tuple[tuple[WordSyntax, ...], Sequence, str], ...]
    span: Span


class For(NamedTuple):
    """`for NAME in words`; `words` is None for the positional parameters."""

    name: str
    words: tuple[WordSyntax, ...] | None
    body: Sequence
    span: Span


class ArithmeticFor(NamedTuple):
    """`for ((start; condition; step))`."""

    clauses: tuple[WordSyntax, WordSyntax, WordSyntax]
    body: Sequence
    span: Span


class While(NamedTuple):
    """`while` or `until`."""

    condition: Sequence
    body: Sequence
    until: bool
    span: Span


class Function:
    """A function definition."""

    __slots__ = ("body", "name", "span")

    def __init__(self, name: str, body: Node, span: Span) -> None:
        self.name = name
        self.body = body
        self.span = span


class Group(NamedTuple):
    """`{ commands; }`, or `( commands )` when `subshell`."""

    body: Sequence
    subshell: bool
    span: Span


class Condition(NamedTuple):
    """`[[ ... ]]`: words, with the operators that the grammar gives a meaning as plain strings."""

    tokens: tuple[WordSyntax | str, ...]
    span: Span


class ArithmeticCommand(NamedTuple):
    """`(( expression ))`."""

    expression: WordSyntax
    span: Span


class Redirected:
    """A compound command with redirections behind it."""

    __slots__ = ("command", "redirections", "span")

    def __init__(self, command: Node, redirections: tuple[Redirection, ...], span: Span) -> None:
        self.command = command
        self.redirections = redirections
        self.span = span


Node = (
    Simple
    | Pipeline
    | AndOr
    | Sequence
    | If
    | Case
    | For
    | ArithmeticFor
    | While
    | Function
    | Group
    | Condition
    | ArithmeticCommand
    | Redirected
)


class Tree(NamedTuple):
    """A script read: its commands."""

    body: Sequence
