"""The releases that a tree speaks of in READMEs, notebooks and installing scripts, and in the environments of the
folders beside, where no file around a run's script asks for any, or only one of a folder further up.

None of them is known to be the run's. Each is one that somebody runs, so that together they are a range: from the
oldest to the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from pathlib import Path

from dtlint.account import FOLDER, entries, is_file, size_of
from dtlint.frameworks import Claim, Reading
from dtlint.release import Releases, around, releases, shown
from dtlint.runs.listing import SKIPPED
from dtlint.runs.tree import Tree
from dtlint.runs.versions import LAYER, asked_in, folders_above, may_ask
from dtlint.source import Source, Unreadable
from dtlint.value import Value

_MOST_FOLDERS = 40
"""Folders of one folder that are looked at."""
_MOST_FILES = 60
"""Files of one folder that are looked at."""
_LARGEST = 1_000_000
"""Largest file that is looked at, in bytes: of a notebook with pictures in it that is the beginning of a few."""


def versions_mentioned(tree: Tree, folders: Sequence[Path], settled: Collection[str]) -> list[Reading]:
    """A claim for each package that is not `settled`, of all that the folders around a run's script, and those right
    below them, say of it.
    """
    claims: dict[str, list[Claim]] = {}
    for folder in folders_above(tree, folders):
        for claim in _said_around(tree, folder):
            claims.setdefault(claim.setting, []).append(claim)
    found = (_hull(each) for setting, each in claims.items() if setting not in settled)
    return [Reading(LAYER, claims=(claim,)) for claim in found if claim is not None]


def versions_described(tree: Tree, folders: Sequence[Path], settled: Collection[str]) -> list[Reading]:
    """A claim for each package that is not `settled`, for which only files further up ask than the README that says
    how what it lies beside is installed: a folder of its own has an environment of its own.
    """
    above = folders_above(tree, folders)
    asked = [{claim.setting for each in asked_in(tree, folder) for claim in each.reading.claims} for folder in above]
    found: dict[str, Claim] = {}
    for index, folder in enumerate(above[:-1]):
        nearer, further = set().union(settled, found, *asked[: index + 1]), set().union(*asked[index + 1 :])
        for setting in further - nearer:
            claim = _hull_of(claim for claim in _said_here(tree, folder) if claim.setting == setting)
            if claim is not None:
                found[setting] = claim
    return [Reading(LAYER, claims=(claim,)) for _, claim in sorted(found.items())]


def _hull_of(claims: Iterable[Claim]) -> Claim | None:
    told = list(claims)
    return _hull(told) if told else None


def _hull(claims: Sequence[Claim]) -> Claim | None:
    """One claim from the oldest to the newest release of several; None where they leave every release open."""
    known = [found for claim in claims if (found := _releases(claim)) is not None]
    whole = reduce(around, known) if known else Releases()
    first = claims[0]
    if whole == Releases() or not isinstance(first.value, Value):
        return None
    alike = next((claim for claim in claims if _releases(claim) == whole), None)
    return alike or first._replace(value=first.value._replace(value=shown(whole)))


def _releases(claim: Claim) -> Releases | None:
    return releases(str(claim.value.value)) if isinstance(claim.value, Value) else None


def _said_around(tree: Tree, folder: Path) -> tuple[Claim, ...]:
    """What the files of a folder and of those right below it say, each folder read once."""
    if folder not in tree.mentioned:
        below = [folder / name for name in _folders(folder)]
        tree.mentioned[folder] = tuple(claim for each in (folder, *below) for claim in _said_here(tree, each))
    return tree.mentioned[folder]


def _said_here(tree: Tree, folder: Path) -> tuple[Claim, ...]:
    """What the files of a folder say, each folder read once."""
    if folder not in tree.said:
        tree.said[folder] = tuple(_said(tree, folder))
    return tree.said[folder]


def _said(tree: Tree, folder: Path) -> Iterator[Claim]:
    for source in _sources(tree, folder):
        from dtlint.frameworks.requirements import kind_of_mention, read_all

        assert source.file is not None
        yield from read_all(source, kind_of_mention(source.file.name, source.file.parent.name.lower()))


def _sources(tree: Tree, folder: Path) -> Iterator[Source]:
    """The files of a folder that may speak of a release."""
    from dtlint.frameworks.requirements import kind_of_mention

    named = [name for name in _names(folder) if kind_of_mention(name, folder.name.lower())]
    for name in named[:_MOST_FILES]:
        file = folder / name
        try:
            source = tree.source(file) if is_file(file) and tree.inside(file) and size_of(file) < _LARGEST else None
        except (OSError, Unreadable):
            continue
        if source is not None and may_ask(source.text.lower()):
            yield source


def _names(folder: Path) -> list[str]:
    return [name for name, _ in entries(folder) or ()]


def _folders(folder: Path) -> list[str]:
    """The folders right below a folder."""
    below = (name for name, kind in entries(folder) or () if kind == FOLDER and name not in SKIPPED)
    return list(islice(below, _MOST_FOLDERS))
