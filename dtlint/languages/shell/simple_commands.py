"""Runs simple commands: assignments, functions, builtins, filters; everything else is reported as started."""

from __future__ import annotations

from collections.abc import Callable

from dtlint.languages.shell import named_options
from dtlint.languages.shell.assignments import apply_assignment, prefix_environment
from dtlint.languages.shell.builtins import BUILTINS
from dtlint.languages.shell.call import Call
from dtlint.languages.shell.expand import expand_words
from dtlint.languages.shell.files import read_file
from dtlint.languages.shell.flow import ExitShell, ReturnFromFunction
from dtlint.languages.shell.launch import start
from dtlint.languages.shell.nested import run_text
from dtlint.languages.shell.simple import DECLARING
from dtlint.languages.shell.sourced import leave_open
from dtlint.languages.shell.state import Shell, Stopped, Variable, Verdict
from dtlint.languages.shell.streams import redirected
from dtlint.languages.shell.syntax import Assignment, Function, Node, Simple
from dtlint.languages.shell.text import Text, flat, literal, place_of, source_of
from dtlint.languages.shell.variables import positional_of
from dtlint.languages.traced import Word

Run = Callable[[Shell, Node], None]
MAX_CALLS = 25
"""Deepest nesting of function calls and evals that is followed."""

FILTERED_WRITTEN = """
awk gawk basename bc cat cp cut date dirname envsubst expr grep egrep head hostname jq mv nproc readlink realpath sed
seq sort tail tee tr uniq wc
"""
FILTERED = frozenset(FILTERED_WRITTEN.split())
"""The names of FILTERS, whose module is imported when a script uses one."""

PAUSES = frozenset(("wait", "sleep", "fg"))
"""Commands that let what runs in the background come to its end, or may."""

TRANSPARENT = frozenset(("command", "builtin", "exec"))


def run_simple(shell: Shell, node: Simple, run: Run) -> None:
    """Run one simple command."""
    shell.step()
    if not node.words:
        shell.status = Verdict(True)
        for assignment in node.assignments:
            apply_assignment(shell, assignment)
        redirected(shell, node.redirections, lambda: _print_input(shell, node))
        return
    redirected(shell, node.redirections, lambda: _run_words(shell, node, run))


def _print_input(shell: Shell, node: Simple) -> None:
    """`$(< file)` gives the file."""
    if not node.assignments and shell.stdin is not None and len(node.redirections) == 1:
        shell.emit(shell.stdin)


def _run_words(shell: Shell, node: Simple, run: Run) -> None:
    first = node.words[0]
    if not isinstance(first, Assignment) and first.span.text in DECLARING:
        BUILTINS[first.span.text](Call(shell, node, [], place_of(node.span), {}))
        return
    words = expand_words(shell, (word for word in node.words if not isinstance(word, Assignment)))
    if not words:
        shell.status = Verdict(True)
        for assignment in node.assignments:
            apply_assignment(shell, assignment)
        return
    run_words(shell, node, words, run)


def run_words(shell: Shell, node: Simple, words: list[Word], run: Run) -> None:
    """Run a command given its expanded words."""
    name = words[0].text
    environment = prefix_environment(shell, node.assignments)
    call = Call(shell, node, words, place_of(node.span), environment)
    if name in PAUSES:
        shell.world.pauses += 1
    if name in shell.functions:
        _in_environment(shell, environment, lambda: _call_function(shell, shell.functions[name or ""], words, run))
    elif name in TRANSPARENT:
        _run_transparent(call, run)
    elif name == "eval":
        _in_environment(shell, environment, lambda: _evaluate(call, run))
    elif name in ("source", "."):
        _in_environment(shell, environment, lambda: _source(call, run))
    elif name in BUILTINS:
        shell.status = Verdict(True)
        BUILTINS[name](call)
    elif name is not None and _filtered(call, name.rpartition("/")[2]):
        return
    else:
        start(call, run)


