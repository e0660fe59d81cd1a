"""Which remedies may be written into the files without anybody looking, and which change the training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dtlint.record import NamedTuple
from dtlint.rulebook.finding import Finding, Remedy
from dtlint.rulebook.rule import WORST_FIRST

MACHINES = frozenset(
    ("cluster.nodes", "launch.nodes", "launch.processes", "launch.processes_per_node", "parallel.world_size")
)
"""Settings that say how much hardware is taken, which nobody wants to find changed."""


class Fix(NamedTuple):
    """A remedy that can be written into the files, and the finding that it is of."""

    finding: Finding
    remedy: Remedy


def candidates(findings: Iterable[Finding], unsafe: bool) -> Iterator[Fix]:
    """The remedies that may be written, those of the worst findings first; of each finding the best comes first.

    Notes are advice, and what hangs on a guess is no reason to change a file: neither is fixed.
    """
    wanted = [finding for finding in findings if finding.severity != "note" and finding.confidence != "low"]
    for finding in sorted(wanted, key=lambda each: WORST_FIRST.index(each.severity)):
        for remedy in finding.remedies:
            if remedy.edits and not remedy.raises and (unsafe or is_safe(remedy)):
                yield Fix(finding, remedy)


def is_safe(remedy: Remedy) -> bool:
    """Whether a remedy leaves the mathematics of training as it is, and takes no other number of machines."""
    return not remedy.changes_training and not MACHINES & remedy.set.keys()
