"""Checks runs against rules: which mistakes the plans make and what they cost, and which rules could not be decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

from dtlint.config import Config
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.rulebook.branches import as_combined
from dtlint.rulebook.confidence import confidence
from dtlint.rulebook.cures import proposals
from dtlint.rulebook.doubts import as_certain
from dtlint.rulebook.earned import as_earned, asked_runs, remark
from dtlint.rulebook.evidence import MOST_RELATED, evidence, joined
from dtlint.rulebook.finding import Finding, Remedy, Summary, Undecided
from dtlint.rulebook.hits import Around, Hit, by_cause, on_runs, on_tree, tree_of, undecided, values_told
from dtlint.rulebook.ignores import COLLECTIONS, Ignore, collections_of, hiding, ignores_in, left_out, standing_before
from dtlint.rulebook.price import Priced, Watch, priced_proposals, remedies_of
from dtlint.rulebook.ready import ReadyRule, formula_of
from dtlint.rulebook.rule import SEVERITIES, WORST_FIRST, Rule, Severity
from dtlint.rulebook.stopped import cause_of, idle_runs, is_moot, remarks
from dtlint.rulebook.summary import summary_of
from dtlint.rulebook.toll import cost_of, cost_of_tree
from dtlint.runs.model import Run, RunSet

MOST_PRICED = 100
"""Findings that are priced and get remedies in one check: each takes some milliseconds."""


class Report(NamedTuple):
    """What `dtlint check` says: findings in the order of files and lines, rules that could not be decided, the plan
    remedied, and the runs that the indexes speak of. `rules` are all rules that were in force; `remarks` say how the
    files were read. `moot` are findings about the speed of runs that do not start or that nothing starts: these are not
    told.
    """

    findings: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    summary: Summary | None
    runs: tuple[Run, ...]
    rules: tuple[Rule, ...] = ()
    remarks: tuple[str, ...] = ()
    moot: tuple[Finding, ...] = ()


class Sighting(NamedTuple):
    """A finding not yet priced, and the hit that it speaks of."""

    finding: Finding
    hit: Hit


def select(rules: Iterable[Rule], config: Config) -> tuple[Rule, ...]:
    """The rules in force: those that the config selects, by name, id or beginning of an id (all if it selects none),
    but for those that it ignores or turns off.
    """
    return tuple(
        rule
        for rule in rules
        if (not config.select or names_rule(config.select, rule))
        and not names_rule(config.ignore, rule)
        and _stated_severity(rule, config) != "off"
    )


def names_rule(words: Iterable[str], rule: Rule) -> bool:
    """Whether one of `words` means the rule: its name, its id, or the beginning of its id (DT1)."""
    return any(word == rule.name or rule.id.lower().startswith(word.lower()) for word in words if word)


def check(runs: RunSet, rules: Sequence[Rule], config: Config) -> Report:
    """Everything that the rules find in the runs and the tree: merged by cause, ignores applied, within the focus,
    priced.
    """
    in_force = select(rules, config)
    ready = [ReadyRule(rule, config.limits) for rule in in_force]
    about_ignores = [rule for rule in ready if rule.rule.each and rule.rule.each.collection in COLLECTIONS]
    others = [rule for rule in ready if rule not in about_ignores]
    marks = [*on_runs(runs, others), *on_tree(runs, tree_of(runs), others)]
    asked = asked_runs(runs)
    around = Around(runs.runs, runs.sources, asked, runs.asked)
    hits = as_combined(tuple(as_certain(mark, around) for mark in marks if isinstance(mark, Hit)), runs.runs)
    open_rules = undecided(marks)
    ignores, new_ignores = _ignores(runs, config)
    sightings, unused = _without_ignored(_sighted(hits, config), ignores)
    decided = {rule.name for rule in in_force} - {entry.rule for entry in open_rules}
    comments = Plan({}, collections_of(ignores, unused, rules, decided))
    on_comments = [mark for mark in on_tree(runs, comments, about_ignores) if isinstance(mark, Hit)]
    seen = [each for each in (*sightings, *_sighted(on_comments, config)) if _shows(each.finding, runs, config)]
    new, known = _without_known(seen, runs, config)
    idle = idle_runs(runs.runs, asked, hits, [each.finding for each in new])
    apart, moot = _apart(new, hits, config, idle)
    all_asked = len(asked) == len(runs.runs)
    told = apart if all_asked else [_earned(each, asked, runs.asked, config) for each in apart]
    lowered = sum(each is not other for each, other in zip(told, apart, strict=True))
    findings, summary = _priced(told, hits, others, runs)
    untold = (
        *remarks(idle[each.hit.run] for each in moot if each.hit.run is not None),
        *remark(lowered),
        *_flood(len(told)),
    )
    said = (*runs.remarks, *new_ignores, *known, *untold)
    return Report(
        _in_order(findings), open_rules, summary, runs.runs, in_force, said, tuple(each.finding for each in moot)
    )


def _without_known(
    sightings: Sequence[Sighting], runs: RunSet, config: Config
) -> tuple[Sequence[Sighting], tuple[str, ...]]:
    """What the baseline does not have, and what the baseline has too much of; rules that cannot be ignored have no
    part in it.
    """
    if config.baseline is None:
        return sightings, ()
    from dtlint.rulebook.baseline import stale, unknown_to

    findings = [each.finding for each in sightings]
    shown = unknown_to(config.baseline, findings)
    files = [source.file for source in runs.sources if source.file is not None]
    kept = [each for each, new in zip(sightings, shown, strict=True) if new or not each.hit.ready.rule.ignorable]
    hidden = len(sightings) - len(kept)
    findings_hidden = "1 finding" if hidden == 1 else f"{hidden} findings"
    known = (f"{findings_hidden} hidden as known in {config.baseline.path}",) if hidden else ()
    return kept, (*known, *stale(config.baseline, findings, files))


def _apart(
    sightings: Sequence[Sighting], hits: Sequence[Hit], config: Config, idle: Mapping[int, str]
) -> tuple[Sequence[Sighting], list[Sighting]]:
    """What there is to say of runs that start, and why the others do not; and what is moot, since no such run starts,
    or nothing starts it. A waste of several kinds of run is told of those that start.
    """
    kept: list[Sighting] = []
    moot: list[Sighting] = []
    for each in sightings:
        started = [each.hit] if not is_moot(each.hit, idle) else _of_started(each, hits, idle)
        if not started:
            moot.append(each)
        else:
            kept.append(each if started == [each.hit] else _sighting(started, config))
    return kept, moot


def _earned(sighting: Sighting, asked: frozenset[int], named: frozenset[str], config: Config) -> Sighting:
    """A sighting with the severity that its rule has earned, where the team states none."""
    rule = sighting.hit.ready.rule
    if _stated_severity(rule, config):
        return sighting
    finding = as_earned(sighting.finding, rule, asked, named)
    return sighting if finding is sighting.finding else sighting._replace(finding=finding)


def _of_started(sighting: Sighting, hits: Sequence[Hit], idle: Mapping[int, str]) -> list[Hit]:
    """The hits of a sighting's rule at its place in runs that start."""
    cause, values = cause_of(sighting.hit), values_told(sighting.hit)
    alike = (each for each in hits if cause_of(each) == cause and values_told(each) == values)
    return [each for each in alike if not is_moot(each, idle)]


