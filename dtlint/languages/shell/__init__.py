"""Reads launch scripts as bash would run them, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtlint.languages.shell.directives import late_directives, read_directives, read_queued
from dtlint.languages.shell.placeholders import without_template_faults
from dtlint.languages.shell.reader import read_tree
from dtlint.languages.shell.state import NOBODY, Caller, Given
from dtlint.languages.shell.worlds import follow
from dtlint.languages.traced import Command, Script, World, literal_word
from dtlint.source import Problem, Source

NOTHING: Mapping[str, str] = {}


def no_file(path: str) -> Source | None:
    """There are no files."""
    return None


def read_script(
    source: Source,
    environment: Mapping[str, str] = NOTHING,
    arguments: Mapping[str, str] = NOTHING,
    read_file: Callable[[str], Source | None] = no_file,
    cluster: Mapping[str, str] = NOTHING,
    caller: Caller = NOBODY,
) -> Script:
    """The commands that a script starts and the files that it writes, in every world that its undecided conditions
    allow.

    `environment` and `arguments` are what the user tells (`NAME=VALUE`, `1=VALUE`); `read_file` gives a file of the
    tree by the path as the
    script writes it; `cluster` gives settings of the cluster that variables such as `$SLURM_NNODES` stand for.
    `caller` is how the script is known to be started. Never raises.
    """
    tree, found, lost = read_tree(source)
    problems = without_template_faults(found)
    submitted = caller.directives is None
    directives = (*read_directives(source), *caller.options) if submitted else caller.directives or ()
    given = Given(environment, arguments, read_file, cluster, caller)
    try:
        worlds, met, more, steps = follow(source, tree.body, given, directives)
    except RecursionError:
        problem = Problem(source.span(0, 0), "nested deeper than is followed", fatal=True)
        return Script(source, (World((), {}),), directives, (*problems, problem), tuple(lost))
    late = late_directives(source) if submitted else ()
    queued = read_queued(source) if submitted else ()
    return Script(source, worlds, (*directives, *more), (*problems, *met), tuple(lost), late, steps, queued)


def command_of(words: Sequence[str]) -> Script:
    """A command given word by word (on dtlint's own command line) as a script that starts it."""
    import shlex

    quoted = [shlex.quote(word) for word in words]
    source = Source("<command line>", " ".join(quoted) + "\n")
    script = read_script(source)
    if script.worlds and script.worlds[0].commands:
        return script
    place = source.span(0, len(source.text))
    command = Command(tuple(literal_word(word, place) for word in words), {}, place)
    return script._replace(worlds=(World((command,), {}),))
