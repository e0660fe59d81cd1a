"""Programs that every script and document of a tree starts as one process: with Python alone, and no launcher is named
with them anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dtlint.frameworks import STEP_LOOPS, Member, NamedFile, Reading
from dtlint.frameworks.interpreter import program_name, python_program
from dtlint.languages.traced import Command, Word
from dtlint.record import NamedTuple
from dtlint.runs.kinds import LAUNCHERS, bytes_of, may_start
from dtlint.runs.model import Run
from dtlint.runs.paths import as_path, locate
from dtlint.runs.tree import MOST_SEARCHED, Tree
from dtlint.source import Source, Span, Unreadable

if TYPE_CHECKING:
    from dtlint.languages.python.program import Program

MOST_ENTRIES = 10
"""Most programs that are asked whether a module is one of theirs."""
LARGEST = 1_000_000
"""Largest file that is searched for launchers, in bytes."""

_OF_RANKS = re.compile(r"rank|world|dist|ddp|nproc|num_?proc|num_?gpus|\bgpus\b|multi|launcher|nodes", re.IGNORECASE)
"""Words of arguments by which a program is told that it is one of several processes, or to start some."""
_RANK_VARIABLES = frozenset(("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"))
_SPAWNING = frozenset((
    "spawn", "start_processes", "Process", "notebook_launcher", "elastic_launch", "launch", "remote", "fork", "fit",
))  # fmt: skip
"""Calls by which a program becomes several processes."""
_LAUNCHERS = (*LAUNCHERS, b"torch.distributed", b"colossalai", b"hyperpodrun", b"torchx", b"pdsh", b"submitit")
_STARTS_ITSELF = re.compile(r"\b(pytorch_)?lightning\b")
"""Words of programs whose Trainer or Fabric starts a process for each device."""
_NAMES = re.compile(
    rb"([A-Za-z0-9_-]{1,200})\.py\b|-m[\s\"',]{1,9}(?:[A-Za-z0-9_]{1,100}\.){0,20}([A-Za-z0-9_]{1,200})"
)
"""Names of Python files, and of the modules of `-m package.module`."""
_PROSE = frozenset((".md", ".rst", ".txt"))
_DOCUMENTS = frozenset((".md", ".rst"))
_PLAIN = re.compile(
    r"^[ \t]{0,9}(?:[$>][ \t]{1,3})?(?:CUDA_VISIBLE_DEVICES=\S{1,40}[ \t]{1,3})?python3?[ \t]{1,3}([\w./-]{1,200}\.py)"
    r"((?:[^\n\\]|\\\n|\\.){0,4000})",
    re.MULTILINE,
)
"""A command line of a document that starts a program, with its arguments over several lines."""
_SEARCHED = frozenset((
    ".sh", ".bash", ".slurm", ".sbatch", ".slrm", ".sub", ".job", ".pbs", ".yaml", ".yml", ".json", ".toml", ".py",
    ".ipynb", ".cfg", ".ini", "", *_PROSE,
))  # fmt: skip
"""Files that may say how a program is started."""


class Start(NamedTuple):
    """A program of the tree that a command starts which is no launch; `alone` if it becomes one process. `words` are
    what a command of a script passes it.
    """

    program: Path
    place: Span
    alone: bool
    words: tuple[Word, ...] | None = None


def starts_of(
    command: Command, folders: tuple[Path, Path | None], around: Reading | None, tree: Tree
) -> Iterator[Start]:
    """The program of the tree that a command starts, looked for from the folder in which its paths begin, and from that
    of its script.
    """
    path, arguments = _program(command)
    found = (
        locate(tree, path, folder, command.folder) for folder in folders if path is not None and folder is not None
    )
    located = next((each for each in found if each is not None), None)
    if located is not None:
        of_jobs = around is not None and around.layer not in ("sbatch", "pbs")
        alone = not of_jobs and _is_alone(command, arguments)
        yield Start(located.file, command.place, alone, tuple(arguments))


def words_of(program: Source, starts: Iterable[Start]) -> tuple[Word, ...] | None:
    """What every command passes that starts a program which starts its processes itself, as Lightning's do; None where
    they differ, or none does, and for a program that a launcher starts for its ranks.
    """
    own = _STARTS_ITSELF.search(program.text) is not None
    passed = [each.words for each in starts if own and each.program == program.file]
    first = passed[0] if passed else None
    shown = [[word.shown for word in words or ()] for words in passed]
    return first if first is not None and all(each == shown[0] for each in shown) else None


def _program(command: Command) -> tuple[Word | None, Sequence[Word]]:
    """The path of the Python program that a command starts, and its arguments."""
    from dtlint.frameworks.wrappers import unwrap_all

    words = unwrap_all(command.argv)[1]
    found = python_program(words)
    if found is not None and found.words:
        return as_path(NamedFile(found.kind, found.words[0])), found.words[1:]
    return (words[0], words[1:]) if words and program_name(words[0]).endswith(".py") else (None, ())


def _is_alone(command: Command, arguments: Sequence[Word]) -> bool:
    """Whether nothing that starts a program, and nothing that it is told, is of several processes."""
    told = any(_OF_RANKS.search(_option(word.shown)) for word in arguments) or _is_open_list(arguments)
    managed = any(program_name(each.argv[0]) not in _SHELLS for each in command.wrapper if each.argv)
    return not (told or managed or _RANK_VARIABLES & command.env.keys())


def _is_open_list(words: Sequence[Word]) -> bool:
    """Whether a word of a command line may be options that are not seen (`$MORE`), and not the values of one."""
    before = ("", *(word.shown for word in words))
    return any(word.many and not first.startswith("-") for first, word in zip(before, words, strict=False))


def _option(word: str) -> str:
    """What a word of a command line gives a value: `--gpus` of `--gpus=8`, "" for a value."""
    head, equals, _ = word.partition("=")
    return head if equals or head.startswith("-") else ""


_SHELLS = ("bash", "sh", "sbatch", "nohup", "eval", "source", ".")
"""Commands around a program that start it once."""


def marked(runs: Iterable[Run], starts: Sequence[Start], tree: Tree, asked: frozenset[str]) -> tuple[Run, ...]:
    """The runs, those of programs without a launch with the script that starts them as one process, where all that
    start them do. Who names a file asks about that: it may be started in another way.
    """
    kept = tuple(runs)
    launched = frozenset(path for run in kept if run.launch is not None for path in run.files)
    apart = [_is_open(run, launched, asked) for run in kept]
    if tree.listing.cut or not any(apart):
        return kept
    told = [*starts, *_in_prose(tree)]
    if not told:
        return kept
    known = _Known(_by_program(told), _launched(tree), tree)
    return tuple(_marked(run, known) if one else run for run, one in zip(kept, apart, strict=True))


def _in_prose(tree: Tree) -> Iterator[Start]:
    """The programs that documents of the tree start by a command line of Python alone."""
    for file in islice((file for file in tree.listing.files if file.suffix in _DOCUMENTS), MOST_SEARCHED):
        source = _source(file, tree) if b"python" in bytes_of(file, LARGEST) else None
        for match in _PLAIN.finditer(source.text) if source is not None else ():
            program = tree.find(match[1], file.parent)
            if source is not None and program is not None:
                alone = not any(_OF_RANKS.search(_option(word)) for word in match[2].split())
                yield Start(program, source.span(match.start(1), match.end(1)), alone)


class _Known(NamedTuple):
    """The starts by program, the files that the tree names with a launcher, and the tree."""

    starts: Mapping[Path, list[Start]]
    launched: frozenset[Path]
    tree: Tree


def _is_open(run: Run, launched: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether a run is a program that nobody names and that is part of no launch."""
    first = run.sources[0] if run.launch is None and run.sources else None
    if first is None or first.file is None or first.file.suffix != ".py":
        return False
    return first.path not in launched and asked.isdisjoint(run.files) and any(map(_is_of_code, run.plan.collections))


