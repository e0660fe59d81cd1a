"""What one rule says of given plans: the numbers that it compares, and whether it fires, is silent or cannot tell."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from dtlint.facts import FACTS
from dtlint.frameworks import Member
from dtlint.interval import Interval
from dtlint.report.frame import Paint, place
from dtlint.report.terminal import printable, styled, wrap
from dtlint.report.words import fact_shown, origin_shown, plan_line, run_place, unknown_shown, value_shown
from dtlint.rulebook.expressions import compile_condition
from dtlint.rulebook.parts import parts
from dtlint.rulebook.ready import ReadyRule, formula_of
from dtlint.rulebook.sentences import spell
from dtlint.value import Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtlint.plan import Plan
    from dtlint.rulebook.rule import Rule, Verdict
    from dtlint.rulebook.scope import Scope
    from dtlint.runs.model import Run, RunSet

BOLD: Paint = partial(styled, bold=True)
INDENT = "  "


def verdict_text(rule: Rule, runs: RunSet, limits: Mapping[str, float], columns: int) -> str:
    """The rule's verdict on every run, with each name of its conditions and the value that it has there."""
    ready = ReadyRule(rule, limits)
    if rule.scope == "tree":
        return f"{rule.name} looks at files, not at plans; dtlint check --select {rule.name} says what it finds\n"
    blocks = ["\n".join(_run_lines(ready, run, columns)) for run in runs.runs]
    return "\n\n".join(blocks or ["no launch and no training config was read"]) + "\n"


def _run_lines(ready: ReadyRule, run: Run, columns: int) -> Iterable[str]:
    yield BOLD(f"{ready.rule.id} {ready.rule.name} on {run_place(run)}")
    yield from wrap(plan_line(run.plan), INDENT, INDENT * 2, columns)
    each = ready.rule.each
    if each is None:
        yield from _verdict_lines(ready, run.plan, None, columns)
        return
    members = cast("tuple[Member, ...]", run.plan.collection(each.collection))
    if not members:
        yield f"{INDENT}does not fire: there is no {each.variable} in {each.collection}"
    for member in members:
        yield f"{INDENT}{each.variable} at {place(member.place.original())}"
        yield from _verdict_lines(ready, run.plan, member, columns)


def _verdict_lines(ready: ReadyRule, plan: Plan, member: Member | None, columns: int) -> Iterable[str]:
    rule = ready.rule
    scope = ready.scope(plan, member)
    applies = ready.truth(rule.applies, scope) if rule.applies else True
    if applies is not True:
        yield from wrap(f"does not apply: {_obstacle(ready, rule.applies, scope)}", INDENT, INDENT * 2, columns)
        yield from _names(ready, [rule.applies], scope, columns)
        return
    verdict = ready.judge(scope)
    yield from wrap(_sentence(ready, verdict, scope), INDENT, INDENT * 2, columns)
    formula = formula_of(ready, ready.scope(plan, member))
    if formula:
        yield from wrap(f"formula: {printable(formula)}", INDENT * 2, INDENT * 3, columns)
    if verdict is None or isinstance(verdict, Unknown):
        told = (f"not {each.outcome}: {_obstacle(ready, each.when, scope)}" for each in rule.verdicts)
        for line in dict.fromkeys(told):
            yield from wrap(line, INDENT * 2, INDENT * 3, columns)
    yield from _names(ready, [rule.applies, *(each.when for each in rule.verdicts)], scope, columns)


def _sentence(ready: ReadyRule, verdict: Verdict | Unknown | None, scope: Scope) -> str:
    if verdict is None:
        return "does not fire"
    if isinstance(verdict, Unknown):
        return f"cannot tell: {unknown_shown(verdict)}"
    return f"fires ({verdict.outcome}): {printable(ready.sentence(verdict.say or ready.rule.say, scope))}"


def _obstacle(ready: ReadyRule, condition: str, scope: Scope) -> str:
    """The first part of a condition that is false, else those that are not known."""
    truths = [(part, ready.truth(part, scope)) for part in parts(condition)]
    false = next((part for part, truth in truths if truth is False), None)
    if false is not None:
        return f"{printable(false)} is false"
    return "not known: " + ", ".join(printable(part) for part, truth in truths if isinstance(truth, Unknown))


def _names(ready: ReadyRule, conditions: Iterable[str], scope: Scope, columns: int) -> Iterable[str]:
    """Each name of the conditions, and each setting that a fact rests on, with its value and where that comes from."""
    names = dict.fromkeys(name for text in conditions if text for name in compile_condition(text, ready.names).names)
    read = {name: _value(name, scope) for name in names}
    read |= {name: _value(name, scope) for name in tuple(scope.reads) if name not in read}
    for name, value in read.items():
        yield from wrap(f"{name} = {value}", INDENT * 2, INDENT * 3, columns)


def _value(name: str, scope: Scope) -> str:
    found = scope.read(name)
    if isinstance(found, Unknown):
        return f"unknown: {unknown_shown(found)}"
    if name in FACTS:
        shown = fact_shown(FACTS[name].unit, found)
    else:
        shown = spell(found, "plain") if isinstance(found, Interval) else value_shown(found)
    return f"{shown} ({_whence(name, scope)})"


def _whence(name: str, scope: Scope) -> str:
    if name.startswith("limits."):
        return "the rule's limit"
    if name in FACTS:
        return FACTS[name].meaning[:1].lower() + FACTS[name].meaning[1:]
    setting = scope.plan.get(name) if not (scope.member and name.startswith(f"{scope.variable}.")) else None
    return origin_shown(setting.origin, scope.plan) if isinstance(setting, Value) else "read from the file"
