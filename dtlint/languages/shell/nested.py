"""Command text inside commands: what `eval`, `bash -c`, `ssh` and heredocs hand to another reading."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.languages.shell.directives import apply_directives, apply_options, read_directives
from dtlint.languages.shell.flow import Leave
from dtlint.languages.shell.reader import read_tree
from dtlint.languages.shell.state import Positional, Shell
from dtlint.languages.shell.syntax import Node
from dtlint.languages.shell.text import Text, soften, source_of, unknown
from dtlint.languages.shell.walk import names_of_flags, own_names
from dtlint.languages.traced import Command, Word
from dtlint.source import Source

SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
SCRIPT_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")

Run = Callable[[Shell, Node], None]


def run_text(shell: Shell, source: Source, run: Run) -> None:
    """Read a text as commands and run them in this shell."""
    tree, problems, _ = read_tree(source)
    shell.world.problems.extend(problem._replace(span=problem.span.original()) for problem in problems[:10])
    shell.world.assigned = shell.world.assigned | own_names(tree.body)
    shell.world.flags = shell.world.flags | names_of_flags(tree.body)
    run(shell, tree.body)


def run_in_new_shell(shell: Shell, text: Text, wrapper: Command, run: Run, words: tuple[Word, ...] = ()) -> None:
    """Read a text as the script of a shell that `wrapper` starts: it has the environment of `wrapper`, and nothing
    else. What is exported and does not reach it (through a container) may be set where it runs.
    """
    child = shell.child()
    child.wrapper = (*shell.wrapper, wrapper)
    child.out = None
    functions = frozenset(name for name in shell.exported if name.endswith("()"))
    child.functions = {name: body for name, body in shell.functions.items() if f"{name}()" in functions}
    child.exported = functions | wrapper.env.keys()
    child.locals = []
    child.nesting += 1
    child.name = words[0].pieces if words else shell.name
    child.positional = Positional(tuple(word.pieces for word in words[1:]))
    child.variables = {name: word.pieces for name, word in wrapper.env.items()}
    for name in shell.variables.keys() - child.variables.keys():
        child.variables[name] = _held_back(name, name in shell.exported, wrapper)
    apply_options(child, options_of_srun(wrapper))
    if child.nesting > 20:
        return
    source = source_of(text, wrapper.place.path)
    directives = read_directives(source)
    shell.world.directives.extend(directives)
    apply_directives(child, directives)
    try:
        run_text(child, source, run)
    except Leave:
        return


def _held_back(name: str, exported: bool, wrapper: Command) -> Text:
    """A variable that a shell is not handed: empty, but for one that a container or Slurm keeps from it, where its own
    environment may have another.
    """
    if exported:
        return unknown(wrapper.place, f"{name} is not handed to this shell", f"--env {name}=...")
    return soften((), f"{name} is not exported to this shell", wrapper.place)


def options_of_srun(wrapper: Command) -> tuple[Word, ...]:
    """The options of an srun in front of a shell: the counts of its step stand in the shell's environment."""
    words = wrapper.argv
    if not words or words[0].text != "srun":
        return ()
    end = next((number for number, word in enumerate(words) if _starts_script(word)), len(words))
    return words[1:end]


def _starts_script(word: Word) -> bool:
    return program_name(word) in SHELLS or program_name(word).endswith(SCRIPT_SUFFIXES)


def program_name(word: Word) -> str:
    """The program that a word starts, without its folder."""
    return (word.text or "").rpartition("/")[2]
