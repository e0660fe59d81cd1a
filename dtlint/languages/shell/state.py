"""What a shell knows while a script is followed: variables, functions, files, and the world that it shares with its
subshells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.languages.shell.syntax import Function, Node
from dtlint.languages.shell.text import MAX_PIECES, Text
from dtlint.languages.traced import Command, Piece, Word
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span

MAX_STEPS = 20_000
"""Most commands that are followed in all worlds of a script together."""

MAX_LOOP = 64
"""Most rounds of one loop that are followed."""

ELEMENTS_OF_A_STEP = 100
"""How many elements of a list are copied in about the time of a command."""

MAX_MATCH_STEPS = 60_000_000
"""Most backtracking steps that the patterns of one script may need, in all its worlds."""

MAX_ROUNDS = 256
"""Most rounds of all loops of a world together."""

MAX_DEPTH = 60
"""Deepest nesting of commands, functions and substitutions that is followed."""


class Array(NamedTuple):
    """An array variable: its elements by index (digits, or a key when `associative`); `rest` is what may follow them,
    if anything.
    """

    items: dict[str, Text]
    associative: bool = False
    rest: Piece | None = None


Variable = Text | Array


class Positional(NamedTuple):
    """`$1`, `$2`, ...: the known words, from number `first` of the caller's on; `rest` is what may follow them, if
    anything.
    """

    words: tuple[Text, ...]
    rest: Piece | None = None
    first: int = 1


class Fact(NamedTuple):
    """Whether the unknown that the user can tell by `how` is `text`."""

    how: str
    text: str
    equal: bool


class Verdict(NamedTuple):
    """A three-valued answer of a test (None: unknown), and what each answer says about unknown values. `code` is the
    exit status where it is told.
    """

    value: bool | None
    holds: tuple[Fact, ...] = ()
    fails: tuple[Fact, ...] = ()
    assumed: str = ""
    code: int | None = None


def both(left: Verdict, right: Verdict) -> Verdict:
    """`left && right`."""
    if left.value is False or right.value is False:
        return Verdict(False)
    value = True if left.value and right.value else None
    fails = right.fails if left.value else left.fails if right.value else ()
    return Verdict(value, left.holds + right.holds, fails, left.assumed or right.assumed)


def opposite(verdict: Verdict) -> Verdict:
    """`! verdict`."""
    value = None if verdict.value is None else not verdict.value
    return Verdict(value, verdict.fails, verdict.holds, verdict.assumed)


def either(left: Verdict, right: Verdict) -> Verdict:
    """`left || right`."""
    return opposite(both(opposite(left), opposite(right)))


class Caller(NamedTuple):
    """How a script is started by another one, or by an orchestrator.

    `variables` is what stands in its environment, under what the user tells; `positional` are its arguments, `name` is
    its `$0` and `folder` where `cd` led before. `wrapper` are the commands that lead to it, outermost first.
    `directives` are the words of the job that it runs in, None where its own `#SBATCH` lines count, with `options` of
    the command that submits it behind them.
    """

    variables: Mapping[str, Text] = {}
    positional: Positional | None = None
    name: Text | None = None
    folder: str = ""
    wrapper: tuple[Command, ...] = ()
    directives: tuple[Word, ...] | None = None
    options: tuple[Word, ...] = ()


NOBODY = Caller()
"""Nobody is known to start the script."""


class Given(NamedTuple):
    """What the user and the tree tell about a script."""

    environment: Mapping[str, str]
    arguments: Mapping[str, str]
    read_file: Callable[[str], Source | None]
    cluster: Mapping[str, str]
    caller: Caller = NOBODY


class Stopped(Exception):  # noqa: N818 - ends the following of a world
    """The bound on steps is reached."""


class World:
    """One way through a script, shared by all its subshells: the commands so far, and the answers to undecided
    conditions.

    `decisions` are the options to take where conditions are undecided; `options` gets the number of options at each.
    Facts narrow unknowns: `equal` gives their texts and `unequal` the texts that they are not, by how the user could
    tell them. `flags` are the variables of the script that hold options rather than a value.
    """

    def __init__(
        self, given: Given, source: Source, assigned: frozenset[str], decisions: tuple[int, ...], steps: int
    ) -> None:
        self.given = given
        self.source = source
        self.assigned = assigned
        self.flags: frozenset[str] = frozenset()
        self.decisions = decisions
        self.options: list[int] = []
        self.commands: list[Command] = []
        self.pauses = 0
        self.problems: list[Problem] = []
        self.branches: list[str] = []
        self.equal: dict[str, str] = {}
        self.unequal: dict[str, set[str]] = {}
        self.answers: dict[str, int] = {}
        self.directives: list[Word] = []
        self.steps = steps
        self.rounds = MAX_ROUNDS
        self.match_steps = MAX_MATCH_STEPS
        self.matters: Callable[[Node], bool] = lambda node: True
        self.forking = True

    def may_repeat(self, number: int) -> bool:
        """Whether a loop that has been through `number` rounds is followed through another, which is counted."""
        self.rounds -= 1
        return number < MAX_LOOP and self.rounds >= 0

    def learn(self, facts: tuple[Fact, ...]) -> None:
        """Take facts about unknowns for true."""
        for fact in facts:
            if fact.equal:
                self.equal[fact.how] = fact.text
            else:
                self.unequal.setdefault(fact.how, set()).add(fact.text)


class Shell:
    """One shell process: what it has, and where its output goes (`out` None: to the terminal). `sourced` is the last
    file that it took variables from and that is not at hand, "" if there is none. `unset` are the variables
    because of whose absence the present commands run. `folder` is where `cd` led from the folder of the start; a path
    on the machine of the run to which it led instead is `elsewhere`, what is not known of it as `?`.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.variables: dict[str, Variable] = {}
        self.exported: frozenset[str] = frozenset()
        self.functions: dict[str, Function] = {}
        self.files: dict[str, Text] = {}
        self.positional = Positional(())
        self.locals: list[dict[str, Variable | None]] = []
        self.out: list[Piece] | None = None
        self.stdin: Text | None = None
        self.name: Text | None = None
        self.status = Verdict(True)
        self.depth = 0
        self.nesting = 0
        self.wrapper: tuple[Command, ...] = ()
        self.background = False
        self.may_leave_loop = False
        self.integers: frozenset[str] = frozenset()
        self.references: dict[str, str] = {}
        self.exports_all = False
        self.exit_trap: Text = ()
        self.place: Span | None = None
        self.folder = ""
        self.elsewhere = ""
        self.sourced = ""
        self.unset: tuple[str, ...] = ()

    def child(self) -> Shell:
        """A subshell: it sees everything, and what it sets is lost when it ends; files and commands are not."""
        other = Shell(self.world)
        other.variables = dict(self.variables)
        other.exported = self.exported
        other.functions = dict(self.functions)
        other.files = self.files
        other.positional, other.name = self.positional, self.name
        other.locals = list(self.locals)
        other.integers, other.references, other.exports_all = self.integers, dict(self.references), self.exports_all
        other.out, other.stdin = self.out, self.stdin
        other.depth, other.nesting = self.depth, self.nesting
        other.wrapper, other.background = self.wrapper, self.background
        other.folder, other.elsewhere = self.folder, self.elsewhere
        other.sourced, other.unset = self.sourced, self.unset
        return other

    def step(self) -> None:
        """Count one command; Stopped when the world has used up its steps."""
        self.world.steps -= 1
        if self.world.steps < 0:
            raise Stopped

    def spend(self, elements: int) -> None:
        """Count work on many elements as commands; Stopped as for those."""
        self.world.steps -= elements // ELEMENTS_OF_A_STEP
        if self.world.steps < 0:
            raise Stopped

    def emit(self, text: Text) -> None:
        """Print."""
        if self.out is not None and len(self.out) < MAX_PIECES:
            self.out.extend(text)
