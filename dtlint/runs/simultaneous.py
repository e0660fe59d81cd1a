"""Steps of one job that run beside a launch: they have machines of the allocation that the launch does not span."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.starters import ranks
from dtlint.frameworks.wrappers import PROGRAMS, unwrap_all
from dtlint.languages.traced import Command
from dtlint.runs.called import Launched
from dtlint.runs.launches import Found

STEPS = "launch.steps_beside"
"""The collection of steps that srun starts while the launch runs."""
_STARTER = "srun"
_PYTHON = re.compile(r"python[\d.]*")
_WAITS = re.compile(r"\bwait\b")


def with_steps_beside(found: Found, own: Sequence[Launched]) -> Found:
    """The launch, with the collection `launch.steps_beside` where srun starts other programs at the same time; `own`
    are the commands of its run. Commands that number the nodes, each for one of them, may all be its own.
    """
    members = tuple(_beside(own[0], {id(each.command.argv) for each in own}))
    if not members:
        return found
    return found._replace(readings=(*found.readings, Reading("steps", collections={STEPS: members})))


def _beside(launched: Launched, own: set[int]) -> Iterator[Member]:
    commands = launched.world.commands
    at = next((number for number, each in enumerate(commands) if each.argv is launched.command.argv), None)
    for number, other in enumerate(commands if at is not None else ()):
        numbered = all(any(ranks(each.argv)) for each in (launched.command, other))
        if at is None or id(other.argv) in own or numbered or not _is_step(other):
            continue
        first, second = sorted((number, at))
        if _still_runs(commands[first], commands[second]):
            yield Member(other.place, {})


def _is_step(command: Command) -> bool:
    """Whether srun starts a program that may compute: Python, a launcher, or a script."""
    if not command.argv or program_name(command.argv[0]) != _STARTER:
        return False
    inside = unwrap_all(command.argv)[1]
    name = program_name(inside[0]) if inside else ""
    return name in PROGRAMS or bool(_PYTHON.fullmatch(name)) or name.endswith(".sh")


def _still_runs(earlier: Command, later: Command) -> bool:
    """Whether a command runs in the background, and no `wait` stands between it and a later one."""
    first, second = earlier.place, later.place
    behind = first.source is second.source and first.end <= second.start
    waits = behind and _WAITS.search(first.source.text[first.end : second.start]) is not None
    return earlier.background and not waits
