"""hydra's defaults lists: which configs make up one, in which order, and under which section each of them goes.

hydra 1.3.2 hydra/_internal/defaults_list.py and hydra/core/default_element.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dtlint.languages.json_tree import Document, Entry, Node, entry
from dtlint.record import NamedTuple
from dtlint.source import Span

ITSELF = "_self_"
MISSING = "???"
_WHOLE = "_global_"
_OWN = "hydra"
"""The section of hydra's own settings, which tell nothing of the program's."""
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_HEADER = re.compile(r"#\s*@package\s+(\S+)\s*")
_KEYWORDS = ("optional", "override")
MOST_CONFIGS = 200
"""Configs that one composition takes at most."""
MOST_ITEMS = 200
"""Items of one defaults list that are looked at."""
DEEPEST = 30
"""Configs that name each other in a row at most; two that do so in turn would never end."""


class Shelf(Protocol):
    """Where a composition finds configs: the folders of its search path."""

    def config(self, path: str) -> Document | None:
        """The config of a path from a folder of the search path, without its ending; None where there is none."""

    def is_group(self, path: str) -> bool:
        """Whether a folder of the search path has one of this name."""


class Default(NamedTuple):
    """An item of a defaults list. `group` is "" for one that names a config by its path; `options` are what it chooses,
    none for `null`. `package` is where it asks to go, None where it does not say.
    """

    group: str
    options: tuple[str, ...]
    place: Span
    package: str | None = None
    optional: bool = False
    overrides: bool = False

    @property
    def folder(self) -> str:
        """The folder that the item stands for, as it is written."""
        return self.group or self.options[0].rpartition("/")[0]


class Part(NamedTuple):
    """A config that takes part: its path, the section that it goes into ("" for the top), and the item that names it.
    `document` is None where it was not found.
    """

    path: str
    package: str
    document: Document | None
    place: Span


class Chosen(NamedTuple):
    """What a command line says of config groups: other choices, further ones, and those to leave out (with the choice
    that has to be left, "" for any).
    """

    choices: Mapping[str, tuple[str, ...]] = {}
    further: tuple[Default, ...] = ()
    deleted: Mapping[str, str] = {}


class _Parent(NamedTuple):
    """The config whose defaults list is read: its folder, and the section that it goes into."""

    folder: str
    package: str


def parts(path: str, shelf: Shelf, chosen: Chosen, place: Span) -> tuple[Part, ...]:
    """The configs that make up the one at `path`, in the order in which they are merged."""
    return tuple(_Expansion(shelf, chosen).primary(path, place))


def items(root: Node | None) -> tuple[Default, ...]:
    """The defaults list of a config; what is no item of one is left out."""
    found = entry(root, "defaults")
    listed = found.node.items[:MOST_ITEMS] if found is not None else ()
    return tuple(item for node in listed for item in _items(node))


def package_of(document: Document) -> str | None:
    """The section that a config's header asks for (`# @package _global_`), None where there is none."""
    for line in document.source.text.splitlines():
        text = line.strip()
        if text and not re.match(r"#\s*@", text):
            return None
        found = _HEADER.fullmatch(text)
        if found is not None:
            return None if found[1] == "_group_" else _from_the_top(found[1])
    return None


def _items(node: Node) -> Iterator[Default]:
    if node.kind in ("string", "bare"):
        name, package = _at_package(str(node.value))
        yield Default("", (name,), node.span, package)
    legacy = entry(node, "optional")
    for each in node.entries:
        if len(node.entries) > 1 and each is legacy:
            continue
        yield _of_group(each, legacy is not None and legacy is not each and legacy.node.value is True)


def _of_group(each: Entry, optional: bool) -> Default:
    *keywords, named = each.key.split() or [""]
    group, package = _at_package(named)
    node = each.node
    chosen = [str(item.value) for item in node.items] if node.kind == "array" else [str(node.value)]
    options = () if node.kind == "null" else tuple(chosen)
    return Default(group, options, node.span, package, optional or _KEYWORDS[0] in keywords, _KEYWORDS[1] in keywords)


def _at_package(text: str) -> tuple[str, str | None]:
    name, sign, package = text.partition("@")
    if not sign:
        return name, None
    return name, "" if package == "_here_" else package


def _from_the_top(package: str) -> str:
    """A header's section, which no other section is put before."""
    if package == _WHOLE or package.startswith(f"{_WHOLE}."):
        return package
    return f"{_WHOLE}.{package}"


