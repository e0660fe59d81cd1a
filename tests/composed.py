"""Folders of configs given as text, for tests of what they come to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from textwrap import dedent

from dtlint.frameworks.hydra.composition import Composed, compose, keys
from dtlint.languages.json_tree import Document, Node, plain
from dtlint.languages.shell import command_of
from dtlint.languages.traced import Word
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source
from dtlint.value import Value


class Texts:
    """A search path of one folder, whose files are texts by their paths without the ending."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.read = {path: read_yaml(Source(f"{path}.yaml", dedent(text)), "omegaconf") for path, text in texts.items()}

    def config(self, path: str) -> Document | None:
        return self.read.get(path)

    def is_group(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.texts)


def words_of(text: str) -> tuple[Word, ...]:
    return command_of(["train.py", *shlex.split(text)]).worlds[0].commands[0].argv[1:]


def composed(texts: Mapping[str, str], words: str = "", name: str = "config") -> Composed | None:
    place = Source("run.sh", "config").span(0, 6)
    return compose(name, words_of(words), Texts(texts), place)


def leaves(found: Composed) -> dict[str, object]:
    """The values of a composed config by path: an unknown one as its reason, `{}` for an empty section."""
    nodes = keys(found).nodes
    return {name: _plain(node) for name, node in nodes.items() if node.kind != "object" or not node.entries}


def _plain(node: Node) -> object:
    if node.told is not None:
        return node.told.value if isinstance(node.told, Value) else Untold(getattr(node.told, "reason", ""))
    return Untold(str(node.value)) if node.kind in ("bare", "unknown") else plain(node)


class Untold(str):
    """Why a value is not known."""

    __slots__ = ()
