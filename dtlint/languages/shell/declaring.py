"""The builtins that declare variables: export, declare, local, readonly, unset."""

from __future__ import annotations

from dtlint.languages.shell.assignments import declare, expanded_values
from dtlint.languages.shell.call import Call
from dtlint.languages.shell.expand import expand_text, expand_words
from dtlint.languages.shell.sourced import leave_unset_open
from dtlint.languages.shell.state import Array, Shell, Verdict
from dtlint.languages.shell.syntax import Assignment, WordSyntax
from dtlint.languages.shell.text import Text, known
from dtlint.languages.shell.variables import declare_local


def run_export(call: Call) -> None:
    """`export NAME[=value]...`; `-n` takes names back."""
    shell = call.shell
    names: list[str] = []
    removing = False
    words = call.node.words[1:]
    for word, value in zip(words, expanded_values(shell, words), strict=True):
        if not isinstance(word, Assignment) and word.span.text in ("-n", "-p", "-f"):
            if word.span.text == "-f":
                _export_functions(call)
                return
            removing = removing or word.span.text == "-n"
            continue
        name = declare(shell, word, value)
        names.extend([name] if name else [])
        if name is None and not isinstance(word, Assignment):
            _leave_open(shell, word)
    shell.exported = shell.exported - set(names) if removing else shell.exported | set(names)
    shell.status = Verdict(True)


def _leave_open(shell: Shell, word: WordSyntax) -> None:
    for each in expand_words(shell, (word,)):
        if each.text is None and not each.shown.partition("=")[0].isidentifier():
            leave_unset_open(shell, each.pieces)


def _export_functions(call: Call) -> None:
    """`export -f NAME...`: shells that are started have the functions, too."""
    shell = call.shell
    words = expand_words(shell, (word for word in call.node.words[1:] if not isinstance(word, Assignment)))
    shell.exported = shell.exported | {f"{word.text}()" for word in words if word.text in shell.functions}
    shell.status = Verdict(True)


def run_declare(call: Call) -> None:
    """`declare`, `typeset`, `local` and `readonly`."""
    shell = call.shell
    options = "".join(
        w.span.text[1:] for w in call.node.words[1:] if not isinstance(w, Assignment) and w.span.text[:1] == "-"
    )
    if call.node.words[0].span.text == "readonly":
        options += "g"
    words = call.node.words[1:]
    for word, value in zip(words, expanded_values(shell, words), strict=True):
        written = word.name if isinstance(word, Assignment) else word.span.text.partition("=")[0]
        if written.isidentifier() and "n" in options:
            _refer(shell, word)
        elif written.isidentifier():
            _declare_one(shell, word, value, written, options)
    shell.status = Verdict(True)


def _declare_one(shell: Shell, word: WordSyntax | Assignment, value: Text | None, written: str, options: str) -> None:
    """One name with the letters of the options; in a function it is local unless `g` is among them."""
    if "i" in options:
        shell.integers = shell.integers | {written}
    fresh = "g" not in options and declare_local(shell, written)
    if ("A" in options or "a" in options) and (fresh or not isinstance(shell.variables.get(written), Array)):
        shell.variables[written] = Array({}, "A" in options)
    elif fresh or written not in shell.variables:
        shell.variables[written] = ()
    declare(shell, word, value)
    if "x" in options:
        shell.exported = shell.exported | {written}


def _refer(shell: Shell, word: WordSyntax | Assignment) -> None:
    """`declare -n NAME=OTHER`: NAME is another name of OTHER."""
    if not isinstance(word, Assignment) or word.value is None:
        return
    target = known(expand_text(shell, word.value)) or ""
    if target.isidentifier() and target != word.name:
        shell.references[word.name] = shell.references.get(target, target)


def run_unset(call: Call) -> None:
    """`unset NAME...`, of variables, elements and functions."""
    for text in call.texts:
        if text is None or text.startswith("-"):
            continue
        name, _, index = text.partition("[")
        value = call.shell.variables.get(name)
        if index and isinstance(value, Array):
            items = {key: element for key, element in value.items.items() if key != index.rstrip("]").strip("'\"")}
            call.shell.variables[name] = Array(items, value.associative, value.rest)
        elif name == "IFS":
            call.shell.variables.pop(name, None)
        else:
            call.shell.variables[name] = ()
            call.shell.exported = call.shell.exported - {name}
            call.shell.functions.pop(name, None)
