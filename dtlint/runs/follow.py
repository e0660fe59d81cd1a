"""Reads the files that a launch, a config or a program names, and those that they name in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.frameworks import Member, NamedFile, Reading
from dtlint.frameworks.dotted_keys import without_part
from dtlint.frameworks.mounts import host_path
from dtlint.frameworks.torchtitan.spelling import REGISTRY_ROLE
from dtlint.languages.traced import Word, file_key, is_elsewhere, literal_word
from dtlint.runs.beside import accelerate_launch
from dtlint.runs.candidates import Candidate as Candidate
from dtlint.runs.configs import (
    Config,
    document_of,
    problems_of,
    read_config,
    read_model_config,
    without_config,
)
from dtlint.runs.front_ends import HYDRA, MARKS, bases_of, reader
from dtlint.runs.inline import inline_config
from dtlint.runs.model import FileProblem, file_problem
from dtlint.runs.paths import Located, as_path, locate, model_path
from dtlint.runs.plain_starts import Start
from dtlint.runs.single_files import fsdp_config, hidden, overridden, unread, without_file
from dtlint.runs.single_files import hosts_of as hosts_of
from dtlint.runs.tree import Tree
from dtlint.runs.versions import image_reading
from dtlint.source import Source, Unreadable

if TYPE_CHECKING:
    from dtlint.runs.ahead import Ahead
    from dtlint.runs.programs import Started

NOTHING: Mapping[str, Source] = {}

LEAST_PROGRAMS = 40
"""Programs for which a second process is started: that takes as long as to read some five of them."""

_HYDRA = "hydra"
"""What the text of a program holds that hydra starts."""

MOST_BASES = 10
"""Most files of which each builds on the next."""


class Follower:
    """Follows names of files in one tree. `configs` are the focused ones by path; `named` collects the paths of those
    that something names, `problems` what is wrong with files on the way; `quiet` counts by path the starts of scripts
    that led to no launch; `starts` are the programs that commands start which are no launches; `ahead` has what another
    process reads.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.configs: dict[str, Config] = {}
        self.named: set[str] = set()
        self.problems: list[FileProblem] = []
        self.quiet: dict[str, int] = {}
        self.starts: list[Start] = []
        self.ahead: Ahead | None = None

    def reader(self, folder: Path, written: Mapping[str, Source] = NOTHING) -> Callable[[str], Source | None]:
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

    def named_file(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """What a named file says, and the files that it names in turn."""
        found = self._read_named(named, candidate)
        said = self._supposition(named, candidate, found[0][0]) if found else ""
        return found if not said else [(found[0][0], found[0][1]._replace(supposed=said)), *found[1:]]

    def _read_named(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        if named.role == "deepspeed":
            source = self._resolve(named, candidate)
            if source is None:
                return [unread(named, candidate)]
            return [(source, self._config(source, "deepspeed").reading)]
        if named.role == "accelerate":
            return self._accelerate_file(named, candidate)
        if named.role == "fsdp":
            source = self._resolve(named, candidate)
            return [hidden(named, candidate)] if source is None else [(source, fsdp_config(source))]
        if named.role in ("arguments", "config", "torchtitan", "nemo", REGISTRY_ROLE, *MARKS):
            return self._program_config(named, candidate)
        if named.role == "recipe":
            return self._recipe(named, candidate)
        if named.role == "model":
            here = self.model_file(named, candidate.folder)
            return here or (self.model_file(named, candidate.own) if candidate.own is not None else [])
        if named.role == "image":
            return [(candidate.script, image_reading(named.path))]
        if named.role == "hostfile":
            source = self._resolve(named, candidate)
            return [] if source is None else [(source, hosts_of(source, candidate.found))]
        if named.role in ("script", "module"):
            source = self._resolve(named, candidate)
            return [] if source is None else self._program_and_files(source, candidate)
        return []

    def _program_config(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The config that a program itself reads."""
        if named.role in HYDRA:
            return self._hydra_config(named, candidate)
        if named.role in MARKS:
            return self._front_end_files(named, candidate)
        if named.role == REGISTRY_ROLE:
            return self._registry(named, candidate)
        if named.role == "arguments":
            return self._arguments_file(named, candidate)
        if named.role == "config":
            source = self._resolve(named, candidate)
            return [] if source is None else [(source, self._config(source, "").reading)]
        return self._overridden_file(named, candidate)

    def _program_and_files(self, source: Source, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """A program, and the configs that its code names."""
        found = [*self._program(source, candidate.found.program[1:]), *self._refused(source, candidate)]
        files = dict.fromkeys(file for _, reading in found for file in reading.files)
        return [*found, *(part for file in files for part in self.named_file(file, candidate))]

    def _accelerate_file(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """Accelerate's config, and the DeepSpeed config that it names."""
        source = self._resolve(named, candidate)
        if source is None:
            from dtlint.frameworks.accelerate.launcher import without_config

            launch = accelerate_launch(candidate.found.readings)
            return [] if launch is None else [(candidate.script, without_config(launch, named.path.shown))]
        reading = self._under_launch(source, candidate)
        nested = [found for file in reading.files for found in self.named_file(file, candidate)]
        return [(source, reading), *nested]

    def _under_launch(self, source: Source, candidate: Candidate) -> Reading:
        """Accelerate's config as the launch reads it."""
        reading, launch = self._config(source, "accelerate").reading, accelerate_launch(candidate.found.readings)
        if launch is None or launch.framework in ("", reading.framework) or not reading.framework:
            return reading
        from dtlint.frameworks.accelerate.chosen import read_under

        return read_under(document_of(source), launch)

    def _arguments_file(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The file of a program's arguments, and the config that it names."""
        source = self._resolve(named, candidate)
        if source is None:
            return [hidden(named, candidate)]
        reading = overridden(self._config(source, "arguments").reading, source, candidate)
        if not reading.claims:
            return [(source, Reading("program", open=f"the arguments stand in {named.path.shown}"))]
        nested = [found for file in reading.files for found in self.named_file(file, candidate)]
        return [(source, reading), *nested]

    def _overridden_file(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The config of a program whose command line overrides what it says."""
        source, program = self._resolve(named, candidate), candidate.found.program
        if source is None:
            return [(candidate.script, without_config(named, program))]
        config = read_config(source, named.role, program)
        self.problems.extend(config.problems)
        return [(source, config.reading)]

    def _registry(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The config function of a module that a command line names, where the module lies in the tree."""
        from dtlint.runs.recipes import launched_recipe

        resolve = partial(self._file_beside, named, candidate)
        found = launched_recipe(named, candidate.found.program, self.tree, resolve)
        return [(found[0] or candidate.script, found[1])]

    def _recipe(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The config that a function makes which an option names."""
        from dtlint.frameworks.nemo.config import unread_recipe
        from dtlint.runs.recipes import named_recipe

        program = candidate.found.program
        found = named_recipe(named, program, self.tree, partial(self._file_beside, named, candidate))
        return found or [(candidate.script, reading) for reading in unread_recipe(program, named.path)]

    def _file_beside(self, named: NamedFile, candidate: Candidate, path: str) -> Source | None:
        """A file by its path, from where a named one is looked for."""
        return self._resolve(named._replace(path=literal_word(path, named.path.place)), candidate)

    def _hydra_config(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The config that hydra composes for a program, with the files that it is composed of."""
        from dtlint.runs.compositions import hydra_reader, of_program

        program, env = candidate.found.program, candidate.found.launch.env
        handed = of_program(named, program, env, self.tree, partial(self._resolve, candidate=candidate))
        own, found = hydra_reader(named.role), handed.config
        sources = (candidate.script,) if found is None else found.sources
        if found is None:
            reading = own.read_composed(None, program, () if handed.file is None else (handed.file.path.shown,))
        else:
            reading = own.read_composed(found.document, (program[0], *found.words), found.missing)
            self.named.update(source.path for source in sources)
            self.problems.extend(problem for source in sources for problem in problems_of(source, named.role))
        if handed.refused and not self._supposed(handed.file, candidate):
            reading = _with_refused(reading, handed.refused)
        nested = [part for each in reading.files for part in self.named_file(each, candidate)]
        parts = [(source, Reading("program")) for source in sources[1:]]
        return [(sources[0], reading), *parts, *nested]

    def _refused(self, program: Source, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The overrides that hydra refuses to a program whose config no front end reads."""
        words = candidate.found.program
        if not words or _HYDRA not in program.text or any(file.role in HYDRA for file in candidate.found.files):
            return []
        from dtlint.runs.compositions import of_program

        named = NamedFile(_HYDRA, words[0])
        resolve = partial(self._resolve, candidate=candidate)
        handed = of_program(named, words, candidate.found.launch.env, self.tree, resolve)
        if not handed.refused or self._supposed(handed.file, candidate):
            return []
        return [(program, _with_refused(Reading("program"), handed.refused))]

    def _supposed(self, named: NamedFile | None, candidate: Candidate) -> bool:
        """Whether the file that was found for a name is only likely to be the one."""
        found = self._located(named, candidate) if named is not None else None
        return found is None or found.supposed

    def _front_end_files(self, named: NamedFile, candidate: Candidate) -> list[tuple[Source, Reading]]:
        """The files of a front end that make one config, read together where the first of them is named."""
        together = [file for file in candidate.found.files if file.role == named.role]
        if named != together[0]:
            return []
        found = [(file, self._resolve(file, candidate)) for file in together]
        missing = next((file.path.shown for file, source in found if source is None), "")
        with_bases = [self._with_bases(named.role, source) for _, source in found if source is not None]
        sources = [source for each, _ in with_bases for source in each]
        missing = missing or next((unread for _, unread in with_bases if unread), "")
        reading = reader(named.role).read_config([document_of(each) for each in sources], candidate.found.program[1:])
        if missing:
            reading = without_part(reading, missing)
        for source in sources:
            self.problems.extend(problems_of(source, named.role))
        nested = [part for file in reading.files for part in self.named_file(file, candidate)]
        first, *others = sources or [candidate.script]
        return [(first, reading), *((other, Reading("program")) for other in others), *nested]

    def _with_bases(self, role: str, source: Source) -> tuple[list[Source], str]:
        """A file behind those that it builds on, the lowest first, and which of these is missing."""
        found, waiting = [source], [source]
        while waiting and len(found) < MOST_BASES:
            above = waiting.pop()
            folder = above.file.parent if above.file is not None else self.tree.current
            for name in bases_of(role, document_of(above)):
                base = self.reader(folder)(name)
                if base is None:
                    return found, name
                if base not in found:
                    self.named.add(base.path)
                    found.insert(0, base)
                    waiting.append(base)
        return found, ""

    def model_file(self, named: NamedFile, folder: Path) -> list[tuple[Source, Reading]]:
        """The config.json of the model that a run names, where it lies in the tree."""
        source = self.reader(folder)(model_path(named.path.text or ""))
        if source is None:
            return []
        config = read_model_config(source)
        self.problems.extend(config.problems)
        return [(source, config.reading)]

    def _resolve(self, named: NamedFile, candidate: Candidate) -> Source | None:
        if named.role == "deepspeed" and (inline := inline_config(named.path, candidate.script.path)) is not None:
            return inline
        path = file_key(named.path.pieces, candidate.moved)
        if path in candidate.world.files or path in candidate.world.unread:
            return candidate.world.files.get(path)
        found = self._located(named, candidate)
        if found is None:
            return None
        self.named.add(self.tree.shown(found.file))
        try:
            return self.tree.source(found.file)
        except Unreadable as unreadable:
            self.problems.append(FileProblem(unreadable.path, None, unreadable.reason))
            return None

    def _located(self, named: NamedFile, candidate: Candidate) -> Located | None:
        """Where a file lies that a launch names; a package may lie in src, from where it is installed."""
        found = self._placed(named, candidate)
        if found is not None or named.role not in ("module", *HYDRA):
            return found
        path = as_path(named)
        installed = literal_word(f"src/{path.text or ''}", path.place)
        return self._placed(NamedFile("script", installed), candidate) if (path.text or "/")[0] != "/" else None

    def _placed(self, named: NamedFile, candidate: Candidate) -> Located | None:
        found = locate(self.tree, as_path(named), candidate.folder, candidate.moved)
        if found is None or found.supposed:
            found = self._mounted(named, candidate) or found
        if candidate.own is None or (found is not None and not found.supposed):
            return found
        moved = candidate.moved if is_elsewhere(candidate.moved) else ""
        return locate(self.tree, as_path(named), candidate.own, moved) or found

    def _mounted(self, named: NamedFile, candidate: Candidate) -> Located | None:
        """A file of the tree that a container has under another path."""
        around = (candidate.around,) if candidate.around is not None else ()
        path = host_path(named.path, (*candidate.found.readings, *around), candidate.moved)
        found = self.tree.find(path, candidate.folder) if path else None
        return Located(found, False) if found is not None else None

    def _supposition(self, named: NamedFile, candidate: Candidate, source: Source) -> str:
        """The sentence on a file that is only likely to be the one that is named, "" for one that surely is."""
        found = self._located(named, candidate)
        if found is None or not found.supposed or self.tree.shown(found.file) != source.path:
            return ""
        return f"{source.path} was taken for {named.path.shown}, whose folder is not here"

    def _config(self, source: Source, role: str) -> Config:
        known = self.configs.get(source.path)
        if known is not None and known.source is source:
            return known
        config = read_config(source, role)
        self.problems.extend(config.problems)
        return config

    def _program(self, source: Source, words: tuple[Word, ...] | None) -> list[tuple[Source, Reading]]:
        from dtlint.runs.programs import read_program

        program = source, words
        told = (self.ahead.told(program) if self.ahead is not None else None) or read_program(program, self.tree)
        self.problems.extend(map(file_problem, told.problems))
        return told.readings

    def read_ahead(self, programs: Sequence[Started]) -> None:
        """Have another process read some of the programs that are read next, if they are many, and none else."""
        if self.ahead is not None:
            self.ahead.close()
            self.ahead = None
        if len(programs) >= LEAST_PROGRAMS:
            from dtlint.runs.ahead import started

            self.ahead = started(programs, self.tree)

    def programs_of(self, candidate: Candidate) -> list[Started]:
        """The programs on disk that a launch starts."""
        named = [each for each in candidate.found.files if each.role in ("script", "module")]
        found = [located for each in named if (located := self._located(each, candidate)) is not None]
        read = self.reader(candidate.folder)
        sources = [source for each in found if (source := read(str(each.file))) is not None]
        return [(source, candidate.found.program[1:]) for source in sources]

    def with_files(self, config: Config, program: Sequence[Word] = ()) -> list[tuple[Source, Reading]]:
        """A config that no launch names, and the DeepSpeed config that it names; `program` is the command line that
        overrides it.
        """
        from dtlint.runs.assigned import reading_as_used

        reading = reading_as_used(config, program, self.tree)
        role = "nemo_rl" if reading.layer == "nemo-rl" else ""
        sources, missing = self._with_bases(role, config.source) if role else ([config.source], "")
        if len(sources) > 1:
            reading = reader(role).read_config([document_of(each) for each in sources], program)
        reading = without_part(reading, missing) if missing else reading
        found = [(config.source, reading), *((each, Reading("program")) for each in sources[:-1])]
        folder = config.source.file.parent if config.source.file is not None else self.tree.current
        for named in config.reading.files:
            if named.role == "model":
                found.extend(self.model_file(named, folder))
            if named.role == "deepspeed":
                found.append(self._deepspeed_file(named, folder, config.source))
        return found

    def _deepspeed_file(self, named: NamedFile, folder: Path, namer: Source) -> tuple[Source, Reading]:
        """DeepSpeed's config that another file names."""
        source = self.reader(folder)(named.path.text or "")
        reading = without_file(named.path) if source is None else self._config(source, "deepspeed").reading
        return source or namer, reading

    def lone_program(self, source: Source, words: tuple[Word, ...] | None = None) -> list[tuple[Source, Reading]]:
        """A program that no launch names, and the configs of the model and of DeepSpeed that its code names: of several
        of DeepSpeed nobody knows which one it takes.
        """
        found = self._program(source, words)
        folder = source.file.parent if source.file is not None else self.tree.current
        named = dict.fromkeys(file for _, reading in found for file in reading.files)
        engines = [file for file in named if file.role == "deepspeed"]
        return [
            *found,
            *(part for file in named if file.role == "model" for part in self.model_file(file, folder)),
            *(self._deepspeed_file(file, folder, source) for file in engines if len(engines) == 1),
        ]


def _with_refused(reading: Reading, refused: tuple[Member, ...]) -> Reading:
    """A reading of what hydra composes, and those of its further plans, with the overrides that stop the launch."""
    from dtlint.frameworks.hydra.refused import REFUSED

    roles = {role: _with_refused(other, refused) for role, other in reading.roles.items()}
    return reading._replace(collections={**reading.collections, REFUSED: refused}, roles=roles)
