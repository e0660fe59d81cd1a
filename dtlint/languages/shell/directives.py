"""`#SBATCH` and `#PBS` lines: the words that they hold, and the SLURM variables that follow from the former."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from dtlint.languages.shell.state import Fact, Shell
from dtlint.languages.traced import Piece, Word, pieces_between
from dtlint.source import Source, Span
from dtlint.value import Step

MARK, QUEUED_MARK = "#SBATCH", "#PBS"
LINE = r"(?m)^[ \t]*#SBATCH[ \t]+([^\n]*)"
QUEUED_LINE = r"(?m)^#PBS[ \t]+([^\n]*)"
LATE_LINE = r"(?m)^#SBATCH[ \t]+([^\n]*)"
HEREDOC = r"<<-?[ \t]*['\"\\]?(\w+)"
LINE_OF_A_WORD = r"(?m)^[ \t]*(\w+)[ \t]*$"
COMMAND = r"(?m)^[ \t]*[^#\s]"
WORD = r"(?:[^\s'\"#]|(?<!\s)#|'[^'\n]*'|\"[^\"\n]*\")+"
FOLLOWING = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "gres": ("SLURM_GPUS_ON_NODE",),
}
OF_EVERY_JOB = (
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURM_SUBMIT_DIR",
)
"""Variables that Slurm sets in every job: where a script has directives, they are taken to be set."""

SHORT = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task"}
COUNT = r"(?:gpu:(?:[\w.-]+:)?)?(\d+)$"
MEANS = {
    "nodes": "cluster.nodes",
    "gpus-per-node": "cluster.gpus_per_node",
    "gres": "cluster.gpus_per_node",
    "ntasks": "launch.processes",
}


def read_directives(source: Source) -> tuple[Word, ...]:
    """The words of the `#SBATCH` lines above the first command, each with its place."""
    return _words_of(source, re.compile(LINE).finditer(source.text, 0, _head(source))) if MARK in source.text else ()


def read_queued(source: Source) -> tuple[Word, ...]:
    """The words of the `#PBS` lines above the first command, which ends what qsub reads of a script (qsub(1B))."""
    if QUEUED_MARK not in source.text:
        return ()
    return _words_of(source, re.compile(QUEUED_LINE).finditer(source.text, 0, _head(source)))


def _head(source: Source) -> int:
    """Where the first command of a script begins."""
    command = re.search(COMMAND, source.text)
    return command.start() if command else len(source.text)


def _words_of(source: Source, lines: Iterable[re.Match[str]]) -> tuple[Word, ...]:
    return tuple(word for line in lines for word in _words(source, line.start(1), line.end(1)))


def late_directives(source: Source) -> tuple[tuple[Word, ...], ...]:
    """The words of each `#SBATCH` line below the first command, of a script that has some above it; sbatch reads none
    of them. Lines of heredocs belong to another script.
    """
    command = re.search(COMMAND, source.text)
    if command is None or not read_directives(source):
        return ()
    lines = re.compile(LATE_LINE).finditer(source.text, command.start())
    texts = _heredocs(source.text, command.start())
    outside = (line for line in lines if not _is_within(line.start(), texts))
    return tuple(tuple(_words(source, line.start(1), line.end(1))) for line in outside)


def _heredocs(text: str, start: int) -> list[tuple[int, int]]:
    """Where heredocs begin and end behind an offset, in order."""
    ends: dict[str, list[int]] = {}
    for line in re.compile(LINE_OF_A_WORD).finditer(text, start):
        ends.setdefault(line[1], []).append(line.end())
    found: list[tuple[int, int]] = []
    for opening in re.compile(HEREDOC).finditer(text, start):
        closing = ends.get(opening[1], [])
        following = bisect_right(closing, opening.end())
        if following < len(closing) and (not found or opening.start() >= found[-1][1]):
            found.append((opening.start(), closing[following]))
    return found


def _is_within(offset: int, stretches: list[tuple[int, int]]) -> bool:
    """Whether an offset lies inside of one of the stretches, which follow each other."""
    index = bisect_left(stretches, (offset, 0)) - 1
    return index >= 0 and stretches[index][0] < offset < stretches[index][1]


def _words(source: Source, start: int, end: int) -> list[Word]:
    words: list[Word] = []
    before = start
    for match in re.compile(WORD).finditer(source.text, start, end):
        if "#" in source.text[before : match.start()]:
            break
        words.append(_word(source, match))
        before = match.start()
    return words


def _word(source: Source, match: re.Match[str]) -> Word:
    pieces: list[Piece] = []
    at = match.start()
    for quote in re.finditer(r"'([^']*)'|\"([^\"]*)\"", match[0]):
        group = 1 if quote[1] is not None else 2
        pieces.extend(pieces_between(source, at, match.start() + quote.start()))
        pieces.extend(pieces_between(source, match.start() + quote.start(group), match.start() + quote.end(group)))
        at = match.start() + quote.end()
    pieces.extend(pieces_between(source, at, match.end()))
    return Word(
        tuple(piece for piece in pieces if piece.text != ""), Span(source, match.start(), match.end()).original()
    )


def apply_directives(shell: Shell, words: tuple[Word, ...]) -> None:
    """Set the SLURM variables whose values the directives fix; what the user tells of the cluster wins."""
    if words:
        shell.world.learn(tuple(Fact(f"--env {name}=...", "", False) for name in OF_EVERY_JOB))
    apply_options(shell, words)


def apply_options(shell: Shell, words: tuple[Word, ...]) -> None:
    """Export the SLURM variables whose values options of sbatch or srun fix: Slurm puts them into the environment."""
    for option, value in _options(words):
        for name in FOLLOWING.get(option, ()):
            match = re.match(COUNT, value.text or "")
            if not match or MEANS.get(option, "") in shell.world.given.cluster or name in shell.world.given.environment:
                continue
            piece = value.part(match.start(1), match.end(1)).pieces[0]
            shell.variables[name] = (piece._replace(chain=(*piece.chain, Step(value.place, f"--{option}"))),)
            shell.exported = shell.exported | {name}


def _options(words: tuple[Word, ...]) -> list[tuple[str, Word]]:
    """Option names with their values, from `--name=value`, `--name value`, `-N value` and `-N4`."""
    found: list[tuple[str, Word]] = []
    for number, word in enumerate(words):
        text = word.shown
        following = words[number + 1] if number + 1 < len(words) else None
        if text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            value = word.part(len(name) + 3) if equals else following
        else:
            name = SHORT.get(text[:2], "")
            value = word.part(3 if text[2:3] == "=" else 2) if len(text) > 2 else following
        if name in FOLLOWING and value is not None and value.pieces:
            found.append((name, value))
    return found
