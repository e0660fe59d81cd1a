"""Joins what belongs to one run: a launch, the config and program that it names, and configs that stand beside the
only launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from dtlint.frameworks import Member, NamedFile, Reading
from dtlint.languages.traced import Command, Lost, Script, Word, World, literal_word, path_from_folder
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.runs.beside import accelerate_launch, lone_configs, one_run
from dtlint.runs.clash import with_clashes, with_repeated_rank
from dtlint.runs.configs import Config, read_config, read_model_config
from dtlint.runs.dialect import dialect_of
from dtlint.runs.expect import with_expectations
from dtlint.runs.hand_over import hand_over
from dtlint.runs.inline import inline_config
from dtlint.runs.launches import Found, find_launch, rendezvous_key
from dtlint.runs.lost import lost_words
from dtlint.runs.model import OWN_PARSER, FileProblem, Launch, Options, Run, RunSet
from dtlint.runs.paths import Located, locate
from dtlint.runs.roles import role_of, role_of_config, role_of_program
from dtlint.runs.settle import settle
from dtlint.runs.tree import Tree
from dtlint.runs.versions import image_reading, install_readings, versions_around
from dtlint.source import Problem, Source, Unreadable
from dtlint.value import Setting, Value

NOTHING: Mapping[str, Source] = {}
WEIGHTS = frozenset((".bin", ".safetensors", ".pt", ".pth", ".gguf"))
"""What the files end with that hold a model's weights."""


