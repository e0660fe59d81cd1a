"""The plan of a run: what is split, over what, in which precision; every setting with its origin. Knows no file
format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dtlint.plan.derive import follow, framework_default
from dtlint.plan.vocabulary import Misfit, Term, fit, parse, term, vocabulary
from dtlint.record import NamedTuple
from dtlint.value import Choice, Plain, Setting, Unknown, Value, derived, given

if TYPE_CHECKING:
    from dtlint.source import Edit, Span

__all__ = ["Dialect", "Infeasible", "Misfit", "Plan", "Term", "parse", "term", "vocabulary"]

ITSELF = ""
"""Stands among the settings that a value was worked out from for one that was not known yet, as it hangs on the
value: what comes of such a circle is not carried over to another plan.
"""

INFINITE = float("inf")

KEEP = ("parallel.world_size", "batch.global")
"""What `but` leaves as it is unless the change names it: the machines and the training mathematics (and the model,
which it never touches).
"""


class Infeasible(NamedTuple):
    """Why a plan cannot be: the setting at fault and a sentence."""

    setting: str
    reason: str


class Dialect(NamedTuple):
    """How the files of a run speak.

    `home`: where a setting that is not written would be written. `spell`: how one writes it, in every file that must
    say it. `stated`: the values of a setting in all places that state it (a batch stands in a JSON and on the command
    line). `edits`: what writes a setting that no literal of its own states, () where that is not known. `refuses` are
    flags that the program would not take if they were added. `fork` says why the program is a fork of its framework, ""
    where nothing tells that it is.
    """

    home: Callable[[str], Span | None] = lambda setting: None
    spell: Callable[[str, Plain], str] = lambda setting, value: f"{setting}={_shown(value)}"
    stated: Callable[[str], tuple[Value, ...]] = lambda setting: ()
    edits: Callable[[str, Plain], tuple[Edit, ...]] = lambda setting, value: ()
    refuses: frozenset[str] = frozenset()
    fork: str = ""


class Plan:
    """Settings by their vocabulary name. `get` answers from what is stated, then from what follows, then from the
    framework's defaults.

    `collections` holds what rules look at one by one (entries of code and of the files). `open` says why a setting
    that is not written may
    still be set (an argument list with an unknown word), "" if it can't.
    """

    __slots__ = (
        "_asking", "_memo", "_reads", "collections", "dialect", "estimate", "facts", "followed", "open", "settings",
        "sizes", "unread",
    )  # fmt: skip

    def __init__(
        self,
        settings: Mapping[str, Setting],
        collections: Mapping[str, tuple[object, ...]] | None = None,
        dialect: Dialect | None = None,
        open_reason: str = "",
        unread: str = "",
    ) -> None:
        self.settings = settings
        self.collections = collections or {}
        self.dialect = dialect or Dialect()
        self.open = open_reason
        self.unread = unread
        self.followed: Mapping[str, Plain] = {}
        self.estimate: object = None
        self.sizes: object = None
        self.facts: dict[str, Any] = {}
        self._memo: dict[str, Value | Unknown] = {}
        self._reads: dict[str, set[str]] = {}
        self._asking: list[set[str]] = []

    @classmethod
    def of(cls, settings: Mapping[str, Plain]) -> Plan:
        """A plan from plain values; Misfit for a name or value outside the vocabulary."""
        return cls({name: given(fit(term(name), value), "Plan.of") for name, value in settings.items()})

    def get(self, name: str) -> Value | Unknown:
        """The setting's effective value with its origin, or why it is unknown and how to tell it."""
        found = self._memo.get(name)
        if found is None:
            found = self._worked_out(name)
        if self._asking:
            self._asking[-1].add(name if name in self._reads else ITSELF)
        return found

    def stated(self, name: str) -> Value | None:
        """The value that the files or the user state, None if they do not."""
        found = self.setting(name)
        return found if isinstance(found, Value) else None

    def setting(self, name: str) -> Setting | None:
        """What the files or the user state, known or not; None if they state nothing."""
        if self._asking:
            self._asking[-1].add(name)
        return self.settings.get(name)

    def value(self, name: str) -> Plain:
        """The plain value, None if unknown."""
        found = self._memo.get(name)
        if found is None or self._asking:
            found = self.get(name)
        return found.value if isinstance(found, Value) else None

    def number(self, name: str) -> float | None:
        """The setting as a number, None if unknown or no number; JSON may hold NaN and infinities, which are none."""
        found = self.value(name)
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            return None
        return found if -INFINITE < found < INFINITE else None

    def integer(self, name: str) -> int | None:
        """The setting as a whole number, None if unknown or not whole."""
        found = self.value(name)
        if type(found) is not int:
            found = self.number(name)
        return int(found) if found is not None and found == int(found) else None

    def flag(self, name: str) -> bool | None:
        """The setting as true or false, None if unknown."""
        found = self.value(name)
        return found if isinstance(found, bool) else None

    def word(self, name: str) -> str | None:
        """The setting as a word, None if unknown."""
        found = self.value(name)
        return found if isinstance(found, str) else None

    def collection(self, name: str) -> tuple[object, ...]:
        """The members of a collection such as `code.collectives`."""
        return self.collections.get(name, ())

    def with_settings(self, changes: Mapping[str, Setting]) -> Plan:
        """The same run with these settings stated too."""
        return self.restated({**self.settings, **changes})

    def restated(self, settings: Mapping[str, Setting]) -> Plan:
        """The same run with these settings stated instead of today's, and all worked out anew that hangs on them."""
        plan = Plan(settings, self.collections, self.dialect, self.open, self.unread)
        plan._take_over(self)
        return plan

    def but(self, changes: Mapping[str, Plain], keep: tuple[str, ...] = KEEP) -> Plan | Infeasible:
        """This plan with `changes`, everything derived anew while `keep` stays; `followed` holds the written
        settings that had to change too.
        """
        from dtlint.plan.change import change

        return change(self, changes, keep)

    def _take_over(self, other: Plan) -> None:
        """Keep what `other` worked out from settings that are stated alike in both plans."""
        names = {*self.settings, *other.settings}
        stale = {ITSELF, *(name for name in names if self.settings.get(name) is not other.settings.get(name))}
        for name, read in other._reads.items():
            if name in stale or not stale.isdisjoint(read):
                stale.add(name)
            else:
                self._memo[name], self._reads[name] = other._memo[name], read

    def _worked_out(self, name: str) -> Value | Unknown:
        stated = self.settings.get(name)
        if isinstance(stated, Value):
            self._memo[name], self._reads[name] = stated, set()
            return stated
        self._memo[name] = _circular(name)
        read: set[str] = set()
        self._asking.append(read)
        found = self._memo[name] = self._find(name)
        self._asking.pop()
        self._reads[name] = read
        return found

    def _find(self, name: str) -> Value | Unknown:
        stated = self.settings.get(name)
        if isinstance(stated, Unknown) and stated.means and stated.means != name:
            meant = self._meant(stated.means)
            if meant is not None:
                return meant
        return follow(self, name) or _undecided(stated) or self._default(name)

    def _meant(self, means: str) -> Value | None:
        """What an unknown stands for, worked out of the plan's settings; None where one of them is not known or the
        shares do not come out even.
        """
        words = means.split(" ")
        known = [self.get(word) if not word.isdecimal() else derived(int(word)) for word in words[::2]]
        values = [value.value for value in known if isinstance(value, Value)]
        total = values[0] if len(values) == len(known) else None
        for operation, value in zip(words[1::2], values[1:], strict=False):
            total = _worked_out(operation, total, value)
        if total is None:
            return None
        return derived(total, *(word for word in words[::2] if not word.isdecimal()), note="by its meaning")

    def _default(self, name: str) -> Value | Unknown:
        return framework_default(self, name) or _untold(name)


@cache
def _untold(name: str) -> Unknown:
    return Unknown(f"no file tells {name}", f"--set {name}=...")


@cache
def _circular(name: str) -> Unknown:
    return Unknown(f"{name} hangs on itself", f"--set {name}=...")


def _worked_out(operation: str, left: Plain, right: Plain) -> int | None:
    if not isinstance(left, int) or not isinstance(right, int) or right < 1:
        return None
    if operation == "*":
        return left * right
    return left // right if left % right == 0 else None


def _undecided(stated: Setting | None) -> Unknown | None:
    if isinstance(stated, Choice):
        guards = " or ".join(option.guard for option in stated.options)
        return Unknown(f"depends on {guards}", "pick with --arg or --env")
    return stated if isinstance(stated, Unknown) else None


def _shown(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