def _is_of_code(name: str) -> bool:
    """Whether a collection is of places in programs."""
    return name.startswith("code.") and name != STEP_LOOPS


def _by_program(starts: Iterable[Start]) -> Mapping[Path, list[Start]]:
    found: dict[Path, list[Start]] = {}
    for each in starts:
        found.setdefault(each.program, []).append(each)
    return found


def _marked(run: Run, known: _Known) -> Run:
    source = run.sources[0]
    programs = [_read(file, known.tree) for file in _entries(source, known)]
    programs = [each for each in programs if _holds(each, source)]
    if not programs or any(map(_spawns, programs)):
        return run
    names = [name for name in run.plan.collections if _is_of_code(name)]
    members = (each for name in names for each in run.plan.collection(name) if isinstance(each, Member))
    apart = frozenset(each.place for each in members if _is_for_several(each.place, programs))
    return run._replace(single=_said(programs[0], known), apart=apart) if apart else run


def _said(program: Program, known: _Known) -> str:
    """Where a program is started, in words."""
    file = program.main.source.file
    place = known.starts[file][0].place if file is not None else program.main.source.span(0, 0)
    return f"{place.path}:{place.line} starts it as one process"


def _entries(source: Source, known: _Known) -> Sequence[Source]:
    """The programs that may hold a file, which scripts start as one process: itself, or those above that name it; none
    where one of them is started in another way too.
    """
    entries = [source] if source.file in known.starts else _naming(source, known.starts, known.tree)
    starts = [start for each in entries if each.file is not None for start in known.starts[each.file]]
    if len(entries) > MOST_ENTRIES or not all(each.alone for each in starts):
        return ()
    if any(each.file in known.launched for each in (source, *entries)) or _naming(source, known.launched, known.tree):
        return ()
    return entries


