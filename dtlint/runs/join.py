"""Joins what belongs to one run: a launch, the config and program that it names, and configs that stand beside the
only launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dtlint.frameworks import Member, NamedFile, Reading
from dtlint.languages.traced import Lost, Script, Word, World
from dtlint.plan import Plan
from dtlint.runs.dialect import dialect_of
from dtlint.runs.launches import Found, find_launch, rendezvous_key
from dtlint.runs.model import FileProblem, Launch, Options, Run, RunSet
from dtlint.runs.roles import role_of
from dtlint.runs.settle import settle
from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable
from dtlint.value import Value

NOTHING: Mapping[str, Source] = {}


class _Candidate(NamedTuple):
    """A launch in one world of its script, with the files that it names."""

    found: Found
    script: Source
    folder: Path
    world: World
    directives: Reading | None
    companion: bool


class _Config(NamedTuple):
    source: Source
    reading: Reading
    problems: tuple[FileProblem, ...]


class _Parts(NamedTuple):
    """What a run is put together from."""

    readings: tuple[Reading, ...]
    sources: tuple[Source, ...]
    assumptions: tuple[str, ...] = ()


class Joiner:
    """Collects scripts, configs and programs of one invocation, then makes runs of them."""

    def __init__(self, tree: Tree, options: Options) -> None:
        self.tree = tree
        self.options = options
        self._launches: list[_Candidate] = []
        self._configs: dict[str, _Config] = {}
        self._programs: dict[str, Source] = {}
        self._named: set[str] = set()
        self._sources: dict[str, Source] = {}
        self._problems: list[FileProblem] = []
        self._lost: list[Lost] = []
        self._remarks: list[str] = []

    # Collecting

    def add_script(self, source: Source, folder: Path) -> None:
        """A focused launch script: its launches in every world."""
        self._add_worlds(self._script(source, folder), folder, companion=False)

    def add_companion(self, source: Source, folder: Path) -> None:
        """A script that may launch a focused file: kept only for the launches that name one."""
        self._add_worlds(self._script(source, folder), folder, companion=True)

    def add_commands(self, script: Script, folder: Path) -> None:
        """Commands that stand in no file."""
        self._add_worlds(script, folder, companion=False)

    def add_config(self, source: Source) -> None:
        """A focused config."""
        config = _read_config(source)
        self._sources[source.path] = source
        self._problems.extend(config.problems)
        if config.reading.claims or config.reading.collections:
            self._configs[source.path] = config

    def add_program(self, source: Source) -> None:
        """A focused Python file."""
        self._sources[source.path] = source
        self._programs[source.path] = source

    def remark(self, sentence: str) -> None:
        """Something to say about the reading as a whole."""
        self._remarks.append(sentence)

    def wants_launches(self) -> bool:
        """Whether a focused config or program is not named by any launch read so far."""
        return bool(self.unnamed()) and not self._launches

    def unnamed(self) -> list[str]:
        """File names of the focused configs and programs."""
        return [PurePosixPath(path).name for path in (*self._configs, *self._programs)]

    def _script(self, source: Source, folder: Path) -> Script:
        from dtlint.languages.shell import read_script

        cluster = {name: str(value.value) for name, value in {**self.options.cluster, **self.options.settings}.items()}
        script = read_script(source, self.options.environment, self.options.arguments, self._reader(folder), cluster)
        self._sources[source.path] = source
        self._problems.extend(FileProblem(p.span.path, p.span, p.message, p.fatal, p.loader) for p in script.problems)
        self._lost.extend(script.lost)
        return script

    def _reader(self, folder: Path, written: Mapping[str, Source] = NOTHING) -> Callable[[str], Source | None]:
        """Reads a file by its path: one that the script writes, else one of the tree."""

        def read(text: str) -> Source | None:
            if (found := written.get(text.removeprefix("./"))) is not None:
                return found
            file = self.tree.find(text, folder)
            try:
                return self.tree.source(file) if file is not None else None
            except Unreadable:
                return None

        return read

    def _add_worlds(self, script: Script, folder: Path, companion: bool) -> None:
        directives = _directives(script)
        for world in script.worlds:
            seen: set[tuple[object, ...]] = set()
            for command in world.commands:
                found = find_launch(command, self._reader(folder, world.files))
                if found is None or (key := rendezvous_key(found)) in seen:
                    continue
                seen.add(key)
                self._launches.append(_Candidate(found, script.source, folder, world, directives, companion))

    # Joining

    def finish(self, problems: tuple[FileProblem, ...], focus: frozenset[str] | None) -> RunSet:
        """The runs of everything collected; `focus` None: every file that was read."""
        runs = [run for candidate in self._launches if (run := self._launched(candidate)) is not None]
        runs = _merged(runs, [candidate.world for candidate in self._launches])
        runs.extend(self._unlaunched(runs))
        sources = {**self._sources, **{source.path: source for run in runs for source in run.sources}}
        shown = frozenset(sources) if focus is None else focus
        found = (*problems, *self._unique_problems())
        return RunSet(tuple(runs), found, tuple(sources.values()), shown, tuple(self._remarks))

    def _unique_problems(self) -> Iterable[FileProblem]:
        return dict.fromkeys(self._problems)

    def _launched(self, candidate: _Candidate) -> Run | None:
        found = candidate.found
        parts = self._follow(candidate)
        if candidate.companion and not self._uses_focus(parts.sources):
            return None
        outer = [candidate.directives] if candidate.directives is not None else []
        readings = (*found.readings, *parts.readings, *outer)
        sources = (candidate.script, *parts.sources)
        run = self._run(found.launch, candidate.world.branch, readings, sources, parts.assumptions)
        program = next((source.text for source in parts.sources if source.path.endswith(".py")), "")
        return run._replace(role=role_of(found.program, program))

    def _uses_focus(self, sources: Iterable[Source]) -> bool:
        return any(source.path in self._configs or source.path in self._programs for source in sources)

    def _follow(self, candidate: _Candidate) -> _Parts:
        """The files that the launch names, and the focused config that none names when this is the only launch."""
        readings: list[Reading] = []
        sources: list[Source] = []
        for named in candidate.found.files:
            for source, reading in self._named_file(named, candidate):
                sources.append(source)
                readings.append(reading)
        configured = any(reading.layer == "deepspeed-json" and not reading.unread for reading in readings)
        assumptions = [] if configured else self._lone_config(readings, sources)
        if assumptions:
            readings = [reading for reading in readings if not reading.unread]
        return _Parts(tuple(readings), tuple(dict.fromkeys(sources)), tuple(assumptions))

    def _named_file(self, named: NamedFile, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        if named.role == "deepspeed":
            source = self._resolve(named, candidate)
            return [_unread(named, candidate)] if source is None else [(source, self._config(source).reading)]
        if named.role in ("script", "module"):
            source = self._resolve(named, candidate)
            return [] if source is None else self._program(source, candidate.found.program[1:])
        return []

    def _resolve(self, named: NamedFile, candidate: _Candidate) -> Source | None:
        written = candidate.world.files.get(named.path.shown.removeprefix("./"))
        text = named.path.text
        file = None if written is not None or text is None else self.tree.find(_as_path(named, text), candidate.folder)
        if file is None:
            return written
        self._named.add(self.tree.shown(file))
        try:
            return self.tree.source(file)
        except Unreadable as unreadable:
            self._problems.append(FileProblem(unreadable.path, None, unreadable.reason))
            return None

    def _config(self, source: Source) -> _Config:
        known = self._configs.get(source.path)
        if known is not None and known.source is source:
            return known
        config = _read_config(source)
        self._problems.extend(config.problems)
        return config

    def _program(self, source: Source, words: tuple[Word, ...] | None) -> list[tuple[Source, Reading]]:
        from dtlint.runs.programs import program_readings

        return program_readings(source, self.tree, words)

    def _lone_config(self, readings: list[Reading], sources: list[Source]) -> list[str]:
        """A config that no launch names joins the only launch that there is."""
        free = [config for path, config in self._configs.items() if path not in self._named]
        if len(free) != 1 or len({_launch_key(candidate) for candidate in self._launches}) != 1:
            return []
        config = free[0]
        self._named.add(config.source.path)
        readings.append(config.reading)
        sources.append(config.source)
        return [f"{config.source.path} is not named by the launch; it stands beside it and was taken as its config"]

    def _unlaunched(self, runs: Sequence[Run]) -> list[Run]:
        """Configs and programs that no launch uses: a run of their own each."""
        used = {source.path for run in runs for source in run.sources}
        alone = [(config.source, [config.reading]) for path, config in self._configs.items() if path not in used]
        for path, source in self._programs.items():
            readings = [reading for _, reading in self._program(source, None)] if path not in used else []
            if any(_speaks(reading) for reading in readings):
                alone.append((source, readings))
        return [self._run(None, None, tuple(readings), (source,), ()) for source, readings in alone]

    def _run(
        self,
        launch: Launch | None,
        branch: str | None,
        readings: tuple[Reading, ...],
        sources: tuple[Source, ...],
        assumptions: tuple[str, ...],
    ) -> Run:
        settled = settle(readings, self.options)
        collections = _collections(readings)
        if settled.conflicts:
            collections["config.conflicts"] = (*collections.get("config.conflicts", ()), *settled.conflicts)
        open_reason = next((reading.open for reading in readings if reading.open), "")
        unread = next((reading.unread for reading in readings if reading.unread), "")
        plan = Plan(settled.settings, collections, dialect_of(readings, settled.framework), open_reason, unread)
        return Run(launch, "train", branch, sources, readings, plan, assumptions)


def _directives(script: Script) -> Reading | None:
    if not script.directives:
        return None
    from dtlint.frameworks.slurm import read_directives

    return read_directives(script.directives)


def _read_config(source: Source) -> _Config:
    from dtlint.frameworks import deepspeed
    from dtlint.languages.json import read_json

    document = read_json(source)
    problems = tuple(
        FileProblem(source.path, problem.span.original(), problem.message, problem.fatal, problem.loader)
        for problem in document.problems
        if problem.fatal or problem.loader == "duplicate"
    )
    reading = deepspeed.read_config(document) if deepspeed.looks_like_config(document) else Reading("deepspeed-json")
    return _Config(source, reading, problems)


def _unread(named: NamedFile, candidate: _Candidate) -> tuple[Source, Reading]:
    """What a config that cannot be read leaves: a DeepSpeed run whose settings are hidden."""
    reason = f"the DeepSpeed config {named.path.shown} was not found"
    return candidate.script, Reading("deepspeed-json", framework="deepspeed", unread=reason)


def _as_path(named: NamedFile, text: str) -> str:
    """The path of a file; `-m pkg.train` stands for pkg/train.py."""
    return text.replace(".", "/") + ".py" if named.role == "module" else text


def _collections(readings: Iterable[Reading]) -> dict[str, tuple[Member, ...]]:
    found: dict[str, tuple[Member, ...]] = {}
    for reading in readings:
        for name, members in reading.collections.items():
            known = {member.place for member in found.get(name, ())}
            found[name] = (*found.get(name, ()), *(member for member in members if member.place not in known))
    return found


def _speaks(reading: Reading) -> bool:
    return bool(reading.claims or reading.framework or any(reading.collections.values()))


def _launch_key(candidate: _Candidate) -> tuple[str, int]:
    place = candidate.found.launch.place
    return place.source.path, place.start


def _merged(runs: list[Run], worlds: Sequence[World]) -> list[Run]:
    """Runs of one launch line that are equal in every world are one run; its branch is dropped, or lists the
    conditions.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_signature(run), []).append(run)
    lines: dict[tuple[str, int], int] = {}
    for signature in groups:
        place = groups[signature][0].launch
        assert place is not None
        key = place.place.source.path, place.place.start
        lines[key] = lines.get(key, 0) + 1
    return [_merge(group, lines) for group in groups.values()]


def _merge(group: list[Run], lines: dict[tuple[str, int], int]) -> Run:
    first = group[0]
    assert first.launch is not None
    alone = lines[first.launch.place.source.path, first.launch.place.start] == 1
    branches = list(dict.fromkeys(run.branch for run in group if run.branch))
    return first._replace(branch=None if alone or not branches else " or ".join(branches))


def _signature(run: Run) -> tuple[object, ...]:
    launch = run.launch
    assert launch is not None
    words = tuple(word.shown for word in launch.argv)
    values = tuple(
        (name, setting.value if isinstance(setting, Value) else "?")
        for name, setting in sorted(run.plan.settings.items())
    )
    return launch.place.source.path, launch.place.start, words, values
