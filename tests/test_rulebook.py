"""Rules on plans: what is found, where it points, how sure it is, what it costs, and what would help."""

from __future__ import annotations

import pytest
from plans_in_text import checked, rule, run_of, runs_of, settings_in, source_of, spot

from dtlint.config import Config
from dtlint.frameworks import Member
from dtlint.interval import Interval
from dtlint.plan import Dialect, Plan
from dtlint.rulebook.check import Report, check
from dtlint.rulebook.finding import Stop, Undecided
from dtlint.runs.model import FileProblem
from dtlint.source import Edit
from dtlint.value import assumed, default, given, written

WIDE = rule("""
    when: parallel.tensor > limits.widest
    limits: {widest: 8}
    at: parallel.tensor
    say: "TP {parallel.tensor} on nodes of {cluster.gpus_per_node}"
""")

LARGE = """
    framework = megatron
    parallel.world_size = 128
    cluster.gpus_per_node = 8
    cluster.gpu = H100
    model.layers = 80
    model.hidden = 8192
    model.heads = 64
    model.vocab = 50304
    data.sequence_length = 4096
    parallel.tensor = 8
    parallel.pipeline = 8
    parallel.sequence = true
    precision.compute = bf16
    sharding.stage = 1
    batch.micro = 2
    batch.global = 32
"""

IDLE = rule("""
    name: idle
    when: pipeline.bubble > 0.15
    at: parallel.pipeline
    say: "{pipeline.bubble:percent} idle"
    share: pipeline.bubble
    remedies:
      - set: {batch.micro: batch.micro // 2}
      - set: {batch.global: batch.global * 4}
        changes_training: true
      - set: {batch.micro: batch.micro * 2}
      - set: {parallel.pipeline: 3}
""")


# What is found, and where


def test_a_rule_that_holds_points_at_the_value_and_shows_what_it_read() -> None:
    report = checked("cluster.gpus_per_node = 8\nparallel.tensor = 16", WIDE)
    (finding,) = report.findings
    assert finding.message == "TP 16 on nodes of 8"
    assert spot(finding.span) == (2, "16")
    assert [(spot(related.span), related.label) for related in finding.related] == [((1, "8"), "8 GPUs per node")]
    assert (finding.severity, finding.outcome, finding.confidence) == ("warning", "slower", "high")
    assert report.undecided == ()


def test_a_rule_that_does_not_hold_says_nothing() -> None:
    report = checked("parallel.tensor = 8", WIDE)
    assert (report.findings, report.undecided) == ((), ())


def test_a_rule_on_an_unknown_value_is_undecided_and_says_what_would_decide_it() -> None:
    report = checked("parallel.tensor ?", WIDE)
    assert report.findings == ()
    assert report.undecided == (Undecided("a-rule", (0,), ("parallel.tensor",)),)


def test_what_is_only_asked_whether_it_is_known_would_decide_nothing() -> None:
    asking = rule("when: known(parallel.pipeline) and parallel.tensor > 2 or parallel.tensor > 8")
    assert checked("parallel.tensor ?", asking).undecided == (Undecided("a-rule", (0,), ("parallel.tensor",)),)


def test_where_no_framework_is_known_that_is_what_would_tell_a_degree() -> None:
    assert checked("model.layers = 8", WIDE).undecided == (Undecided("a-rule", (0,), ("framework",)),)


def test_a_rule_that_may_not_apply_stays_silent() -> None:
    guarded = rule("applies: parallel.pipeline > 1\nwhen: parallel.tensor > 8")
    report = checked("parallel.pipeline ?\nparallel.tensor = 16", guarded)
    assert (report.findings, report.undecided) == ((), ())


def test_of_several_conditions_the_first_that_holds_decides() -> None:
    graded = rule("""
        when:
          - {when: parallel.tensor > 16, outcome: launch-fails, say: "far too wide"}
          - {when: parallel.tensor > 8, say: "too wide: {parallel.tensor}"}
    """)
    assert [finding.message for finding in checked("parallel.tensor = 32", graded).findings] == ["far too wide"]
    (finding,) = checked("parallel.tensor = 16", graded).findings
    assert (finding.message, finding.severity) == ("too wide: 16", "warning")


def test_of_several_places_the_first_that_is_written_is_pointed_at() -> None:
    placed = rule("when: true\nat: [parallel.context, parallel.pipeline, parallel.tensor]")
    (finding,) = checked("parallel.tensor = 2\nparallel.pipeline = 4", placed).findings
    assert spot(finding.span) == (2, "4")


