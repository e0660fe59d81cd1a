"""Scripts that bash refuses: which of them may start a training run, which have started theirs by then, and what is
told of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from dtlint.runs.model import FileProblem, Run
from dtlint.runs.roles import TRAINS, role_of_program
from dtlint.runs.tree import SHELL_SUFFIXES

ASIDE = "aside"
"""The loader of a problem of a script that starts no training: bash stops there, and no run is lost."""
LATE = "late"
"""The loader of a problem of a script that stands behind all that it launches: bash has run that by then."""

_STARTS = re.compile(
    r"\b(?:torchrun|torch\.distributed|deepspeed|accelerate|srun|mpirun|mpiexec|horovodrun|llamafactory-cli|swift)\b"
    r"|^#SBATCH|--(?:nnodes|nproc|per_device_train_batch_size|micro[-_]batch[-_]size|tensor[-_]model[-_]parallel)",
    re.MULTILINE,
)
"""Words of a script that start several processes, or that only training takes."""
_OPEN = re.compile(r"\bpython3?\s{1,4}(?:-u\s{1,4})?[\"']?\$")
"""A program in a variable."""
_STARTED = re.compile(
    r"(?<![^\s'\"=;|&])([^\s'\"=;|&]+\.(?:py|sh))\b"
    r"|(?:\spython3?|\baccelerate\s{1,4}launch\b[^\n]{0,200}?)\s{1,4}-m\s{1,4}([\w.]+)"
)
_COMMENT = re.compile(r"(?:^|(?<=\s))#(?!!|SBATCH).*")
_ROW = re.compile(r"^[ \t]{0,8}\|[^\n]*\|[ \t]{0,8}$", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]{0,8}[-*] [A-Za-z]", re.MULTILINE)
_HEREDOC = "<<"
_FEWEST = 2
"""Rows or items that make a table or a list."""
_MAKES_DATA = frozenset(("build", "prepare", "make", "preprocess", "convert", "remove"))
"""Words with which the name of a program begins that makes the data to train on (`build_pretrain_bin.py`)."""
_EVALUATES = frozenset(("eval", "evaluate", "evaluation", "infer", "inference", "predict"))
"""Words in a script's name that say that it runs a model."""
_ASKED_TO_EVALUATE = re.compile(r"--do_(?:eval|predict|test)\b")
_ASKED_TO_TRAIN = re.compile(r"--do_train\b")


def told_of(problems: Sequence[FileProblem], runs: Sequence[Run], named: frozenset[str]) -> Iterator[FileProblem]:
    """The problems, with those behind the launches of their script as such; those of scripts that start no training
    aside, and only where the user names the script.
    """
    for problem in problems:
        if not _is_of_a_script(problem) or _may_train(problem):
            yield problem._replace(fatal=False, loader=LATE) if _is_late(problem, runs) else problem
        elif problem.path in named:
            yield problem._replace(fatal=False, loader=ASIDE)


def _is_of_a_script(problem: FileProblem) -> bool:
    return problem.fatal and problem.span is not None and Path(problem.path).suffix in SHELL_SUFFIXES


def _is_late(problem: FileProblem, runs: Sequence[Run]) -> bool:
    """Whether a launch of the script stands before what bash does not run, and none in it."""
    part = problem.unrun
    if part is None or _may_start(problem.path, part.text):
        return False
    places = (run.launch.place.original() for run in runs if run.launch is not None)
    return any(place.path == problem.path and place.end <= part.start for place in places)


def _may_train(problem: FileProblem) -> bool:
    """Whether a script may start a training run, as far as its words tell."""
    assert problem.span is not None
    return _may_start(problem.path, problem.span.source.text)


def _may_start(path: str, script: str) -> bool:
    """The same of a part of it."""
    text = _COMMENT.sub("", script)
    if _is_notes(text):
        return False
    names = list(_started(text))
    if any(_trains_by_name(name) for name in names):
        return True
    if _evaluates(PurePosixPath(path), text):
        return False
    return _is_open(text) if not names else _starts(text) and any(role_of_program(name) == "train" for name in names)


def _started(text: str) -> Iterator[str]:
    """The programs and scripts that a script names, a module as a path."""
    return (path or module.replace(".", "/") for path, module in _STARTED.findall(text))


def _starts(text: str) -> bool:
    return _STARTS.search(text) is not None


def _is_open(text: str) -> bool:
    """Whether a script that names no program may start one all the same: with a launcher, or from a variable."""
    return _starts(text) or _OPEN.search(text) is not None


def _trains_by_name(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    if re.search(TRAINS, name) is None or role_of_program(path) != "train":
        return False
    return re.split(r"[-_.]", name)[0] not in _MAKES_DATA


def _evaluates(script: PurePosixPath, text: str) -> bool:
    """Whether a script says that it evaluates: in its name, or by the switches of the program that it starts."""
    if not _EVALUATES.isdisjoint(re.split(r"[-_.]", script.name.lower())):
        return True
    return _ASKED_TO_EVALUATE.search(text) is not None and _ASKED_TO_TRAIN.search(text) is None


def _is_notes(text: str) -> bool:
    """Whether a file is a notepad of commands and what came of them: it holds rows of a table or items of a list."""
    if _HEREDOC in text:
        return False
    return any(len(_first(pattern, text)) == _FEWEST for pattern in (_ROW, _ITEM))


def _first(pattern: re.Pattern[str], text: str) -> list[str]:
    found = (match[0] for match, _ in zip(pattern.finditer(text), range(_FEWEST), strict=False))
    return list(found)
