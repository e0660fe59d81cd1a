"""Names for findings that stay the same while lines move, so that code hosts know an old finding from a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from dtlint.report.places import repository_path, token

if TYPE_CHECKING:
    from dtlint.rulebook.finding import Finding
    from dtlint.runs.model import Run


def fingerprints(findings: Sequence[Finding], runs: Sequence[Run]) -> list[str]:
    """For each finding a hash of its rule, its file, the plan's role and the text that it points at.

    Equal ones are told apart by their order in the report.
    """
    digests = [_digest(finding, runs) for finding in findings]
    return [_hash(f"{each}\n{number}") for each, number in _numbered(digests)]


def line_fingerprints(findings: Sequence[Finding]) -> list[str]:
    """For each finding a hash of the line it points at, and its number among the findings with the same one."""
    spans = [finding.span.original() for finding in findings]
    hashes = [_hash(span.source.line_text(span.line).strip()) for span in spans]
    return [f"{each}:{number + 1}" for each, number in _numbered(hashes)]


def _digest(finding: Finding, runs: Sequence[Run]) -> str:
    roles = ",".join(sorted({runs[index].role for index in finding.runs}))
    return "\n".join((finding.rule, repository_path(finding.span), roles, token(finding.span).text))


def _numbered(keys: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Each key with how often it has come before."""
    seen: Counter[str] = Counter()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
