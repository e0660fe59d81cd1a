"""The findings that a team has when it begins with dtlint: hidden by count per file and rule until there are more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from dtlint.config import Baseline, Counts
from dtlint.rulebook.finding import Finding

VERSION = 1


class BaselineError(ValueError):
    """A baseline that cannot be used, with the sentence that says why."""


def parse_baseline(text: str, path: str, folder: Path) -> Baseline:
    """The baseline in a text that stands in `folder`; BaselineError for what is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is no baseline: not JSON ({error})") from None
    if not _is_baseline(document):
        raise BaselineError(f"{path} is no baseline: write one with --write-baseline {path}")
    return Baseline(path, folder, cast("Counts", document["counts"]))


def baseline_text(findings: Iterable[Finding], folder: Path) -> str:
    """The baseline of these findings, for a file in `folder`: sorted, so that a change of it is a readable diff."""
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        counts.setdefault(path_in(folder, finding), Counter())[finding.rule] += 1
    ordered = {path: dict(sorted(rules.items())) for path, rules in sorted(counts.items())}
    return json.dumps({"version": VERSION, "counts": ordered}, indent=2) + "\n"


def unknown_to(baseline: Baseline, findings: Sequence[Finding]) -> list[bool]:
    """For each finding whether it is shown: where a rule finds more in a file than the baseline counts, all of them
    are, for nobody can tell which is the new one.
    """
    keys = [(path_in(baseline.folder, finding), finding.rule) for finding in findings]
    found = Counter(keys)
    return [found[path, rule] > baseline.counts.get(path, {}).get(rule, 0) for path, rule in keys]


def stale(baseline: Baseline, findings: Iterable[Finding], read: Iterable[Path]) -> Iterator[str]:
    """A sentence for each entry, among the files that were read, that counts more than there is."""
    found = Counter((path_in(baseline.folder, finding), finding.rule) for finding in findings)
    paths = {_relative(baseline.folder, file) for file in read}
    for path, rules in baseline.counts.items():
        for rule, count in rules.items():
            if path in paths and found[path, rule] < count:
                yield (
                    f"{baseline.path} counts {count} {rule} in {path}, and there {_are(found[path, rule])}: "
                    "write it anew with --write-baseline"
                )


def path_in(folder: Path, finding: Finding) -> str:
    """The path of the finding's file as the baseline of a folder has it."""
    span = finding.span.original()
    return span.path if span.source.file is None else _relative(folder, span.source.file)


def _relative(folder: Path, file: Path) -> str:
    resolved, base = file.resolve(), folder.resolve()
    return (resolved.relative_to(base) if resolved.is_relative_to(base) else resolved).as_posix()


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}" if count else "is none"


def _is_baseline(document: object) -> bool:
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return False
    counts = document.get("counts")
    return isinstance(counts, dict) and all(
        isinstance(rules, dict) and all(type(count) is int for count in rules.values()) for rules in counts.values()
    )
