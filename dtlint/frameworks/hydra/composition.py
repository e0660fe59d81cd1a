"""Composes a config as hydra does: the configs of its defaults list merged in order, each value with the place where
it is written, in whichever file that is.

`compose` knows no file system: a `Shelf` hands it the configs of the search path. hydra 1.3.2
hydra/_internal/config_loader_impl.py; OmegaConf 2.3 omegaconf/basecontainer.py for what a merge keeps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks.dotted_keys import Keys, keys_of
from dtlint.frameworks.hydra.command_line import overrides
from dtlint.frameworks.hydra.defaults import MISSING, Chosen, Default, Part, Shelf, parts
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.hydra.values import names_in
from dtlint.frameworks.options import known_head
from dtlint.languages.json_tree import Document, Entry, Node, entry, member
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.source import Source, Span
from dtlint.value import Origin, Unknown

__all__ = ["Composed", "Shelf", "compose", "is_composed", "keys", "search_path"]

_GROUP = re.compile(r"(?P<sign>\+|~)?(?P<key>[A-Za-z_][\w/-]*(?:@[\w.:]+)?)(?:=|$)")
_SEARCHED = "hydra.searchpath"


class Composed(NamedTuple):
    """A config composed.

    `words` are the overrides that set keys, to be laid over it (`keys`); those that choose a config of a group are part
    of `document`, which keeps the defaults list of the first file. `sources` are the files that took part, the one that
    was asked for first; `missing` are the configs that were not found, by their paths, in the order of the defaults
    list. `whole` is whether all folders of the search path are at hand.
    """

    document: Document
    words: tuple[Word, ...]
    sources: tuple[Source, ...]
    missing: tuple[str, ...]
    whole: bool = True


def compose(path: str, words: Sequence[Word], shelf: Shelf, place: Span) -> Composed | None:
    """The config at `path` (from a folder of the search path, without its ending) with the choices that `words` make;
    None where it is not found. `place` is where it is named.

    What a config that was not found may have set is not known, unless a later one sets it.
    """
    primary = shelf.config(path)
    if primary is None:
        return None
    chosen, left = _choices(words, shelf)
    found = parts(path, shelf, chosen, place)
    root = Node("object", None, primary.root.span if primary.root is not None else place)
    for part in found:
        root = _with(root, part)
    listed = entry(primary.root, "defaults")
    root = root if listed is None else root._replace(entries=(listed, *root.entries))
    documents = [part.document for part in found if part.document is not None]
    sources = dict.fromkeys([primary.source, *(document.source for document in documents)])
    missing = tuple(dict.fromkeys(part.path for part in found if part.document is None))
    document = Document(primary.source, root, primary.problems)
    return Composed(document, left, tuple(sources), missing)


def keys(composed: Composed) -> Keys:
    """The keys of a composed config with its overrides, and what its references lead to."""
    found = resolved(keys_of(composed.document.root, overrides(composed.words)))
    return found._replace(nodes={name: node for name, node in found.nodes.items() if name != "defaults"})


def is_composed(document: Document) -> bool:
    """Whether a config has a defaults list."""
    found = entry(document.root, "defaults")
    return found is not None and found.node.kind == "array"


def search_path(document: Document, words: Sequence[Word]) -> tuple[str, ...]:
    """The further folders in which configs are looked for, as they are written (`file://conf`, `pkg://verl.trainer`)."""
    given = overrides(words).get(_SEARCHED)
    node = given[1] if given is not None and given[1] is not None else member(document.root, "hydra", "searchpath")
    return tuple(str(item.value) for item in node.items if item.kind == "string") if node is not None else ()


def _choices(words: Sequence[Word], shelf: Shelf) -> tuple[Chosen, tuple[Word, ...]]:
    """What the command line says of config groups, and the words that say something else."""
    choices: dict[str, tuple[str, ...]] = {}
    deleted: dict[str, str] = {}
    further: list[Default] = []
    left: list[Word] = []
    for word in words:
        found = _GROUP.match(known_head(word))
        if found is None or not shelf.is_group(found["key"].partition("@")[0]):
            left.append(word)
            continue
        options = names_in(word.shown[found.end() :])
        if found["sign"] == "~":
            deleted[found["key"]] = next(iter(options), "")
        elif found["sign"] == "+":
            group, sign, package = found["key"].partition("@")
            further.append(Default(group, options, word.place, package if sign else None))
        else:
            choices[found["key"]] = options
    return Chosen(choices, tuple(further), deleted), tuple(left)


def _with(root: Node, part: Part) -> Node:
    if part.document is None:
        return _obscured(root, part.package.split(".") if part.package else [], _why(part))
    content = part.document.root
    if content is None or content.kind != "object":
        return root
    content = content._replace(entries=tuple(each for each in content.entries if each.key != "defaults"))
    for name in reversed(part.package.split(".") if part.package else []):
        content = Node("object", None, content.span, (Entry(name, content.span, content),))
    return _merged(root, content)


def _why(part: Part) -> Unknown:
    group = part.path.rpartition("/")[0]
    missing = part.path.endswith(MISSING)
    reason = f"a config of {group} has to be chosen" if missing else f"{part.path}.yaml was not found, which may set it"
    return Unknown(reason, f"{group}=..." if missing else "", Origin("written", part.place))


def _merged(under: Node, over: Node) -> Node:
    """Two mappings as one: sections are merged, the upper one's values count; `???` leaves what there is."""
    entries = {each.key: each for each in under.entries}
    for each in over.entries:
        before = entries.get(each.key)
        if _is_map(each.node):
            inner = before.node if before is not None and _is_map(before.node) else each.node._replace(entries=())
            entries[each.key] = each._replace(node=_merged(inner, each.node))
        elif before is None or each.node.value != MISSING:
            entries[each.key] = each
    return under._replace(entries=tuple(entries.values()), hidden=under.hidden or over.hidden)


def _is_map(node: Node) -> bool:
    return node.kind == "object"


def _obscured(node: Node, package: Sequence[str], why: Unknown) -> Node:
    """A tree in which the scalars below a section are not known."""
    if package:
        inner = tuple(
            each._replace(node=_obscured(each.node, package[1:], why)) if each.key == package[0] else each
            for each in node.entries
        )
        return node._replace(entries=inner)
    if _is_map(node):
        return node._replace(entries=tuple(each._replace(node=_obscured(each.node, (), why)) for each in node.entries))
    return Node("unknown", None, node.span, told=why)
