"""Launches of one script that get in each other's way: on one port of one machine, or under one rank on two."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.starters import numbers_nodes_itself, ranks
from dtlint.languages.traced import Command, Word
from dtlint.runs.launches import Found, machine_of
from dtlint.value import Value

_WAITS = r"\bwait\b|\bsleep\b|\bfg\b"


def with_clashes(found: Found, earlier: Sequence[Found]) -> Found:
    """The launch, with the collection `launch.port_clash` (`port`, `until`) if an earlier one still runs in the
    background on the port that it names or takes.
    """
    clashes = tuple(member for other in earlier if (member := _clash(found, other)) is not None)
    if not clashes:
        return found
    reading = Reading("ports", collections={"launch.port_clash": clashes[:1]})
    return found._replace(readings=(*found.readings, reading))


def with_repeated_rank(found: Found, command: Command, earlier: Sequence[Command]) -> Found:
    """The launch, with the collection `launch.same_rank` (`name`, `variable`, `cause`: repeated) if ssh starts it with
    the same node rank on another machine too.
    """
    mine = _rank(command)
    if mine is None or not any(_on_another(command, other) and _rank_text(other) == mine[1].text for other in earlier):
        return found
    flag, word = mine
    member = Member(word.place, texts(word.place, name=flag, variable=word.text or "", cause="repeated"))
    return found._replace(readings=(*found.readings, Reading("ranks", collections={"launch.same_rank": (member,)})))


def _rank(command: Command) -> tuple[str, Word] | None:
    """The rank in the words of a static launch, with its flag, if it is a number."""
    if numbers_nodes_itself(command.argv):
        return None
    found = [(flag, word) for flag, word in ranks(command.argv) if (word.text or "").isdecimal()]
    return found[-1] if found else None


def _rank_text(command: Command) -> str | None:
    found = _rank(command)
    return None if found is None else found[1].text


def _on_another(command: Command, other: Command) -> bool:
    """Whether ssh carries two commands to two machines."""
    here, there = machine_of(command), machine_of(other)
    return bool(here) and bool(there) and here != there


def _clash(found: Found, earlier: Found) -> Member | None:
    port, other = _port(found), _port(earlier)
    if port is None or other is None or _text(port, "port") != _text(other, "port") or _text(other, "stays") != "yes":
        return None
    first, second = earlier.launch.place, found.launch.place
    between = first.source.text[first.end : second.start]
    if first.source is not second.source or first.end > second.start or re.search(_WAITS, between):
        return None
    until = next((each.fields["until"] for each in (port, other) if _text(each, "until")), port.fields["until"])
    fields = {"port": port.fields["port"], "until": until}
    return Member(port.place, fields, ((other.place, "still runs in the background"),))


def _port(found: Found) -> Member | None:
    members = (member for reading in found.readings for member in reading.collections.get("launch.ports", ()))
    return next(members, None)


def _text(member: Member, field: str) -> str:
    value = member.fields[field]
    return str(value.value) if isinstance(value, Value) else ""
