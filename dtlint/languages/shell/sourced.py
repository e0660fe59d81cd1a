"""What a sourced file that is not at hand, or an `export` of unknown words, leaves open: variables that it may set."""

from __future__ import annotations

import re

from dtlint.languages.shell.state import Array, Shell, Variable
from dtlint.languages.shell.text import Text, first_unknown, flat, soften, unknown
from dtlint.source import Span

_OF_THE_MACHINE = re.compile(
    r"(?i)(activate|\.?(bash|zsh)rc|\.?(bash_|zsh)?profile|(conda|mamba|micromamba|lmod|modules|nvm|bash|sh)(\.sh)?"
    r"|(setvars|set_?env|env_?vars|setup_?vars|compilervars|cann_env)\.sh)"
)
"""Names of files that prepare a machine or an environment of Python, and set no variable of a script."""


def leave_open(shell: Shell, path: Text, span: Span) -> None:
    """Take note that a file which is not at hand was sourced: what the script has not set, or set to nothing, may be
    set there. A file that the caller names may also set anew what the script has set, which is what it has as long as
    the file does not.
    """
    if _OF_THE_MACHINE.fullmatch(flat(path).rpartition("/")[2]):
        return
    shell.sourced = _as_written(path)
    for name in [name for name, value in shell.variables.items() if _is_empty(value)]:
        reason = f"${name} may be set by {shell.sourced}, which is sourced and not at hand"
        shell.variables[name] = unknown(span, reason)
    if first_unknown(path) is None or _is_named(path):
        return
    why = f"{shell.sourced}, which is sourced, may set it"
    shell.variables = {name: _softened(value, why, span) for name, value in shell.variables.items()}


def leave_unset_open(shell: Shell, words: Text) -> None:
    """Take note that words which are not known name what is exported (`export $(cat .env | xargs)`): what the script
    does not set itself may be set there.
    """
    shell.sourced = _as_written(words)


def _is_empty(value: Variable) -> bool:
    """Whether the script itself has set a variable to nothing."""
    return not isinstance(value, Array) and all(piece.text == "" and not piece.assumed for piece in value)


def _as_written(path: Text) -> str:
    """The path for people, what is not known as the script has it (`$1`)."""
    return "".join(piece.span.text if piece.text is None else piece.text for piece in path)


def _is_named(path: Text) -> bool:
    """Whether the name of the file is known, and only the folder is not."""
    return "/" in flat(path) and first_unknown(path[-1:]) is None


def _softened(value: Variable, why: str, span: Span) -> Variable:
    if not isinstance(value, Array):
        return soften(value, why, span)
    return value._replace(items={key: soften(text, why, span) for key, text in value.items.items()})
