"""Launches that may become runs: each in one world of its script, with what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtlint.frameworks import Reading
from dtlint.languages.traced import World
from dtlint.record import NamedTuple
from dtlint.runs.launches import Found
from dtlint.source import Source


class Candidate(NamedTuple):
    """A launch in one world of its script, with the files that it names.

    `around` is what says on which machines the script runs: its directives, or the manifest that holds it; `hosts` is
    the host file that goes with it. `folder` is where paths begin, `own` that of the script where another one starts
    it: `chain` are the scripts that lead to the launch, outermost first, `told` is how the one in which it stands is
    started, in words, and `supposed` are sentences on what was only likely on the way.
    """

    found: Found
    script: Source
    folder: Path
    world: World
    around: Reading | None
    companion: bool
    moved: str
    hosts: Source | None = None
    own: Path | None = None
    chain: tuple[Source, ...] = ()
    told: str = ""
    supposed: tuple[str, ...] = ()

    @property
    def callers(self) -> tuple[Source, ...]:
        """The other scripts that lead to the launch, the nearest first."""
        return tuple(source for source in reversed(self.chain) if source is not self.script)

    @property
    def branch(self) -> str | None:
        """The conditions under which the launch is made."""
        conditions = [condition for condition in (self.told, self.world.branch) if condition]
        return " and ".join(conditions) or None


def known_starts(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The launches without those that a script would make if nobody were known to start it: each launch line as it is
    reached from the outermost scripts that lead to it.
    """
    of_a_line: dict[tuple[str, int], list[Candidate]] = {}
    for candidate in candidates:
        place = candidate.found.launch.place
        of_a_line.setdefault((place.path, place.start), []).append(candidate)
    started = {
        line: {path for candidate in found for path in chain_of(candidate)[1:]} for line, found in of_a_line.items()
    }
    kept = []
    for candidate in candidates:
        place = candidate.found.launch.place
        line = place.path, place.start
        outermost = {chain_of(each)[0] for each in of_a_line[line]} - started[line]
        if not outermost or chain_of(candidate)[0] in outermost:
            kept.append(candidate)
    return kept


def chain_of(candidate: Candidate) -> tuple[str, ...]:
    """The paths of the scripts that lead to a launch, outermost first."""
    return tuple(source.path for source in candidate.chain) or (candidate.script.path,)
