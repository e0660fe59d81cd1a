"""Finds the files of a tree that may start a script: by the bytes of its name, before anything is read as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dtlint.runs.kinds import MANIFESTS, bytes_of, may_be_manifest, searched
from dtlint.runs.tree import Tree

MOST_ROUNDS = 4
"""Longest chain of scripts that start each other which is looked for."""

LARGEST = 1_000_000
"""Largest file that is searched, in bytes."""

_NAME = re.compile(rb"[\w.+-]+")


def callers_of(tree: Tree, names: Iterable[str]) -> tuple[list[Path], bool]:
    """The scripts and manifests of the tree that hold one of the file names, or that of a script that holds one; and
    whether there were too many files to search all.
    """
    mentions, cut = _mentions(tree)
    wanted = {name.encode() for name in names}
    found: dict[Path, None] = {}
    for _ in range(MOST_ROUNDS):
        more = [file for file, held in mentions.items() if file not in found and _holds(file, held, wanted)]
        if not more:
            break
        found.update(dict.fromkeys(more))
        wanted |= {file.name.encode() for file in more}
    return list(found), cut


def _holds(file: Path, held: frozenset[bytes], wanted: set[bytes]) -> bool:
    """Whether a file holds a name that is not just its own."""
    return not held.isdisjoint(wanted) and held & wanted != {file.name.encode()}


def _mentions(tree: Tree) -> tuple[dict[Path, frozenset[bytes]], bool]:
    """What may be file names in the scripts and manifests among the first files of the tree."""
    found: dict[Path, frozenset[bytes]] = {}
    files, cut = searched(tree)
    for file, kind in files:
        data = bytes_of(file, LARGEST)
        if kind == "shell" or _is_manifest(data):
            found[file] = frozenset(_NAME.findall(data))
    return found, cut


def _is_manifest(data: bytes) -> bool:
    return any(mark in data for mark in MANIFESTS) and may_be_manifest(data.decode(errors="replace"))
