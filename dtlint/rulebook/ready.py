"""A rule made ready to be evaluated: its expressions are compiled when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.rulebook.expressions import (
    Expression,
    Names,
    compile_condition,
    compile_expression,
)
from dtlint.rulebook.operands import Operand, Truth, as_truth
from dtlint.rulebook.rule import Rule, Verdict
from dtlint.rulebook.scope import Scope, names_of
from dtlint.rulebook.sentences import Sentence, compile_sentence, fill, is_whole
from dtlint.value import Unknown


class ReadyRule:
    """A rule with the limits in force and what has been compiled of it."""

    __slots__ = ("_conditions", "_expressions", "_sentences", "limits", "names", "rule")

    def __init__(self, rule: Rule, limits: Mapping[str, float]) -> None:
        self.rule = rule
        self.limits = {name: limits.get(f"{rule.name}.{name}", value) for name, value in rule.limits.items()}
        self.names: Names = names_of(self.limits, rule.each.variable if rule.each else "")
        self._conditions: dict[str, Expression] = {}
        self._expressions: dict[str, Expression] = {}
        self._sentences: dict[str, Sentence] = {}

    def scope(self, plan: Plan, member: Member | None = None) -> Scope:
        """A fresh scope, in which nothing has been read."""
        return Scope(plan, self.limits, self.rule.each.variable if self.rule.each else "", member)

    def truth(self, text: str, scope: Scope) -> Truth:
        """Whether a condition of the rule holds."""
        found = self._conditions.get(text)
        if found is None:
            found = self._conditions[text] = compile_condition(text, self.names)
        return as_truth(found.evaluate(scope))

    def value(self, text: str, scope: Scope) -> Operand:
        """What an expression of the rule gives."""
        found = self._expressions.get(text)
        if found is None:
            found = self._expressions[text] = compile_expression(text, self.names)
        return found.evaluate(scope)

    def sentence(self, text: str, scope: Scope) -> str:
        """A sentence of the rule with the plan's numbers."""
        return fill(self._compiled(text), scope)

    def is_whole(self, text: str, scope: Scope) -> bool:
        """Whether every number of a sentence of the rule is known."""
        return is_whole(self._compiled(text), scope)

    def _compiled(self, text: str) -> Sentence:
        found = self._sentences.get(text)
        if found is None:
            found = self._sentences[text] = compile_sentence(text, self.names)
        return found

    def judge(self, scope: Scope) -> Verdict | Unknown | None:
        """The first verdict that holds; Unknown if that cannot be decided; None if none holds or the rule does not
        apply.
        """
        rule = self.rule
        if rule.applies and self.truth(rule.applies, scope) is not True:
            return None
        open_: Unknown | None = None
        for verdict in rule.verdicts:
            truth = self.truth(verdict.when, scope)
            if truth is True:
                return verdict
            if isinstance(truth, Unknown):
                open_ = open_ or truth
        return open_

    def fires(self, plan: Plan) -> Verdict | None:
        """The verdict that holds on a plan as a whole, if any."""
        found = self.judge(self.scope(plan))
        return found if isinstance(found, Verdict) else None


def formula_of(ready: ReadyRule, scope: Scope) -> str:
    """The rule's formula with the plan's numbers, "" where one of them is not known."""
    formulas = ready.rule.formulas
    found = next((each for each in formulas if not each.when or ready.truth(each.when, scope) is True), None)
    known = found is not None and ready.is_whole(found.say, scope)
    return ready.sentence(found.say, scope) if found is not None and known else ""
