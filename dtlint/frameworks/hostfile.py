"""Host files: which machines a launcher may use, and how many processes on each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dtlint.blanks import is_placeholder
from dtlint.languages.traced import UNKNOWN_CHARACTER
from dtlint.record import NamedTuple
from dtlint.source import Source, Span

_LINE = r"(\S+)\s+slots=(\d{1,9})"
_BEGINNING = re.compile(r"\S*|\S+\s+(?:s|sl|slo|slot|slots|slots=\d{0,9})?")
"""What the part of a line before its first unknown character may be."""
_TO_FILL_IN = re.compile(
    r"(?:(?:your|my|the|node|host|master|worker|slave|machine|server)[-_]?)*(?:ip|ip[-_]?addr(?:ess)?|addr(?:ess)?|hostname)"
    r"(?:[-_]?(?:\d+|n|x))?|x+(?:\.x+)*|your[-_].*",
    re.IGNORECASE,
)
"""Names that stand for a machine's: `node_ip`, `worker-ip-1`, `x.x.x.x`, `your_host`."""


class Host(NamedTuple):
    """A machine of a host file. `place` is its whole entry, `digits` those of its slots."""

    name: str
    slots: int
    place: Span
    digits: Span


class HostfileDefect(NamedTuple):
    """A line that makes DeepSpeed refuse the file, and what it expects instead."""

    place: Span
    expected: str


class Hostfile(NamedTuple):
    """A host file read: its machines in order, and the lines at fault; `open` why a line may stand for any number of
    machines ("" where none does).
    """

    source: Source
    hosts: tuple[Host, ...]
    defects: tuple[HostfileDefect, ...]
    open: str = ""


def read_hostfile(source: Source) -> Hostfile:
    """Read `NAME slots=N` lines; `#` begins a comment line, text after the number is allowed."""
    hosts: dict[str, Host] = {}
    defects: list[HostfileDefect] = []
    start, unfilled = 0, False
    for line in source.text.splitlines(keepends=True):
        text = line.strip()
        at = start + len(line) - len(line.lstrip())
        start += len(line)
        if not text or text.startswith("#"):
            continue
        place = source.span(at, at + len(text))
        found = re.match(_LINE, text)
        repeated = found is not None and found[1] in hosts
        if (found is None or repeated) and (_is_to_fill_in(text.partition(" ")[0]) or _may_be_line(text)):
            unfilled = True
        elif found is None:
            defects.append(HostfileDefect(place, "NAME slots=N"))
        elif repeated:
            defects.append(HostfileDefect(place, f"one line for {found[1]}"))
        else:
            hosts[found[1]] = _host(source, found, at)
    if not hosts and not defects and not unfilled:
        defects.append(HostfileDefect(source.span(0, len(source.text)), "at least one line NAME slots=N"))
    return Hostfile(source, tuple(hosts.values()), tuple(defects), _why_open(source, unfilled))


def _host(source: Source, found: re.Match[str], at: int) -> Host:
    """The machine of a line that begins at `at`."""
    entry = source.span(at, at + len(found.string))
    return Host(found[1], int(found[2]), entry, source.span(at + found.start(2), at + found.end(2)))


def _may_be_line(text: str) -> bool:
    """Whether a line of which a part is not known, such as `node-1 slots=$1`, may be one that DeepSpeed takes, and of
    another machine than a line that looks like it.
    """
    beginning, unknown, _ = text.partition(UNKNOWN_CHARACTER)
    return bool(unknown) and _BEGINNING.fullmatch(beginning) is not None


def _why_open(source: Source, unfilled: bool) -> str:
    if UNKNOWN_CHARACTER in source.text:
        return "the host file is written for the nodes of the job"
    return "the host file leaves its machines to fill in" if unfilled else ""


def _is_to_fill_in(name: str) -> bool:
    """Whether a name is left to the reader of a template, who has as many machines as he has."""
    return is_placeholder(name) or _TO_FILL_IN.fullmatch(name) is not None


Slots = Mapping[str, Sequence[int]]
"""The slot numbers that are used on each machine, in the order of the host file."""


def all_slots(hosts: Sequence[Host]) -> Slots:
    """Every slot of every machine."""
    return {host.name: range(host.slots) for host in hosts}


class Absent(NamedTuple):
    """What a filter names and the host file does not have: a machine (no `slot`), or the highest slot of one."""

    machine: str
    slot: int | None = None


def absent(slots: Slots, text: str) -> Absent | None:
    """The first machine of a filter that the host file lacks, or slots of."""
    chosen = _chosen(text) if text else {}
    for name, numbers in chosen.items() if not isinstance(chosen, str) else ():
        if name not in slots:
            return Absent(name)
        if numbers and not {*numbers} <= {*slots[name]}:
            return Absent(name, max(number for number in numbers if number not in slots[name]))
    return None


def filtered(slots: Slots, include: str, exclude: str) -> Slots | str:
    """The slots that `--include` or `--exclude` (`NAME[:SLOT,SLOT][@NAME...]`) leaves, as they are meant where the host
    file does not have them; what is wanted instead of a filter that cannot be read.
    """
    if include and exclude:
        return "either --include or --exclude"
    if not include and not exclude:
        return slots
    chosen = _chosen(include or exclude)
    if isinstance(chosen, str):
        return chosen
    if include:
        meant = {name: chosen[name] or slots.get(name, ()) for name in {**slots, **chosen} if name in chosen}
        return {name: numbers for name, numbers in meant.items() if numbers}
    left = {name: _without(numbers, chosen.get(name)) for name, numbers in slots.items()}
    return {name: numbers for name, numbers in left.items() if numbers}


def _without(numbers: Sequence[int], dropped: Sequence[int] | None) -> Sequence[int]:
    """What is left of a machine's slots; naming the machine alone drops all."""
    if dropped is None:
        return numbers
    return [number for number in numbers if dropped and number not in dropped]


def _chosen(text: str) -> dict[str, list[int]] | str:
    chosen: dict[str, list[int]] = {}
    for part in text.split("@"):
        name, _, listed = part.partition(":")
        numbers = listed.split(",") if listed else []
        if not all(number.strip().isdecimal() and len(number) < 9 for number in numbers):
            return f"NAME:0,1 with slots by number, not {part},"
        chosen[name] = sorted({*chosen.get(name, []), *map(int, numbers)})
    return chosen
