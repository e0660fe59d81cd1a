"""The files of a program: the script that is launched, what it imports, and what is read when a name leads there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.languages.python.tree import Module
from dtlint.source import Source

MAX_MODULES = 60
"""Most files that are followed from one entry script."""
MAX_CHARACTERS = 8_000_000
"""Most text that is read from one entry script on."""
MAX_LATE = 60
"""Most files that are read later, because a name leads into them."""

Find = Callable[[str], Source | None]
"""Gives the file of a dotted name, None for what lies outside the tree."""
Read = Callable[[Source, str], Module]
"""Reads a file under the name that the program gives to it."""


class Late:
    """Modules that a program imports beyond MAX_MODULES: each is read when a name leads into it."""

    __slots__ = ("find", "modules", "read", "waiting")

    def __init__(self, find: Find, read: Read) -> None:
        self.find = find
        self.read = read
        self.modules: dict[str, Module | None] = {}
        self.waiting: set[str] = set()

    def wait_for(self, module: Module) -> None:
        """Let the imports of a module be read when they are asked for."""
        self.waiting.update(absolute(module.package, name) for name in module.followed)

    def module(self, name: str) -> Module | None:
        """The module of a dotted name, if it was left out and lies in the tree."""
        if name in self.waiting and name not in self.modules and len(self.modules) < MAX_LATE:
            source = self.find(name)
            self.modules[name] = found = None if source is None else self.read(source, name)
            if found is not None:
                self.wait_for(found)
        return self.modules.get(name)


def follow_imports(entry: Source, find: Find, read: Read, name: str = "__main__") -> tuple[Mapping[str, Module], Late]:
    """The entry script under its `name` and, breadth first, the modules that it imports; those that are left out, when
    MAX_MODULES files or MAX_CHARACTERS in all are reached, are read when a name leads into them. What an imported
    module imports where it is started itself (`if __name__ == "__main__":`) is another program's.
    """
    modules = {name: read(entry, name)}
    waiting = [(modules[name].package, each) for each in modules[name].imports]
    tried: set[str] = set()
    left = MAX_CHARACTERS - len(entry.text)
    while waiting and len(modules) < MAX_MODULES and left > 0:
        target = absolute(*waiting.pop(0))
        source = find(target) if target and target not in tried else None
        tried.add(target)
        if source is not None:
            left -= len(source.text)
            modules[target] = module = read(source, target)
            waiting.extend((module.package, name) for name in module.followed)
    late = Late(find, read)
    late.waiting.update(target for item in waiting if (target := absolute(*item)) not in tried)
    return modules, late


def absolute(package: str, name: str) -> str:
    """A relative module name (`.utils`) as seen from a package (`pkg`) made absolute (`pkg.utils`)."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if not level:
        return name
    parts = package.split(".") if package else []
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, bare] if bare else base)


def dotted_name(key: str) -> str:
    """The module name of a path below the root (`pkg/__init__.py` is `pkg`); a dotted name stays as it is."""
    if not key.endswith(".py"):
        return key
    parts = [part for part in key[:-3].split("/") if part not in ("", ".", "..")]
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
