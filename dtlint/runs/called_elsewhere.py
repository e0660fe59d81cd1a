"""Methods that nothing in their program calls and another file of the tree does: packages hold what scripts use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dtlint.frameworks import Member
from dtlint.runs.tree import Tree


def without_called(collections: Mapping[str, tuple[Member, ...]], tree: Tree) -> dict[str, tuple[Member, ...]]:
    """The collections; a member whose class or method is built or called by a file of the tree is not `uncalled`."""
    names = {each.uncalled for members in collections.values() for each in members if each.uncalled}
    called = {name for name in names if _is_called(name, tree)}
    if not called:
        return dict(collections)
    return {name: tuple(_as_called(each, called) for each in members) for name, members in collections.items()}


def _as_called(member: Member, called: set[str]) -> Member:
    return member._replace(uncalled="") if member.uncalled in called else member


def _is_called(name: str, tree: Tree) -> bool:
    """Whether a file calls a method, or builds a class or one on it."""
    owner, _, last = name.rpartition(".")
    pattern = calling(last) if owner else building(last)
    return any(last in source.text and re.search(pattern, source.text) for source in tree.python_sources())


def calling(method: str) -> str:
    """The pattern of a call of a method, or its handing on: `trainer.log`."""
    return rf"\.{re.escape(method)}\b"


def building(name: str) -> str:
    """The pattern of an object of a class, or a class built on it: `Trainer(`, `class Own(trainers.Trainer)`."""
    return rf"(?<!class )(?<!\w){re.escape(name)}\(|\([\w.]{{0,100}}\b{re.escape(name)}\)"
