"""Redirections: where a command's input comes from and which file gets its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtlint.languages.shell.expand import command_output, expand_text
from dtlint.languages.shell.files import append_file, read_file, write_file
from dtlint.languages.shell.state import Shell
from dtlint.languages.shell.syntax import ProcessSubstitution, Redirection
from dtlint.languages.shell.text import Text, flat, literal, place_of, unknown
from dtlint.languages.traced import Piece
from dtlint.record import NamedTuple

DROPPED = ("/dev/null", "/dev/stderr", "/dev/tty")


class Target(NamedTuple):
    """The file that output goes to."""

    path: Text
    append: bool
    redirection: Redirection


def redirected(shell: Shell, redirections: Sequence[Redirection], action: Callable[[], None]) -> None:
    """Do `action` with its input and output redirected, and write what it prints to the file named."""
    if not redirections:
        action()
        return
    out, stdin = shell.out, shell.stdin
    target = _open(shell, redirections)
    collected: list[Piece] = []
    if target is not None:
        shell.out = collected
    try:
        action()
    finally:
        shell.out, shell.stdin = out, stdin
        if target is not None:
            _write(shell, target, tuple(collected))


def _open(shell: Shell, redirections: Sequence[Redirection]) -> Target | None:
    target: Target | None = None
    for each in redirections:
        if each.operator in ("<", "<>") and each.descriptor in ("", "0"):
            shell.stdin = _file_text(shell, each)
        elif each.operator.startswith("<<"):
            shell.stdin = heredoc_text(shell, each)
        elif each.operator == ">&" and each.descriptor in ("", "1") and each.target.span.text in ("2", "-"):
            target = Target((), False, each)
        elif each.operator in (">", ">>", ">|", "&>", "&>>") and each.descriptor in ("", "1"):
            target = Target(expand_text(shell, each.target), each.operator.endswith(">>"), each)
    return target


def _file_text(shell: Shell, redirection: Redirection) -> Text:
    """What `< FILE` and `< <(commands)` give."""
    parts = redirection.target.parts
    if len(parts) == 1 and isinstance(parts[0], ProcessSubstitution):
        return command_output(shell, parts[0].body)
    text = read_file(shell, expand_text(shell, redirection.target), redirection.span)
    return unknown(redirection.span, f"the file {redirection.target.span.text} is not known") if text is None else text


def heredoc_text(shell: Shell, redirection: Redirection) -> Text:
    """The body of a heredoc, or the word of a here-string with a line end."""
    if not redirection.body:
        return ()
    text = expand_text(shell, redirection.body[0])
    return (*text, *literal("\n", redirection.span)) if redirection.operator == "<<<" else text


def _write(shell: Shell, target: Target, text: Text) -> None:
    if not target.path or flat(target.path) in DROPPED:
        return
    if target.append:
        append_file(shell, target.path, text, place_of(target.redirection.span))
    else:
        write_file(shell, target.path, text)
