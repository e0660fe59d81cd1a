"""Overrides that hydra refuses before the program sees a config: composed, a config is closed, so that `key=value`
names one that it has, `+key=value` one that it has not, and `~key` takes one out that is there.

hydra 1.0 to 1.3 hydra/_internal/config_loader_impl.py, _apply_overrides_to_config; OmegaConf.update of a struct.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.hydra.composition import Composed
from dtlint.frameworks.hydra.defaults import MISSING
from dtlint.frameworks.hydra.values import value_of
from dtlint.frameworks.options import known_head, literal_place
from dtlint.languages.json_tree import Entry, Node, entry
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import written

REFUSED = "config.overrides"
"""The collection of overrides that hydra refuses."""

_OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<value>=|$)")
_OWN = "hydra"
_REFERENCE = "${"
_SCALARS = ("string", "number", "bool", "null")


class _Override(NamedTuple):
    """An override of a key: its sign, the key's names, its word, and the word of its value (None for `~key`)."""

    sign: str
    path: tuple[str, ...]
    word: Word
    value: Word | None

    @property
    def key(self) -> str:
        """The key as it is written."""
        return ".".join(self.path)


class _Way(NamedTuple):
    """How far a path of keys leads: the entries on it, and what stands behind the last, None where the next key is
    certainly not there. `sure` is False where what would follow cannot be seen.
    """

    entries: tuple[Entry, ...]
    end: Node | None
    sure: bool = True


def refused_overrides(found: Composed) -> tuple[Member, ...]:
    """The member of `config.overrides` for the words laid over a config whose parts were all found, if hydra refuses
    one. It stops at the first: `key` (as written), `section` (the last one on the way that is there, "" for the top),
    `name` (what that lacks), `config`, `others` (how many more are refused, where there are), and `effect`: "absent"
    for a key that is not there, "there" for one that `+` would add again, "gone" for one that `~` would take out.
    """
    refused = tuple(_refused(found))
    if not refused:
        return ()
    member, others = _member(*refused[0], found), [literal_place(override.word) for override, _ in refused[1:]]
    count = {"others": written(len(others), member.place)} if others else {}
    related = (*member.related, *((place, "refused too") for place in others))
    return (member._replace(fields={**member.fields, **count}, related=related),)


def _refused(found: Composed) -> Iterator[tuple[_Override, str]]:
    """The overrides that are refused, and what for. What an earlier word adds or replaces, later ones may override;
    behind a word that may be any nothing is certain.
    """
    touched: list[str] = []
    for word in found.words:
        override = _override(word)
        if override is None:
            if _may_be_any(word):
                return
            continue
        if override.path[0] == _OWN or any(_overlap(override.key, each) for each in touched):
            continue
        effect = _effect(override, found)
        if effect:
            yield override, effect
        touched.append(override.key)


def _override(word: Word) -> _Override | None:
    match = _OVERRIDE.match(known_head(word))
    if match is None or (not match["value"] and (match["sign"] != "~" or word.text is None)):
        return None
    value = word.part(match.end()) if match["value"] else None
    return _Override(match["sign"] or "", tuple(match["key"].split(".")), word, value)


def _may_be_any(word: Word) -> bool:
    """Whether a word may add a key: its name is not known."""
    head = known_head(word)
    return word.text is None and "=" not in head and not head.startswith("-")


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _effect(override: _Override, found: Composed) -> str:
    """What hydra has against an override, "" where it takes it or that is not known."""
    way = _way(found.document.root, override.path)
    if not way.sure:
        return ""
    if override.sign == "+":
        return "there" if _is_there(way.end) and _is_scalar(override.value) else ""
    if override.sign == "++" or way.end is not None:
        return ""
    return "gone" if override.sign == "~" else "absent"


def _way(root: Node | None, path: Sequence[str]) -> _Way:
    entries: tuple[Entry, ...] = ()
    node = root
    for name in path:
        if node is None or node.hidden is not None or node.kind not in ("object", *_SCALARS) or _is_reference(node):
            return _Way(entries, None, sure=False)
        following = entry(node, name)
        if following is None:
            return _Way(entries, None)
        entries, node = (*entries, following), following.node
    return _Way(entries, node)


def _is_reference(node: Node) -> bool:
    return node.kind == "string" and _REFERENCE in str(node.value)


def _is_there(node: Node | None) -> bool:
    """Whether a key holds something certainly: neither null nor `???`, nor what a reference leads to."""
    if node is None or node.kind in ("null", "unknown", "bare") or _is_reference(node):
        return False
    return node.value != MISSING


def _is_scalar(word: Word | None) -> bool:
    """Whether a value is certainly no section and no list, which `+` merges."""
    return word is not None and value_of(word).kind in _SCALARS


def _member(override: _Override, effect: str, found: Composed) -> Member:
    place = literal_place(override.word)
    way = _way(found.document.root, override.path)
    depth = len(way.entries) - (effect == "there")
    section, name = ".".join(override.path[:depth]), override.path[min(depth, len(override.path) - 1)]
    fields = texts(place, key=override.sign + override.key, plain=override.key, section=section, name=name)
    told = texts(place, config=found.document.source.path, effect=effect)
    return Member(place, {**fields, **told}, tuple(_beside(way, effect)))


def _beside(way: _Way, effect: str) -> Iterator[tuple[Span, str]]:
    """Where the config has the key, or the last section on the way to it."""
    if way.entries:
        yield way.entries[-1].place, "the key stands here" if effect == "there" else "the section stands here"
