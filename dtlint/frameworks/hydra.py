"""hydra's command line: overrides of a config's keys, and which config they override."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import NamedFile
from dtlint.frameworks.dotted_keys import node_of
from dtlint.frameworks.options import known_head, literal_place
from dtlint.languages.json_tree import Node
from dtlint.languages.traced import Piece, Word, literal_word

_OVERRIDE = re.compile(r"(?:\+\+|\+)?([A-Za-z_][\w.@/-]*)=")
_DELETION = re.compile(r"~([A-Za-z_][\w.@/-]*)(?:=.*)?")
_OPTIONS = {
    "--config-path": "path", "-cp": "path", "--config-dir": "path", "-cd": "path", "--config_path": "path",
    "--config-name": "name", "-cn": "name", "--config_name": "name",
}  # fmt: skip


def overrides(words: Sequence[Word]) -> dict[str, tuple[str, Node]]:
    """The keys that a command line sets (`a.b=1`, `+a.b=1`) or deletes (`~a.b`): each as it is spelled there, and its
    value, null for one that is deleted.
    """
    found: dict[str, tuple[str, Node]] = {}
    for word in words:
        head = known_head(word)
        given, deleted = _OVERRIDE.match(head), _DELETION.fullmatch(head)
        if given is not None:
            found[given[1]] = given[0], node_of(word.part(given.end()))
        elif deleted is not None:
            found[deleted[1]] = deleted[0], Node("null", None, literal_place(word))
    return found


def config_file(program: Sequence[Word], role: str) -> NamedFile | None:
    """The config that the options of a program's command line name; None where they name none."""
    options = dict(_valued(program[1:], _OPTIONS))
    name = options.get("name")
    if name is None:
        return None
    folder = options.get("path")
    here = _folder(program[0], folder)
    ending = () if name.shown.endswith((".yaml", ".yml")) else (".yaml",)
    pieces = [*here, *name.pieces, *(_piece(text, name) for text in ending)]
    return NamedFile(role, Word(tuple(pieces), name.place))


def option(words: Sequence[Word], flag: str) -> Word | None:
    """The value of an option beside the overrides; None where it is not given."""
    return dict(_valued(words, {flag: flag})).get(flag)


def _valued(words: Sequence[Word], options: Mapping[str, str]) -> Iterator[tuple[str, Word]]:
    for index, word in enumerate(words):
        head, sign, _ = word.shown.partition("=")
        if head in options and sign:
            yield options[head], word.part(len(head) + 1)
        elif head in options and index + 1 < len(words):
            yield options[head], words[index + 1]


def _folder(script: Word, folder: Word | None) -> tuple[Piece, ...]:
    """The folder of the config, from the script's own where it is relative."""
    own = str(PurePosixPath(script.text).parent) if script.text else "."
    if folder is None:
        return () if own == "." else (_piece(f"{own}/", script),)
    text = folder.text
    start = () if text is None or text.startswith("/") or own == "." else (_piece(f"{own}/", script),)
    return (*start, *folder.pieces, _piece("/", folder))


def _piece(text: str, near: Word) -> Piece:
    return literal_word(text, near.place).pieces[0]


def keys_given(words: Sequence[Word]) -> Mapping[str, Word]:
    """The keys that the overrides name, with their words."""
    found = ((_OVERRIDE.match(known_head(word)), word) for word in words)
    return {match[1]: word for match, word in found if match is not None}
