"""Launches left over from where their script was copied: from another repository, of which the program that they start
did not come along, or a module that it imports; or from another folder, where the program stayed. Programs left over
from an earlier state of the tree: a name that they import is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dtlint.languages.traced import Word
from dtlint.runs.absent_modules import absent_module, absent_name
from dtlint.runs.forks import FORKED
from dtlint.runs.model import Run
from dtlint.runs.parsers import parser_of
from dtlint.runs.paths import locate
from dtlint.runs.tree import Tree
from dtlint.source import Source, Unreadable


def marked(runs: Iterable[Run], tree: Tree, asked: frozenset[str]) -> tuple[Run, ...]:
    """The runs, each with the reason why its program does not start where the launch is left over. In the files that
    are `asked` about no program is looked for in other folders.
    """
    kept = tuple(runs)
    within = [run if _is_of_a_copy(run, tree) else None for run in kept]
    named = ["" if run is None else _named(run) for run in within]
    gone = frozenset(path for path in dict.fromkeys(named) if path and _is_nowhere(path, tree))
    entries = [None if run is None else _entry(run, tree) for run in within]
    lacking = {entry: "" if entry is None else absent_module(entry, tree) for entry in dict.fromkeys(entries)}
    of_copies = [
        f"{path} is not in this repository" if path in gone else _module(lacking[entry])
        for path, entry in zip(named, entries, strict=True)
    ]
    bare = [None if asked.intersection(run.files) else _bare(run) for run in kept]
    stayed = {each: "" if each is None else _stayed(*each, tree) for each in dict.fromkeys(bare)}
    started = [None if asked.intersection(run.files) else _started(run, tree) for run in kept]
    outlived = {each: "" if each is None else _outlived(each, tree) for each in dict.fromkeys(started)}
    whys = zip(of_copies, bare, started, strict=True)
    told = [reason or stayed[named] or outlived[program] for reason, named, program in whys]
    return tuple(run._replace(left_over=reason) if reason else run for run, reason in zip(kept, told, strict=True))


def _module(name: str) -> str:
    return f"{name}, which its program imports, is not in this repository" if name else ""


def _started(run: Run, tree: Tree) -> Source | None:
    """The program of a run: what the launch starts, or the Python file that no launch does."""
    if run.launch is not None:
        return _entry(run, tree)
    first = run.sources[0] if run.sources else None
    return first if first is not None and first.file is not None and first.file.suffix == ".py" else None


def _outlived(program: Source, tree: Tree) -> str:
    """Why a program stops at its imports, "" where it does not."""
    name = absent_name(program, tree)
    module, _, last = name.rpartition(".")
    return f"the program stops before: it imports {last} from {module}, which has no such name" if name else ""


def _bare(run: Run) -> tuple[str, Path] | None:
    """The program that a launch names without a folder, with the script that does, where that was not found."""
    word, script = _program(run), run.launch.place.source.file if run.launch is not None else None
    name = (word.text or "").removeprefix("./") if word is not None else ""
    return None if script is None or not name or "/" in name or _is_read(name, run) else (name, script)


def _stayed(name: str, script: Path, tree: Tree) -> str:
    """Why a script finds no program that is a copy of one in another folder, where the program lies beside it; "" where
    it lies beside this one too, or above it, or may.
    """
    there = tree.named(name)
    if not there or tree.listing.cut or any(file.parent in script.parents for file in there):
        return ""
    scripts = frozenset(tree.named(script.name))
    original = next((file.parent / script.name for file in there if file.parent / script.name in scripts), None)
    return f"{name} is not beside this copy of {tree.shown(original)}" if original is not None else ""


def _is_of_a_copy(run: Run, tree: Tree) -> bool:
    """Whether a launch passes arguments of the framework of which a copy lies around its script."""
    if run.launch is None or not any(reading.layer == FORKED and not reading.frontend for reading in run.readings):
        return False
    return _is_in_a_copy(run.launch.place.source.file, tree)


def _program(run: Run) -> Word | None:
    """The word of the launch that names its program."""
    argv = run.launch.argv if run.launch is not None else ()
    return next((word for word in argv if word.shown.endswith(".py")), None)


def _named(run: Run) -> str:
    """The program that a launch names, where that was not found; "" for one that may lie elsewhere."""
    word = _program(run)
    path = word.text or "" if word is not None else ""
    return path if _is_of_the_tree(path) and not _is_read(path, run) else ""


def _entry(run: Run, tree: Tree) -> Source | None:
    """The program of a launch as it lies in the tree; a script that the launch writes lies nowhere."""
    word, script = _program(run), run.launch.place.source.file if run.launch is not None else None
    if word is None or script is None:
        return None
    name = PurePosixPath(word.shown).name
    read = next((source for source in run.sources if PurePosixPath(source.path).name == name), None)
    source = read or _located(word, script.parent, tree)
    return source if source is not None and source.file is not None else None


def _located(word: Word, folder: Path, tree: Tree) -> Source | None:
    found = locate(tree, word, folder)
    try:
        return tree.source(found.file) if found is not None else None
    except Unreadable:
        return None


def _is_read(path: str, run: Run) -> bool:
    """Whether the program is among what the run was read from: it lies here, or the script writes it."""
    return any(PurePosixPath(source.path).name == PurePosixPath(path).name for source in run.sources)


def _is_of_the_tree(path: str) -> bool:
    """Whether a path is meant to lead to a file of the repository: its folder is neither another machine's nor to be
    filled in.
    """
    return bool(path) and not path.startswith(("/", "~")) and not any(mark in path for mark in ("://", "<", "*"))


def _is_in_a_copy(script: Path | None, tree: Tree) -> bool:
    return script is not None and parser_of(tree, (script.parent,)) is not None


def _is_nowhere(path: str, tree: Tree) -> bool:
    """Whether no file has this path, whichever folder it is meant from; below a folder that is not here (one to be
    filled in, a submodule) it may lie.
    """
    files, parts = tree.listing.files, tuple(part for part in PurePosixPath(path).parts if part != "..")
    if tree.listing.cut or (len(parts) > 1 and not any(parts[0] in file.parts for file in files)):
        return False
    return not tree.ending(parts)
