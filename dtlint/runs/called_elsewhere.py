"""Methods and functions that nothing in their program calls and another file of the tree does: packages hold what
scripts use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dtlint.frameworks import Member
from dtlint.languages.unused import HOLDERS, Unused
from dtlint.runs.tree import Tree

_NO_SETTINGS = "".join(rf"(?<!{holder})" for holder in HOLDERS)


def without_called(collections: Mapping[str, tuple[Member, ...]], tree: Tree) -> dict[str, tuple[Member, ...]]:
    """The collections; of a member's `uncalled` is left out what a file of the tree uses."""
    names = {name for members in collections.values() for each in members for name in each.uncalled}
    parameters = [name for name in names if name.kind == "parameter"]
    functions = [name for name in names if name.kind == "function"]
    called = {name for name in names if _is_called(name, tree)} | _given(parameters, tree) | _used(functions, tree)
    if not called:
        return dict(collections)
    return {name: tuple(_as_called(each, called) for each in members) for name, members in collections.items()}


def _given(parameters: Sequence[Unused], tree: Tree) -> set[Unused]:
    """The parameters that a file of the tree may give, and those of what no file calls: who does is not known."""
    if not parameters:
        return set()
    from dtlint.languages.python.passing import passes

    found = [passes(source.text, parameters) for source in tree.python_sources()]
    return {
        each for each in parameters if any(file[each] for file in found) or all(file[each] is None for file in found)
    }


def _used(functions: Sequence[Unused], tree: Tree) -> set[Unused]:
    """The functions that a file of the tree uses, or uses what leads to them."""
    if not functions:
        return set()
    from dtlint.languages.python.passing import uses

    found: set[Unused] = set()
    for source in tree.python_sources():
        found |= uses(source.text, [each for each in functions if each not in found])
    return found


def _as_called(member: Member, called: set[Unused]) -> Member:
    if called.isdisjoint(member.uncalled):
        return member
    return member._replace(uncalled=tuple(name for name in member.uncalled if name not in called))


def _is_called(unused: Unused, tree: Tree) -> bool:
    """Whether a file builds a class or one on it, calls a method, or sets an attribute, as by a method that does."""
    return any(
        word in source.text and re.search(pattern, source.text)
        for source in tree.python_sources()
        for word, pattern in _patterns(unused)
    )


def _patterns(unused: Unused) -> tuple[tuple[str, str], ...]:
    """Words, and the patterns of what uses them."""
    owner, _, last = unused.name.rpartition(".")
    if unused.kind in ("object", "call", "parameter", "function"):
        return ()
    if unused.kind == "attribute":
        base = owner.rpartition(".")[2]
        return (last, setting(last)), (base, derived(base)), *((method, calling(method)) for method in unused.by)
    return ((last, building(last) if unused.kind == "class" else calling(last)),)


def calling(method: str) -> str:
    """The pattern of a call of a method, or its handing on: `trainer.log`; `args.log` is a setting."""
    return rf"\.{re.escape(method)}\(|{_NO_SETTINGS}\.{re.escape(method)}\b"


def building(name: str) -> str:
    """The pattern of an object of a class, or a class built on it: `Trainer(`, `class Own(trainers.Trainer)`."""
    return rf"(?<!class )(?<!\w){re.escape(name)}\(|{derived(name)}"


def derived(name: str) -> str:
    """The pattern of a class built on another one: `class Own(trainers.Trainer)`."""
    return rf"\([\w.]{{0,100}}\b{re.escape(name)}\)"


def setting(attribute: str) -> str:
    """The pattern of what sets an attribute of another object: `model.step = 3`, `setattr(model, "step", 3)`."""
    name = re.escape(attribute)
    return rf"(?<!self)\.{name} {{0,9}}[-+*/]?=(?!=)|setattr\([^\n]{{0,100}}[\"']{name}[\"']"
