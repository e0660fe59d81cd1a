"""Python in tests: a program from its text, the place that it shows, and values as plain ones."""

from __future__ import annotations

import ast

from dtlint.languages.python import link, read_module
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.source import Source
from dtlint.value import Choice, Setting, Value


def program_of(head: str, text: str, **others: str) -> Program:
    """The program of a script, and of modules by name; `head` stands above the script's text."""
    modules = {"train.py": read_module(Source("train.py", head + text))}
    modules.update({f"{name}.py": read_module(Source(f"{name}.py", other)) for name, other in others.items()})
    return link(modules)


def shown(program: Program) -> Place:
    """The first argument of the one call of `show` in a program."""
    for module in program.modules.values():
        for site in sites(module):
            if isinstance(site.node, ast.Call) and isinstance(site.node.func, ast.Name) and site.node.func.id == "show":
                return place_of(program, module, site).at(site.node.args[0])
    raise AssertionError("no call of show")


def plain(value: Setting, unknown: str = "means") -> object:
    """A value, the values of a choice by their conditions, or what an unknown one means (or another field of it)."""
    if isinstance(value, Value):
        return value.value
    if isinstance(value, Choice):
        return {option.guard: plain(option.value, unknown) for option in value.options}
    return f"?{getattr(value, unknown)}"
