"""What the caller's options may set: in loops over arguments, and through Kaldi's parse_options.sh."""

from __future__ import annotations

from dtlint.languages.shell.state import Array, Positional, Shell
from dtlint.languages.shell.text import Text, known, soften, unknown
from dtlint.languages.shell.variables import assign
from dtlint.source import Span

FILE = "parse_options.sh"
"""A file to be sourced that every recipe of Kaldi, ESPnet and WeNet has, and that reads options as `take_options`."""


def by_option(value: Text, name: str, how: str, span: Span) -> Text:
    """What stands before options are read is a default; nothing at all is a place for what the caller gives, which
    `how` tells.
    """
    if value:
        return soften(value, f"an option of the script may set {name}", span)
    return unknown(span, f"${name} is set by an option of the script", how)


def take_options(shell: Shell, span: Span) -> None:
    """`--name value` sets the variable of that name (`_` for `-`), which the script has set before; the arguments
    behind the options stay. Where the arguments are not all known, any variable of the script may be set so.
    """
    words, taken = shell.positional.words, 0
    while taken + 1 < len(words) and (name := _variable(shell, words[taken])):
        assign(shell, name, words[taken + 1])
        taken += 2
    rest, first = shell.positional.rest, shell.positional.first
    shell.positional = Positional(words[taken:], rest, first + taken)
    if rest is not None and taken == len(words):
        _leave_open(shell, first + taken, span)


def _variable(shell: Shell, word: Text) -> str:
    """The variable that an option sets; "" for a word that is none."""
    text = known(word) or ""
    name = text[2:].replace("-", "_")
    return name if text.startswith("--") and name in shell.variables else ""


def _leave_open(shell: Shell, number: int, span: Span) -> None:
    outside = {*shell.world.given.environment, *shell.world.given.caller.variables}
    for name in shell.variables.keys() - outside:
        value = shell.variables[name]
        if not isinstance(value, Array) and name.isidentifier():
            how = f"--arg {number}=--{name} --arg {number + 1}=..."
            shell.variables[name] = by_option(value, name, how, span)
