"""Launches that hold on some machines only: where the script asks for the machine's number."""

from __future__ import annotations

import re

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.languages.traced import World
from dtlint.runs.launches import Found

_NUMBER = r"\$\{?\w*(?:RANK|NODEID|PROCID|NODE_ID|INDEX)\b"
"""Variables that number machines or processes."""


def in_world(found: Found, world: World) -> Found:
    """The launch, with the collection `launch.chosen` (`branch`) where only machines of some numbers start it."""
    if world.branch is None or re.search(_NUMBER, world.branch) is None:
        return found
    place = found.launch.place
    reading = Reading("branch", collections={"launch.chosen": (Member(place, texts(place, branch=world.branch)),)})
    return found._replace(readings=(*found.readings, reading))


def around_in_world(around: Reading | None, world: World) -> Reading | None:
    """What stands around a launch: under a condition not every machine starts it."""
    if around is None or world.branch is None or "launch.everywhere" not in around.collections:
        return around
    kept = {name: members for name, members in around.collections.items() if name != "launch.everywhere"}
    return around._replace(collections=kept)
