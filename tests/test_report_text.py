"""The text report as a whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click
import pytest
from reports import BUBBLE, CLEAN, LAUNCH, REPORT, RUN, at
from snapshot import holds

from dtlint.api import check
from dtlint.interval import Interval
from dtlint.plan import Plan
from dtlint.report.plan import plans_text
from dtlint.report.plan_cost import memory_bar
from dtlint.report.terminal import width
from dtlint.report.text import report_concise, report_text, undecided_text
from dtlint.report.words import cost_line, fact_shown, listed, number_shown, origin_shown, plan_line, saving_line
from dtlint.rulebook.check import Report
from dtlint.rulebook.evidence import label
from dtlint.rulebook.finding import Cost, Related, Saving, Stop
from dtlint.runs import read_runs
from dtlint.runs.model import FileProblem, Options, RunSet
from dtlint.source import Source
from dtlint.value import Origin, Step, given, written

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_findings_with_code_costs_and_remedies() -> None:
    holds("findings.txt", report_text(REPORT, 80))


def test_findings_on_a_narrow_terminal() -> None:
    holds("findings-narrow.txt", report_text(REPORT, 48))


def test_a_clean_result_says_what_was_read() -> None:
    holds("clean.txt", report_text(CLEAN, 80))


def test_one_line_per_finding() -> None:
    holds("concise.txt", report_concise(REPORT))


def test_what_was_not_decided() -> None:
    holds("undecided.txt", undecided_text(REPORT.undecided, 80))


def test_a_plan_says_what_is_split_and_why() -> None:
    shown = click.unstyle(plans_text(RunSet((RUN,), (), (LAUNCH,), frozenset()), 80))
    assert shown.startswith(
        """\
launch.sh:6
TP 8 x PP 8 x DP 64 on 4,096 GPUs, ZeRO-3
assumed: ds.json was joined because no other launch stands beside it

Split
  GPUs 4,096           from launch.nodes and launch.processes_per_node
  TP 8                 launch.sh:7
  PP 8                 launch.sh:8
  DP 64                from parallel.world_size 4,096, parallel.tensor 8 and
    parallel.pipeline 8
  ZeRO stage 3         ds.json:2
