"""The whole page: an article for each run, the lines that it speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dtlint.report.figures import Figures, figures_of
from dtlint.report.html.document import document, plan_style, text_of
from dtlint.report.html.findings import Numbered, findings_section
from dtlint.report.html.headline import headline
from dtlint.report.html.markup import Markup, element, embedded, joined
from dtlint.report.html.memory import memory_section
from dtlint.report.html.parts import hatches, note
from dtlint.report.html.pipeline import pipeline_section, stops_json
from dtlint.report.html.settings import settings_section, unknown_section
from dtlint.report.html.sources import Anchors, anchors, shown_lines, sources_section
from dtlint.report.html.step import step_section
from dtlint.report.html.topology import topology_json, topology_section
from dtlint.report.html.what_if import what_if_section
from dtlint.report.words import counted, plan_line, run_place

if TYPE_CHECKING:
    from dtlint.rulebook.check import Report
    from dtlint.runs.model import FileProblem, Run

MOST_RUNS = 12
"""Runs that a page shows; of a tree of launches the first ones, the rest by a count."""


def plans_page(report: Report, problems: Sequence[FileProblem] = ()) -> str:
    """The page of a check's plans and findings."""
    runs = report.runs[:MOST_RUNS]
    figures = [figures_of(run.plan) for run in runs]
    lines = shown_lines(runs, report.findings)
    names = anchors(lines)
    articles = [_article(index, run, figures[index], report, names) for index, run in enumerate(runs)]
    body = [
        hatches(),
        _head_of_page(report, runs),
        element("main", *articles, _tree(report, names), sources_section(lines, names), *map(_problem, problems)),
        element("script", _data(runs, figures), type="application/json", id="plans"),
        element("script", text_of("page.js")),
    ]
    title = f"dtlint plan: {run_place(report.runs[0])}" if report.runs else "dtlint plan"
    return document(title, plan_style(), joined(body), text_of("page.js"))


def _head_of_page(report: Report, runs: Sequence[Run]) -> Markup:
    links = [
        element("li", element("a", f"{run_place(run)}: {plan_line(run.plan)}", href=f"#run-{index}"))
        for index, run in enumerate(runs)
    ]
    left_out = len(report.runs) - len(runs)
    return element(
        "header",
        element("h1", "dtlint plan"),
        element("button", "dark or light", type="button", id="theme", hidden=True),
        element("nav", element("ul", *links), aria_label="plans") if len(links) > 1 else "",
        note(f"{counted(left_out, 'more plan')} not shown; name fewer files to see them") if left_out else "",
        note("no launch and no training config was read") if not runs else "",
        class_="page",
    )


def _article(index: int, run: Run, figures: Figures, report: Report, names: Anchors) -> Markup:
    findings = [(number, each) for number, each in enumerate(report.findings) if index in each.runs]
    undecided = [each for each in report.undecided if index in each.runs]
    summary = report.summary if _first_priced(report) == index else None
    return element(
        "article",
        headline(run, figures),
        findings_section(findings, undecided, names, str(index)),
        what_if_section(findings, figures, summary, index),
        topology_section(figures, index),
        memory_section(figures, run.plan),
        pipeline_section(figures, run.plan, index),
        step_section(figures),
        unknown_section(run.plan, figures),
        settings_section(run.plan, names),
        id=f"run-{index}",
        data_run=index,
    )


def _first_priced(report: Report) -> int | None:
    """The run that the report's summary speaks of: the first in which something gains."""
    gains = (
        each.runs[0] for each in report.findings if each.runs and any(r.saves.share_of_step for r in each.remedies)
    )
    return min(gains, default=None)


def _tree(report: Report, names: Anchors) -> Markup:
    """Findings about files rather than plans."""
    found: Numbered = [(number, each) for number, each in enumerate(report.findings) if not each.runs]
    if not found:
        return Markup("")
    return element("article", element("h2", "Files"), findings_section(found, (), names, "files"), class_="tree")


def _problem(problem: FileProblem) -> Markup:
    return note(f"{problem.path}: {problem.message}")


def _data(runs: Iterable[Run], figures: Sequence[Figures]) -> Markup:
    """What the script draws from."""
    plans: list[Mapping[str, object]] = [
        {"topology": topology_json(found), "pipeline": stops_json(found, run.plan)}
        for run, found in zip(runs, figures, strict=True)
    ]
    return embedded(plans)  # type: ignore[arg-type]
