"""What holds for every shipped rule at once: prices, remedies, limits, sentences, and silence where another rule speaks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_examples import Read, examples, read, reading, report

from dtlint.api import check as check_paths
from dtlint.config import Config
from dtlint.config_file import read_config
from dtlint.fix import applied
from dtlint.frameworks import Member
from dtlint.plan import Infeasible, Plan
from dtlint.rulebook.check import check
from dtlint.rulebook.cures import proposals
from dtlint.rulebook.finding import Finding, Remedy
from dtlint.rulebook.hits import tree_of
from dtlint.rulebook.load import built_in
from dtlint.rulebook.price import searches
from dtlint.rulebook.ready import ReadyRule
from dtlint.rulebook.rule import SEVERITIES, Example, Rule, Verdict
from dtlint.rulebook.sentences import LACKING
from dtlint.value import Unknown

FIXTURES = Path(__file__).parent.parent / "fixtures"
QUESTION = re.compile(r"(?:^|[\s(/])\?(?=[\s),.;:%]|$)")

each_rule = pytest.mark.parametrize("rule", built_in(), ids=lambda rule: rule.name)


def costs(finding: Finding) -> bool:
    cost = finding.cost
    figures = (cost.share_of_step, cost.seconds_per_step, cost.memory_bytes, cost.gpu_hours_per_day)
    return any(figure is not None for figure in (*figures, cost.stops, cost.amount))


def sentences(finding: Finding) -> Iterator[str]:
    yield from (finding.message, finding.formula)
    yield from (remedy.text for remedy in finding.remedies)
    if finding.cost.amount is not None:
        yield finding.cost.amount.unit


def findings(rule: Rule) -> Iterator[tuple[int, Finding]]:
    """Everything that any rule finds in the examples of a rule."""
    for number in range(1, len(rule.examples) + 1):
        yield from ((number, finding) for finding in report(rule.name, number).findings)


def own(rule: Rule, number: int) -> list[Finding]:
    return [finding for finding in report(rule.name, number).findings if finding.rule == rule.name]


# Every finding has a price, in words that lack no number


@each_rule
def test_a_finding_costs_something_or_stops_something(rule: Rule) -> None:
    assert [(number, finding.rule) for number, finding in findings(rule) if not costs(finding)] == []


@each_rule
def test_no_sentence_lacks_a_number(rule: Rule) -> None:
    said = [text for _, finding in findings(rule) for text in sentences(finding)]
    assert [text for text in said if LACKING.search(text) or QUESTION.search(text)] == []


@pytest.mark.parametrize("story", sorted(FIXTURES.iterdir()), ids=lambda story: story.name)
def test_every_finding_of_a_fixture_has_its_price_and_its_numbers(story: Path) -> None:
    found = check_paths([story]).findings
    assert [finding.rule for finding in found if not costs(finding)] == []
    assert [text for finding in found for text in sentences(finding) if LACKING.search(text)] == []


READY = [
    ReadyRule(rule, {}) for rule in built_in() if rule.scope == "plan" and rule.each is None and not searches(rule)
]
GROUPS = ("model.", "batch.", "cluster.", "parallel.", "data.")


@each_rule
def test_a_rule_that_fires_without_a_part_of_the_plan_says_so_in_whole_sentences(rule: Rule) -> None:
    ready = ReadyRule(rule, {})
    for number, _ in examples(rule, "bad"):
        for plan in plans(rule, reading(rule.name, number)):
            for member in members(rule, plan):
                lacking = [text for part in less(plan) for text in spoken(ready, part, member) if LACKING.search(text)]
                assert (number, lacking) == (number, [])


def plans(rule: Rule, found: Read) -> list[Plan]:
    if rule.scope == "tree":
        return [tree_of(found.runs)]
    return [run.plan for run in found.runs.runs if run.role != "other"]


def members(rule: Rule, plan: Plan) -> tuple[Member | None, ...]:
    return plan.collection(rule.each.collection) if rule.each else (None,)  # type: ignore[return-value]


def less(plan: Plan) -> Iterator[Plan]:
    """The plan as it would be if no file told a group of settings."""
    for group in GROUPS:
        names = [name for name in plan.settings if name.startswith(group)]
        if names:
            yield plan.with_settings({name: Unknown(f"{name} is not told", f"--set {name}=N") for name in names})


def spoken(ready: ReadyRule, plan: Plan, member: Member | None) -> Iterator[str]:
    scope = ready.scope(plan, member)
    verdict = ready.judge(scope)
    if isinstance(verdict, Verdict):
        yield ready.sentence(verdict.say or ready.rule.say, scope)
        yield from (proposal.text for proposal in proposals(ready, scope))


# Every remedy helps


@each_rule
def test_a_finding_says_what_to_write(rule: Rule) -> None:
    without = [number for number, _ in examples(rule, "bad") for finding in own(rule, number) if not finding.remedies]
    assert without == []


@each_rule
def test_a_finding_says_each_remedy_once(rule: Rule) -> None:
    texts = [[each.text for each in finding.remedies] for _, finding in findings(rule)]
    assert [each for each in texts if len(set(each)) < len(each)] == []


@each_rule
def test_a_remedy_silences_its_rule_or_says_that_it_is_not_enough_and_raises_no_error(rule: Rule) -> None:
    ready = ReadyRule(rule, {})
    for number, _ in examples(rule, "bad"):
        for finding in own(rule, number):
            changes = [remedy for remedy in finding.remedies if remedy.set]
            for remedy in changes if rule.each is None else ():
                today = reading(rule.name, number).runs.runs[finding.runs[0]].plan
                plan = today.but(dict(remedy.set))
                assert not isinstance(plan, Infeasible)
                judged = ready.judge(ready.scope(plan))
                assert remedy.enough is (False if isinstance(judged, Verdict) else True if judged is None else None)
                assert not errors(plan, today) or len(finding.remedies) == len(changes)


def errors(plan: Plan, today: Plan) -> list[str]:
    """The errors of a changed plan that today's has not."""
    watched = [ready for ready in READY if ready.fires(today) is None]
    found = {ready.rule.name: ready.fires(plan) for ready in watched}
    return [name for name, verdict in found.items() if verdict is not None and SEVERITIES[verdict.outcome] == "error"]


