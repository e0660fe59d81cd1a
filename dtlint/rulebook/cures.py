"""What a rule proposes to change on a plan, as whole other plans, and the edits of the files that bring the change
about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from dtlint.interval import Interval
from dtlint.plan import Infeasible, Misfit, Plan
from dtlint.plan.vocabulary import fit, term
from dtlint.record import NamedTuple
from dtlint.rulebook.operands import Operand, shown
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import Cure
from dtlint.rulebook.scope import Scope
from dtlint.source import Edit, Span
from dtlint.value import Plain, Unknown, Value

_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_LEFT_OUT = re.compile(r"\b(?:leave out|without|instead of)\b")
"""Before flags that are not to be written."""
_PLAIN_WORD = re.compile(r"[\w.+-]+", re.ASCII)


class Proposal(NamedTuple):
    """A change: the cure that proposes it, every setting that changes (those that must follow too), what to write,
    and the plan then (None for a change that no setting expresses).
    """

    cure: Cure
    set: Mapping[str, Plain]
    text: str
    plan: Plan | None


def proposals(ready: ReadyRule, scope: Scope) -> Iterator[Proposal]:
    """The cures of a rule that can be carried out on the plan: their condition holds, their values are known, the
    plan is feasible, and the program takes the flags that they are written with. Of cures that come to the same words
    the first.
    """
    said: set[str] = set()
    for found in _possible(ready, scope):
        if found.text not in said and not _is_refused(found, scope):
            said.add(found.text)
            yield found


def out_of_reach(ready: ReadyRule, scope: Scope) -> bool:
    """Whether a rule has cures for the plan, and all of them are written with flags that the program does not take."""
    if not scope.plan.dialect.refuses:
        return False
    found = list(_possible(ready, scope))
    return bool(found) and all(_is_refused(each, scope) for each in found)


def _is_refused(proposal: Proposal, scope: Scope) -> bool:
    written = _LEFT_OUT.split(proposal.text, maxsplit=1)[0]
    return not scope.plan.dialect.refuses.isdisjoint(_FLAG.findall(written))


def _possible(ready: ReadyRule, scope: Scope) -> Iterator[Proposal]:
    for cure in ready.rule.cures:
        if cure.when and ready.truth(cure.when, scope) is not True:
            continue
        found = _change(ready, cure, scope) if cure.set else Proposal(cure, {}, _text(ready, cure, {}, scope), None)
        if found is not None:
            yield found


def edits(plan: Plan, changes: Mapping[str, Plain]) -> tuple[Edit, ...]:
    """The edits that write `changes`: over today's literals, wherever they stand, or where the front end would have
    them; none at all unless every change can be written.
    """
    found = [edit for name, value in changes.items() for edit in _written(plan, name, value, changes)]
    return () if None in found else tuple(dict.fromkeys(cast("list[Edit]", found)))


def _written(plan: Plan, name: str, value: Plain, changes: Mapping[str, Plain]) -> tuple[Edit | None, ...]:
    """The edits for one setting, None among them where one of its places cannot be changed."""
    stated = plan.dialect.stated(name) or tuple(filter(None, [plan.stated(name)]))
    literals = tuple(_edit(plan, today, value, changes) for today in stated if today.origin.kind != "default")
    if literals and None not in literals:
        return literals
    return plan.dialect.edits(name, value) or (None,)


def _change(ready: ReadyRule, cure: Cure, scope: Scope) -> Proposal | None:
    changes: dict[str, Plain] = {}
    for name, text in cure.set.items():
        value = _settled(name, ready.value(text, scope))
        if isinstance(value, Unknown):
            return None
        changes[name] = value
    changed = {name: value for name, value in changes.items() if scope.plan.value(name) != value}
    if not changed:
        return None
    plan = scope.plan.but(changed)
    lost = {} if isinstance(plan, Infeasible) else _lost(plan, changes)
    if lost:
        changed.update(lost)
        plan = scope.plan.but(changed)
    if isinstance(plan, Infeasible):
        return None
    everything = {**changed, **plan.followed}
    return Proposal(cure, everything, _text(ready, cure, everything, scope), plan)


def _lost(plan: Plan, changes: Mapping[str, Plain]) -> dict[str, Plain]:
    """Wanted values that today's plan has and that the other changes took away, for they were derived."""
    return {name: value for name, value in changes.items() if plan.value(name) != value}


def _settled(name: str, value: Operand) -> Plain | Unknown:
    """The value as the setting takes it: one number, whole where it must be, within the domain."""
    if isinstance(value, (Unknown, Interval)):
        return Unknown(f"{name} is not decided")
    found = term(name)
    if found.type == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return fit(found, value)
    except Misfit as error:
        return Unknown(str(error))


def _text(ready: ReadyRule, cure: Cure, changes: Mapping[str, Plain], scope: Scope) -> str:
    spelled = ", ".join(dict.fromkeys(scope.plan.dialect.spell(name, value) for name, value in changes.items()))
    written = ready.sentence(cure.text, scope) if cure.text else spelled
    return f"{written}: {ready.sentence(cure.say, scope)}" if cure.say else written


def _edit(plan: Plan, found: Value, value: Plain, changes: Mapping[str, Plain]) -> Edit | None:
    span = found.origin.span
    if span is None or _shared(plan, span, changes):
        return None
    today, wanted = _literal(found.value), _literal(value)
    literal = span.original()
    quote = literal.text[:1] if literal.text[:1] in ("'", '"') else ""
    if today is None or wanted is None or literal.text.casefold() != f"{quote}{today}{quote}".casefold():
        return None
    return Edit(literal, f"{quote}{_like(literal.text, wanted)}{quote}")


def _shared(plan: Plan, span: Span, changes: Mapping[str, Plain]) -> bool:
    """Whether a setting that stays as it is comes from the same literal."""
    stays = (setting for name, setting in plan.settings.items() if name not in changes)
    return any(isinstance(setting, Value) and setting.origin.span == span for setting in stays)


def _literal(value: Plain) -> str | None:
    """A scalar as every file format writes it; None for what would have to be quoted somewhere."""
    if value is None or isinstance(value, tuple):
        return None
    text = shown(value)
    return text if _PLAIN_WORD.fullmatch(text) else None


def _like(today: str, wanted: str) -> str:
    """`wanted` with a capital where a flag of today has one (Python's True)."""
    return wanted.capitalize() if today in ("True", "False") else wanted