def _naming(source: Source, programs: Iterable[Path], tree: Tree) -> list[Source]:
    """The programs in a file's folder and above it that hold its name."""
    name = PurePosixPath(source.path).stem
    above = (file for file in programs if source.file is not None and file.parent in source.file.parents)
    found = (_source(file, tree) for file in above if file != source.file)
    return list(islice((each for each in found if each is not None and name in each.text), MOST_ENTRIES + 1))


def _read(entry: Source, tree: Tree) -> Program:
    from dtlint.runs.programs import program_of

    return program_of(entry, tree)


def _holds(program: Program, source: Source) -> bool:
    return any(module.source is source for module in program.modules.values())


def _source(file: Path, tree: Tree) -> Source | None:
    try:
        return tree.source(file)
    except Unreadable:
        return None


def _spawns(program: Program) -> bool:
    if may_start(program.main.source.text.encode(errors="replace")):
        return True
    return any(not _SPAWNING.isdisjoint(module.called) for module in program.modules.values())


def _is_for_several(place: Span, programs: Iterable[Program]) -> bool:
    from dtlint.frameworks.code.lone_runs import is_for_several

    return any(is_for_several(program, place) for program in programs)


def _launched(tree: Tree) -> frozenset[Path]:
    """The Python files that texts of a tree name together with a launcher."""
    files = (file for file in tree.listing.files if file.suffix in _SEARCHED)
    texts = ((file, bytes_of(file, LARGEST)) for file in islice(files, MOST_SEARCHED))
    parts = ((file, part) for file, data in texts if _launches(data) for part in _parts(file, data) if _launches(part))
    named = {(file.parent, path or module) for file, part in parts for path, module in _NAMES.findall(part)}
    return frozenset(found for folder, name in named for found in _nearest(f"{name.decode()}.py", folder, tree))


def _nearest(name: str, folder: Path, tree: Tree) -> Sequence[Path]:
    """The files of a name that share most of their way with a folder."""
    found = [(_shared(file, folder), file) for file in tree.named(name)]
    most = max((shared for shared, _ in found), default=0)
    return [file for shared, file in found if shared == most]


def _shared(file: Path, folder: Path) -> int:
    return sum(1 for _ in takewhile(lambda parts: parts[0] == parts[1], zip(file.parts, folder.parts, strict=False)))


def _launches(text: bytes) -> bool:
    return any(word in text for word in _LAUNCHERS)


def _parts(file: Path, data: bytes) -> Sequence[bytes]:
    """The parts of a text that speak of one command: its paragraphs, its lines with those that continue them, or all
    of a program that starts others, and of a config.
    """
    if file.suffix in _PROSE:
        return re.split(rb"\n[ \t]{0,99}\r?\n", data)
    if file.suffix in (".yaml", ".yml", ".json", ".toml", ".ipynb") or (file.suffix == ".py" and may_start(data)):
        return (data,)
    return data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").split(b"\n")