def test_a_setting_that_nothing_writes_is_found_where_it_would_be_written() -> None:
    source = source_of("parallel.tensor = 2\narguments")
    home = source.span(20, 29)
    run = run_of(source, dialect=Dialect(home=lambda setting: home if setting == "parallel.context" else None))
    (finding,) = check(runs_of(run), [rule("when: true\nat: parallel.context")], Config()).findings
    assert spot(finding.span) == (2, "arguments")


def test_without_any_place_the_launch_is_pointed_at() -> None:
    (finding,) = checked("parallel.tensor = 2", rule("when: true\nat: parallel.context")).findings
    assert (finding.span.line, finding.span.column) == (1, 1)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("parallel.tensor = 8", True),
        ("parallel.tensor ~ 8", True),
        ("parallel.tensor ?", True),
        ("parallel.pipeline = 8", False),
    ],
)
def test_written_is_what_stands_in_a_file_known_or_not(text: str, stands: bool) -> None:
    assert bool(checked(text, rule("when: written(parallel.tensor)")).findings) == stands


def test_each_member_of_a_collection_is_looked_at() -> None:
    source = source_of("parallel.tensor = 2\nfirst\nsecond")
    calls = tuple(
        Member(source.span(at, at + 5), {"operation": default(operation, "code")}, ((source.span(0, 15), "inside"),))
        for at, operation in ((20, "sum"), (26, "avg"))
    )
    run = run_of(source, {"code.collectives": calls})
    summed = rule("each: call in code.collectives\nwhen: call.operation == 'sum'\nsay: 'a {call.operation}'")
    (finding,) = check(runs_of(run), [summed], Config()).findings
    assert (finding.message, spot(finding.span)) == ("a sum", (2, "first"))
    assert [related.label for related in finding.related] == ["inside"]


def test_one_cause_in_several_runs_is_one_finding() -> None:
    source = source_of("parallel.tensor = 16")
    report = check(runs_of(run_of(source), run_of(source)), [WIDE], Config())
    assert [finding.runs for finding in report.findings] == [(0, 1)]


def test_of_one_cause_in_several_runs_the_worst_is_told() -> None:
    graded = rule("""
        when:
          - {when: parallel.pipeline > 1, outcome: launch-fails, say: "fails"}
          - {when: parallel.tensor > 8, say: "slow"}
        at: parallel.tensor
    """)
    source = source_of("parallel.tensor = 16")
    slow = run_of(source)
    fails = slow._replace(plan=slow.plan.with_settings({"parallel.pipeline": given(2)}))
    (finding,) = check(runs_of(slow, fails), [graded], Config()).findings
    assert (finding.message, finding.severity, finding.runs) == ("fails", "error", (0, 1))


def test_a_finding_outside_the_files_asked_about_is_not_shown() -> None:
    runs = runs_of(run_of(source_of("parallel.tensor = 16")), focus=("other.sh",))
    assert check(runs, [WIDE], Config()).findings == ()


def test_what_is_wrong_with_a_file_is_looked_at_by_rules_of_the_tree() -> None:
    unreadable = rule("""
        scope: tree
        each: problem in input.problems
        when: problem.fatal
        outcome: launch-fails
        say: "{problem.message}"
    """)
    problem = FileProblem("ds.json", None, "not JSON")
    (finding,) = check(runs_of(problems=(problem,)), [unreadable], Config()).findings
    assert (finding.message, finding.span.path, finding.runs) == ("not JSON", "ds.json", ())


# What a team says


def test_a_team_sets_limits_severities_and_chooses_rules() -> None:
    text = "parallel.tensor = 16"
    assert checked(text, WIDE, config=Config(limits={"a-rule.widest": 16})).findings == ()
    assert [each.severity for each in checked(text, WIDE, config=Config(severities={"a-rule": "error"})).findings] == [
        "error"
    ]
    for config in (
        Config(severities={"TST001": "off"}),
        Config(ignore=("a-rule",)),
        Config(ignore=("TST0",)),
        Config(select=("other",)),
    ):
        assert checked(text, WIDE, config=config).findings == ()
    assert len(checked(text, WIDE, config=Config(select=("TST",))).findings) == 1


# How sure it is


