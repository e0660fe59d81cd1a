"""Joins what belongs to one run: a launch, the config and program that it names, and configs that stand beside the
only launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dtlint.frameworks import STEP_LOOPS, Member, Reading, vendors
from dtlint.languages.traced import Lost, Script, Word
from dtlint.runs.assemble import Parts, run_of
from dtlint.runs.beside import accelerate_launch, lone_configs, one_run
from dtlint.runs.called import (
    Calls,
    Reached,
    candidate_of,
    chain_of,
    directives_of,
    known_starts,
    run_key,
)
from dtlint.runs.changed import changed_by_any, changes_of
from dtlint.runs.clash import port_clashes, with_clash, with_repeated_rank
from dtlint.runs.commanded import as_commanded, commands_for
from dtlint.runs.configs import read_config
from dtlint.runs.engine_config import of_one_recipe
from dtlint.runs.follow import Candidate, Follower, hosts_of
from dtlint.runs.kinds import may_be_manifest, may_start
from dtlint.runs.launches import Found
from dtlint.runs.lost import is_cut_off, lost_words
from dtlint.runs.merge import merged
from dtlint.runs.model import FileProblem, Options, Run, RunSet, file_problem, script_problems
from dtlint.runs.plain_starts import Start, words_of
from dtlint.runs.recipes import functions_in, recipe
from dtlint.runs.roles import is_below_tests, role_of, role_of_config, role_of_lone_program
from dtlint.runs.simultaneous import with_steps_beside
from dtlint.runs.tree import Tree
from dtlint.runs.versions import image_reading, install_readings
from dtlint.source import Source

if TYPE_CHECKING:
    from dtlint.runs.programs import Started

_OF_LOADING = ("model.", "precision.frozen")
MOST_RECIPES = 40
"""Most config functions of one file that are read without a launch."""


class Joiner:
    """Collects scripts, configs and programs of one invocation, then makes runs of them."""

    def __init__(self, tree: Tree, options: Options) -> None:
        self._follower = Follower(tree)
        self.options = options
        self._launches: list[Candidate] = []
        self._programs: dict[str, Source] = {}
        self._followed: set[str] = set()
        self._scripts: dict[str, Script] = {}
        self._sources: dict[str, Source] = {}
        self._lost: list[Lost] = []
        self._remarks: list[str] = []
        self._changes: list[Member] = []

    # Collecting

    def add_script(self, source: Source, folder: Path) -> None:
        """A focused launch script: its launches in every world."""
        script = self._script(source, folder)
        self._scripts.setdefault(source.path, script)
        self._add_worlds(Reached(script, folder, directives_of(script)), companion=False)

    def add_companion(self, source: Source, folder: Path) -> None:
        """A script or manifest that may launch a focused file: kept only for the launches that name one."""
        if self._add_manifest(source, companion=True):
            return
        script = self._script(source, folder)
        self._add_worlds(Reached(script, folder, directives_of(script)), companion=True)

    def add_commands(self, script: Script, folder: Path) -> None:
        """Commands that stand in no file."""
        self._add_worlds(Reached(script, folder, directives_of(script)), companion=False)

    def add_config(self, source: Source) -> None:
        """A focused config, or a manifest with scripts in it."""
        if self._add_manifest(source, companion=False):
            return
        config = read_config(source)
        self._sources[source.path] = source
        self._follower.problems.extend(config.problems)
        if config.speaks:
            self._follower.configs[source.path] = config

    def add_program(self, source: Source) -> None:
        """A focused Python file."""
        self._sources[source.path] = source
        self._programs[source.path] = source

    def add_starts(self, source: Source, folder: Path, companion: bool) -> None:
        """The launches that a Python file starts, if it may start any."""
        if not may_start(source.text.encode(errors="replace")):
            return
        from dtlint.runs.started import scripts_in

        known = len(self._launches)
        for script in scripts_in(
            source, self._follower.tree, self.options.at(source.file), self._follower.reader(folder)
        ):
            self._add_worlds(Reached(script, folder), companion)
        if len(self._launches) > known:
            self._sources[source.path] = source

    def add_notebook(self, source: Source) -> None:
        """A focused notebook, whose code cells are a program."""
        from dtlint.languages.notebook import read_notebook

        notebook = read_notebook(source)
        self._follower.problems.extend(map(file_problem, notebook.problems))
        self.add_program(notebook.code)

    def remark(self, sentence: str) -> None:
        """Something to say about the reading as a whole."""
        self._remarks.append(sentence)

    def starts(self) -> Sequence[Start]:
        """What the commands start that are no launches."""
        return self._follower.starts

    def scripts(self) -> Mapping[str, Script]:
        """The focused launch scripts."""
        return self._scripts

    def wants_launches(self) -> bool:
        """Whether a focused config or program is not named by any launch read so far."""
        return bool(self.unnamed()) and not self._launches

    def launching(self) -> list[str]:
        """File names of the focused scripts that lead to a launch, where the user does not tell their arguments."""
        roots = {chain_of(candidate)[0] for candidate in self._launches}
        return [PurePosixPath(path).name for path in self._scripts if path in roots and not self.options.arguments]

    def unnamed(self) -> list[str]:
        """File names of the focused configs and programs."""
        return [PurePosixPath(path).name for path in (*self._follower.configs, *self._programs)]

    def _add_manifest(self, source: Source, companion: bool) -> bool:
        """The launches of a manifest's jobs; False for what is no manifest."""
        if not may_be_manifest(source.text):
            return False
        from dtlint.runs.orchestrators import hosts_in, jobs_in, script_of

        tree, jobs = self._follower.tree, jobs_in(source, self._follower.tree)
        folder = source.file.parent if source.file is not None else tree.current
        for job in jobs or ():
            script = script_of(job, source, self.options.at(source.file), self._follower.reader(folder))
            self._follower.problems.extend(script_problems(source, script.problems))
            self._lost.extend(script.lost)
            self._add_worlds(Reached(script, folder, job.reading, hosts_in(job, source)), companion)
        self._sources[source.path] = source
        return jobs is not None

    def _script(self, source: Source, folder: Path) -> Script:
        from dtlint.languages.shell import read_script

        options = self.options.at(source.file)
        cluster = {name: str(value.value) for name, value in {**options.cluster, **options.settings}.items()}
        script = read_script(source, options.environment, options.arguments, self._follower.reader(folder), cluster)
        self._sources[source.path] = source
        self._follower.problems.extend(script_problems(source, script.problems))
        self._lost.extend(script.lost)
        return script

    def _add_worlds(self, root: Reached, companion: bool) -> None:
        """The launches of a script in each of its worlds, with those of the scripts that it starts."""
        calls = Calls(self._follower, self.options)
        for world in root.script.worlds:
            launches = list(calls.launches(root, world))
            clashes = port_clashes(launches)
            of_a_run: dict[tuple[object, ...], list[int]] = {}
            for number, launched in enumerate(launches):
                of_a_run.setdefault(run_key(launched), []).append(number)
            for numbers in of_a_run.values():
                first, *others = (launches[number] for number in numbers)
                clash = next((clashes[number] for number in numbers if number in clashes), None)
                found = with_repeated_rank(first.found, first.command, [each.command for each in others])
                found = with_steps_beside(found, [first, *others])
                self._launches.append(candidate_of(first._replace(found=with_clash(found, clash)), companion))
        self._lost.extend(lost for script in calls.scripts.values() for lost in script.lost)

    # Joining

    def finish(self, problems: tuple[FileProblem, ...], focus: frozenset[str] | None) -> RunSet:
        """The runs of everything collected; `focus` None: every file that was read."""
        self._launches = [each for each in known_starts(self._launches) if not is_cut_off(self._lost, each.found)]
        self._read_ahead(program for each in self._launches for program in self._follower.programs_of(each))
        runs = [run for candidate in self._launches for run in self._launched(candidate)]
        runs = merged(runs)
        runs.extend(self._unlaunched(runs))
        self._follower.read_ahead(())
        told_of = {path: source for run in runs for path, source in run.told_of.items()}
        sources = {**self._sources, **{source.path: source for run in runs for source in run.sources}}
        sources = {**sources, **{path: source for path, source in told_of.items() if path not in sources}}
        shown = frozenset(sources) if focus is None else focus
        found = (*problems, *dict.fromkeys(self._follower.problems))
        return RunSet(tuple(runs), found, tuple(sources.values()), shown, tuple(self._remarks))

    def _read_ahead(self, programs: Iterable[Started]) -> None:
        """Programs that are read next; another process sees only what is on disk."""
        if not self.options.texts:
            self._follower.read_ahead(tuple(programs))

    def _launched(self, candidate: Candidate) -> list[Run]:
        """The run of a launch, and one for each further plan that it carries out beside."""
        found = candidate.found
        parts = self._follow(candidate)
        if candidate.companion and not self._uses_focus((*parts.sources, candidate.script)):
            return []
        self._followed.update(source.path for source in parts.sources)
        self._changes.extend(changes_of(parts.readings))
        outer = self._around(candidate)
        installed = install_readings(candidate.world.commands, found.launch.place)
        vendor = vendors.read(found.launch.env, candidate.world.commands, found.program)
        lost = lost_words(self._lost, found, [each.found.launch.place for each in self._launches])
        readings = (*found.readings, *parts.readings, *outer, *lost, *installed, vendor)
        sources = dict.fromkeys((candidate.script, *candidate.callers, *parts.sources))
        whole = Parts(readings, tuple(sources), (*candidate.supposed, *parts.assumptions))
        launch = found.launch._replace(callers=tuple(source.path for source in candidate.callers))
        run = run_of(self._follower.tree, self.options, whole, launch, candidate.branch)
        program = _text_of(found.program, parts.sources)
        told = [reading for reading in readings if not reading.layer.startswith("deepspeed-json")]
        tried = is_below_tests(self._follower.tree.within(candidate.script))
        first = run._replace(role="other" if tried else _role(role_of(found.program, program), told))
        return [first, *self._further(first, whole)]

    def _further(self, first: Run, whole: Parts) -> list[Run]:
        """A run for each role that a reading tells beside its own, with the shape of the role's own model; none beside
        a program that does not train.
        """
        if first.role == "other":
            return []
        folder = self._folder_of(whole)
        runs = []
        for reading in whole.readings:
            for role, other in reading.roles.items():
                files = [part for file in other.files for part in self._follower.model_file(file, folder)]
                kept = [each for each in whole.readings if each is not reading and each.layer != "model-config"]
                parts = whole._replace(readings=(other, *kept, *(found for _, found in files)))
                run = run_of(self._follower.tree, self.options, parts, first.launch, first.branch)
                runs.append(run._replace(role=role))
        return runs

    def _folder_of(self, whole: Parts) -> Path:
        file = whole.sources[0].file if whole.sources else None
        return file.parent if file is not None else self._follower.tree.current

    def _around(self, candidate: Candidate) -> list[Reading]:
        """What says on which machines the script runs, what the image that it names brings, and its host file."""
        around = candidate.around
        if around is None:
            return []
        images = [image_reading(file.path) for file in around.files if file.role == "image"]
        own = any(file.role == "hostfile" for file in candidate.found.files)
        hosts = [hosts_of(candidate.hosts, candidate.found)] if candidate.hosts is not None and not own else []
        return [around, *images, *hosts]

    def _uses_focus(self, sources: Iterable[Source]) -> bool:
        focused = (self._follower.configs, self._programs, self._scripts)
        return any(source.path in each for source in sources for each in focused)

    def _follow(self, candidate: Candidate) -> Parts:
        """The files that the launch names, and the focused config that none names when this is the only launch."""
        readings: list[Reading] = []
        sources: list[Source] = []
        for named in dict.fromkeys(candidate.found.files):
            for source, reading in self._follower.named_file(named, candidate):
                sources.append(source)
                readings.append(reading)
        assumptions = self._beside(candidate.found, readings, sources)
        if assumptions:
            readings = [reading for reading in readings if not reading.unread]
        readings.extend(_unread_default([*candidate.found.readings, *readings]))
        return Parts(tuple(readings), tuple(dict.fromkeys(sources)), tuple(assumptions))

    def _beside(self, found: Found, readings: list[Reading], sources: list[Source]) -> list[str]:
        """Configs that no launch names join the only launch that there is, which says `found` and names `readings`."""
        only = _launch_key(self._launches[0])
        if any(_launch_key(candidate) != only for candidate in self._launches):
            return []
        assumptions = []
        follower = self._follower
        unnamed = [config for path, config in follower.configs.items() if path not in follower.named]
        for config in lone_configs(unnamed, [*found.readings, *readings]):
            for source, reading in self._follower.with_files(config, found.program):
                self._follower.named.add(source.path)
                readings.append(reading)
                sources.append(source)
            path = config.source.path
            assumptions.append(f"{path} is not named by the launch; it stands beside it and was taken as its config")
        return assumptions

    def _unlaunched(self, runs: Sequence[Run]) -> list[Run]:
        """Configs and programs that no launch uses: a run of their own each."""
        used = {source.path for run in runs for source in run.sources}
        used -= self._programs.keys() - self._followed
        launched, programs = frozenset(used), self._lone_programs(used)
        used |= {source.path for parts in programs for source, _ in parts}
        alone = [
            self._follower.with_files(config) for path, config in self._follower.configs.items() if path not in used
        ]
        inner = {source.path for parts in alone for source, _ in parts if source is not parts[0][0]}
        alone = [parts for parts in alone if parts[0][0].path not in inner]
        if one_run([parts[0][1].layer for parts in alone]):
            alone = [[part for parts in alone for part in parts]]
        found = of_one_recipe(alone, programs) if not self._launches else None
        if found is not None:
            alone = [parts for parts in alone if parts is not found.config]
            programs = [found.whole if parts is found.program else parts for parts in programs]
            self.remark(found.sentence)
        lone = changes_of(reading for parts in programs for _, reading in parts)
        changes = (*self._changes, *lone)
        tree = self._follower.tree
        commands = commands_for(alone, tree)
        alone = [*(as_commanded(changed_by_any(parts, changes), commands, tree) for parts in alone), *programs]
        recipes = [
            run for path, source in self._programs.items() if path not in launched for run in self._recipes(source)
        ]
        return [*(run for parts in alone for run in self._alone(parts)), *recipes]

    def _lone_programs(self, used: set[str]) -> list[list[tuple[Source, Reading]]]:
        """The programs that no launch uses and that tell of training, each with what it is read together with."""
        lone = [
            source
            for path, source in self._programs.items()
            if path not in used and not functions_in(source, self._follower.tree)
        ]
        untold = self._without_imported(lone)
        passed = [(source, words_of(source, self._follower.starts)) for source in untold]
        self._read_ahead(passed)
        found = []
        for source, words in passed:
            parts = self._follower.lone_program(source, words)
            if any(_speaks(reading) for _, reading in parts):
                found.append(
                    [(each if each.path in self._follower.configs else source, reading) for each, reading in parts]
                )
        return found

    def _without_imported(self, lone: list[Source]) -> list[Source]:
        if not lone:
            return lone
        from dtlint.runs.import_roots import import_roots

        return import_roots(lone, self._launched_programs(), self._follower.tree)

    def _launched_programs(self) -> list[Source]:
        launches = (each for each in self._launches if not each.companion)
        return [source for each in launches for source, _ in self._follower.programs_of(each)]

    def _recipes(self, source: Source) -> list[Run]:
        """A run for each config function of a file that no launch names."""
        named = functions_in(source, self._follower.tree)
        if len(named) > MOST_RECIPES:
            self.remark(f"only the first {MOST_RECIPES} of {len(named)} config functions of {source.path} were read")
        made = [(name, recipe(source, name, self._follower.tree)) for name in named[:MOST_RECIPES]]
        runs = [(name, run) for name, parts in made for run in self._alone(parts)]
        return [run._replace(branch=f"--config {name}") for name, run in runs]

    def _alone(self, parts: Sequence[tuple[Source, Reading]]) -> list[Run]:
        sources = tuple(dict.fromkeys(source for source, _ in parts))
        run = run_of(self._follower.tree, self.options, Parts(tuple(reading for _, reading in parts), sources))
        path = self._follower.tree.within(sources[0])
        role = role_of_lone_program(path) if path.endswith(".py") else role_of_config(path)
        whole = Parts(tuple(reading for _, reading in parts), sources)
        first = run._replace(role=_role(role, whole.readings))
        return [first, *self._further(first, whole)]


