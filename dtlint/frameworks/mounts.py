"""Folders that a container has under another name: `docker run -v $PWD:/work`, `srun --container-mounts=$PWD:/work`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from posixpath import join

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.options import Split
from dtlint.languages.traced import CURRENT_FOLDER, Word, path_from_folder
from dtlint.value import Setting, Value, written

MOUNTS = "launch.mounts"
"""The collection: `inside` is the folder in the container, `outside` the one of the host that it is."""

_HERE = "."
_PAIRED = frozenset(("v", "volume", "B", "bind", "container-mounts"))
"""Options whose value is `outside:inside`, several behind commas."""
_SPELLED = "mount"
"""The option whose value spells the two out (`type=bind,source=...,target=...`)."""
_OUTSIDE, _INSIDE = frozenset(("source", "src")), frozenset(("target", "dst", "destination"))


def mounts(split: Split) -> dict[str, tuple[Member, ...]]:
    """What the options of a command that starts a container mount, under the name of the collection."""
    found = tuple(_mounts(split))
    return {MOUNTS: found} if found else {}


def host_path(path: Word, readings: Iterable[Reading], moved: str = "") -> str:
    """What a path inside a container is on the host, "" for one that lies in no folder that is mounted; `moved` is
    where `cd` led the script, in which relative folders of the host begin.
    """
    text = path.text or ""
    members = (member for reading in readings for member in reading.collections.get(MOUNTS, ()))
    for outside, inside in map(_folders, members):
        if inside and text.startswith(f"{inside}/"):
            return join(moved, outside, text[len(inside) + 1 :])
    return ""


def _folders(member: Member) -> tuple[str, str]:
    outside, inside = member.fields["outside"], member.fields["inside"]
    if not isinstance(outside, Value) or not isinstance(inside, Value):
        return "", ""
    return str(outside.value), str(inside.value)


def _mounts(split: Split) -> Iterator[Member]:
    for option in split.options:
        name = option.name.removeprefix("letter ")
        if option.value is None:
            continue
        if name in _PAIRED:
            pairs: Iterable[Sequence[Word]] = (_split(part, ":") for part in _split(option.value, ","))
        else:
            pairs = [_spelled_out(option.value)] if name == _SPELLED else []
        yield from (_member(*pair[:2]) for pair in pairs if len(pair) > 1)


def _spelled_out(value: Word) -> Sequence[Word]:
    told = {words[0].text: words[1] for part in _split(value, ",") if len(words := _split(part, "=")) == 2}
    outside = next((told[name] for name in _OUTSIDE if name in told), None)
    inside = next((told[name] for name in _INSIDE if name in told), None)
    return (outside, inside) if outside is not None and inside is not None else ()


def _split(word: Word, mark: str) -> list[Word]:
    """The stretches of a word between marks."""
    starts = [0, *(index + 1 for index, letter in enumerate(word.shown) if letter == mark)]
    return [word.part(start, end - 1) for start, end in zip(starts, (*starts[1:], len(word.shown) + 1), strict=True)]


def _member(outside: Word, inside: Word) -> Member:
    fields: dict[str, Setting] = {
        "outside": written(_of_host(outside), outside.place),
        "inside": written(inside.shown.rstrip("/"), inside.place),
    }
    return Member(outside.place, fields)


def _of_host(word: Word) -> str:
    """A folder of the host from the one in which the script runs."""
    pieces = [piece for piece in word.pieces if piece.text != ""]
    if len(pieces) == 1 and pieces[0].text is None:
        return _HERE if pieces[0].means == CURRENT_FOLDER else word.shown
    return path_from_folder(pieces).rstrip("/") or _HERE
