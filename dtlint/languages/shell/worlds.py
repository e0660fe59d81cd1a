"""Follows a script through all its worlds: once per way through its undecided conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from dtlint.languages.shell.directives import apply_directives, apply_options
from dtlint.languages.shell.flow import ExitShell, Leave
from dtlint.languages.shell.nested import options_of_srun, run_text
from dtlint.languages.shell.run import run_node
from dtlint.languages.shell.state import MAX_MATCH_STEPS, MAX_STEPS, Given, Positional, Shell, Stopped
from dtlint.languages.shell.state import World as Way
from dtlint.languages.shell.syntax import Node, Sequence
from dtlint.languages.shell.text import Text, sole_unknown, source_of
from dtlint.languages.shell.walk import names_of_flags, own_names
from dtlint.languages.traced import OPEN_ARGUMENTS, Piece, Word, World, WrittenSource, is_elsewhere
from dtlint.source import Problem, Source, Span

MAX_WORLDS = 16
"""Most worlds of one script; beyond, what hangs on undecided conditions becomes unknown."""


def follow(
    source: Source, body: Sequence, given: Given, directives: tuple[Word, ...]
) -> tuple[tuple[World, ...], list[Problem], list[Word], int]:
    """The worlds of a script, equal ones merged; the defects met in texts that it makes, the directives in them, and
    how many commands were followed.
    """
    assigned, flags = own_names(body), names_of_flags(body)
    matters = _lazily(lambda: _relevance(body))
    ways: list[tuple[tuple[int, ...], Way, World]] = []
    waiting: list[tuple[int, ...]] = [()]
    steps, match_steps, followed = MAX_STEPS, MAX_MATCH_STEPS, 0
    while waiting:
        if len(ways) + len(waiting) > MAX_WORLDS:
            way = Way(given, source, assigned, (), steps)
            way.forking, way.match_steps, way.flags = False, match_steps, flags
            world = _follow(way, body, directives)
            return (world,), way.problems, way.directives, followed + steps - way.steps
        decisions = waiting.pop()
        way = Way(given, source, assigned, decisions, steps)
        way.matters, way.match_steps, way.flags = matters, match_steps, flags
        world = _follow(way, body, directives)
        followed += steps - way.steps
        steps, match_steps = max(way.steps, 2_000), way.match_steps
        ways.append((decisions, way, world))
        waiting.extend(_alternatives(decisions, way.options))
    ways.sort(key=lambda item: item[0])
    first = ways[0][1]
    return tuple(_merged([world for _, _, world in ways])), first.problems, first.directives, followed


def _relevance(body: Sequence) -> Callable[[Node], bool]:
    from dtlint.languages.shell.relevance import relevance

    return relevance(body)


def _lazily(build: Callable[[], Callable[[Node], bool]]) -> Callable[[Node], bool]:
    """The test that `build` makes, made at its first use: most scripts never ask."""
    made: list[Callable[[Node], bool]] = []

    def test(node: Node) -> bool:
        if not made:
            made.append(build())
        return made[0](node)

    return test


def _alternatives(decisions: tuple[int, ...], options: list[int]) -> list[tuple[int, ...]]:
    """The ways that branch off one just followed, which took the first option wherever nothing was decided."""
    found: list[tuple[int, ...]] = []
    for place in range(len(decisions), len(options)):
        before = decisions + (0,) * (place - len(decisions))
        found.extend((*before, option) for option in range(1, options[place]))
    return found


def _follow(way: Way, body: Sequence, directives: tuple[Word, ...]) -> World:
    shell = _first_shell(way)
    apply_directives(shell, directives)
    for command in way.given.caller.wrapper[-1:]:
        apply_options(shell, options_of_srun(command))
    try:
        _run_to_end(shell, body)
    except Stopped:
        place = body.span.source.span(0, 0)
        way.problems.append(
            Problem(place, "this script runs longer than is followed; what comes later is not read", fatal=False)
        )
    except Leave:
        pass
    branch = " and ".join(dict.fromkeys(way.branches)) or None
    return World(tuple(way.commands), _files(shell), branch, _unread(shell))


def _run_to_end(shell: Shell, body: Sequence) -> None:
    """Follow the script, then what its EXIT trap does."""
    with suppress(ExitShell):
        run_node(shell, body)
    if shell.exit_trap:
        run_text(shell, source_of(shell.exit_trap, shell.world.source.path), run_node)


def _first_shell(way: Way) -> Shell:
    shell = Shell(way)
    start = way.source.span(0, 0)
    caller = way.given.caller
    shell.variables.update(caller.variables)
    shell.name, shell.wrapper = caller.name, caller.wrapper
    if is_elsewhere(caller.folder):
        shell.elsewhere = caller.folder
    else:
        shell.folder = caller.folder
    shell.background = bool(caller.wrapper) and caller.wrapper[-1].background
    for name, value in way.given.environment.items():
        shell.variables[name] = (Piece(value, start, (), ""),)
    shell.exported = frozenset((*caller.variables, *way.given.environment))
    shell.positional = _given_arguments(way, start)
    return shell


def _given_arguments(way: Way, start: Span) -> Positional:
    arguments = way.given.arguments
    listed = Piece(None, start, unknown=OPEN_ARGUMENTS, how="--arg 1=...")
    if not arguments and way.given.caller.positional is not None:
        return way.given.caller.positional
    if not arguments:
        return Positional((), listed)
    count = max((int(name) for name in arguments if name.isdecimal() and len(name) < 4), default=0)
    words: list[Text] = []
    for number in range(1, count + 1):
        text = arguments.get(str(number))
        missing = Piece(None, start, unknown=f"argument {number} is not given", how=f"--arg {number}=...")
        words.append((missing if text is None else Piece(text, start),))
    return Positional(tuple(words))


def _files(shell: Shell) -> dict[str, Source]:
    """The files that the script writes and whose text is known at least in part."""
    return {
        path: WrittenSource(path, text) for path, text in shell.files.items() if text and sole_unknown(text) is None
    }


def _unread(shell: Shell) -> dict[str, str]:
    """The files that the script writes and of whose text nothing is known, with the reason."""
    found = {path: sole_unknown(text) for path, text in shell.files.items()}
    return {path: piece.unknown for path, piece in found.items() if piece is not None}


def _signature(world: World) -> object:
    commands = tuple(
        (tuple((word.shown, word.many) for word in command.argv), _shown(command.env)) for command in world.commands
    )
    files = tuple(sorted((path, source.text) for path, source in world.files.items()))
    return commands, files, tuple(sorted(world.unread))


def _shown(environment: Mapping[str, Word]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, word.shown) for name, word in environment.items()))


def _merged(worlds: list[World]) -> list[World]:
    """Worlds that do the same made one; a single one needs no condition."""
    merged: dict[object, World] = {}
    for world in worlds:
        signature = _signature(world)
        before = merged.get(signature)
        if before is None:
            merged[signature] = world
        else:
            merged[signature] = before._replace(branch=f"{before.branch} or {world.branch}")
    if len(merged) == 1:
        return [next(iter(merged.values()))._replace(branch=None)]
    return list(merged.values())