def _text_of(program: Sequence[Word], sources: Iterable[Source]) -> str:
    """The text of the program that a launch names; of its first module where it is named in another way."""
    modules = [source for source in sources if source.path.endswith(".py")]
    named = program[0].text if program else None
    if named is not None and named.endswith(".py"):
        modules = [source for source in modules if PurePosixPath(source.path).name == PurePosixPath(named).name]
    return modules[0].text if modules else ""


def _role(role: str, readings: Iterable[Reading]) -> str:
    """The role of a program, unless a reader knows better."""
    return next((reading.role for reading in readings if reading.role), role)


def _unread_default(readings: Sequence[Reading]) -> list[Reading]:
    """What `accelerate launch` leaves open where no config of it is among the files; Axolotl's own decides itself."""
    launch = accelerate_launch(readings)
    if launch is None or any(reading.layer == "axolotl" and reading.framework for reading in readings):
        return []
    from dtlint.frameworks.accelerate.launcher import without_config

    return [without_config(launch)]


def _speaks(reading: Reading) -> bool:
    """Whether a reading tells of training on several ranks; which model a program loads does not, nor how long."""
    told = any(reading.frontend or not claim.setting.startswith(_OF_LOADING) for claim in reading.claims)
    found = any(members for name, members in reading.collections.items() if name != STEP_LOOPS)
    return bool(told or reading.framework or found)


def _launch_key(candidate: Candidate) -> tuple[str, int]:
    place = candidate.found.launch.place
    return place.source.path, place.start
