"""A config as keys under dotted paths: files joined in order, `key=value` words over them, `${...}` followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, NamedFile
from dtlint.frameworks.deepspeed_values import known, whole_number
from dtlint.frameworks.program import model_claim
from dtlint.languages.json_tree import Node, setting
from dtlint.languages.traced import Piece, Word, literal_word, setting_of
from dtlint.languages.yaml_scalars import plain_scalar, quoted_scalar
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Step, Unknown, Value

Read = Callable[[Node], Setting]

MOST_STEPS = 8
"""References that are followed from one to the next."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_OVERRIDE = re.compile(r"(~|\+{0,2})([A-Za-z_][\w./@-]*)=")


class Meaning(NamedTuple):
    """The setting that a key states: its value as `read` takes it, or what one of some `words` stands for."""

    setting: str
    read: Read = whole_number
    words: Mapping[str, Plain] = {}


Table = Mapping[str, Meaning]
"""What keys mean, by their dotted paths."""

ON = {"true": True, "false": False}
"""The words of a plain switch."""


class Key(NamedTuple):
    """One key: the place where it is written, and its value."""

    place: Span
    node: Node


class Keys(NamedTuple):
    """The keys that count, by dotted path, those of objects among them. `open` says why some may be hidden, ""
    if none are.
    """

    found: Mapping[str, Key]
    open: str = ""

    def __contains__(self, path: object) -> bool:
        return self.node(str(path)) is not None

    def node(self, path: str) -> Node | None:
        """The value of a key, `${...}` followed; None if it is absent or null."""
        key = self.found.get(path)
        node = None if key is None else _followed(key.node, self.found)
        return None if node is None or node.kind == "null" else node

    def known(self, path: str) -> object:
        """What a key holds, None if that is not known."""
        node = self.node(path)
        return None if node is None else known(setting(node))

    def below(self, path: str) -> bool:
        """Whether any key lies below a path."""
        return any(name.startswith(f"{path}.") for name in self.found)


def keys_of(roots: Iterable[Node | None], words: Sequence[Word] = (), rename: Callable[[str], str] = str) -> Keys:
    """The keys of the files in their order, and of the words that override them; `rename` gives a name the form that
    the tool has for it.
    """
    found: dict[str, Key] = {}
    hidden = False
    for root in roots:
        if root is not None:
            found.update(_flat(root, "", rename))
            hidden = hidden or root.hidden is not None
    for path, key in _overrides(words):
        found[path] = key
    unread = any(word.many and not word.adds_none for word in words)
    why = "entries of the file are not known" if hidden else "the list of arguments is open" if unread else ""
    return Keys(found, why)


def flag_words(words: Sequence[Word]) -> tuple[Word, ...]:
    """`--name value` and `--name=value`, be it with dashes in the name, as `name=value` words."""
    found: list[Word] = []
    for index, word in enumerate(words):
        name, equals, _ = word.shown.partition("=")
        if not name.startswith("--"):
            continue
        after = words[index + 1] if index + 1 < len(words) else None
        value = word.part(len(name) + 1) if equals else after
        head = literal_word(name[2:].replace("-", "_") + "=", word.place)
        if value is not None and not (value is after and value.shown.startswith("--")):
            found.append(Word((*head.pieces, *value.pieces), value.place))
    return tuple(found)


def claims_of(keys: Keys, table: Table) -> Iterator[Claim]:
    """What the keys of a table claim, as far as they are written."""
    for path, meaning in table.items():
        node = keys.node(path)
        if node is not None:
            value = _worded(node, meaning.words) if meaning.words else meaning.read(node)
            yield Claim(meaning.setting, value, path)


def spelled(table: Table, setting_name: str, value: Plain) -> tuple[str, str] | None:
    """The key that states a value of a setting by a table, and how it is written; None where none does."""
    for path, meaning in table.items():
        text = _text_of(meaning, value) if meaning.setting == setting_name else None
        if text is not None:
            return path, text
    return None


