"""What the names of expressions mean on one plan, and which of its settings an evaluation read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from dtlint.facts import FACTS, fact, facts_of
from dtlint.facts.variables import values_of
from dtlint.frameworks import AUTO, Member
from dtlint.interval import Interval, plain
from dtlint.plan import Plan, vocabulary
from dtlint.rulebook.expressions import Names
from dtlint.rulebook.functions import Type
from dtlint.rulebook.operands import Operand
from dtlint.value import Origin, Unknown, Value

LIMITS = "limits"
"""The name under which expressions read the limits of their rule."""

_TYPES: Mapping[str, Type] = {
    "integer": "number",
    "number": "number",
    "flag": "flag",
    "word": "word",
    "words": "list",
    "map": "any",
}


class Scope:
    """One plan, the limits of one rule, and the member under check if the rule looks at a collection.

    `direct` are the settings read so far in order, `valued` those of which the value was asked, and not only whether it
    is known; `reads` also holds those that the facts read are made of; `doubts` are fields read of the member whose
    value is assumed.
    """

    __slots__ = ("direct", "doubts", "limits", "member", "plan", "reads", "valued", "variable")

    def __init__(
        self,
        plan: Plan,
        limits: Mapping[str, float],
        variable: str = "",
        member: Member | None = None,
    ) -> None:
        self.plan = plan
        self.limits = limits
        self.variable = variable
        self.member = member
        self.doubts: set[str] = set()
        self.direct: dict[str, None] = {}
        self.valued: set[str] = set()
        self.reads: dict[str, None] = {}

    def read(self, name: str) -> Operand:
        """The value of a setting, fact, limit, or field of the member."""
        head, _, rest = name.partition(".")
        if head == LIMITS:
            return self.limits[rest]
        if self.member is not None and head == self.variable:
            return self._field(self.member, name, rest)
        if name in FACTS:
            return self._fact(name)
        self.direct[name] = self.reads[name] = None
        self.valued.add(name)
        found = self.plan.get(name)
        return cast("Operand", found.value) if isinstance(found, Value) else found

    def tells(self, name: str) -> bool:
        """Whether the value is known, which is all that is asked of it."""
        valued = self.valued.copy()
        found = self.read(name)
        self.valued = valued
        return not isinstance(found, Unknown)

    def origin(self, name: str) -> str:
        """Where the value of a setting came from; "unknown" where there is none, "derived" for a fact."""
        if name in FACTS:
            return "unknown" if isinstance(self._fact(name), Unknown) else "derived"
        self.direct[name] = self.reads[name] = None
        found = self.plan.get(name)
        return found.origin.kind if isinstance(found, Value) else "unknown"

    def stands(self, name: str) -> bool:
        """Whether a setting stands in a file, be it as a word that is not known, or was given by the user. A literal
        "auto" states nothing, nor does a default that has the place where it would be written.
        """
        if name in FACTS:
            return False
        self.direct[name] = self.reads[name] = None
        found = self.plan.get(name)
        if isinstance(found, Value) and found.origin.kind in ("written", "given", "default"):
            return found.origin.kind != "default"
        return place_of(found) is not None and not (isinstance(found, Unknown) and found.reason == AUTO)

    def environment(self, name: str) -> str | None:
        """What a program, or a file that the launcher exports, sets a variable to; None where neither does."""
        return next((value for value in values_of(self.plan, name) if value), None)

    def _field(self, member: Member, name: str, field: str) -> Operand:
        found = member.fields.get(field)
        if found is None:
            return Unknown(f"{name} is not told")
        if not isinstance(found, Value):
            return found if isinstance(found, Unknown) else Unknown(f"{name} hangs on a condition")
        if found.origin.kind == "assumed":
            self.doubts.add(name)
        return cast("Operand", found.value)

    def _fact(self, name: str) -> Operand:
        for setting in facts_of(self.plan, name):
            self.reads[setting] = None
        found = fact(self.plan, name)
        return plain(found) if isinstance(found, Interval) else found


def names_of(limits: Iterable[str], variable: str = "") -> Names:
    """The names that the expressions of a rule may use."""
    known = {f"{LIMITS}.{limit}" for limit in limits}

    def type_of(name: str) -> Type | None:
        if name in known:
            return "number"
        if name in FACTS:
            return FACTS[name].type
        if variable and name.startswith(f"{variable}."):
            return "any"
        term = vocabulary().get(name)
        return _TYPES[term.type] if term is not None else None

    return Names(type_of, lambda: (*known, *FACTS, *vocabulary()))


def sources_of(plan: Plan, settings: Iterable[str]) -> Iterator[tuple[str, Value | Unknown]]:
    """The settings and those that they are derived from, each once, nearest first, with their values."""
    waiting, seen = list(settings), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in vocabulary():
            continue
        seen.add(name)
        found = plan.get(name)
        yield name, found
        if isinstance(found, Value) and found.origin.kind == "derived":
            waiting.extend(found.origin.settings)


def place_of(found: Value | Unknown | None) -> Origin | None:
    """The origin of a setting that stands in a file, known or not."""
    origin = None if found is None else found.origin
    return origin if origin is not None and origin.span is not None else None