@pytest.mark.parametrize(
    ("text", "when", "confidence"),
    [
        ("parallel.tensor = 8\nparallel.sequence = false", "parallel.tensor > 1 and not parallel.sequence", "high"),
        ("framework = megatron\nparallel.tensor = 8", "parallel.tensor > 1 and not overlap.gradients", "medium"),
        ("parallel.tensor ~ 8", "parallel.tensor > 1", "medium"),
        ("parallel.tensor ~ 8", "parallel.tensor >= 1", "high"),
    ],
)
def test_a_doubtful_value_lowers_confidence_only_if_another_would_change_the_verdict(
    text: str, when: str, confidence: str
) -> None:
    (finding,) = checked(text, rule(f"when: {when}")).findings
    assert finding.confidence == confidence


def test_a_field_that_is_assumed_makes_a_finding_less_sure() -> None:
    source = source_of("call")
    call = Member(source.span(0, 4), {"operation": assumed("sum", "the default of all_reduce")})
    summed = rule("each: call in code.collectives\nwhen: call.operation == 'sum'")
    (finding,) = check(runs_of(run_of(source, {"code.collectives": (call,)})), [summed], Config()).findings
    assert finding.confidence == "medium"


def test_a_bare_assumption_that_decides_makes_a_finding_doubtful() -> None:
    plan = Plan(settings_in(source_of("cluster.nodes = 2\ncluster.gpus_per_node = 8")))
    run = run_of(source_of(""))._replace(plan=plan)
    (finding,) = check(runs_of(run), [rule("when: parallel.world_size == 16")], Config()).findings
    assert finding.confidence == "low"


# What it costs


def test_a_share_of_the_step_becomes_gpu_hours_and_money_of_a_day() -> None:
    priced = LARGE + "    cluster.usd_per_gpu_hour = 2.5"
    (finding,) = checked(priced, IDLE).findings
    bubble = 7 / (8 + 7)
    assert finding.message == "47% idle"
    assert finding.cost.share_of_step == Interval(bubble, bubble)
    assert finding.cost.gpu_hours_per_day == pytest.approx((bubble * 128 * 24,) * 2)
    assert finding.cost.usd_per_day == pytest.approx((bubble * 128 * 24 * 2.5,) * 2)
    assert finding.cost.seconds_per_step is not None
    assert 0 < finding.cost.seconds_per_step.low <= finding.cost.seconds_per_step.high
    assert finding.cost.stops is None
    assert finding.cost.needs == ()


def test_what_would_have_to_be_told_for_more_is_named() -> None:
    (finding,) = checked("parallel.pipeline = 8\nschedule.microbatches = 8", IDLE).findings
    assert finding.cost.gpu_hours_per_day is None
    assert finding.cost.needs == ("parallel.world_size",)
    (priced,) = checked(LARGE, IDLE).findings
    assert priced.cost.needs == ("cluster.usd_per_gpu_hour",)


def test_a_failure_costs_what_it_brings_to_nothing() -> None:
    fails = rule("when: parallel.tensor > 8\noutcome: launch-fails")
    (finding,) = checked("parallel.tensor = 16\nparallel.world_size = 64", fails).findings
    assert (finding.severity, finding.cost.stops) == ("error", Stop("launch", 64))
    assert finding.cost.share_of_step is None


def test_ranks_that_hang_wait_for_the_timeout_first() -> None:
    hangs = rule("when: parallel.world_size > 1\noutcome: hangs\nat: parallel.world_size")
    (finding,) = checked("framework = ddp\nparallel.world_size = 64", hangs).findings
    assert finding.cost.stops == Stop("run", 64, waiting=64 * 600 / 3600)
    (finding,) = checked("parallel.world_size = 64", hangs).findings
    assert finding.cost.stops == Stop("run", 64)


def test_a_flood_of_findings_is_reported_whole_and_priced_in_part() -> None:
    source = source_of("\n".join(f"call {number}" for number in range(150)))
    members = tuple(Member(source.span(at, at + 4), {}) for at in range(150))
    found = rule("each: call in code.collectives\nwhen: true\nremedies: [{text: remove it}]")
    report = check(runs_of(run_of(source, {"code.collectives": members})), [found], Config())
    assert len(report.findings) == 150
    assert sum(bool(finding.remedies) for finding in report.findings) == 100
    assert report.remarks == ("50 findings beyond 100 are not priced",)


def test_a_headline_says_what_would_tell_a_number_that_it_lacks() -> None:
    lacking = rule('when: parallel.tensor > 1\nsay: "{batch.micro} samples"')
    (finding,) = checked("parallel.tensor = 2", lacking).findings
    assert finding.message == "(not told: --set batch.micro=...) samples"


