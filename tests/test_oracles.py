"""dtlint agrees with the frameworks' own parsers on what they accept and what they make of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dtlint.api import check
from dtlint.record import NamedTuple
from dtlint.rulebook.check import Report
from dtlint.rulebook.load import built_in
from dtlint.value import Value

ANSWERS = sorted((Path(__file__).parent / "data" / "oracles").glob("*.jsonl"))
AGREEMENT = 0.98
"""Share of the questions of one kind on which dtlint has to give the framework's verdict."""

PROCESSES = 2
"""The questions are thousands, and take minutes one after the other."""

FATAL = [rule for rule in built_in() if any(verdict.outcome == "launch-fails" for verdict in rule.verdicts)]
"""The rules that may say that a launch fails; the others cost time and say nothing about a verdict."""


class Comparison(NamedTuple):
    """One question: whether the framework and dtlint refuse it, and the derived values on which they differ."""

    name: str
    kind: str
    refused: bool
    flagged: bool
    differing: tuple[str, ...]
    explained: bool


def rows(answers: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()[1:]]


def pinned(answers: Path) -> str:
    """The release of Accelerate that was asked, as a file asks for it: what it refuses differs between releases."""
    versions = json.loads(answers.read_text(encoding="utf-8").splitlines()[0])["versions"]
    return f"accelerate=={versions['accelerate']}\n" if "accelerate" in versions else ""


def compared(row: Mapping[str, Any], folder: Path, asked: str) -> Comparison:
    (folder / "requirements.txt").write_text(asked, encoding="utf-8")
    for name, text in row["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = check([folder], row["settings"], rules=FATAL)
    flagged = any(finding.outcome == "launch-fails" and finding.severity == "error" for finding in report.findings)
    differing = () if row["refused"] else tuple(_differing(row["derived"], report))
    return Comparison(row["name"], row["kind"], row["refused"] is not None, flagged, differing, "explained" in row)


def _differing(derived: Mapping[str, Any], report: Report) -> Iterator[str]:
    for run in report.runs:
        for name, expected in derived.items():
            found = run.plan.get(name)
            if isinstance(found, Value) and found.value != expected:
                yield f"{name}: {expected!r} there, {found.value!r} here"


@pytest.fixture(scope="module", params=ANSWERS, ids=lambda path: path.stem)
def comparisons(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Comparison]:
    asked = pinned(request.param)
    questions = [(row, tmp_path_factory.mktemp("question"), asked) for row in rows(request.param)]
    with ProcessPoolExecutor(PROCESSES) as several:
        return list(several.map(compared, *zip(*questions, strict=True), chunksize=20))


def test_verdicts_agree_in_every_kind(comparisons: list[Comparison]) -> None:
    kinds: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        kinds[comparison.kind].append(comparison)
    agreement = {kind: sum(one.refused == one.flagged for one in asked) / len(asked) for kind, asked in kinds.items()}
    assert {kind: share for kind, share in agreement.items() if share < AGREEMENT} == {}


def test_each_disagreement_is_explained(comparisons: list[Comparison]) -> None:
    assert [one for one in comparisons if one.refused != one.flagged and not one.explained] == []


def test_derived_values_are_the_frameworks(comparisons: list[Comparison]) -> None:
    assert {one.name: one.differing for one in comparisons if one.differing and not one.explained} == {}
