"""How sure a finding is: whether another value of what was assumed, or of a default, would take it away."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dtlint.plan import Plan, vocabulary
from dtlint.rulebook.finding import Confidence
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import Verdict
from dtlint.rulebook.scope import Scope, sources_of
from dtlint.value import Plain, Unknown, Value, assumed

FOLLOWS: Mapping[str, str] = {
    "cluster.gpu_memory_gib": "cluster.gpu",
    "cluster.intranode_gb_per_s": "cluster.gpu",
    "cluster.nvlink_domain": "cluster.gpu",
}
"""Settings that need not be told where another one is."""

_DEGREES = ("parallel.", "sharding.")

LOWERED: tuple[Confidence, ...] = ("low", "medium")
"""The levels below high, the lowest first."""


def confidence(ready: ReadyRule, scope: Scope) -> Confidence:
    """high: no bound of an assumed or default setting that was read changes the verdict; medium: that of a default,
    or of a value written as a fallback (`${X:-8}`), does; low: that of a bare assumption does.
    """
    doubtful = list(_doubtful(scope))
    for level in LOWERED:
        if any(_level(found) == level and _decides(ready, scope, name, found) for name, found in doubtful):
            return level
    return "medium" if scope.doubts else "high"


def assumptions(scope: Scope) -> tuple[str, ...]:
    """The settings read, those that others are derived from included, that are assumed."""
    return tuple(name for name, found in _doubtful(scope) if found.origin.kind == "assumed")


def needs_of(open_: Unknown, scope: Scope) -> tuple[str, ...]:
    """The settings that would decide what is open: those that the reason names, and those whose value was asked and is
    unknown; else all that is unknown, else all that is assumed.
    """
    named = settable(open_)
    plain = [name for name in scope.direct if name in scope.valued and not isinstance(scope.plan.get(name), Value)]
    every = [name for name, found in sources_of(scope.plan, scope.reads) if not isinstance(found, Value)]
    needed = leading((*named, *plain) or every or assumptions(scope))
    return _by_framework(needed, scope.plan) if scope.plan.word("framework") is None else needed


def _by_framework(needed: Iterable[str], plan: Plan) -> tuple[str, ...]:
    """What is needed where no framework is known: that, in place of degrees of which no file speaks, since it settles
    most of them or lacks them.
    """
    silent = {name for name in needed if name.startswith(_DEGREES) and plan.setting(name) is None}
    return tuple(dict.fromkeys("framework" if name in silent else name for name in needed))


def leading(settings: Iterable[str]) -> tuple[str, ...]:
    """The settings, each once, without those that follow from another one of them."""
    names = dict.fromkeys(settings)
    return tuple(name for name in names if FOLLOWS.get(name) not in names)


def settable(open_: Unknown) -> list[str]:
    """The settings that an Unknown says can be told with `--set`."""
    return [name for name in re.findall(r"--set ([\w.]+)=", open_.how) if name in vocabulary()]


def _doubtful(scope: Scope) -> Iterator[tuple[str, Value]]:
    for name, found in sources_of(scope.plan, scope.reads):
        if isinstance(found, Value) and found.origin.kind in ("assumed", "default"):
            yield name, found


def _level(found: Value) -> Confidence:
    return "low" if found.origin.kind == "assumed" and found.origin.span is None else "medium"


def _decides(ready: ReadyRule, scope: Scope, name: str, found: Value) -> bool:
    bounds = _other_bounds(name, found)
    if not bounds:
        return found.origin.kind == "assumed" and name in scope.direct
    return any(not _holds(ready, scope, name, bound) for bound in bounds)


def _other_bounds(name: str, found: Value) -> list[Plain]:
    term = vocabulary()[name]
    return [bound for bound in (term.optimistic, term.pessimistic) if bound is not None and bound != found.value]


def _holds(ready: ReadyRule, scope: Scope, name: str, bound: Plain) -> bool:
    changed = scope.plan.with_settings({name: assumed(bound, "a bound")})
    return isinstance(ready.judge(ready.scope(changed, scope.member)), Verdict)