def test_what_is_said_twice_of_one_place_is_one_finding_with_the_places_of_both() -> None:
    source = source_of("call loop other")
    call, loop, other = (source.span(*span) for span in ((0, 4), (5, 9), (10, 15)))
    members = tuple(Member(call, {}, ((place, "leads here"),)) for place in (loop, other))
    found = rule("each: call in code.collectives\nwhen: true\nsay: one cause")
    (finding,) = check(runs_of(run_of(source, {"code.collectives": members})), [found], Config()).findings
    assert [spot(related.span)[1] for related in finding.related] == ["loop", "other"]


# What would help


def test_remedies_are_priced_on_the_whole_plan_and_sorted_by_what_they_save() -> None:
    (finding,) = checked(LARGE, IDLE).findings
    first, second = finding.remedies
    assert (first.set, first.changes_training) == ({"batch.global": 128}, True)
    assert (second.set, second.changes_training) == ({"batch.micro": 1}, False)
    savings = [remedy.saves.share_of_step for remedy in finding.remedies]
    assert all(saving is not None and saving.high > 0 for saving in savings)
    assert [saving.middle for saving in savings if saving] == sorted(
        (saving.middle for saving in savings if saving), reverse=True
    )


def test_a_remedy_that_leaves_the_finding_stand_says_so() -> None:
    (finding,) = checked(LARGE, IDLE).findings
    # of DP 2: 128 / (2 x 2) = 32 micro-batches idle 7 / 39 of a step, 32 / (1 x 2) = 16 idle 7 / 23: above 0.15
    assert {remedy.text: remedy.enough for remedy in finding.remedies} == {
        "batch.global=128": False,
        "batch.micro=1": False,
    }


def test_a_remedy_that_raises_an_error_is_offered_where_every_other_does() -> None:
    wide = rule(
        "name: wide\nwhen: parallel.tensor > 4\nremedies: [{set: {parallel.tensor: 4}}, {set: {parallel.tensor: 2}}]"
    )
    two = rule("id: DT902\nname: two\nwhen: parallel.tensor == 2\noutcome: launch-fails")
    low = rule("id: DT903\nname: low\nwhen: parallel.tensor < 5\noutcome: launch-fails")
    plan = "parallel.tensor = 8\nparallel.world_size = 8"
    assert {remedy.set["parallel.tensor"] for remedy in checked(plan, wide, two).findings[0].remedies} == {4}
    offered = checked(plan, wide, two, low).findings[0].remedies
    assert {(remedy.set["parallel.tensor"], remedy.raises) for remedy in offered} == {
        (4, ("low",)),
        (2, ("two", "low")),
    }


def test_a_remedy_edits_the_literals_that_it_replaces() -> None:
    (finding,) = checked(LARGE, IDLE).findings
    edits = [edit for remedy in finding.remedies for edit in remedy.edits]
    assert [(edit.span.text, edit.text) for edit in edits] == [("32", "128"), ("2", "1")]


def test_a_literal_that_something_else_rests_on_is_not_edited() -> None:
    source = source_of(LARGE)
    settings = settings_in(source)
    shared = settings["batch.micro"]
    run = run_of(source)._replace(plan=Plan({**settings, "run.steps": shared}))
    (finding,) = check(runs_of(run), [IDLE], Config()).findings
    micro = next(remedy for remedy in finding.remedies if "batch.micro" in remedy.set)
    assert micro.edits == ()


@pytest.mark.parametrize(
    ("text", "value", "literal", "edited"),
    [
        ('{"overlap_comm": false}', False, "false", "true"),
        ("overlap=False", False, "False", "True"),
        ("no literal here", False, "no", None),
    ],
)
def test_an_edit_keeps_the_spelling_of_the_file(text: str, value: bool, literal: str, edited: str | None) -> None:
    source = source_of(text)
    at = text.index(literal)
    plan = Plan({"overlap.gradients": written(value, source.span(at, at + len(literal)))})
    run = run_of(source)._replace(plan=plan)
    slow = rule("when: not overlap.gradients\nremedies: [{set: {overlap.gradients: true}}]")
    (finding,) = check(runs_of(run), [slow], Config()).findings
    (remedy,) = finding.remedies
    assert remedy.edits == ((Edit(source.span(at, at + len(literal)), edited),) if edited else ())


def test_a_remedy_that_raises_another_finding_says_so() -> None:
    narrow = rule("when: batch.micro < 2", id="TST002", name="too-small")
    (finding,) = checked(LARGE, IDLE, narrow).findings
    assert [(dict(remedy.set), remedy.raises) for remedy in finding.remedies if remedy.raises] == [
        ({"batch.micro": 1}, ("too-small",))
    ]


