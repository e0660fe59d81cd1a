"""The files that may be read: inside the root only, each read once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlint.source import Source, read_source

if TYPE_CHECKING:
    from dtlint.languages.json_tree import Document
    from dtlint.languages.python.memo import Shared

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
    )
)
"""Folders that hold no training config of this repository."""

LONGEST_PATH = 4096
MOST_FILES = 20_000
MOST_SEARCHED = 5_000
SHELL_SUFFIXES = frozenset((".sh", ".bash", ".slurm", ".sbatch", ".slrm", ".sub", ".job", ".pbs"))


class Tree:
    """File access for one invocation: `root` bounds what is read, `current` is what printed paths are relative to,
    `texts` stand for what is on disk.

    `asked` keeps what the files of a folder ask for (versions.py), `python` what was found out about Python files
    (programs.py), `documents` the configs that others are composed of (compositions.py), `manifests` those below a
    folder that others name (orchestrators.py).
    """

    __slots__ = (
        "_bases_of",
        "_entries",
        "_found",
        "_names",
        "_sources",
        "_texts",
        "asked",
        "current",
        "documents",
        "manifests",
        "python",
        "root",
    )

    def __init__(self, root: Path, current: Path, texts: Mapping[Path, str] | None = None) -> None:
        self.root = root
        self.current = current
        self._texts = texts or {}
        self._sources: dict[Path, Source] = {}
        self._names: dict[Path, str] = {}
        self._found: dict[tuple[str, Path], Path | None] = {}
        self._bases_of: dict[Path, tuple[str, ...]] = {}
        self._entries: dict[str, frozenset[str] | None] = {}
        self.asked: dict[Path, tuple[Any, ...]] = {}
        self.manifests: dict[tuple[Path, bool], tuple[Document, ...]] = {}
        self.documents: dict[Path, Document] = {}
        self.python: Shared | None = None

    def shown(self, file: Path) -> str:
        """The path that reports print: relative to the current folder where that is shorter than a climb out of it."""
        found = self._names.get(file)
        if found is None:
            relative = os.path.relpath(file, self.current)
            found = self._names[file] = Path(relative if not relative.startswith("../..") else file).as_posix()
        return found

    def source(self, file: Path) -> Source:
        """The file's text; Unreadable when it has none."""
        found = self._sources.get(file)
        if found is None:
            found = self._sources[file] = self._read(file)
        return found

    def _read(self, file: Path) -> Source:
        text = self._texts.get(file.resolve()) if self._texts else None
        return read_source(file, self.shown(file)) if text is None else Source(self.shown(file), text, file)

    def find(self, text: str, folder: Path) -> Path | None:
        """The file that `text` names: tried from `folder`, the current folder, and every folder above `folder` up to
        the root.
        """
        if (text, folder) not in self._found:
            self._found[text, folder] = self._find(text, folder)
        return self._found[text, folder]

    def _find(self, text: str, folder: Path) -> Path | None:
        if not text or "\0" in text or len(text) > LONGEST_PATH:
            return None
        first = text.partition("/")[0]
        bases = (base for base in self._bases(folder) if self._may_hold(base, first))
        candidates = (Path(os.path.normpath(Path(base, text))) for base in bases)
        return next((file for file in candidates if _is_file(file) and self.inside(file)), None)

    def _may_hold(self, folder: str, name: str) -> bool:
        """Whether a folder has an entry of this name, by one listing: most imports name what no folder of the tree
        holds.
        """
        if name in ("", ".", ".."):
            return True
        if folder not in self._entries:
            self._entries[folder] = _listed(folder)
        entries = self._entries[folder]
        return entries is None or name in entries

    def inside(self, file: Path) -> bool:
        """Whether the file lies under the root, links resolved."""
        try:
            return file.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    def within(self, source: Source) -> str:
        """The path of a source below the root; its name alone where it lies in none."""
        file = source.file
        if file is None or not self.inside(file):
            return Path(source.path).name
        return file.resolve().relative_to(self.root).as_posix()

    def _bases(self, folder: Path) -> tuple[str, ...]:
        if folder not in self._bases_of:
            above = takewhile(lambda parent: parent.is_relative_to(self.root), folder.parents)
            self._bases_of[folder] = tuple(dict.fromkeys(map(str, (folder, self.current, *above))))
        return self._bases_of[folder]


def _listed(folder: str) -> frozenset[str] | None:
    """The entries of a folder; None where the system does not list them."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except OSError:
        return None


def _is_file(file: Path) -> bool:
    """A regular file; what the system refuses to look at is none."""
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def root_of(paths: Sequence[Path]) -> Path:
    """The enclosing git work tree of the first path, else its folder."""
    first = paths[0].resolve() if paths else Path.cwd()
    folder = first if first.is_dir() else first.parent
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def walk(folder: Path, root: Path) -> Iterator[Path]:
    """Regular files below `folder` in order of their names, at most MOST_FILES; of links those to files inside the
    root.
    """
    found = _walk(folder, root)
    return (file for file, _ in zip(found, range(MOST_FILES), strict=False))


def _walk(folder: Path, root: Path) -> Iterator[Path]:
    waiting = [str(folder)]
    while waiting:
        base = waiting.pop()
        entries = _sorted_entries(base)
        yield from (Path(base, entry.name) for entry in entries if _is_readable(entry, root))
        waiting += [entry.path for entry in reversed(entries) if _is_folder(entry) and entry.name not in SKIPPED]


def _sorted_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_readable(entry: os.DirEntry[str], root: Path) -> bool:
    """A regular file, or a link to one inside the root: no pipe, which waits for a writer, and no device."""
    try:
        if not entry.is_symlink():
            return entry.is_file(follow_symlinks=False)
        return entry.is_file() and Path(entry.path).resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