class _Expansion:
    """One walk through defaults lists. Items are met from the last to the first, as hydra meets them: an override that
    stands lower, or further out, decides.
    """

    def __init__(self, shelf: Shelf, chosen: Chosen) -> None:
        self.shelf = shelf
        self.further = chosen.further
        self.deleted = chosen.deleted
        self.choices: dict[str, tuple[str, ...]] = dict(chosen.choices)
        self.known: dict[str, str] = {}
        self.left = MOST_CONFIGS
        self.depth = 0

    def primary(self, path: str, place: Span) -> list[Part]:
        """The parts of the config that the program names; its header counts as any other's does."""
        document = self.shelf.config(path)
        folder = path.rpartition("/")[0]
        if document is None:
            return [Part(path, "", None, place)]
        header = package_of(document)
        package = _joined("", folder.replace("/", ".") if header is None else header)
        return self._config(path, _Parent(folder, package), document, place, self.further)

    def _config(
        self, path: str, parent: _Parent, document: Document, place: Span, further: tuple[Default, ...] = ()
    ) -> list[Part]:
        """A config with what its defaults list brings; it stands behind that unless it says where."""
        listed = items(document.root)
        itself = Part(path, parent.package, document, place)
        self.left -= 1
        if self.left < 0 or self.depth >= DEEPEST:
            return []
        if not any(item.options == (ITSELF,) and not item.group for item in listed):
            listed = (*listed, Default("", (ITSELF,), place))
        listed = (*listed, *further)
        self._note_overrides(listed, parent)
        self.depth += 1
        met = [self._met(item, parent, itself) for item in reversed(listed)]
        settled = [self._interpolated(item, parent) if isinstance(item, Default) else item for item in met]
        self.depth -= 1
        return [part for found in reversed(settled) for part in found]

    def _note_overrides(self, listed: Sequence[Default], parent: _Parent) -> None:
        for item in listed:
            if item.overrides:
                self.choices.setdefault(_key(item, parent), item.options)

    def _met(self, item: Default, parent: _Parent, itself: Part) -> list[Part] | Default:
        """The parts that an item brings; the item itself where other choices tell what it chooses."""
        if not item.group and item.options == (ITSELF,):
            return [itself]
        if item.overrides or item.folder.strip("/").partition("/")[0] == _OWN:
            return []
        key = _key(item, parent) if item.group else ""
        chosen = item._replace(options=self.choices.get(key, item.options)) if key else item
        if _is_interpolated(chosen):
            return chosen
        return self._chosen(chosen, key, parent)

    def _interpolated(self, item: Default, parent: _Parent) -> list[Part]:
        filled = [
            _REFERENCE.sub(lambda found: self.known.get(found[1].strip(), MISSING), text) for text in item.options
        ]
        whole = item._replace(options=tuple(filled))
        return self._chosen(whole, _key(whole, parent) if whole.group else "", parent)

    def _choice(self, found: re.Match[str]) -> str:
        return self.known.get(found[1].strip(), MISSING)

    def _chosen(self, item: Default, key: str, parent: _Parent) -> list[Part]:
        if key and self.deleted.get(key) in ("", *item.options):
            return []
        if key and len(item.options) == 1:
            self.known.setdefault(key, item.options[0])
        several = [self._option(each, parent) for each in reversed(_each_option(item))]
        return [part for found in reversed(several) for part in found]

    def _option(self, item: Default, parent: _Parent) -> list[Part]:
        folder, option = _folder(item, parent), item.options[0]
        path = f"{folder}/{option if item.group else option.rpartition('/')[2]}".lstrip("/")
        document = None if MISSING in option else self.shelf.config(path)
        if document is not None:
            return self._config(path, _Parent(folder, _package(item, parent, document)), document, item.place)
        if item.optional and MISSING not in option:
            return []
        return [Part(path, _package(item, parent, None), None, item.place)]


def _each_option(item: Default) -> tuple[Default, ...]:
    """An item that chooses several configs as one item for each, by its path."""
    if not item.group or len(item.options) < 2:
        return tuple(item._replace(options=(option,)) for option in item.options)
    return tuple(item._replace(group="", options=(f"{item.group}/{option}",)) for option in item.options)


def _folder(item: Default, parent: _Parent) -> str:
    if item.folder.startswith("/") or (not item.group and item.options[0].startswith("/")):
        return item.folder[1:]
    return "/".join(text for text in (parent.folder, item.folder) if text)


def _package(item: Default, parent: _Parent, document: Document | None) -> str:
    """Where a config goes: where the item says, else its header, else the folder that the item names."""
    asked = item.package
    if asked is not None and "_group_" in asked:
        asked = f"{_WHOLE}.{asked.replace('_group_', _folder(item, parent).replace('/', '.'))}"
    if asked is None and document is not None:
        asked = package_of(document)
    if asked is None:
        asked = item.folder.lstrip("/").replace("/", ".")
    return _joined(parent.package, asked)


def _joined(above: str, package: str) -> str:
    whole = ".".join(text for text in (above, package) if text)
    at = whole.rfind(_WHOLE)
    return whole if at == -1 else whole[at + len(_WHOLE) + 1 :]


def _key(item: Default, parent: _Parent) -> str:
    """By what a command line or an `override` names the choice: the group, with its section where that is another."""
    group = _folder(item, parent)
    package = _package(item, parent, None)
    if package == group.replace("/", "."):
        return group
    return f"{group}@{package or _WHOLE}"


def _is_interpolated(item: Default) -> bool:
    return any(_REFERENCE.search(option) for option in item.options)
