"""The files of a tree in one order: as git lists them, or, where it does not, as a walk over the folders finds them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dtlint.account import FILE, FOLDER, LINK, entries, is_file, is_there, listing, standing
from dtlint.git import listed_by_git
from dtlint.record import NamedTuple

SKIPPED = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        "site-packages",
        "third_party",
        "third-party",
        "thirdparty",
        "3rdparty",
        "vendor",
        "vendored",
    )
)
"""Folders that hold no training config of this repository. A repository within one, submodules too, is another."""

MOST_FILES = 100_000
"""Files of a tree that are looked at, in order of their names."""


class Listing(NamedTuple):
    """The regular files below a folder, resolved; whether git listed them, and whether there are more."""

    files: tuple[Path, ...]
    by_git: bool
    cut: bool


def files_below(root: Path) -> Listing:
    """The files of the tree with that root."""
    named = listing(root, listed_by_git)
    found = walk(root, root) if named is None else _in_order(root, named)
    files = tuple(file for file, _ in zip(found, range(MOST_FILES + 1), strict=False))
    return Listing(files[:MOST_FILES], named is not None, len(files) > MOST_FILES)


def _in_order(root: Path, named: bytes) -> Iterator[Path]:
    """The files that git names, as a walk would find them: a folder's files by name, then its folders by name.

    An index may name anything: files outside, or behind links to folders elsewhere. None of those is looked at.
    """
    by_folder: dict[tuple[str, ...], set[str]] = {}
    for name in map(os.fsdecode, named.split(b"\0")):
        *folders, last = name.split("/")
        if last and _is_plain((*folders, last)):
            by_folder.setdefault(tuple(folders), set()).add(last)
    real: dict[tuple[str, ...], bool] = {(): True}
    for parts in sorted(by_folder):
        if _is_own(root, parts, real):
            base = os.path.join(root, *parts)  # noqa: PTH118 - for every folder of a tree
            kinds = ((name, standing(os.path.join(base, name))) for name in sorted(by_folder[parts]))  # noqa: PTH118
            yield from (Path(base, name) for name in _files(base, kinds, root))


def _is_plain(parts: tuple[str, ...]) -> bool:
    """Whether a path leads downwards, and into no folder that is passed over."""
    return not any(part in SKIPPED or part in ("", ".", "..") for part in parts)


def _is_own(root: Path, folders: tuple[str, ...], known: dict[tuple[str, ...], bool]) -> bool:
    """Whether a folder below the root is reached through no link."""
    if folders not in known:
        known[folders] = _is_own(root, folders[:-1], known) and standing(str(Path(root, *folders))) == FOLDER
    return known[folders]


def _leads_inside(file: Path, root: Path) -> bool:
    """Whether a link leads to a regular file inside the root: to no pipe, which waits for a writer, and no device."""
    try:
        return is_file(file) and file.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def walk(folder: Path, root: Path) -> Iterator[Path]:
    """Regular files below `folder` in order of their names; of links those to files inside the root."""
    apart = is_there(root / ".git")
    waiting = [str(folder)]
    while waiting:
        base = waiting.pop()
        found = entries(base) or ()
        if apart and base != str(folder) and any(name == ".git" for name, _ in found):
            continue
        yield from (Path(base, name) for name in _files(base, found, root))
        below = [name for name, kind in found if kind == FOLDER and name not in SKIPPED]
        waiting += [os.path.join(base, name) for name in reversed(below)]  # noqa: PTH118


def _files(base: str, found: Iterable[tuple[str, str]], root: Path) -> Iterator[str]:
    for name, kind in found:
        if kind == FILE or (kind == LINK and _leads_inside(Path(base, name), root)):
            yield name
