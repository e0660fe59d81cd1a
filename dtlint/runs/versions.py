"""The releases of the frameworks that a run has, from the files around its script that ask for packages.

The folder that is nearest decides for a package, for it describes the environment of the scripts in it; files of one
folder must agree. What the launch itself says, by `pip install` or the image that it names, counts before every file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from dtlint.account import entries, is_file
from dtlint.frameworks import Claim, Reading
from dtlint.languages.traced import Command, Word
from dtlint.record import NamedTuple
from dtlint.release import Releases, both, releases, shown
from dtlint.runs.tree import Tree
from dtlint.source import Source, Span, Unreadable
from dtlint.value import Unknown, Value

LAYER = "requirements"
_BELOW = ("requirements", "docker")
"""Folders in which a tree keeps such files, taken with the folder that they stand in."""
_PACKAGE_INFO = Path("megatron", "core", "package_info.py")
_MOST_FILES = 100
"""Files of one folder that are looked at."""
_WORDS = ("requirements", "constraints", ".lock", "pyproject.toml", "setup.py", "setup.cfg", "pipfile", "environment",
          "conda", "env.y", "dockerfile")  # fmt: skip
"""What the names of such files contain."""


class Asked(NamedTuple):
    """A file with what it asks for."""

    source: Source
    reading: Reading


def versions_around(tree: Tree, folders: Sequence[Path], told: Sequence[Reading]) -> list[tuple[Source, Reading]]:
    """What is known of the releases of a run whose scripts lie in `folders`; `told` is what its launch says itself.

    Each package is claimed once: by the launch, else by the nearest folder that says something of it.
    """
    settled = {claim.setting for reading in told for claim in reading.claims}
    found: list[tuple[Source, Reading]] = []
    for folder in folders_above(tree, folders):
        asked = asked_in(tree, folder)
        for setting in dict.fromkeys(claim.setting for each in asked for claim in each.reading.claims):
            if setting not in settled:
                found.append(_agreed(setting, asked))
                settled.add(setting)
    return found


def image_reading(image: Word) -> Reading:
    """What the container image of a launch brings."""
    from dtlint.frameworks.requirements import read_image

    return read_image(image)


def install_readings(commands: Sequence[Command], launch: Span) -> list[Reading]:
    """What a script installs before it launches."""
    before = takewhile(lambda command: command.place is not launch, commands)
    installs = [command for command in before if any(word.text == "install" for word in command.argv[1:4])]
    if not installs:
        return []
    from dtlint.frameworks.requirements import read_install

    return [read_install(command.argv) for command in installs]


def folders_above(tree: Tree, folders: Sequence[Path]) -> list[Path]:
    """The folders and those above them within the root, the deepest first."""
    every = [each for folder in folders for each in (folder, *folder.parents) if each.is_relative_to(tree.root)]
    return sorted(dict.fromkeys(every), key=lambda folder: -len(folder.parts))


def asked_in(tree: Tree, folder: Path) -> tuple[Asked, ...]:
    """What the files of a folder ask for, each folder read once."""
    if folder not in tree.asked:
        tree.asked[folder] = tuple(_read(tree, folder))
    return tree.asked[folder]


def _read(tree: Tree, folder: Path) -> Iterator[Asked]:
    """What the files ask for; the reader is loaded only if one of them can ask for a package that is known."""
    sources = [source for file in list(_files(folder))[:_MOST_FILES] if (source := _source(tree, file)) is not None]
    if not sources:
        return
    from dtlint.frameworks.requirements import kind_of_requirements, read_requirements

    for source in sources:
        assert source.file is not None
        kind = kind_of_requirements(source.file.name, source.file.parent.name.lower())
        reading = read_requirements(source, kind) if kind else Reading(LAYER)
        if reading.claims:
            yield Asked(source, reading)


def _source(tree: Tree, file: Path) -> Source | None:
    """The file, if it lies in the tree and can ask for a package that is known."""
    try:
        source = tree.source(file) if tree.inside(file) else None
    except Unreadable:
        return None
    return source if source is not None and may_ask(source.text.lower()) else None


_ASKED_FOR = (
    "deepspeed",
    "megatron-core",
    "megatron_core",
    "torch",
    "pytorch-gpu",
    "transformers",
    "accelerate",
    "trl",
    "lightning",
    "llamafactory",
    "llama-factory",
    "major",
)
"""What stands in a file that asks for a package that is known, in small letters, and what follows it there."""
_FOLLOWS = frozenset('=<>~![: ".@')


def may_ask(text: str) -> bool:
    """A quick test that most files do not pass: a name with what can stand before a version."""
    return any(_stands(word, text) for word in _ASKED_FOR)


def _stands(word: str, text: str) -> bool:
    at = text.find(word)
    while at >= 0:
        behind = text[at + len(word) : at + len(word) + 2]
        if behind[:1] in _FOLLOWS and behind not in ('",', '"]', '" '):
            return True
        at = text.find(word, at + 1)
    return False


def _files(folder: Path) -> Iterator[Path]:
    for name in _listed(folder):
        lowered = name.lower()
        if any(word in lowered for word in _WORDS):
            yield folder / name
        if lowered in _BELOW:
            below = lowered == "requirements"
            yield from (
                folder / name / each for each in _listed(folder / name) if below or "dockerfile" in each.lower()
            )
    if is_file(folder / _PACKAGE_INFO):
        yield folder / _PACKAGE_INFO


def _listed(folder: Path) -> list[str]:
    return [name for name, _ in entries(folder) or ()]


def _agreed(setting: str, asked: Iterable[Asked]) -> tuple[Source, Reading]:
    """One claim for what the files of a folder say: what satisfies all of them, unknown where nothing does."""
    claims = [(each.source, claim) for each in asked for claim in each.reading.claims if claim.setting == setting]
    first, chosen = claims[0]
    for source, claim in claims[1:]:
        merged = _merged(chosen, claim)
        if merged is None:
            reason = f"{first.path} has {_text(chosen)}, {source.path} {_text(claim)}"
            unknown = Unknown(reason, f"--set {setting}=...")
            return first, Reading(LAYER, claims=(Claim(setting, unknown, claim.name),))
        if merged is not chosen:
            first, chosen = source, merged
    return first, Reading(LAYER, claims=(chosen,))


def _merged(one: Claim, other: Claim) -> Claim | None:
    """The narrower of two claims, both ends taken together; None where they exclude each other."""
    found = both(_releases(one), _releases(other))
    if found is None:
        return None
    if found == _releases(one):
        return one
    value = other.value
    return other._replace(value=value._replace(value=shown(found))) if isinstance(value, Value) else other


def _releases(claim: Claim) -> Releases:
    return releases(_text(claim)) or Releases()


def _text(claim: Claim) -> str:
    return str(claim.value.value) if isinstance(claim.value, Value) else ""
