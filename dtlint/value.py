"""Values of settings, each with its origin; unknown is a value of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias, Union

from dtlint.record import NamedTuple
from dtlint.source import Span

Plain: TypeAlias = Union[bool, int, float, str, tuple["Plain", ...], None]  # noqa: UP007 - the name is not defined yet
"""What a setting can hold: a scalar or a tuple of them."""

Kind = Literal["written", "given", "default", "derived", "assumed"]

_TRUE = frozenset(("true", "t", "yes", "y", "on", "1"))
_FALSE = frozenset(("false", "f", "no", "n", "off", "0"))


class Step(NamedTuple):
    """One place on the way from where a value is used to where it was written, with a label of a few words."""

    span: Span
    label: str


class Origin(NamedTuple):
    """Where a value came from.

    `span` is the literal's place (written), `chain` the way to it from the place of use, outermost first (flag,
    variable, its default).
    `note` says in a few words who decided: the tool for a default, the flag for a given value, the reason for an
    assumption;
    `how` how a user would set it; `settings` from what a derived value follows.
    """

    kind: Kind
    span: Span | None = None
    chain: tuple[Step, ...] = ()
    note: str = ""
    how: str = ""
    settings: tuple[str, ...] = ()


class Value(NamedTuple):
    """A known value."""

    value: Plain
    origin: Origin


class Unknown(NamedTuple):
    """A value that the files do not tell: why, and how a user can tell it. `origin` is the place of the unknown
    word, if any.

    `means` names the setting of the cluster that the unknown stands for (`$SLURM_NNODES` means cluster.nodes), or
    what is worked out of such settings and numbers from left to right (`parallel.world_size // 8`).
    """

    reason: str
    how: str = ""
    origin: Origin | None = None
    means: str = ""


class Option(NamedTuple):
    """One value of a choice and the condition under which it holds."""

    guard: str
    value: Value | Unknown


class Choice(NamedTuple):
    """A value that depends on conditions that the files do not decide."""

    options: tuple[Option, ...]


Setting: TypeAlias = Union[Value, Choice, Unknown]  # noqa: UP007 - readable by every checker


def written(value: Plain, span: Span, chain: tuple[Step, ...] = ()) -> Value:
    """A value that stands in a file."""
    return Value(value, Origin("written", span, chain))


@lru_cache(maxsize=4096)
def _origin(kind: Kind, note: str, settings: tuple[str, ...] = ()) -> Origin:
    return Origin(kind, note=note, settings=settings)


def given(value: Plain, note: str = "--set") -> Value:
    """A value from the command line or dtlint.toml."""
    return Value(value, _origin("given", note))


def default(value: Plain, tool: str) -> Value:
    """The value that `tool` takes when nothing is written."""
    return Value(value, _origin("default", tool))


def derived(value: Plain, *settings: str, note: str = "") -> Value:
    """A value that follows from other settings."""
    return Value(value, _origin("derived", note, settings))


def assumed(value: Plain, why: str, how: str = "", span: Span | None = None, chain: tuple[Step, ...] = ()) -> Value:
    """A value taken for lack of a better one; `how` tells how to set it."""
    return Value(value, Origin("assumed", span, chain, why, how))


def truth(text: str) -> bool | None:
    """What Python programs take a word for, in any letters (`True`, `on`, `0`); None for any other word."""
    lowered = text.lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None
