"""The reading of one invocation: paths -> sources -> launches -> the files they name -> runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dtlint.account import is_file, is_folder, is_there
from dtlint.runs.broken import told_of
from dtlint.runs.join import Joiner
from dtlint.runs.kinds import (
    bytes_of,
    is_script,
    kind_in_folder,
    kind_of,
    kind_of_text,
    may_start,
    python_near,
    relevant,
    searched,
)
from dtlint.runs.left_over import marked as left_over
from dtlint.runs.listing import MOST_FILES
from dtlint.runs.model import FileProblem, Options, Run, RunSet
from dtlint.runs.plain_starts import marked as single
from dtlint.runs.spare import marked
from dtlint.runs.tree import MOST_SEARCHED, Tree, root_of
from dtlint.source import Source, Unreadable

LARGEST = 1_000_000
"""Largest file that is searched for names, in bytes."""

MOST_NAMED = 3
"""Most scripts that a remark names."""

NOT_SCRIPTS = frozenset((".md", ".txt", ".lock", ".cfg", ".ini", ".csv"))
"""Suffixes of files that no reader takes, whatever they hold."""


def read_runs(paths: Sequence[Path], options: Options, stdin: str | None = None) -> RunSet:
    """Every run that the paths hold, or take part in. A folder stands for the relevant files below it, `-` for
    `stdin`.
    """
    named = [path for path in paths if str(path) != "-"]
    tree = Tree(root_of(named).resolve(), options.current or Path.cwd(), options.texts)
    joiner = Joiner(tree, options)
    files, problems = _expand(named, tree)
    if stdin is not None:
        _read_text(joiner, Source("<stdin>", stdin), kind_of_text(stdin), tree.current)
    for file, kind in files:
        _read_file(joiner, file, kind, tree, problems)
    focus = frozenset([tree.shown(file) for file, _ in files] + (["<stdin>"] if stdin is not None else []))
    if joiner.wants_launches():
        _search_launches(joiner, tree, {file for file, _ in files})
    if launching := joiner.launching():
        _search_callers(joiner, tree, {file for file, _ in files}, launching)
    _remark_listing(joiner, tree)
    found = joiner.finish(tuple(problems), focus)
    asked = _asked(named, options, tree)
    told = tuple(told_of(found.problems, found.runs, asked))
    alone = single(marked(found.runs, asked), joiner.starts(), tree, asked)
    found = found._replace(runs=left_over(alone, tree, asked), problems=told)
    found = found._replace(remarks=(*found.remarks, *_unfollowed(joiner, found.runs, asked)))
    below = _below([path for path in named if is_folder(path)], found.sources)
    listed = sum(len(tree.files(folder.resolve())) for folder in named if is_folder(folder))
    focus = focus | below | _started(focus, found.runs)
    return found._replace(focus=focus, asked=asked, listed=listed)


def _unfollowed(joiner: Joiner, runs: Sequence[Run], asked: frozenset[str]) -> Iterable[str]:
    """What to say of the focused scripts that start no run: of all where there is no run at all, else of those that
    the user names.
    """
    started = {path for run in runs for path in run.files}
    silent = [each for path, each in joiner.scripts().items() if path not in started and (not runs or path in asked)]
    if not silent:
        return ()
    from dtlint.runs.unfollowed import remarks

    return remarks(silent)


def _asked(named: Iterable[Path], options: Options, tree: Tree) -> frozenset[str]:
    """The files that the user names, here or as what is run."""
    own = [path.resolve() for path in named if not is_folder(path)]
    run = filter(options.is_run, tree.listing.files) if options.run else ()
    return frozenset(map(tree.shown, (*own, *run))) | {"<stdin>"}


def _started(focus: frozenset[str], runs: Iterable[Run]) -> frozenset[str]:
    """The files of what a focused launch, or a focused script that leads to one, starts: who asks about a launch asks
    about all that it reads, and about the modules of its program.
    """
    launched = ((run.launch, (*run.files, *run.told_of)) for run in runs if run.launch is not None)
    started = [files for launch, files in launched if not focus.isdisjoint((launch.place.path, *launch.callers))]
    return frozenset(path for files in started for path in files)


def _below(folders: Sequence[Path], sources: Iterable[Source]) -> frozenset[str]:
    """The files that were read because others name them, and that lie in a folder which the user names."""
    resolved = [folder.resolve() for folder in folders]
    files = [(source.path, source.file.resolve()) for source in sources if source.file is not None]
    return frozenset(path for path, file in files if any(file.is_relative_to(folder) for folder in resolved))


def read_command_line(words: Sequence[str], options: Options) -> RunSet:
    """The run that a command would start, with the files that it names (`dtlint check -- torchrun ...`)."""
    from dtlint.languages.shell import command_of

    tree = Tree(root_of([Path.cwd()]).resolve(), options.current or Path.cwd(), options.texts)
    joiner = Joiner(tree, options)
    joiner.add_commands(command_of(words), tree.current)
    return joiner.finish((), None)


def _expand(paths: Iterable[Path], tree: Tree) -> tuple[list[tuple[Path, str]], list[FileProblem]]:
    """The files to read with their kinds, each once; a named path that cannot be read is a problem."""
    files: dict[Path, str] = {}
    problems: list[FileProblem] = []
    for path in paths:
        if is_folder(path):
            found = ((file, kind_in_folder(file)) for file in tree.files(path.resolve()))
            files.update({file: kind for file, kind in found if kind and file not in files})
        elif kind := _named_kind(path):
            files.setdefault(path.resolve(), kind)
        elif not is_there(path):
            problems.append(FileProblem(tree.shown(path.absolute()), None, "no such file"))
    return list(files.items()), problems


def _named_kind(path: Path) -> str:
    """The kind of a file that the user names; text without a tell-tale name may be a script."""
    if not is_there(path):
        return ""
    known = kind_of(path) if is_file(path) else "shell"
    return known or ("shell" if path.suffix.lower() not in NOT_SCRIPTS and is_script(path) else "")


def _read_file(joiner: Joiner, file: Path, kind: str, tree: Tree, problems: list[FileProblem]) -> None:
    try:
        source = tree.source(file)
    except Unreadable as unreadable:
        problems.append(FileProblem(unreadable.path, None, unreadable.reason))
        return
    _read_text(joiner, source, kind, file.parent)


def _read_text(joiner: Joiner, source: Source, kind: str, folder: Path) -> None:
    if kind == "shell":
        joiner.add_script(source, folder)
    elif kind in ("json", "yaml", "toml"):
        joiner.add_config(source)
    elif kind == "python":
        joiner.add_program(source)
        joiner.add_starts(source, folder, companion=False)
    elif kind == "starter":
        joiner.add_starts(source, folder, companion=False)
    elif kind == "notebook":
        joiner.add_notebook(source)


def _search_launches(joiner: Joiner, tree: Tree, seen: set[Path]) -> None:
    """Scripts of the tree that name a focused file which no focused launch names."""
    names = [name.encode() for name in joiner.unnamed()]
    files, cut = searched(tree)
    if cut:
        wanted = ", ".join(joiner.unnamed())
        joiner.remark(f"only the first {MOST_SEARCHED:,} scripts were searched for launches that name {wanted}")
    for file, kind in files:
        if file in seen or not _mentions(file, names):
            continue
        if kind == "yaml" and not relevant(file, kind):
            continue
        try:
            joiner.add_companion(tree.source(file), file.parent)
        except Unreadable:
            continue
    for file in python_near(sorted({file.parent for file in seen}), tree):
        data = bytes_of(file, LARGEST)
        if file not in seen and may_start(data) and any(name in data for name in names):
            _add_starts(joiner, file, tree)


def _add_starts(joiner: Joiner, file: Path, tree: Tree) -> None:
    try:
        joiner.add_starts(tree.source(file), file.parent, companion=True)
    except Unreadable:
        return


def _search_callers(joiner: Joiner, tree: Tree, seen: set[Path], launching: Sequence[str]) -> None:
    """Scripts and manifests of the tree that may start a focused script, and those that may start them."""
    from dtlint.runs.callers import callers_of

    found, cut = callers_of(tree, launching)
    if cut:
        wanted = ", ".join(launching[:MOST_NAMED])
        joiner.remark(f"only the first {MOST_SEARCHED:,} scripts were searched for any that start {wanted}")
    for file in found:
        if file in seen:
            continue
        try:
            joiner.add_companion(tree.source(file), file.parent)
        except Unreadable:
            continue


def _remark_listing(joiner: Joiner, tree: Tree) -> None:
    """Say what of a tree that was listed was not looked at, or would not have been."""
    if tree.listed is None:
        return
    if tree.listed.cut:
        joiner.remark(f"only the first {MOST_FILES:,} files below {tree.shown(tree.root)} were looked at")
    if not tree.listed.by_git and is_there(tree.root / ".git") and is_file(tree.root / ".gitignore"):
        joiner.remark("git does not list the files here, so that those which .gitignore leaves out are looked at too")


def _mentions(file: Path, names: Sequence[bytes]) -> bool:
    data = bytes_of(file, LARGEST)
    return any(name in data for name in names)
