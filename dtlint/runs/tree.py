"""The files that may be read: inside the root only, each read once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlint.account import entries, is_file, is_folder, is_there, kind_at
from dtlint.runs.listing import Listing, files_below, walk
from dtlint.source import Source, Unreadable, read_source

if TYPE_CHECKING:
    from dtlint.frameworks.hydra.command_line import Declared
    from dtlint.languages.json_tree import Document
    from dtlint.languages.python.memo import Shared

LONGEST_PATH = 4096
MOST_SEARCHED = 5_000
SHELL_SUFFIXES = frozenset((".sh", ".bash", ".slurm", ".sbatch", ".slrm", ".sub", ".job", ".pbs"))


class Tree:
    """File access for one invocation: `root` bounds what is read, `current` is what printed paths are relative to,
    `texts` stand for what is on disk.

    `asked` keeps what the files of a folder ask for (versions.py), `said` what they speak of, and `mentioned` what they
    and those of the folders right below do (mentioned.py),
    `python` what was found out about Python files (programs.py), `documents` the configs that others are composed of,
    `declaring` the programs beside a folder that name a config for hydra (compositions.py), `manifests` those below a
    folder that others name (orchestrators.py), `listed` its files once they were asked for, `scripts` those that may
    name others (kinds.py), `forks` the forks that they fetch or ask for (forks.py).
    """

    __slots__ = (
        "_bases_of",
        "_below",
        "_bound",
        "_entries",
        "_found",
        "_in_folders",
        "_names",
        "_of_name",
        "_sources",
        "_texts",
        "asked",
        "current",
        "declaring",
        "documents",
        "forks",
        "listed",
        "manifests",
        "mentioned",
        "python",
        "root",
        "said",
        "scripts",
    )

    def __init__(self, root: Path, current: Path, texts: Mapping[Path, str] | None = None) -> None:
        self.root = root
        self.current = current
        self._bound = _bound_of(root, current)
        self._texts = texts or {}
        self._sources: dict[Path, Source] = {}
        self._names: dict[Path, str] = {}
        self._found: dict[tuple[str, Path], Path | None] = {}
        self._bases_of: dict[Path, tuple[str, ...]] = {}
        self._entries: dict[str, frozenset[str] | None] = {}
        self._below: dict[Path, Sequence[Path]] = {}
        self._in_folders: dict[Path, list[Path]] = {}
        self._of_name: dict[str, list[Path]] = {}
        self.listed: Listing | None = None
        self.asked: dict[Path, tuple[Any, ...]] = {}
        self.mentioned: dict[Path, tuple[Any, ...]] = {}
        self.said: dict[Path, tuple[Any, ...]] = {}
        self.manifests: dict[tuple[Path, bool], tuple[Document, ...]] = {}
        self.documents: dict[Path, Document] = {}
        self.declaring: dict[Path, Sequence[tuple[Source, Declared]]] = {}
        self.python: Shared | None = None
        self.forks: dict[str, str] = {}
        self.scripts: tuple[tuple[Path, str], ...] | None = None

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

    @property
    def listing(self) -> Listing:
        """The files below the root, listed once."""
        if self.listed is None:
            self.listed = files_below(self.root)
        return self.listed

    def files(self, folder: Path) -> Sequence[Path]:
        """The files below a folder, which is resolved; of one that the tree passes over, those that a walk finds."""
        if folder == self.root:
            return self.listing.files
        if folder not in self._below:
            below = f"{folder}{os.sep}"
            inside = folder.is_relative_to(self.root)
            listed = [file for file in self.listing.files if str(file).startswith(below)] if inside else []
            self._below[folder] = listed or list(walk(folder, self.root))
        return self._below[folder]

    def beside(self, folder: Path) -> Sequence[Path]:
        """The files in a folder itself."""
        if not self._in_folders:
            for file in self.listing.files:
                self._in_folders.setdefault(file.parent, []).append(file)
        found = self._in_folders.get(folder)
        return [file for file in walk(folder, self.root) if file.parent == folder] if found is None else found

    def named(self, name: str) -> Sequence[Path]:
        """The files of a name in any folder of the tree."""
        if not self._of_name:
            for file in self.listing.files:
                self._of_name.setdefault(file.name, []).append(file)
        return self._of_name.get(name, ())

    def ending(self, parts: tuple[str, ...]) -> list[Path]:
        """The files whose paths end in these parts, whichever folder they lie in."""
        return [file for file in self.named(parts[-1]) if file.parts[-len(parts) :] == parts]

    def python_sources(self) -> Iterator[Source]:
        """The Python files of the tree that can be read, as many as are searched."""
        for file in islice((file for file in self.listing.files if file.suffix == ".py"), MOST_SEARCHED):
            try:
                yield self.source(file)
            except Unreadable:
                continue

    def find(self, text: str, folder: Path) -> Path | None:
        """The file that `text` names: tried from `folder`, every folder above it up to the root, the nearest first, and
        the current folder.
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
        return next((file for file in candidates if is_file(file) and self.inside(file)), None)

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
        """Whether the file lies in what may be read, links resolved."""
        kind_at(file)
        try:
            return file.resolve().is_relative_to(self._bound)
        except (OSError, RuntimeError):
            return False

    def within(self, source: Source) -> str:
        """The path of a source below the root; its name alone where it lies in none."""
        file = source.file
        if file is None or not file.resolve().is_relative_to(self.root):
            return Path(source.path).name
        return file.resolve().relative_to(self.root).as_posix()

    def _bases(self, folder: Path) -> tuple[str, ...]:
        if folder not in self._bases_of:
            above = takewhile(lambda parent: parent.is_relative_to(self.root), folder.parents)
            self._bases_of[folder] = tuple(dict.fromkeys(map(str, (folder, *above, self.current))))
        return self._bases_of[folder]


def _listed(folder: str) -> frozenset[str] | None:
    """The names in a folder; None where the system does not list them."""
    found = entries(folder)
    return None if found is None else frozenset(name for name, _ in found)


def root_of(paths: Sequence[Path]) -> Path:
    """The enclosing git work tree of the first path, else the folder that holds all paths."""
    folders = [path if is_folder(path) else path.parent for path in (each.resolve() for each in paths)]
    first = folders[0] if folders else Path.cwd()
    tree = next((each for each in (first, *first.parents) if is_there(each / ".git")), None)
    return tree or Path(os.path.commonpath([first, *folders]))


def _bound_of(root: Path, current: Path) -> Path:
    """The folder below which files are read that others name: the root; the current folder where the root lies in it
    and is no work tree, for paths in scripts begin where the user stands. Not everything, and not a whole home.
    """
    here = current.resolve()
    own = here != Path(here.anchor) and str(here) != os.path.expanduser("~")  # noqa: PTH111 - Path.home() may raise
    return here if own and root.is_relative_to(here) and not is_there(root / ".git") else root