class _Candidate(NamedTuple):
    """A launch in one world of its script, with the files that it names."""

    found: Found
    script: Source
    folder: Path
    world: World
    directives: Reading | None
    companion: bool
    moved: str


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
        self._configs: dict[str, Config] = {}
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
        config = read_config(source)
        self._sources[source.path] = source
        self._problems.extend(config.problems)
        if config.speaks:
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

        options = self.options.at(source.file)
        cluster = {name: str(value.value) for name, value in {**options.cluster, **options.settings}.items()}
        script = read_script(source, options.environment, options.arguments, self._reader(folder), cluster)
        self._sources[source.path] = source
        self._problems.extend(map(_file_problem, _causes(script.problems)))
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
            of_a_run: dict[tuple[object, ...], list[Command]] = {}
            launches: list[tuple[Found, list[Command]]] = []
            for command in world.commands:
                found = find_launch(command, self._reader(folder, world.files))
                if found is None:
                    continue
                of_a_run.setdefault(key := rendezvous_key(found, command), []).append(command)
                if len(of_a_run[key]) == 1:
                    launches.append((found, of_a_run[key]))
            earlier: list[Found] = []
            for found, commands in launches:
                found = with_clashes(with_repeated_rank(found, commands[0], commands[1:]), earlier)
                earlier.append(found)
                self._launches.append(
                    _Candidate(found, script.source, folder, world, directives, companion, command.folder)
                )

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
        outer = self._around(candidate)
        installed = install_readings(candidate.world.commands, found.launch.place)
        lost = lost_words(self._lost, found.launch.place)
        readings = (*found.readings, *parts.readings, *outer, *lost, *installed)
        sources = (candidate.script, *parts.sources)
        run = self._run(found.launch, candidate.world.branch, readings, sources, parts.assumptions)
        program = next((source.text for source in parts.sources if source.path.endswith(".py")), "")
        told = [reading for reading in readings if not reading.layer.startswith("deepspeed-json")]
        return run._replace(role=_role(role_of(found.program, program), told))

    def _around(self, candidate: _Candidate) -> list[Reading]:
        """The directives of the script, and what the image that they name brings."""
        directives = candidate.directives
        if directives is None:
            return []
        return [directives, *(image_reading(file.path) for file in directives.files if file.role == "image")]

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
        assumptions = self._beside([*candidate.found.readings, *readings], readings, sources)
        if assumptions:
            readings = [reading for reading in readings if not reading.unread]
        readings.extend(_unread_default([*candidate.found.readings, *readings]))
        return _Parts(tuple(readings), tuple(dict.fromkeys(sources)), tuple(assumptions))

    def _named_file(self, named: NamedFile, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        """What a named file says, and the files that it names in turn."""
        found = self._read_named(named, candidate)
        said = self._supposition(named, candidate, found[0][0]) if found else ""
        return found if not said else [(found[0][0], found[0][1]._replace(supposed=said)), *found[1:]]

    def _read_named(self, named: NamedFile, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        if named.role == "deepspeed":
            source = self._resolve(named, candidate)
            if source is None:
                return [_unread(named, candidate)]
            return [(source, self._config(source, "deepspeed").reading)]
        if named.role == "accelerate":
            return self._accelerate_file(named, candidate)
        if named.role == "fsdp":
            source = self._resolve(named, candidate)
            return [_hidden(named, candidate)] if source is None else [(source, _fsdp_config(source))]
        if named.role == "arguments":
            return self._arguments_file(named, candidate)
        if named.role == "model":
            return self._model_file(named, candidate.folder)
        if named.role == "image":
            return [(candidate.script, image_reading(named.path))]
        if named.role == "hostfile":
            source = self._resolve(named, candidate)
            return [] if source is None else [(source, _hosts(source, candidate.found))]
        if named.role in ("script", "module"):
            source = self._resolve(named, candidate)
            return [] if source is None else self._program_and_files(source, candidate)
        return []

    def _program_and_files(self, source: Source, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        """A program, and the configs that its code names."""
        found = self._program(source, candidate.found.program[1:])
        files = dict.fromkeys(file for _, reading in found for file in reading.files)
        return [*found, *(part for file in files for part in self._named_file(file, candidate))]

    def _accelerate_file(self, named: NamedFile, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        """Accelerate's config, and the DeepSpeed config that it names."""
        source = self._resolve(named, candidate)
        if source is None:
            from dtlint.frameworks.accelerate_launcher import without_config

            launch = accelerate_launch(candidate.found.readings)
            return [] if launch is None else [(candidate.script, without_config(launch, named.path.shown))]
        reading = self._config(source, "accelerate").reading
        nested = [found for file in reading.files for found in self._named_file(file, candidate)]
        return [(source, reading), *nested]

    def _arguments_file(self, named: NamedFile, candidate: _Candidate) -> list[tuple[Source, Reading]]:
        """The file of a program's arguments, and the config that it names."""
        source = self._resolve(named, candidate)
        if source is None:
            return [_hidden(named, candidate)]
        reading = self._config(source, "arguments").reading
        if not reading.claims:
            return [(source, Reading("program", open=f"the arguments stand in {named.path.shown}"))]
        nested = [found for file in reading.files for found in self._named_file(file, candidate)]
        return [(source, reading), *nested]

    def _model_file(self, named: NamedFile, folder: Path) -> list[tuple[Source, Reading]]:
        """The config.json of the model that a run names, where it lies in the tree."""
        source = self._reader(folder)(_model_path(named.path.text or ""))
        if source is None:
            return []
        config = read_model_config(source)
        self._problems.extend(config.problems)
        return [(source, config.reading)]

    def _resolve(self, named: NamedFile, candidate: _Candidate) -> Source | None:
        if named.role == "deepspeed" and (inline := inline_config(named.path, candidate.script.path)) is not None:
            return inline
        path = path_from_folder(named.path.pieces, candidate.moved)
        if path in candidate.world.files or path in candidate.world.unread:
            return candidate.world.files.get(path)
        found = self._located(named, candidate)
        if found is None:
            return None
        self._named.add(self.tree.shown(found.file))
        try:
            return self.tree.source(found.file)
        except Unreadable as unreadable:
            self._problems.append(FileProblem(unreadable.path, None, unreadable.reason))
            return None

    def _located(self, named: NamedFile, candidate: _Candidate) -> Located | None:
        return locate(self.tree, _as_path(named), candidate.folder, candidate.moved)

    def _supposition(self, named: NamedFile, candidate: _Candidate, source: Source) -> str:
        """The sentence on a file that is only likely to be the one that is named, "" for one that surely is."""
        found = self._located(named, candidate)
        if found is None or not found.supposed or self.tree.shown(found.file) != source.path:
            return ""
        return f"{source.path} was taken for {named.path.shown}, whose folder is not here"

    def _config(self, source: Source, role: str) -> Config:
        known = self._configs.get(source.path)
        if known is not None and known.source is source:
            return known
        config = read_config(source, role)
        self._problems.extend(config.problems)
        return config

    def _program(self, source: Source, words: tuple[Word, ...] | None) -> list[tuple[Source, Reading]]:
        from dtlint.runs.programs import program_readings

        return program_readings(source, self.tree, words)

    def _beside(self, told: Sequence[Reading], readings: list[Reading], sources: list[Source]) -> list[str]:
        """Configs that no launch names join the only launch that there is; `told` is what it says and names."""
        if len({_launch_key(candidate) for candidate in self._launches}) != 1:
            return []
        assumptions = []
        for config in lone_configs([self._configs[path] for path in self._configs if path not in self._named], told):
            for source, reading in self._with_files(config):
                self._named.add(source.path)
                readings.append(reading)
                sources.append(source)
            path = config.source.path
            assumptions.append(f"{path} is not named by the launch; it stands beside it and was taken as its config")
        return assumptions

    def _with_files(self, config: Config) -> list[tuple[Source, Reading]]:
        """A config that no launch names, and the DeepSpeed config that it names."""
        found = [(config.source, config.reading)]
        folder = config.source.file.parent if config.source.file is not None else self.tree.current
        for named in config.reading.files:
            if named.role == "model":
                found.extend(self._model_file(named, folder))
            if named.role == "deepspeed":
                source = self._reader(folder)(named.path.text or "")
                reading = _without_file(named.path) if source is None else self._config(source, "deepspeed").reading
                found.append((source or config.source, reading))
        return found

    def _unlaunched(self, runs: Sequence[Run]) -> list[Run]:
        """Configs and programs that no launch uses: a run of their own each."""
        used = {source.path for run in runs for source in run.sources}
        alone = [self._with_files(config) for path, config in self._configs.items() if path not in used]
        inner = {source.path for parts in alone for source, _ in parts if source is not parts[0][0]}
        alone = [parts for parts in alone if parts[0][0].path not in inner]
        if one_run([parts[0][1].layer for parts in alone]):
            alone = [[part for parts in alone for part in parts]]
        for path, source in self._programs.items():
            parts = self._lone_program(source) if path not in used else []
            if any(_speaks(reading) for _, reading in parts):
                alone.append([(source, reading) for _, reading in parts])
        return [self._alone(parts) for parts in alone]

    def _lone_program(self, source: Source) -> list[tuple[Source, Reading]]:
        """A program that no launch names, and the model's config that its code names."""
        found = self._program(source, None)
        folder = source.file.parent if source.file is not None else self.tree.current
        named = dict.fromkeys(file for _, reading in found for file in reading.files if file.role == "model")
        return [*found, *(part for file in named for part in self._model_file(file, folder))]

    def _alone(self, parts: Sequence[tuple[Source, Reading]]) -> Run:
        sources = tuple(dict.fromkeys(source for source, _ in parts))
        run = self._run(None, None, tuple(reading for _, reading in parts), sources, ())
        path = sources[0].path
        role = role_of_program(path) if path.endswith(".py") else role_of_config(self.tree.within(sources[0]))
        return run._replace(role=_role(role, [reading for _, reading in parts]))

    def _run(
        self,
        launch: Launch | None,
        branch: str | None,
        readings: tuple[Reading, ...],
        sources: tuple[Source, ...],
        assumptions: tuple[str, ...],
    ) -> Run:
        readings = _under_own_parser(readings)
        around = versions_around(self.tree, self._folders(sources), readings)
        readings = (*readings, *(reading for _, reading in around))
        sources = tuple(dict.fromkeys((*sources, *(source for source, _ in around))))
        settled = settle(readings, self.options.at(sources[0].file if sources else None))
        handed = hand_over(readings, settled.settings)
        collections = _collections([*readings, Reading("hand-over", collections=handed.collections)])
        if settled.conflicts:
            collections["config.conflicts"] = (*collections.get("config.conflicts", ()), *settled.conflicts)
        open_reason = next((reading.open for reading in readings if reading.open), "")
        unread = next((reading.unread for reading in readings if reading.unread), "")
        plan = Plan(handed.settings, collections, dialect_of(readings, settled.framework), open_reason, unread)
        plan = with_expectations(plan, self.options.expected, launch.place if launch else sources[0].span(0, 0))
        supposed = tuple(dict.fromkeys(reading.supposed for reading in readings if reading.supposed))
        return Run(launch, "train", branch, sources, readings, plan, (*assumptions, *supposed))

    def _folders(self, sources: Sequence[Source]) -> list[Path]:
        """Where the run's script lies, or the text that stands for it, and its program."""
        program = next((source for source in sources if source.path.endswith(".py")), None)
        kept = [source for source in (program, *sources[:1]) if source is not None]
        return [source.file.parent if source.file is not None else self.tree.current for source in kept]


def _role(role: str, readings: Iterable[Reading]) -> str:
    """The role of a program, unless a reader knows better."""
    return next((reading.role for reading in readings if reading.role), role)


def _directives(script: Script) -> Reading | None:
    if not script.directives:
        return None
    from dtlint.frameworks.slurm import read_directives

    return read_directives(script.directives, script.late)


def _unread_default(readings: Sequence[Reading]) -> list[Reading]:
    """What `accelerate launch` leaves open where no config of it is among the files."""
    launch = accelerate_launch(readings)
    if launch is None:
        return []
    from dtlint.frameworks.accelerate_launcher import without_config

    return [without_config(launch)]


def _unread(named: NamedFile, candidate: _Candidate) -> tuple[Source, Reading]:
    """What a DeepSpeed config leaves that cannot be read."""
    why = candidate.world.unread.get(path_from_folder(named.path.pieces, candidate.moved), "")
    return candidate.script, _without_file(named.path, why)


def _without_file(path: Word, why: str = "") -> Reading:
    """What the tool ships that a DeepSpeed config without a file belongs to, else a run whose settings are hidden."""
    from dtlint.frameworks.deepspeed_shipped import read_shipped

    reason = f"{path.shown}: {why}" if why else f"the DeepSpeed config {path.shown} was not found"
    hidden = Reading("deepspeed-json", framework="deepspeed", unread=reason)
    return hidden if why else read_shipped(path) or hidden


def _hidden(named: NamedFile, candidate: _Candidate) -> tuple[Source, Reading]:
    """What a file with further settings that cannot be read leaves: settings may be hidden in it."""
    return candidate.script, Reading("program", open=f"{named.path.shown} was not found")


def _fsdp_config(source: Source) -> Reading:
    from dtlint.frameworks.transformers_fsdp import read_config
    from dtlint.languages.json import read_json

    return read_config(read_json(source))


def _hosts(source: Source, found: Found) -> Reading:
    """The host file of an mpirun; other launchers read theirs themselves."""
    launch = next((reading for reading in found.readings if reading.layer == "mpirun"), None)
    if launch is None:
        return Reading("hostfile")
    from dtlint.frameworks.mpirun import read_hostfile

    return read_hostfile(source, launch.claims)


def _causes(problems: Sequence[Problem]) -> list[Problem]:
    """The problems without those that follow from the first one that bash would stop at."""
    first = min((problem for problem in problems if problem.fatal), key=lambda each: each.span.start, default=None)
    return [problem for problem in problems if not problem.fatal or problem is first]


def _file_problem(problem: Problem) -> FileProblem:
    return FileProblem(problem.span.path, problem.span, problem.message, problem.fatal, problem.loader)


def _as_path(named: NamedFile) -> Word:
    """The path of a file; `-m pkg.train` stands for pkg/train.py."""
    text = named.path.text
    if named.role != "module" or text is None:
        return named.path
    return literal_word(text.replace(".", "/") + ".py", named.path.place)


def _model_path(text: str) -> str:
    """Where the config of a model lies: the file itself, or config.json in the folder or beside the weights."""
    path = PurePosixPath(text)
    if path.suffix == ".json":
        return text
    return str((path.parent if path.suffix in WEIGHTS else path) / "config.json") if text else ""


def _collections(readings: Sequence[Reading]) -> dict[str, tuple[Member, ...]]:
    found: dict[str, tuple[Member, ...]] = {}
    for reading in readings:
        for name, members in reading.collections.items():
            known = {member.place for member in found.get(name, ())}
            found[name] = (*found.get(name, ()), *(member for member in members if member.place not in known))
    return _without_declared(found, frozenset(flag for reading in readings for flag in reading.declares))


def _under_own_parser(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """Megatron's flags of a program that declares them all itself and imports no Megatron: they mean what Megatron's
    mean, and Megatron's defaults, spellings and other flags are not the program's.
    """
    own = next((reading for reading in readings if reading.layer == OWN_PARSER), None)
    if own is None:
        return readings
    return tuple(
        reading._replace(layer="arguments", framework="", collections={}) if _is_declared(reading, own) else reading
        for reading in readings
    )


def _is_declared(reading: Reading, own: Reading) -> bool:
    if reading.layer != "megatron-arguments":
        return False
    flags = {claim.name for claim in reading.claims if claim.name.startswith("--")}
    return bool(flags) and flags <= own.declares


def _without_declared(found: dict[str, tuple[Member, ...]], flags: frozenset[str]) -> dict[str, tuple[Member, ...]]:
    """The collections without unknown flags that the program declares itself."""
    unknown = found.get("config.unknown", ())
    kept = tuple(member for member in unknown if _text(member.fields.get("key")) not in flags)
    return {**found, "config.unknown": kept} if len(kept) < len(unknown) else found


def _text(setting: Setting | None) -> str:
    return str(setting.value) if isinstance(setting, Value) else ""


def _speaks(reading: Reading) -> bool:
    """Whether a reading tells of training; which model a program loads does not."""
    told = any(reading.frontend or not claim.setting.startswith("model.") for claim in reading.claims)
    return bool(told or reading.framework or any(reading.collections.values()))


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