def _flood(count: int) -> Iterator[str]:
    if count > MOST_PRICED:
        yield f"{count - MOST_PRICED} findings beyond {MOST_PRICED} are not priced"


def _sighted(hits: Iterable[Hit], config: Config) -> list[Sighting]:
    """A sighting for each cause: what is said twice of one place is one."""
    found: dict[tuple[str, str, int, str], Sighting] = {}
    for sighting in (_sighting(group, config) for group in by_cause(hits)):
        finding = sighting.finding
        key = (finding.id, finding.span.path, finding.span.start, finding.message)
        found[key] = _together(found[key], sighting) if key in found else sighting
    return list(found.values())


def _together(first: Sighting, second: Sighting) -> Sighting:
    finding, other = first.finding, second.finding
    related = joined((*finding.related, *other.related), finding.span)
    return first._replace(
        finding=finding._replace(related=related, runs=tuple(dict.fromkeys((*finding.runs, *other.runs))))
    )


def _sighting(group: Sequence[Hit], config: Config) -> Sighting:
    """The worst of the hits that belong together, as a finding of all of them."""
    hit = min(group, key=lambda each: WORST_FIRST.index(SEVERITIES[each.outcome]))
    rule, said = hit.ready.rule, _headline(hit)
    alike = [each for each in islice(group, MOST_RELATED) if each is not hit and _headline(each) == said]
    places = [place for each in (hit, *alike) for place in evidence(each.scope, rule, each.anchor)]
    finding = Finding(
        rule.name,
        rule.id,
        _severity(hit, config),
        hit.outcome,
        "high",
        said,
        hit.anchor.span,
        joined(places, hit.anchor.span),
        runs=tuple(dict.fromkeys(each.run for each in group if each.run is not None)),
        formula=formula_of(hit.ready, hit.scope),
    )
    return Sighting(finding, hit)


