"""Launches that stand in a script which was followed, and are no run: said, so that silence is not taken for health."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dtlint.frameworks.wrappers import PROGRAMS
from dtlint.languages.shell.reader import read_tree
from dtlint.languages.shell.relevance import QUIET
from dtlint.languages.shell.syntax import Simple
from dtlint.languages.shell.walk import walk
from dtlint.languages.traced import Script, World
from dtlint.record import NamedTuple
from dtlint.runs.launches import LAUNCHER_MODULES
from dtlint.source import Source, Span

MOST_NAMED = 3
"""Most scripts of which a launch is named."""

_LAUNCHERS = frozenset(("torchrun", "deepspeed", "horovodrun"))


class Unfollowed(NamedTuple):
    """A launcher where it stands in a command, and what stands before it there."""

    launcher: str
    before: str
    place: Span


def remarks(scripts: Iterable[Script]) -> Iterator[str]:
    """What to say of scripts that start no run, where a launcher stands in them."""
    said = (sentence for script in scripts if (sentence := _first_sentence(script)))
    yield from islice(said, MOST_NAMED)


def _first_sentence(script: Script) -> str:
    """What to say of the first launch of a script of which there is something to say; "" for none."""
    reached = frozenset(place for world in script.worlds for place in _started(world))
    return next((said for launch in _launches(script.source) if (said := _sentence(launch, reached))), "")


def _started(world: World) -> Iterator[tuple[str, int]]:
    """The lines of the commands that a script starts."""
    for command in world.commands:
        place = command.place.original()
        yield place.path, place.line


def _sentence(launch: Unfollowed, reached: frozenset[tuple[str, int]]) -> str:
    """Why a launch is no run; "" where it was read and is none (`torchrun --help`)."""
    where = (launch.place.path, launch.place.line)
    stands = f"{launch.launcher} stands in {launch.place.path}:{launch.place.line}"
    if where not in reached:
        told = "--arg and --env say what the script is given"
        return f"{stands}, but no way that was followed through the script gets there; {told}"
    unknown = launch.before.startswith("$")
    return f"{stands}, but {launch.before} before it is not known, so that it is no run here" if unknown else ""


def _launches(source: Source) -> Iterator[Unfollowed]:
    """The commands of a script that name a launcher where it may be started."""
    for node in walk(read_tree(source)[0].body):
        if isinstance(node, Simple):
            words = [word.span.text.strip("\"'") for word in node.words]
            at = next((number for number in range(len(words) - 1) if _is_launcher(words, number)), None)
            if at is not None and _may_start(words[:at]):
                yield Unfollowed(words[at], words[0] if at else "", node.span)


def _is_launcher(words: Sequence[str], number: int) -> bool:
    """Whether a word that others follow starts several processes."""
    name, before, after = words[number].rpartition("/")[2], words[max(number - 1, 0)], words[number + 1]
    is_module = before == "-m" and name in LAUNCHER_MODULES
    return is_module or name in _LAUNCHERS or (name == "accelerate" and after == "launch")


def _may_start(before: Sequence[str]) -> bool:
    """Whether what stands before a launcher may start it: nothing, a word that is not known, or a program that does."""
    names = [word.rpartition("/")[2] for word in before]
    if not QUIET.isdisjoint(names):
        return False
    return not names or names[0].startswith(("$", "python")) or names[0] in PROGRAMS
