"""hydra's command line: overrides of a config's keys, and which config they override."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import NamedFile
from dtlint.frameworks.hydra.values import value_of
from dtlint.frameworks.options import known_head
from dtlint.languages.json_tree import Node
from dtlint.languages.traced import Piece, Word, literal_word
from dtlint.record import NamedTuple

_OVERRIDE = re.compile(r"(?:\+\+|\+)?([A-Za-z_][\w.@/-]*)=")
_DELETION = re.compile(r"~([A-Za-z_][\w.@/-]*)(?:=.*)?")
_OPTIONS = {
    "--config-path": "path", "-cp": "path", "--config-dir": "path", "-cd": "path", "--config_path": "path",
    "--config-name": "name", "-cn": "name", "--config_name": "name",
}  # fmt: skip


def overrides(words: Sequence[Word]) -> dict[str, tuple[str, Node | None]]:
    """The keys that a command line sets (`a.b=1`, `+a.b=1`) or deletes (`~a.b`): each as it is spelled there, and its
    value by hydra's grammar, None for one that is deleted.
    """
    found: dict[str, tuple[str, Node | None]] = {}
    for word in words:
        head = known_head(word)
        given, deleted = _OVERRIDE.match(head), _DELETION.fullmatch(head)
        if given is not None:
            found[given[1]] = given[0], value_of(word.part(given.end()))
        elif deleted is not None:
            found[deleted[1]] = deleted[0], None
    return found


class Declared(NamedTuple):
    """The config that a program's decorator names (`@hydra.main(config_path="conf", config_name="gpt")`): its folder
    from the program's own, None where that is not known, and its name, "" where there is none.
    """

    folder: str | None
    name: str


NOTHING = Declared(".", "")


def config_file(program: Sequence[Word], role: str, declared: Declared = NOTHING) -> NamedFile | None:
    """The config that the options of a program's command line name, or its decorator where they leave that to it; None
    where nothing does.
    """
    options = dict(_valued(program[1:], _OPTIONS))
    name = options.get("name") or (literal_word(declared.name, program[0].place) if declared.name else None)
    if name is None or ("path" not in options and declared.folder is None):
        return None
    folder = options.get("path") or literal_word(declared.folder or ".", program[0].place)
    ending = () if name.shown.endswith((".yaml", ".yml")) else (".yaml",)
    pieces = [*_folder(program[0], folder), *name.pieces, *(_piece(text, name) for text in ending)]
    return NamedFile(role, Word(tuple(pieces), name.place))


def config_name(program: Sequence[Word], declared: Declared = NOTHING) -> str:
    """By which name a command line or a decorator calls the config, folders of the search path's included."""
    name = dict(_valued(program[1:], _OPTIONS)).get("name")
    return declared.name if name is None else name.shown


def script_path(program: Word) -> Word:
    """The path of a program that is started by its file or as a module (`verl.trainer.main_ppo`)."""
    text = program.text
    if text is None or "/" in text or text.endswith(".py"):
        return program
    return literal_word(text.replace(".", "/") + ".py", program.place)


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


def _folder(program: Word, folder: Word) -> tuple[Piece, ...]:
    """The folder of the config, from the program's own where it is relative; the current one is left off."""
    script = script_path(program).text
    own = str(PurePosixPath(script).parent) if script else "."
    text = folder.text
    if text is None or text.startswith("/"):
        return (*folder.pieces, _piece("/", folder))
    start = () if own == "." else (_piece(f"{own}/", program),)
    return start if text in (".", "") else (*start, *folder.pieces, _piece("/", folder))


def _piece(text: str, near: Word) -> Piece:
    return literal_word(text, near.place).pieces[0]


def keys_given(words: Sequence[Word]) -> Mapping[str, Word]:
    """The keys that the overrides name, with their words."""
    found = ((_OVERRIDE.match(known_head(word)), word) for word in words)
    return {match[1]: word for match, word in found if match is not None}