def model_named(keys: Keys, path: str) -> tuple[tuple[Claim, ...], tuple[NamedFile, ...]]:
    """What a key that names the model claims, and the file in which the model's shape may stand."""
    node = keys.node(path)
    word = None if node is None else word_of(node)
    if word is None:
        return (), ()
    claim = model_claim(path, word)
    return (() if claim is None else (claim,)), ((NamedFile("model", word),) if word.text else ())


def word_of(node: Node) -> Word:
    """A scalar as a word."""
    found = setting(node)
    if isinstance(found, Value):
        return literal_word(str(found.value), found.origin.span or node.span)
    unknown = found if isinstance(found, Unknown) else Unknown("a choice of values")
    return Word((Piece(None, node.span, unknown=unknown.reason, how=unknown.how),), node.span)


def product(one: Setting, other: Setting | None, label: str) -> Setting:
    """The product of two whole numbers, at the place of the first; the other one's place leads to it."""
    if not isinstance(one, Value) or not isinstance(one.value, int) or other is None:
        return one
    if not isinstance(other, Value) or not isinstance(other.value, int):
        return other
    span = other.origin.span
    chain = one.origin.chain if span is None or other.value == 1 else (*one.origin.chain, Step(span, label))
    return one._replace(value=one.value * other.value, origin=one.origin._replace(chain=chain))


def _worded(node: Node, words: Mapping[str, Plain]) -> Setting:
    text = str(node.value).lower()
    if text in words:
        return setting(node, words[text])
    if node.kind in ("bare", "unknown"):
        return setting(node)
    return Unknown(f"{node.value} is none of {', '.join(words)}", "", Origin("written", node.span))


def _text_of(meaning: Meaning, value: Plain) -> str | None:
    if not meaning.words:
        return str(value).lower() if isinstance(value, bool) else str(value)
    alike = (word for word, stands in meaning.words.items() if stands == value and type(stands) is type(value))
    return next(alike, None)


def _flat(node: Node, prefix: str, rename: Callable[[str], str]) -> Iterator[tuple[str, Key]]:
    for entry in node.entries:
        path = prefix + rename(entry.key)
        yield path, Key(entry.place, entry.node)
        if entry.node.kind == "object":
            yield from _flat(entry.node, f"{path}.", str)


def _overrides(words: Sequence[Word]) -> Iterator[tuple[str, Key]]:
    """`key=value` words; `+` before a key adds it, `~` takes it out."""
    for word in words:
        head = _OVERRIDE.match(word.shown)
        if head is not None:
            value = word.part(head.end())
            yield head[2], Key(word.place, _null(word) if head[1] == "~" else _node(value))


def _null(word: Word) -> Node:
    return Node("null", None, word.place)


def _node(word: Word) -> Node:
    """A word as the scalar that OmegaConf makes of it."""
    text = word.text
    if text is None:
        return Node("unknown", None, word.place, told=setting_of(word))
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    kind, value = quoted_scalar(text[1:-1]) if quoted else plain_scalar(text, "omegaconf")
    return Node(kind, value, word.place, told=setting_of(word, value) if kind not in ("bare", "null") else None)


def _followed(node: Node, found: Mapping[str, Key]) -> Node:
    """What a value that is a reference leads to, with the way there; a reference to nothing stays as it is."""
    steps: list[Step] = []
    for _ in range(MOST_STEPS):
        reference = _REFERENCE.fullmatch(str(node.value)) if node.kind == "bare" else None
        target = found.get(reference[1]) if reference is not None else None
        if reference is None or target is None:
            break
        steps.append(Step(node.span, f"${{{reference[1]}}}"))
        node = target.node
    told = setting(node) if steps else node.told
    if not steps or not isinstance(told, Value):
        return node
    return node._replace(told=told._replace(origin=told.origin._replace(chain=(*steps, *told.origin.chain))))