def _filtered(call: Call, name: str) -> bool:
    """Print what a pure filter prints, if `name` is one and its input is known; False if the command is to be
    reported.
    """
    if name not in FILTERED:
        return False
    from dtlint.languages.shell.filters import FILTERS

    call.shell.status = Verdict(True)
    output = FILTERS[name](call)
    if output is None:
        return False
    call.shell.emit(output)
    return True


def _run_transparent(call: Call, run: Run) -> None:
    """`command`, `builtin` and `exec` run what follows them."""
    shell, name = call.shell, call.words[0].text
    words = call.words[1:]
    while words and (words[0].text or "").startswith("-"):
        if name == "command" and words[0].text in ("-v", "-V"):
            shell.status = Verdict(None)
            return
        words = words[2:] if words[0].text == "-a" else words[1:]
    if not words:
        return
    if name == "exec":
        start(call._replace(words=words), run)
        raise ExitShell
    saved, shell.functions = shell.functions, {}
    try:
        run_words(shell, call.node, words, run)
    finally:
        shell.functions = saved


def _in_environment(shell: Shell, environment: dict[str, Text], action: Callable[[], None]) -> None:
    """Do `action` with the assignments that stand before it, exported as long as it runs."""
    if not environment:
        action()
        return
    before = {name: shell.variables.get(name) for name in environment}
    new = environment.keys() - shell.exported
    shell.variables.update(environment)
    shell.exported = shell.exported | new
    try:
        action()
    finally:
        shell.exported = shell.exported - new
        _restore(shell, before)


def _restore(shell: Shell, before: dict[str, Variable | None]) -> None:
    for name, value in before.items():
        if value is None:
            shell.variables.pop(name, None)
        else:
            shell.variables[name] = value


def _call_function(shell: Shell, function: Function, words: list[Word], run: Run) -> None:
    if len(shell.locals) >= MAX_CALLS:
        raise Stopped
    saved, references, integers = shell.positional, dict(shell.references), shell.integers
    shell.positional = positional_of(words[1:])
    shell.locals.append({})
    try:
        run(shell, function.body)
    except ReturnFromFunction:
        pass
    finally:
        shell.positional, shell.references, shell.integers = saved, references, integers
        _restore(shell, shell.locals.pop())


def _evaluate(call: Call, run: Run) -> None:
    pieces: list[Text] = [word.pieces for word in call.words[1:]]
    text = tuple(
        piece for number, each in enumerate(pieces) for piece in (*(literal(" ", call.place) if number else ()), *each)
    )
    if flat(text).strip("\ue000 "):
        _bounded(call.shell, lambda: run_text(call.shell, source_of(text, call.place.path), run))
    elif text:
        start(call._replace(words=call.words[1:]), run)


def _source(call: Call, run: Run) -> None:
    """`source FILE`: a file of the tree is followed, but for one that is known by its name; of another nothing is
    known.
    """
    shell = call.shell
    if len(call.words) == 2 and call.words[1].shown.rpartition("/")[2] == named_options.FILE:
        named_options.take_options(shell, call.place)
        shell.status = Verdict(True)
        return
    text = read_file(shell, call.words[1].pieces, call.place) if len(call.words) > 1 else None
    if text is None:
        shell.status = Verdict(True)
        if len(call.words) > 1:
            leave_open(shell, call.words[1].pieces, call.place)
        return
    whole = len(text) == 1 and text[0].text is not None and text[0].text == text[0].span.source.text
    source = text[0].span.source if whole else source_of(text, call.words[1].shown)
    saved = shell.positional
    if len(call.words) > 2:
        shell.positional = positional_of(call.words[2:])
    try:
        _bounded(shell, lambda: run_text(shell, source, run))
    except ReturnFromFunction:
        pass
    finally:
        shell.positional = saved


def _bounded(shell: Shell, action: Callable[[], None]) -> None:
    """Do `action` one level deeper, within the bound on calls."""
    if len(shell.locals) + shell.nesting >= MAX_CALLS:
        raise Stopped
    shell.nesting += 1
    try:
        action()
    finally:
        shell.nesting -= 1
