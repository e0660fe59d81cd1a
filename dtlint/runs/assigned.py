"""Configs as programs use them that hydra hands them to: keys that a program assigns anew are not known."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.account import FOLDER, entries
from dtlint.frameworks import Reading
from dtlint.frameworks.hydra.command_line import NOTHING, Declared, keys_given
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.runs.configs import YAML_SUFFIXES, Config, document_of, read_config, read_document
from dtlint.runs.listing import SKIPPED
from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable

if TYPE_CHECKING:
    from dtlint.frameworks.hydra.composition import Composed

MOST_PROGRAMS = 200
MOST_BESIDE = 30
"""Most programs, and folders of them, that are asked whether they name a config which no launch names."""


def reading_as_used(config: Config, program: Sequence[Word], tree: Tree) -> Reading:
    """What a config says under a command line, without the keys that programs beside it assign anew."""
    if config.source.path.endswith(YAML_SUFFIXES):
        document = _as_used_around(document_of(config.source), tree)
        if document is not None:
            return read_document(document, program=program).reading
    return read_config(config.source, program=program).reading if program else config.reading


def as_used(found: Composed, script: Source) -> Composed:
    """A config as a program uses it, which may assign keys anew, whatever the command line says."""
    if not script.path.endswith(".py") or found.document.root is None:
        return found
    from dtlint.frameworks.hydra.assigned import assigned_in, with_assigned

    assigned = assigned_in(script.text)
    anew = {each.key for each in assigned if not each.unwritten}
    words = tuple(word for word in found.words if anew.isdisjoint(keys_given((word,))))
    document = found.document._replace(root=with_assigned(found.document.root, assigned, script.path))
    return found._replace(document=document, words=words)


def _as_used_around(document: Document, tree: Tree) -> Document | None:
    """A config as the programs beside it use it that name it for hydra; None where they change nothing."""
    file, root = document.source.file, document.root
    if file is None or root is None:
        return None
    from dtlint.frameworks.hydra.assigned import assigned_in, with_assigned

    for script in _programs_of(file, tree):
        root = with_assigned(root, assigned_in(script.text), script.path)
    return None if root is document.root else document._replace(root=root)


def _programs_of(config: Path, tree: Tree) -> Iterator[Source]:
    """The programs that name a config for hydra, from the folder above its own and those in it."""
    for script, declared in _declaring(config.parent, tree):
        folder = Path(os.path.normpath(Path(script.file or config).parent / (declared.folder or ".")))
        if folder == config.parent and declared.name.removesuffix(".yaml") == config.stem:
            yield script


def _declaring(folder: Path, tree: Tree) -> Sequence[tuple[Source, Declared]]:
    """The programs beside a folder, in it and in its neighbours that name a config for hydra, with what they name."""
    known = tree.declaring.get(folder.parent)
    if known is None:
        files = (file for each in _around(folder, tree) for file in _scripts(each) if tree.inside(file))
        sources = [each for file in islice(files, MOST_PROGRAMS) if (each := _source(file, tree)) is not None]
        found = ((each, declared_by(each)) for each in sources if "config_name" in each.text)
        known = tree.declaring[folder.parent] = tuple(pair for pair in found if pair[1].name)
    return known


def _around(folder: Path, tree: Tree) -> Sequence[Path]:
    """The folder above and those in it, as far as they lie inside the root; no other is listed."""
    if not tree.inside(folder.parent):
        return (folder,)
    beside = (folder.parent / name for name, kind in entries(folder.parent) or () if kind == FOLDER)
    kept = (each for each in beside if each.name not in SKIPPED and tree.inside(each))
    return (folder.parent, *islice(kept, MOST_BESIDE))


def _scripts(folder: Path) -> list[Path]:
    return [folder / name for name, _ in entries(folder) or () if name.endswith(".py")]


def _source(file: Path, tree: Tree) -> Source | None:
    try:
        return tree.source(file)
    except Unreadable:
        return None


def declared_by(script: Source | None) -> Declared:
    """The config that a program names for hydra."""
    if script is None or not script.path.endswith(".py"):
        return NOTHING
    from dtlint.frameworks.hydra.programs import declared_in

    return declared_in(script.text)
