"""Follows the scripts that a script starts: each is read in the world of its caller, and its launches are the caller's
launches too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.answering import ENGINES, of_commands
from dtlint.frameworks.ray_submit import as_submitted
from dtlint.frameworks.scripts import Start, started_script
from dtlint.frameworks.starters import CARRIED, carried
from dtlint.frameworks.step_devices import as_step
from dtlint.languages.shell import no_file
from dtlint.languages.shell.state import Caller
from dtlint.languages.traced import Command, Script, World, file_key, is_elsewhere
from dtlint.record import NamedTuple
from dtlint.runs.candidates import Candidate
from dtlint.runs.candidates import chain_of as chain_of
from dtlint.runs.candidates import known_starts as known_starts
from dtlint.runs.chosen import around_in_world, in_world
from dtlint.runs.follow import Follower
from dtlint.runs.kinds import kind_of
from dtlint.runs.launches import Found, find_launch, rendezvous_key
from dtlint.runs.model import Options, file_problem, script_problems
from dtlint.runs.paths import locate
from dtlint.runs.plain_starts import starts_of
from dtlint.runs.starts import caller_of, signature, told
from dtlint.source import Problem, Source, Span, Unreadable
from dtlint.value import Value

MOST_CALLERS = 6
"""Longest chain of scripts that start each other which is followed."""

MOST_STARTS = 400
"""Most starts of other scripts that are followed from one script, in all its worlds together."""

MOST_STEPS = 40_000
"""Most commands that are followed in all the scripts together that one script starts."""

MOST_QUIET = 3
"""After how many starts that lead to no launch a script is not followed again: those that install or prepare."""


class Reached(NamedTuple):
    """A script as something starts it, and what stands around it.

    `folder` is where its paths begin, `own` the folder in which it lies. `callers` are the scripts that lead to it,
    outermost first, `told` how each of them starts the next one, in words; `job` is the command that submitted the job
    in which it runs. `supposed` are sentences on files that were only likely to be the ones that are started. `pauses`
    counts how often its callers have waited before; scripts of one `start` run beside each other.
    """

    script: Script
    folder: Path
    around: Reading | None = None
    hosts: Source | None = None
    own: Path | None = None
    callers: tuple[Source, ...] = ()
    told: tuple[str, ...] = ()
    job: Command | None = None
    supposed: tuple[str, ...] = ()
    pauses: int = 0
    start: int = 0


class Launched(NamedTuple):
    """A launch, the command that it is, the script in which that stands, and the world of all that leads to it."""

    found: Found
    command: Command
    reached: Reached
    world: World


class Aside(NamedTuple):
    """What a script starts beside its launches: engines that answer, and commands of other machines, those that may run
    beside a launch that the script waits for, and beside one that it does not.
    """

    engines: tuple[Member, ...]
    carried: tuple[Member, ...]
    carried_meanwhile: tuple[Member, ...]


class Calls:
    """The starts of other scripts from one script. `scripts` are those read so far by how they are started, `left` is
    how many more starts are followed, `steps` how many more commands in them.
    """

    def __init__(self, follower: Follower, options: Options) -> None:
        self.follower = follower
        self.options = options
        self.scripts: dict[object, Script] = {}
        self.left = MOST_STARTS
        self.steps = MOST_STEPS

    def launches(self, reached: Reached, world: World) -> Iterator[Launched]:
        """The launches of a script in one world, with those of the scripts that it starts, in order. A command that
        starts a script which launches is no launch itself, whatever its words name.
        """
        aside = Aside(
            of_commands(world.commands), *(carried(world.commands, background) for background in (False, True))
        )
        for number, written in enumerate(world.commands):
            before = world._replace(commands=world.commands[:number])
            command = as_step(as_submitted(written, before.commands), reached.around)
            yield from list(self._inside(command, reached, before)) or self._own(command, reached, world, aside)

    def _own(self, command: Command, reached: Reached, world: World, aside: Aside) -> Iterator[Launched]:
        read = self._reader(reached, world.files, command.folder)
        found = find_launch(command, read, _is_of_several(reached.around))
        if found is None:
            folders = (reached.folder, reached.own)
            self.follower.starts.extend(starts_of(command, folders, reached.around, self.follower.tree))
            return
        handed = _handing_command(found, command) if reached.callers else None
        if handed is not None:
            command = command._replace(place=handed.place)
            found = find_launch(command, read) or found
        yield Launched(_beside(found, aside, command), command, reached, world)

    def _reader(self, reached: Reached, files: Mapping[str, Source], moved: str = "") -> Callable[[str], Source | None]:
        """Reads a file from the folder to which `cd` led, from that of the start, or from that of the script."""
        first = self.follower.reader(reached.folder, files)
        second = self.follower.reader(reached.own) if reached.own is not None else no_file
        ahead = "" if is_elsewhere(moved) else moved
        return lambda text: (first(posixpath.join(ahead, text)) if ahead else None) or first(text) or second(text)

    def _inside(self, command: Command, reached: Reached, before: World) -> Iterator[Launched]:
        """The launches of the script that a command starts."""
        start = started_script(command)
        source, supposed = self._source(start, command, reached, before) if start is not None else (None, "")
        if start is None or source is None:
            return
        callers = (*reached.callers, reached.script.source)
        quiet = self.follower.quiet.get(source.path, 0) >= MOST_QUIET
        if quiet or len(callers) > MOST_CALLERS or any(source.path == each.path for each in callers):
            return
        script = self._script(source, start, command, reached, before)
        if script is None:
            return
        submitted = start.job is not None
        called = Reached(
            script,
            reached.folder,
            directives_of(script) if submitted else reached.around,
            None if submitted else reached.hosts,
            source.file.parent if source.file is not None else reached.own,
            callers,
            (*reached.told, told(reached.script.source, start)),
            command if submitted else reached.job,
            (*reached.supposed, *([supposed] if supposed else [])),
            reached.pauses + command.pauses,
            reached.start if command.background and not submitted else self.left,
        )
        launched = [each for world in script.worlds for each in self.launches(called, _within(before, world))]
        if not launched:
            self.follower.quiet[source.path] = self.follower.quiet.get(source.path, 0) + 1
        yield from launched

    def _source(self, start: Start, command: Command, reached: Reached, before: World) -> tuple[Source | None, str]:
        """The text of the script that is started, and a sentence if it is only likely to be the one."""
        written = before.files.get(file_key(start.path.pieces, command.folder))
        if written is not None:
            return written, ""
        tree = self.follower.tree
        found = locate(tree, start.path, reached.folder, command.folder)
        if (found is None or found.supposed) and reached.own is not None:
            found = locate(tree, start.path, reached.own, command.folder) or found
        if found is None or kind_of(found.file) != "shell":
            return None, ""
        try:
            source = tree.source(found.file)
        except Unreadable:
            return None, ""
        said = f"{source.path} was taken for {start.path.shown}, whose folder is not here" if found.supposed else ""
        return source, said

    def _script(self, source: Source, start: Start, command: Command, reached: Reached, before: World) -> Script | None:
        """The script read as it is started; None beyond the bound on starts."""
        self.left -= 1
        if self.left < 0 or self.steps <= 0:
            sentence = "this starts more scripts than are followed; launches of the rest are not read"
            place = reached.script.source.span(0, 0)
            self.follower.problems.append(file_problem(Problem(place, sentence, fatal=False)))
            return None
        caller = caller_of(start, command, reached.script, reached.folder, source)
        key = source.path, command.background, signature(caller)
        if key in self.scripts:
            return self.scripts[key]
        script = read_as(source, caller, self.options, self._reader(reached, before.files))
        self.follower.problems.extend(script_problems(source, script.problems) if source.file is not None else ())
        self.scripts[key] = script
        self.steps -= script.steps
        return script


def _beside(found: Found, aside: Aside, command: Command) -> Found:
    """A launch with what its script starts beside it; one that is cut off before its program is left as it is."""
    carried_then = aside.carried_meanwhile if command.background else aside.carried
    told = {ENGINES: aside.engines, CARRIED: carried_then}
    kept = {name: members for name, members in told.items() if members}
    if not kept or not found.program:
        return found
    return found._replace(readings=(*found.readings, Reading("beside", collections=kept)))


def read_as(source: Source, caller: Caller, options: Options, read: Callable[[str], Source | None]) -> Script:
    """A script as a caller starts it; the arguments that the user tells are those of the outermost script."""
    from dtlint.languages.shell import read_script

    options = options.at(source.file)
    cluster = {name: str(value.value) for name, value in {**options.cluster, **options.settings}.items()}
    return read_script(source, options.environment, {}, read, cluster, caller)


def run_key(launched: Launched) -> tuple[object, ...]:
    """What is equal for the commands of one run: the same launch in the same job, under the same conditions."""
    job = launched.reached.job
    return launched.world.branch, None if job is None else id(job), rendezvous_key(launched.found, launched.command)


def candidate_of(launched: Launched, companion: bool) -> Candidate:
    """A launch with what stands around it in its world."""
    found, command, reached, world = launched
    chain = (*reached.callers, reached.script.source)
    number = _place_in(chain, command.place.path)
    return Candidate(
        in_world(found, world),
        chain[number],
        reached.folder,
        world,
        around_in_world(reached.around, world),
        companion,
        command.folder,
        reached.hosts,
        reached.own,
        chain,
        reached.told[number - 1] if number else "",
        reached.supposed,
    )


def _place_in(chain: Sequence[Source], path: str) -> int:
    """Which of the scripts that lead to a launch holds it: the last, unless it is handed over by one before."""
    return next((number for number, source in enumerate(chain) if source.path == path), len(chain) - 1)


def directives_of(script: Script) -> Reading | None:
    """What the #SBATCH lines of a script say, with what sbatch is told beside; else its #PBS lines."""
    if not script.directives:
        return _queued(script) if script.queued else None
    from dtlint.frameworks.slurm import read_directives

    return read_directives(script.directives, script.late)


def _queued(script: Script) -> Reading:
    from dtlint.frameworks import pbs

    return pbs.read_directives(script.queued)


def _is_of_several(around: Reading | None) -> bool:
    """Whether a job has several machines."""
    steps = around.collections.get("launch.allocation", ()) if around is not None else ()
    counts = (step.fields.get("nodes") for step in steps)
    return any(isinstance(count, Value) and isinstance(count.value, int) and count.value > 1 for count in counts)


def _within(before: World, inner: World) -> World:
    """A world of a started script, behind what its caller has done before."""
    branches = [branch for branch in (before.branch, inner.branch) if branch]
    return World(
        (*before.commands, *inner.commands),
        {**before.files, **inner.files},
        " and ".join(dict.fromkeys(branches)) or None,
        {**before.unread, **inner.unread},
    )


def _handing_command(found: Found, command: Command) -> Command | None:
    """The command of a caller that hands the launcher over to the script which starts it with `"$@"`; None where the
    script names the launcher itself.
    """
    launcher = found.launch.argv[0]
    written: Span | None = launcher.pieces[0].span if launcher.pieces else None
    if written is None or written.path == command.place.path:
        return None
    return next((each for each in reversed(command.wrapper) if each.place.path == written.path), None)
