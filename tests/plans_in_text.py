"""Runs from a small text, for tests of the rulebook: each line `setting = value` is a written setting.

`#` begins a comment, `setting ~ value` is a value that a caller may replace (`${X:-value}`), `setting ?` a word that
is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import dedent

from dtlint.config import Config
from dtlint.frameworks import Member
from dtlint.plan import Dialect, Plan, parse
from dtlint.rulebook.check import Report, check
from dtlint.rulebook.house import check_rule
from dtlint.rulebook.rule import Rule
from dtlint.runs.model import FileProblem, Launch, Run, RunSet
from dtlint.source import Source, Span
from dtlint.value import Origin, Setting, Unknown, assumed, written

LINE = re.compile(r"^(?P<name>\w+\.[\w.]+|framework) *(?P<sign>[=~?]) *(?P<value>[^#\n]*?) *(?:#.*)?$", re.MULTILINE)


def source_of(text: str, path: str = "launch.sh") -> Source:
    return Source(path, dedent(text).lstrip("\n"))


def settings_in(source: Source) -> dict[str, Setting]:
    return {match["name"]: _setting(source, match) for match in LINE.finditer(source.text)}


def _setting(source: Source, match: re.Match[str]) -> Setting:
    span = source.span(match.start("value"), match.end("value"))
    if match["sign"] == "?":
        return Unknown(f"{match['name']} is set by the caller", f"--set {match['name']}=...", Origin("written", span))
    value = parse(match["name"], match["value"]).value
    return written(value, span) if match["sign"] == "=" else assumed(value, "the caller may set it", span=span)


def run_of(
    source: Source, collections: Mapping[str, tuple[Member, ...]] | None = None, dialect: Dialect | None = None
) -> Run:
    plan = Plan(settings_in(source), collections, dialect)
    return Run(Launch(source.span(0, 0), (), {}), "train", None, (source,), (), plan)


def runs_of(*runs: Run, problems: tuple[FileProblem, ...] = (), focus: tuple[str, ...] = ()) -> RunSet:
    return RunSet(runs, problems, tuple(run.sources[0] for run in runs), frozenset(focus))


def rule(text: str, **fields: str) -> Rule:
    """A rule from YAML; what every rule needs and the text lacks is filled in."""
    body = dedent(text)
    needed = {"id": "TST001", "name": "a-rule", "summary": "s", "say": "it is so", "why": "w", "outcome": "slower"}
    for key, value in {**needed, **fields}.items():
        if not re.search(rf"^{key}:", body, re.MULTILINE):
            body += f"\n{key}: {value}"
    return check_rule(Source("rule.yaml", body), "house")


def checked(text: str, *rules: Rule, config: Config | None = None) -> Report:
    return check(runs_of(run_of(source_of(text))), rules, config or Config())


def spot(span: Span) -> tuple[int, str]:
    """Line and text of a place."""
    return span.line, span.text