@each_rule
def test_a_remedy_that_is_written_into_the_files_silences_its_rule_there(rule: Rule, tmp_path: Path) -> None:
    for number, example in examples(rule, "bad"):
        before = {finding.rule for finding in report(rule.name, number).findings if finding.severity == "error"}
        for index, finding in enumerate(own(rule, number)):
            for which, remedy in enumerate(finding.remedies):
                if remedy.edits and remedy.enough:
                    folder = tmp_path / f"{number}-{index}-{which}"
                    after = written(reading(rule.name, number), remedy, folder, example)
                    assert finding.message not in {each.message for each in after}
                    new = {each.rule for each in after if each.severity == "error"} - before
                    assert (number, remedy.text, new - set(remedy.raises)) == (number, remedy.text, set())


def written(found: Read, remedy: Remedy, folder: Path, example: Example) -> tuple[Finding, ...]:
    """What all rules say of an example into whose files a remedy is written."""
    shutil.copytree(found.folder, folder)
    for path, text in (applied(remedy.edits, {}) or {}).items():
        (folder / path.relative_to(found.folder)).write_text(text, encoding="utf-8")
    again = read(folder, example)
    return check(again.runs, built_in(), again.config).findings


# A rule minds its own business


@each_rule
def test_other_rules_are_silent_on_a_good_example(rule: Rule) -> None:
    for number, example in examples(rule, "good"):
        found = {each.rule for each in report(rule.name, number).findings if each.severity != "note"}
        assert (number, found - set(example.also)) == (number, set())
        assert (number, set(example.also) - {each.rule for each in report(rule.name, number).findings}) == (
            number,
            set(),
        )


# A team sets the limits

LIMITS = [(rule, limit) for rule in built_in() for limit in rule.limits]


@pytest.mark.parametrize(("rule", "limit"), LIMITS, ids=lambda each: getattr(each, "name", each))
def test_a_team_sets_a_limit_in_its_config(rule: Rule, limit: str, tmp_path: Path) -> None:
    file = tmp_path / "dtlint.toml"
    file.write_text(f"[rules.{rule.name}.limits]\n{limit} = 12345\n")
    assert ReadyRule(rule, read_config(file, file.name).limits).limits[limit] == 12345


@pytest.mark.parametrize(("rule", "limit"), LIMITS, ids=lambda each: getattr(each, "name", each))
def test_a_limit_decides_something(rule: Rule, limit: str) -> None:
    outcomes = {tuple(verdicts(rule, number, {f"{rule.name}.{limit}": value}) for number in range(1, len(rule.examples) + 1))
                for value in (-1e18, 0.0, rule.limits[limit], 1e18)}  # fmt: skip
    assert len(outcomes) > 1


def verdicts(rule: Rule, number: int, limits: dict[str, float]) -> tuple[str, ...]:
    found = check(reading(rule.name, number).runs, [rule], Config(limits=limits))
    return tuple(f"{finding.outcome} {finding.message}" for finding in found.findings)
