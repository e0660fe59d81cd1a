"""The builtins that declare variables: export, declare, local, readonly, unset."""

from __future__ import annotations

from dtlint.languages.shell.assignments import declare
from dtlint.languages.shell.call import Call
from dtlint.languages.shell.state import Array, Verdict
from dtlint.languages.shell.syntax import Assignment
from dtlint.languages.shell.variables import declare_local


def run_export(call: Call) -> None:
    """`export NAME[=value]...`; `-n` takes names back."""
    shell = call.shell
    names: list[str] = []
    removing = False
    for word in call.node.words[1:]:
        if not isinstance(word, Assignment) and word.span.text in ("-n", "-p", "-f"):
            removing = removing or word.span.text == "-n"
            continue
        name = declare(shell, word)
        names.extend([name] if name else [])
    shell.exported = shell.exported - set(names) if removing else shell.exported | set(names)
    shell.status = Verdict(True)


def run_declare(call: Call) -> None:
    """`declare`, `typeset`, `local` and `readonly`."""
    shell = call.shell
    options = "".join(
        w.span.text[1:] for w in call.node.words[1:] if not isinstance(w, Assignment) and w.span.text[:1] == "-"
    )
    for word in call.node.words[1:]:
        written = word.name if isinstance(word, Assignment) else word.span.text.partition("=")[0]
        if not written.isidentifier():
            continue
        if shell.locals and "g" not in options and call.node.words[0].span.text != "readonly":
            declare_local(shell, written)
        if "A" in options or "a" in options:
            before = shell.variables.get(written)
            if not isinstance(before, Array):
                shell.variables[written] = Array({}, "A" in options)
        name = declare(shell, word)
        if not isinstance(word, Assignment) and name and "=" not in word.span.text and name not in shell.variables:
            shell.variables[name] = ()
        if "x" in options:
            shell.exported = shell.exported | {written}
    shell.status = Verdict(True)


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
        else:
            call.shell.variables[name] = ()
            call.shell.exported = call.shell.exported - {name}
            call.shell.functions.pop(name, None)
