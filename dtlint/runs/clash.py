"""Launches of one script that listen on one port of one machine at the same time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks import Member, Reading
from dtlint.runs.launches import Found
from dtlint.value import Value

_WAITS = r"\bwait\b|\bsleep\b|\bfg\b"


def with_clashes(found: Found, earlier: Sequence[Found]) -> Found:
    """The launch, with the collection `launch.port_clash` (`port`) if an earlier one still runs in the background on
    the port that it names.
    """
    clashes = tuple(member for other in earlier if (member := _clash(found, other)) is not None)
    if not clashes:
        return found
    reading = Reading("ports", collections={"launch.port_clash": clashes[:1]})
    return found._replace(readings=(*found.readings, reading))


def _clash(found: Found, earlier: Found) -> Member | None:
    port, other = _port(found), _port(earlier)
    if port is None or other is None or _text(port, "port") != _text(other, "port") or _text(other, "stays") != "yes":
        return None
    first, second = earlier.launch.place, found.launch.place
    between = first.source.text[first.end : second.start]
    if first.source is not second.source or first.end > second.start or re.search(_WAITS, between):
        return None
    return Member(port.place, {"port": port.fields["port"]}, ((other.place, "still runs in the background"),))


def _port(found: Found) -> Member | None:
    members = (member for reading in found.readings for member in reading.collections.get("launch.ports", ()))
    return next(members, None)


def _text(member: Member, field: str) -> str:
    value = member.fields[field]
    return str(value.value) if isinstance(value, Value) else ""