def _headline(hit: Hit) -> str:
    said = hit.ready.sentence(hit.verdict.say or hit.ready.rule.say, hit.scope)
    return f"{said}; {hit.remark}" if hit.remark else said


def _ignores(runs: RunSet, config: Config) -> tuple[list[Ignore], tuple[str, ...]]:
    """The ignores that count; where only those of an earlier revision do, a sentence for each newer one."""
    ignores = ignores_in(runs.sources)
    if config.text_before is None:
        return ignores, ()
    standing = standing_before(ignores, config.text_before)
    new = [ignore.span for ignore, stands in zip(ignores, standing, strict=True) if not stands]
    said = tuple(f"{span.path}:{span.line}: this ignore is new, and does not count here" for span in new)
    return [ignore for ignore, stands in zip(ignores, standing, strict=True) if stands], said


def _without_ignored(
    sightings: Iterable[Sighting], ignores: Sequence[Ignore]
) -> tuple[list[Sighting], Sequence[Ignore]]:
    """What no ignore hides, and the ignores that hide nothing."""
    kept: list[Sighting] = []
    used: set[Ignore] = set()
    for sighting in sightings:
        hidden_by = hiding(ignores, sighting.finding) if sighting.hit.ready.rule.ignorable else []
        used.update(hidden_by)
        if not hidden_by:
            kept.append(sighting)
    return kept, [ignore for ignore in ignores if ignore not in used]


def _shows(finding: Finding, runs: RunSet, config: Config) -> bool:
    places = (finding.span, *(related.span for related in finding.related))
    in_focus = not runs.focus or any(place.path in runs.focus for place in places)
    return in_focus and not left_out(finding, config)


def _priced(
    sightings: Sequence[Sighting], hits: Sequence[Hit], rules: Sequence[ReadyRule], runs: RunSet
) -> tuple[list[Finding], Summary | None]:
    """The findings with what they cost and what helps, MOST_PRICED of them; and the summary of the first run in which
    something gains.
    """
    watched = [rule for rule in rules if rule.rule.scope == "plan" and rule.rule.each is None]
    findings: list[Finding] = []
    proposed: dict[int, list[Priced]] = {}
    for finding, hit in sightings[:MOST_PRICED]:
        priced = [] if hit.run is None else priced_proposals(hit.ready, hit.scope)
        watch = Watch(watched, frozenset(each.ready.rule.name for each in hits if each.run == hit.run))
        findings.append(_with_toll(finding, hit) if hit.run is None else _with_price(finding, hit, priced, watch))
        if hit.run is not None and any(remedy.saves.share_of_step for remedy in findings[-1].remedies):
            proposed.setdefault(hit.run, []).extend(priced)
    findings.extend(sighting.finding._replace(confidence="medium") for sighting in sightings[MOST_PRICED:])
    run = min(proposed, default=None)
    return findings, None if run is None else summary_of(runs.runs[run].plan, watched, proposed[run])


def _with_toll(finding: Finding, hit: Hit) -> Finding:
    """A finding about the tree: no plan is priced, and its remedies are texts."""
    remedies = tuple(Remedy({}, each.text) for each in proposals(hit.ready, hit.scope))
    return finding._replace(cost=cost_of_tree(hit.ready, hit.verdict, hit.scope), remedies=remedies)


def _with_price(finding: Finding, hit: Hit, priced: Sequence[Priced], watch: Watch) -> Finding:
    return finding._replace(
        confidence=confidence(hit.ready, hit.scope),
        cost=cost_of(hit.ready, hit.verdict, hit.scope),
        remedies=remedies_of(hit.ready, hit.verdict, hit.scope, priced, watch),
    )


def _severity(hit: Hit, config: Config) -> Severity:
    stated = _stated_severity(hit.ready.rule, config)
    return cast("Severity", stated) if stated else SEVERITIES[hit.outcome]


def _stated_severity(rule: Rule, config: Config) -> str:
    return config.severities.get(rule.name) or config.severities.get(rule.id) or ""


def _in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: (finding.span.path, finding.span.start, finding.id)))