def test_a_failure_is_remedied_only_by_what_takes_it_away() -> None:
    fails = rule("""
        when: parallel.tensor > 4
        outcome: launch-fails
        remedies:
          - set: {parallel.tensor: 4}
          - set: {parallel.tensor: 16}
          - text: "take wider nodes than {cluster.gpus_per_node} GPUs"
    """)
    (finding,) = checked("parallel.tensor = 8\nparallel.world_size = 16\ncluster.gpus_per_node = 8", fails).findings
    assert [remedy.text for remedy in finding.remedies] == ["parallel.tensor=4", "take wider nodes than 8 GPUs"]


def test_memory_that_does_not_fit_is_remedied_by_what_fits_before_what_only_helps() -> None:
    small = LARGE.replace("H100", "V100-32GB").replace("parallel.tensor = 8", "parallel.tensor = 4")
    full = rule("""
        when: memory.peak_bytes > memory.available_bytes
        outcome: out-of-memory
        remedies:
          - set: {data.sequence_length: 3900}
          - set: {checkpointing.activations: "'full'", parallel.tensor: 8}
          - set: {data.sequence_length: 8192}
    """)
    (finding,) = checked(small, full).findings
    assert finding.cost.stops == Stop("step", 128)
    assert finding.cost.memory_bytes is not None
    fits, helps = finding.remedies
    assert fits.set["checkpointing.activations"] == "full"
    assert helps.set == {"data.sequence_length": 3900}
    assert fits.saves.memory_bytes is not None
    assert helps.saves.memory_bytes is not None
    assert fits.saves.memory_bytes.high < helps.saves.memory_bytes.high < finding.cost.memory_bytes.high
    assert fits.saves.share_of_step is None


def test_the_summary_applies_what_pays_and_leaves_training_as_it_is() -> None:
    report = checked(LARGE, IDLE)
    assert report.summary is not None
    assert report.summary.remedied == ("batch.micro=1",)
    assert report.summary.seconds_per_step is not None
    assert report.summary.today is not None
    assert report.summary.seconds_per_step.middle < report.summary.today.middle


def test_nothing_to_gain_gives_no_summary() -> None:
    assert checked("parallel.tensor = 16", WIDE).summary is None


# Runs that do not start


FAILS = rule("when: parallel.pipeline > 1\noutcome: launch-fails\nat: parallel.pipeline", name="fails", id="TST002")
TORN = "parallel.world_size = 16\nparallel.tensor = 16\nparallel.pipeline = 3\nparallel.context = 1"
WHOLE = TORN.replace("world_size = 16", "world_size = 48")
FIT = TORN.replace("pipeline = 3", "pipeline = 1")


def told(text: str, *more: str, config: Config | None = None) -> Report:
    return check(runs_of(*(run_of(source_of(each)) for each in (text, *more))), [WIDE, FAILS], config or Config())


def test_what_a_run_wastes_whose_degrees_fit_no_layout_is_moot() -> None:
    report = told(TORN)
    assert [each.rule for each in report.findings] == ["fails"]
    assert [each.rule for each in report.moot] == ["a-rule"]
    assert report.remarks == (
        "1 warning about speed is not told: the degrees do not fit the processes, and the launch fails",
    )


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (WHOLE, Config()),
        (TORN.replace("pipeline = 3", "pipeline = 1"), Config()),
        (TORN.replace("pipeline = 3", "pipeline ?"), Config()),
        (TORN.replace("pipeline = 3", "pipeline = 3  # dtlint: ignore[fails] it is caught"), Config()),
        (TORN, Config(severities={"fails": "warning"})),
    ],
)
def test_a_waste_is_told_where_the_launch_may_start_or_has_a_layout(text: str, config: Config) -> None:
    report = told(text, config=config)
    assert "a-rule" in [each.rule for each in report.findings]
    assert report.moot == ()


def test_a_waste_of_several_runs_is_told_of_those_that_start() -> None:
    found = {each.rule: each.runs for each in told(TORN, FIT).findings}
    assert found == {"fails": (0,), "a-rule": (1,)}


def test_a_launch_that_fails_wastes_nothing_where_nobody_asks_about_it() -> None:
    report = told(WHOLE, FIT)
    assert {each.rule: each.runs for each in report.findings} == {"fails": (0,), "a-rule": (1,)}
    assert [each.rule for each in told(WHOLE, WHOLE.replace("= 3", "= 5")).moot] == ["a-rule"]
