"""Launches of one script that get in each other's way: on one port of one machine, or under one rank on two."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.starters import numbers_nodes_itself, ranks
from dtlint.languages.traced import Command, Word
from dtlint.runs.called import Launched
from dtlint.runs.launches import Found, machine_of
from dtlint.value import Value

_WAITS = r"\bwait\b|\bsleep\b|\bfg\b"


def port_clashes(launches: Sequence[Launched]) -> Mapping[int, Member]:
    """The launches, by their number, that listen on a port which an earlier one still holds in the background: members
    of `launch.port_clash` (`port`, `until`).
    """
    found: dict[int, Member] = {}
    holding: dict[object, tuple[Launched, Member]] = {}
    for number, launched in enumerate(launches):
        port = _port(launched.found)
        if port is None:
            continue
        moment = _moment(launched, port)
        held = holding.get(moment)
        if held is not None and not _may_wait_between(held[0], launched):
            found[number] = _clash(port, held[1])
        if _text(port, "stays") == "yes":
            holding[moment] = (launched, port)
    return found


def with_clash(found: Found, clash: Member | None) -> Found:
    """The launch, with the clash of its port, if there is one."""
    if clash is None:
        return found
    reading = Reading("ports", collections={"launch.port_clash": (clash,)})
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


def _moment(launched: Launched, port: Member) -> object:
    """What is equal for launches that may listen on one port at the same time: nothing waits between them, and one
    condition leads to both.
    """
    reached, pauses = launched.reached, launched.command.pauses
    return _text(port, "port"), reached.pauses + pauses, reached.start, launched.world.branch


def _may_wait_between(earlier: Launched, later: Launched) -> bool:
    """Whether a script says between two launches that it waits, where they stand one behind the other."""
    first, second = earlier.found.launch.place, later.found.launch.place
    behind = first.source is second.source and first.end <= second.start
    return behind and re.search(_WAITS, first.source.text[first.end : second.start]) is not None


def _clash(port: Member, other: Member) -> Member:
    until = next((each.fields["until"] for each in (port, other) if _text(each, "until")), port.fields["until"])
    fields = {"port": port.fields["port"], "until": until}
    return Member(port.place, fields, ((other.place, "still runs in the background"),))


def _port(found: Found) -> Member | None:
    members = (member for reading in found.readings for member in reading.collections.get("launch.ports", ()))
    return next(members, None)


def _text(member: Member, field: str) -> str:
    value = member.fields[field]
    return str(value.value) if isinstance(value, Value) else ""
