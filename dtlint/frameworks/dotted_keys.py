"""Keys of a nested config by their dotted paths (`parallelism.tp`), with what a command line puts in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed.values import known
from dtlint.frameworks.options import known_head, literal_place
from dtlint.languages.json_tree import Node, setting
from dtlint.languages.traced import Word, setting_of
from dtlint.languages.yaml_scalars import plain_scalar
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value

Read = Callable[[Node], Setting]
_ASSIGNED = re.compile(r"([A-Za-z_][\w.@/-]*)=")


class Keys(NamedTuple):
    """The values that are written, by dotted path. `spelled` is how a key stands on the command line, for those that
    stand there.
    """

    nodes: Mapping[str, Node]
    spelled: Mapping[str, str] = {}

    def first(self, *names: str) -> tuple[str, Node] | None:
        """The first of several names of one key that is written and not null."""
        return next(((name, self.nodes[name]) for name in names if not _is_nothing(self.nodes.get(name))), None)

    def node(self, *names: str) -> Node | None:
        """The value of a key under the first of its names that is written; None if it is absent or null."""
        found = self.first(*names)
        return None if found is None else found[1]

    def known(self, *names: str) -> Plain:
        """What a key holds, None if that is not known or nothing."""
        node = self.node(*names)
        if node is None:
            return None
        value = setting(node)
        return value.value if isinstance(value, Value) else None

    def under(self, section: str) -> bool:
        """Whether a section is written at all."""
        return any(name == section or name.startswith(f"{section}.") for name in self.nodes)


def _is_nothing(node: Node | None) -> bool:
    return node is None or node.kind == "null"


def keys_of(root: Node | None, given: Mapping[str, tuple[str, Node | None]] | None = None) -> Keys:
    """The keys of a config; `given` are those of a command line, which count more: how each is spelled there, and its
    value, None for one that it takes out.
    """
    return put_over(dict(flat("", root)) if root is not None else {}, given or {})


def put_over(nodes: dict[str, Node], given: Mapping[str, tuple[str, Node | None]]) -> Keys:
    """Keys under those of a command line, each of which replaces all below it that is no section of it too."""
    for name, (_, node) in given.items():
        if node is None or node.kind != "object":
            nodes = {each: value for each, value in nodes.items() if not f"{each}.".startswith(f"{name}.")}
        if node is not None:
            nodes[name] = node
            nodes.update(flat(name, node))
    return Keys(nodes, {name: spelled for name, (spelled, _) in given.items()})


def flat(above: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Every value with its path below `above`, sections before what they hold; the last of repeated keys comes last."""
    for entry in node.entries:
        path = f"{above}.{entry.key}" if above else entry.key
        yield path, entry.node
        yield from flat(path, entry.node)


def dotlist(words: Sequence[Word]) -> dict[str, tuple[str, Node | None]]:
    """The keys that `key=value` words set where OmegaConf itself reads the command line, with YAML's values: each as it
    is spelled there, and its value.
    """
    found = ((_ASSIGNED.match(known_head(word)), word) for word in words)
    return {match[1]: (match[0], node_of(word.part(match.end()))) for match, word in found if match is not None}


def node_of(word: Word) -> Node:
    """A word of a command line as the value that a config would hold (numbers as OmegaConf takes them)."""
    told, place = setting_of(word), literal_place(word)
    if isinstance(told, Unknown):
        return Node("unknown", None, place, told=told)
    kind, value = plain_scalar(_without_quotes(word.text or ""), "omegaconf")
    found = told._replace(value=value) if isinstance(told, Value) else told
    return Node(kind, value, place, told=found if kind in ("number", "bool", "string") else None)


def _without_quotes(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[0] == text[-1] else text


def one(keys: Keys, names: Iterable[str], setting_name: str, read: Read) -> Iterator[Claim]:
    """The claim of a key under the first of its names that is written."""
    found = keys.first(*names)
    if found is not None:
        name, node = found
        yield Claim(setting_name, read(node), keys.spelled.get(name, name))


def worded(keys: Keys, names: Iterable[str], setting_name: str, words: Mapping[Plain, Plain]) -> Iterator[Claim]:
    """The claim of a key whose values stand for others; a text counts in small letters."""
    yield from one(keys, names, setting_name, lambda node: translated(node, words))


def translated(node: Node, words: Mapping[Plain, Plain]) -> Setting:
    """A value by what it stands for; Unknown for one that is not among `words`."""
    value = setting(node)
    if not isinstance(value, Value):
        return value
    key = value.value.lower() if isinstance(value.value, str) else value.value
    if key in words:
        return value._replace(value=words[key])
    return unread(node, f"{value.value} is a value that is not known here")


def unread(node: Node, reason: str) -> Unknown:
    """The Unknown for a written value that tells no setting."""
    return Unknown(reason, "", Origin("written", node.span))


def whole(value: Setting | None) -> int | None:
    """A whole number that is known, else None."""
    found = known(value)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def number_at(keys: Keys, *names: str) -> int | None:
    """The whole number that a key holds under the first of its names that is written, None where that is not known."""
    node = keys.node(*names)
    return None if node is None else whole(setting(node))


def hiding(reading: Reading, names: Iterable[str], why: str) -> Reading:
    """A reading whose config could not be read: the settings that it may hold and nothing else states are not known."""
    told = {claim.setting for claim in reading.claims}
    hidden = tuple(Claim(name, Unknown(why, f"--set {name}=...")) for name in names if name not in told)
    return reading._replace(claims=(*reading.claims, *hidden), unread=why)


def without_part(reading: Reading, missing: str) -> Reading:
    """A config of which a file is missing: what is told stands, what is not written may be written there."""
    told = tuple(claim for claim in reading.claims if not _is_default(claim.value))
    return reading._replace(claims=told, unread=f"{missing} was not found")


def _is_default(value: Setting) -> bool:
    return isinstance(value, Value) and value.origin.kind == "default"


def launcher_by_default(name: str, place: Span, tool: str) -> Claim:
    """What starts the processes of a config that is read by itself; that it is called is said elsewhere."""
    return Claim("launch.launcher", Value(name, Origin("default", place, (), tool)))


def written_name(reading: Reading, setting_name: str) -> str:
    """The key under which a reading's text states a setting, "" where it does not."""
    return next((claim.name for claim in reading.claims if claim.setting == setting_name), "")


def spelled(reading: Reading, setting_name: str, names: Sequence[str], text: str, sign: str) -> str:
    """A setting under the one of its `names` that states it, else the first: as an option (`--a.b=1`), a hydra override
    (`a.b=1`), or an entry of the file with its `sign` (`a.b: 1`).
    """
    stated = written_name(reading, setting_name)
    known_as = stated if stated.strip("-+=") in names else names[0]
    if known_as.startswith("--"):
        return f"{known_as}={text}"
    return f"{known_as}{text}" if known_as.endswith("=") else f"{known_as}{sign}{text}"
