"""Where a path that a launch names lies in the tree, also if its folder is one of another machine, or not known."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from dtlint.account import is_file
from dtlint.frameworks import NamedFile
from dtlint.languages.traced import Word, is_elsewhere, literal_word, path_from_folder
from dtlint.record import NamedTuple
from dtlint.runs.tree import Tree

WEIGHTS = frozenset((".bin", ".safetensors", ".pt", ".pth", ".gguf"))
"""What the files end with that hold a model's weights."""

_INSTALLED = frozenset(("site-packages", "dist-packages", "bin", "lib", "lib64"))
"""Folders of programs that are installed, and not of the tree."""

_TOP = 2
"""Slashes in the path of a file that lies at the root of a machine, or in a folder there."""


class Located(NamedTuple):
    """A file of the tree; `supposed` if it is only likely to be the one that is named."""

    file: Path
    supposed: bool


def locate(tree: Tree, path: Word, folder: Path, moved: str = "") -> Located | None:
    """The file that a path names in a script of `folder`; `moved` is where `cd` led it from the folder of its start.

    Of a path that leads nowhere the end is tried, as long as it names a folder too (`/workspace/configs/ds.json`), or
    the root of the tree before it (`/home/me/ROOT/train.py`); so it is behind a `cd` to a folder of another machine.
    Behind a folder that is not known (`$BASE/ds.json`) or not here the name alone will do for a file beside the script,
    and behind one at the top of a container (`/workspace/train.py`) for a program above it too.
    """
    text = path_from_folder(path.pieces)
    if path.many or not text:
        return None
    start = _known_from(path, text)
    if moved and start == 0 and (there := _behind(tree, moved, path, folder)) is not None:
        return there
    if start == 0 and (file := tree.find(text, folder)) is not None:
        return Located(file, False)
    parts = text[start:].split("/")
    if start and len(parts) == 1 and is_file(folder / parts[0]):
        return _supposed(tree.find(parts[0], folder))
    found = next((found for end in _ends(parts) if (found := _supposed(tree.find(end, folder))) is not None), None)
    if found is None and text.startswith("/") and not start:
        found = _of_the_root(tree, parts, folder)
    return found or (_supposed(tree.find(parts[-1], folder)) if _is_at_the_top(text) else None)


def _behind(tree: Tree, moved: str, path: Word, folder: Path) -> Located | None:
    """The file of a path behind a `cd`; where that led to a folder which is not here, by the longest end that names
    some of it.
    """
    text = path_from_folder(path.pieces, moved)
    if not is_elsewhere(moved):
        return None if (file := tree.find(text, folder)) is None else Located(file, False)
    if text.startswith("/"):
        return None
    parts = posixpath.join(moved, text).rpartition("?")[2].lstrip("/").split("/")
    ends = (end for end in _ends(parts) if end.count("/") > text.count("/"))
    return next((found for end in ends if (found := _supposed(tree.find(end, folder))) is not None), None)


def _of_the_root(tree: Tree, parts: Sequence[str], folder: Path) -> Located | None:
    """The file of an absolute path with the name of the tree's root in it, or of one that lies beside the script."""
    if not _INSTALLED.isdisjoint(parts):
        return None
    rooted = [number for number, part in enumerate(parts[:-1]) if part == tree.root.name]
    if rooted and is_file(tree.root.joinpath(*parts[rooted[-1] + 1 :])):
        return _supposed(tree.find("/".join(parts[rooted[-1] + 1 :]), tree.root))
    return _supposed(tree.find(parts[-1], folder)) if is_file(folder / parts[-1]) else None


def _is_at_the_top(text: str) -> bool:
    """`/workspace/train.py`, `/train.py`: where images put the program of the repository that they are built from."""
    return text.startswith("/") and text.endswith(".py") and text.count("/") <= _TOP


def _known_from(path: Word, text: str) -> int:
    """Where the part begins behind the last folder that is not known: 0 where all is known, the end if the name of the
    file is not.
    """
    if all(piece.text is not None for piece in path.pieces) or "?" not in text:
        return 0
    behind = text.rfind("?") + 1
    return behind + 1 if text.startswith("/", behind) else len(text)


def _ends(parts: list[str]) -> Iterator[str]:
    """The ends of a path that name a folder and a file, longest first."""
    above = max((number + 1 for number, part in enumerate(parts) if part in ("..", ".", "")), default=0)
    for start in range(above, len(parts) - 1):
        yield "/".join(parts[start:])


def _supposed(file: Path | None) -> Located | None:
    return None if file is None else Located(file, True)


def as_path(named: NamedFile) -> Word:
    """The path of a file; `-m pkg.train` stands for pkg/train.py."""
    text = named.path.text
    if named.role != "module" or text is None:
        return named.path
    return literal_word(text.replace(".", "/") + ".py", named.path.place)


def model_path(text: str) -> str:
    """Where the config of a model lies: the file itself, or config.json in the folder or beside the weights."""
    path = PurePosixPath(text)
    if path.suffix == ".json":
        return text
    return str((path.parent if path.suffix in WEIGHTS else path) / "config.json") if text else ""
