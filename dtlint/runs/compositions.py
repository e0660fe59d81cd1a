"""Configs that hydra composes out of files of the tree: where they lie, and what a launch makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol, cast

from dtlint.account import is_file, is_folder
from dtlint.frameworks import Member, NamedFile, Reading
from dtlint.frameworks.hydra.command_line import config_file, config_name, script_path
from dtlint.frameworks.hydra.composition import Composed, compose, search_path
from dtlint.frameworks.hydra.omegaconf import with_variables
from dtlint.frameworks.hydra.programs import is_plainly_started
from dtlint.frameworks.hydra.refused import refused_overrides
from dtlint.languages.json_tree import Document, Node
from dtlint.languages.traced import Word, literal_word
from dtlint.languages.yaml import read_yaml
from dtlint.record import NamedTuple
from dtlint.runs.assigned import as_used, declared_by
from dtlint.runs.front_ends import module_of
from dtlint.runs.tree import Tree
from dtlint.source import Source, Span, Unreadable

_CHOICE = re.compile(r"\+{0,2}(?P<group>[A-Za-z_][\w/]*)(?:@[\w.]+)?=(?P<option>[\w./-]+)")
"""A word of the command line that may choose a config of a group."""

_STORE = "ConfigStore"
"""What programs keep classes in that hydra takes for configs."""


class HydraReader(Protocol):
    """What a module under dtlint.frameworks offers whose config hydra composes."""

    def read_composed(self, document: Document | None, program: Sequence[Word], missing: Sequence[str]) -> Reading:
        """What a composed config claims with the overrides of a command line (`program`, its script first); None where
        none was found. `missing` are the configs that should have been part of it.
        """


def hydra_reader(role: str) -> HydraReader:
    """The reader of a front end whose config hydra composes."""
    return cast("HydraReader", module_of(role))


class Folders(NamedTuple):
    """The folders of a search path, the first one first."""

    tree: Tree
    folders: tuple[Path, ...]

    def config(self, path: str) -> Document | None:
        """The config at a path without its ending; nothing outside of the root is read."""
        for folder in self.folders:
            file = Path(folder, f"{path.removesuffix('.yaml')}.yaml")
            if self.tree.inside(file) and is_file(file):
                return self._read(file)
        return None

    def is_group(self, path: str) -> bool:
        """Whether one of the folders has a folder of this name."""
        return any(self.tree.inside(Path(folder, path)) and is_folder(Path(folder, path)) for folder in self.folders)

    def _read(self, file: Path) -> Document | None:
        try:
            source = self.tree.source(file)
        except Unreadable:
            return None
        known = self.tree.documents.get(file)
        if known is None or known.source is not source:
            known = self.tree.documents[file] = read_yaml(source, "omegaconf")
        return known


class Handed(NamedTuple):
    """What a program is handed: the config that its command line or decorator names (None where neither does), what it
    comes to where it is found, and the overrides that hydra certainly refuses, as members of `config.overrides`.
    """

    file: NamedFile | None
    config: Composed | None = None
    refused: tuple[Member, ...] = ()


class _WithoutFirst(NamedTuple):
    """A search path on which the config that was asked for is missing: an empty one stands for it."""

    folders: Folders
    name: str
    empty: Document

    def config(self, path: str) -> Document | None:
        """The config at a path."""
        return self.empty if path == self.name else self.folders.config(path)

    def is_group(self, path: str) -> bool:
        """Whether one of the folders has a folder of this name."""
        return self.folders.is_group(path)


def of_program(
    named: NamedFile,
    program: Sequence[Word],
    variables: Mapping[str, Word],
    tree: Tree,
    resolve: Callable[[NamedFile], Source | None],
) -> Handed:
    """What hydra hands a program under its command line.

    `resolve` finds a file that the launch names, `variables` are what the launch sets.
    """
    role = "script" if script_path(program[0]) is program[0] else "module"
    script = resolve(NamedFile(role, program[0]))
    declared = declared_by(script)
    file = config_file(program, named.role, declared)
    source = resolve(file) if file is not None else None
    if file is None:
        return Handed(None)
    if source is None:
        return Handed(file, _chosen(file, program[1:], tree, resolve))
    found = composed(source, config_name(program, declared), program[1:], variables, tree, file.path.place)
    if found is None or script is None:
        return Handed(file, found)
    refused = () if _is_open(found, script, tree) else tuple(refused_overrides(found))
    return Handed(file, as_used(found, script), refused)


def _is_open(found: Composed, script: Source, tree: Tree) -> bool:
    """Whether a config may hold more than is seen: a part of it was not found, the program is not certainly started by
    hydra, or classes of the tree are configs too.
    """
    if found.missing or not found.whole or not is_plainly_started(script.text):
        return True
    return any(_STORE in each.text for each in tree.python_sources())


def _chosen(
    file: NamedFile, words: Sequence[Word], tree: Tree, resolve: Callable[[NamedFile], Source | None]
) -> Composed | None:
    """What a command line chooses of groups that lie where a config should (`trainer=slurm`), without the config
    itself, which may say more; None where it chooses none that is here.
    """
    path = PurePosixPath(file.path.text or "")
    for word in words:
        choice = _CHOICE.fullmatch(word.text or "")
        named = PurePosixPath(choice["group"], f"{choice['option']}.yaml") if choice is not None else None
        source = resolve(NamedFile(file.role, literal_word(str(path.parent / named), word.place))) if named else None
        if named is None or source is None or source.file is None:
            continue
        folders = Folders(tree, (source.file.parents[len(named.parts) - 1],))
        empty = Document(source, Node("object", None, source.span(0, 0)))
        added = [_as_added(each, folders) for each in words]
        found = compose(path.stem, added, _WithoutFirst(folders, path.stem, empty), file.path.place)
        return None if found is None else found._replace(missing=(file.path.shown, *found.missing))
    return None


def _as_added(word: Word, folders: Folders) -> Word:
    """A choice as an addition, for no defaults list is here whose choice it would be."""
    found = _CHOICE.fullmatch(word.text or "")
    if found is None or word.shown.startswith("+") or not folders.is_group(found["group"]):
        return word
    return literal_word(f"+{word.shown}", word.place)


def composed(
    source: Source, name: str, words: Sequence[Word], variables: Mapping[str, Word], tree: Tree, place: Span
) -> Composed | None:
    """What a config of the tree comes to under a command line; `name` is what it is called by there, folders of the
    search path's included. None for a config that is no file.
    """
    if source.file is None:
        return None
    folder = source.file.parents[min(name.count("/"), len(source.file.parents) - 1)]
    path = source.file.relative_to(folder).with_suffix("").as_posix()
    own = Folders(tree, (folder,)).config(path)
    if own is None:
        return None
    further = [_folder(text, folder, tree) for text in search_path(own, words)]
    named = tuple(each for each in further if each is not None)
    found = compose(path, words, Folders(tree, (folder, *named)), place)
    if found is None or found.document.root is None:
        return found
    root = with_variables(found.document.root, variables)
    whole = len(named) == len(further)
    return found._replace(document=found.document._replace(root=root), whole=whole)


def _folder(text: str, near: Path, tree: Tree) -> Path | None:
    """A folder of hydra's search path: from the folder in which the program starts, which is the current one or one
    above the config; of a path that leads elsewhere the end, as long as it names two folders.
    """
    scheme, sign, path = text.rpartition("://")
    parts = [part for part in (path.replace(".", "/") if scheme == "pkg" else path).split("/") if part]
    absolute = bool(sign) and scheme == "file" and path.startswith("/")
    bases = [tree.current, *(folder for folder in (near, *near.parents) if folder.is_relative_to(tree.root))]
    for end in _ends(parts, absolute):
        for base in bases:
            folder = Path(base, *end)
            if tree.inside(folder) and is_folder(folder):
                return folder
    return None


def _ends(parts: Sequence[str], absolute: bool) -> Iterator[Sequence[str]]:
    yield parts
    for start in range(1, len(parts) - 1) if absolute else ():
        yield parts[start:]