"""
    )


def test_a_plan_of_nothing() -> None:
    problem = FileProblem("x.json", None, "a binary file (it holds a NUL byte)")
    shown = plans_text(RunSet((), (problem,), (), frozenset()), 80)
    assert shown == "x.json: a binary file (it holds a NUL byte)\nno launch and no training config was read\n"


def test_memory_is_drawn_against_what_there_is() -> None:
    assert memory_bar([("weights", 2e9), ("optimizer", 4e9)], 10e9, 10) == "[WWOOOO....]"
    assert memory_bar([("weights", 8e9), ("optimizer", 8e9)], 12e9, 16) == "[WWWWWWWWOOOO|OOOO]"


def test_an_end_that_is_not_known_is_not_drawn() -> None:
    assert memory_bar([("weights", 2e9), ("optimizer", 4e9)], 0, 9) == "[WWWOOOOOO]"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("story", ["half-idle-pipeline", "64-gpu-slowdown"])
def test_plans_of_stories(story: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    shown = plans_text(read_runs([Path("fixtures", story)], Options()), columns)
    # Up to the settings and facts, whose lists grow with the vocabulary.
    holds(f"plan-{story}-{columns}.txt", click.unstyle(shown).partition("\nSettings\n")[0])


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_pictures_of_a_plan_fit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES.parent)
    lines = click.unstyle(plans_text(read_runs([Path("fixtures/half-idle-pipeline")], Options()), columns)).splitlines()
    pictures = [line for line in lines if "[" in line or line.lstrip()[:2] in {f"{stage} " for stage in range(8)}]
    assert len(pictures) == 2 + 1 + 8 + 8 + 0
    assert all(width(line) <= columns for line in pictures)


def test_where_a_value_came_from() -> None:
    assert origin_shown(Origin("written", at(LAUNCH, "2", "MICRO=")), RUN.plan) == "launch.sh:4"
    through = Origin("written", at(LAUNCH, "2", "MICRO="), (Step(at(LAUNCH, "$MICRO"), "$MICRO"),))
    assert origin_shown(through, RUN.plan) == "launch.sh:4 through $MICRO"
    assert origin_shown(Origin("default", note="Megatron-LM"), RUN.plan) == "default of Megatron-LM"
    assert origin_shown(Origin("given", note="--set"), RUN.plan) == "--set"
    assert origin_shown(Origin("derived", settings=("parallel.tensor",)), RUN.plan) == "from parallel.tensor 8"
    assert origin_shown(Origin("assumed", note="no file tells it"), RUN.plan) == "assumed: no file tells it"


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("bytes", 16, "16 bytes"),
        ("bytes", Interval(60e9, 70e9), "60-70 GB"),
        ("s", 0.25, "250 ms"),
        ("share of a step", 0.47, "47% of a step"),
        ("ranks", 64, "64 ranks"),
        ("", True, "true"),
    ],
)
def test_facts_have_their_unit(unit: str, value: bool | float | Interval, shown: str) -> None:
    assert fact_shown(unit, value) == shown


@pytest.mark.parametrize("columns", [40, 48, 80, 120])
def test_lines_fit_unless_a_word_does_not(columns: int) -> None:
    for line in click.unstyle(report_text(REPORT, columns)).splitlines():
        assert width(line) <= columns or " " not in line.strip()[: columns // 2] or "--" in line


def test_severities_have_colours_and_colours_are_all_that_styling_adds() -> None:
    styled = report_text(REPORT, 80)
    assert "\x1b[31m" in styled
    assert "\x1b[33m" in styled


def test_a_place_is_marked_once_with_all_that_is_said_of_it() -> None:
    size = at(LAUNCH, "512", "--global-batch-size")
    related = (Related(size, "global batch 512"), Related(size, "4 micro-batches"), Related(size, "global batch 512"))
    shown = click.unstyle(report_text(Report((BUBBLE._replace(related=related),), (), None, (RUN,)), 80))
    assert shown.count("--- ") == 1
    assert "--- global batch 512; 4 micro-batches\n" in shown


def test_a_variable_on_the_way_is_not_repeated_as_its_own_label() -> None:
    through = Related(at(LAUNCH, "$MICRO"), "$MICRO")
    shown = click.unstyle(report_text(Report((BUBBLE._replace(related=(through,)),), (), None, (RUN,)), 80))
    assert "------ used here" in shown


def test_a_message_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;owned\x07"
    finding = BUBBLE._replace(message=evil, related=(Related(at(LAUNCH, "NPROC"), evil),))
    shown = click.unstyle(report_text(Report((finding,), (), None, (RUN,)), 80))
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(
    ("cost", "line"),
    [
        (Cost(), ""),
        (Cost(share_of_step=Interval(0.3, 0.47)), "30-47% of each step"),
        (
            Cost(share_of_step=Interval(0.47, 0.47), seconds_per_step=Interval(0.4, 0.5)),
            "47% of each step, 400-500 ms per step",
        ),
        (
            Cost(gpu_hours_per_day=Interval(46203, 46203), usd_per_day=Interval(1e5, 2e5)),
            "46,203 GPU-hours a day, $100,000-200,000 a day",
        ),
        (Cost(memory_bytes=Interval(208e9, 208e9)), "208 GB on one GPU"),
        (Cost(stops=Stop("launch")), "the launch fails"),
        (Cost(stops=Stop("run", 64)), "the run is lost: 64 GPUs"),
        (
            Cost(stops=Stop("run", 64, waiting=64 / 6)),
            "the run is lost: 64 GPUs, 10.7 GPU-hours until the timeout ends it",
        ),
        (Cost(stops=Stop("step", 64, Interval(600, 600))), "the first step fails: 64 GPUs for 10 min"),
    ],
)
def test_costs_in_words(cost: Cost, line: str) -> None:
    assert cost_line(cost) == line


def test_savings_in_words() -> None:
    saving = Saving(Interval(0.2, 0.3), Interval(1.5, 2), Interval(61e9, 61e9))
    assert saving_line(saving, "step") == "saves 20-30% per step, 1.5-2 s per step then, 61 GB on one GPU then"


def test_a_remedy_that_may_cost_more_says_so() -> None:
    assert saving_line(Saving(Interval(-0.81, 0.07)), "token") == "saves -81% to 7% per token"


def test_of_a_step_that_stays_as_it_is_nothing_is_said() -> None:
    nothing = Saving(Interval(0.0, 0.0), Interval(0.05, 0.7), Interval(61e9, 61e9))
    assert saving_line(nothing, "step") == "61 GB on one GPU then"
    assert saving_line(Saving(Interval(0.0, 0.02), Interval(1.0, 2.0)), "step").startswith("saves 0-2% per step, 1-2 s")


def test_a_plan_of_which_nothing_is_known_but_its_gpus() -> None:
    unread = Plan({"parallel.world_size": given(8)})
    assert plan_line(unread) == "8 GPUs, split in a way that is not known"
    known = Plan({"parallel.world_size": given(8), "framework": given("ddp")})
    assert plan_line(known).endswith(" on 8 GPUs")


def test_small_phrases() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert number_shown(7e9) == "7B"
    assert number_shown(4096) == "4,096"
    assert number_shown(0.5) == "0.5"


def test_a_plan_in_one_line() -> None:
    assert plan_line(RUN.plan).startswith("TP 8 x PP 8 x DP 64 on 4,096 GPUs")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("story", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_the_war_stories_as_a_terminal_shows_them(
    story: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(FIXTURES / story, tmp_path / story)
    monkeypatch.chdir(tmp_path)
    text = re.sub(r"\d+ rules", "all rules", report_text(check([story]), columns))
    holds(f"story-{story}-{columns}.txt", text)


def test_a_long_list_is_shown_by_its_ends() -> None:
    sizes, place = tuple(range(32, 2048, 32)), Source("run.sh", "32").span(0, 2)
    assert label("batch.rampup", written(sizes, place)) == "batch.rampup 32, 64, 96, ..., 2016"
    assert label("batch.rampup", written(sizes[:3], place)) == "batch.rampup 32, 64, 96"
