"""What configs of keys claim by a table: files joined in order, `key=value` words over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, NamedFile, dotted_keys
from dtlint.frameworks.deepspeed.values import whole_number
from dtlint.frameworks.dotted_keys import Keys, Read, dotlist
from dtlint.frameworks.program import model_claim
from dtlint.languages.json_tree import Entry, Node, setting
from dtlint.languages.traced import Piece, Word, literal_word
from dtlint.record import NamedTuple
from dtlint.value import Origin, Plain, Setting, Step, Unknown, Value


class Meaning(NamedTuple):
    """The setting that a key states: its value as `read` takes it, or what one of some `words` stands for."""

    setting: str
    read: Read = whole_number
    words: Mapping[str, Plain] = {}


Table = Mapping[str, Meaning]
"""What keys mean, by their dotted paths."""

ON = {"true": True, "false": False}
"""The words of a plain switch."""
EXCHANGES: Mapping[Plain, Plain] = {
    "p2p": "p2p", "a2a": "a2a", "all_gather": "allgather", "allgather": "allgather", "a2a+p2p": "a2a+p2p",
}  # fmt: skip
"""Megatron-Core's words for how context-parallel ranks exchange keys and values (cp_comm_type)."""


def keys_of(
    roots: Iterable[Node | None],
    words: Sequence[Word] = (),
    rename: Callable[[str], str] | None = None,
    given: Callable[[Sequence[Word]], Mapping[str, tuple[str, Node | None]]] = dotlist,
) -> Keys:
    """The keys of the files in their order, with the words that override them, as `given` reads these; `rename` gives a
    key of the top level the form that the tool has for it.
    """
    joined = [_renamed(entry, rename) for root in roots if root is not None for entry in root.entries]
    last = {entry.key: entry for entry in joined}
    root = Node("object", None, joined[0].place, tuple(last.values())) if joined else None
    return dotted_keys.keys_of(root, given(words))


def hidden(roots: Iterable[Node | None], words: Sequence[Word] = ()) -> str:
    """Why keys may be hidden from us, "" where none are."""
    if any(root is not None and root.hidden is not None for root in roots):
        return "entries of the file are not known"
    unread = any(word.many and not word.adds_none for word in words)
    return "the list of arguments is open" if unread else ""


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
    """The product of two whole numbers, at the place of the first; the other one's place leads to it. It is assumed
    where either is.
    """
    if not isinstance(one, Value) or not isinstance(one.value, int) or other is None:
        return one
    if not isinstance(other, Value) or not isinstance(other.value, int):
        return other
    span = other.origin.span
    chain = one.origin.chain if span is None or other.value == 1 else (*one.origin.chain, Step(span, label))
    origin = one.origin._replace(chain=chain)
    if other.origin.kind == "assumed":
        origin = origin._replace(kind="assumed", note=other.origin.note, how=other.origin.how)
    return one._replace(value=one.value * other.value, origin=origin)


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


def _renamed(entry: Entry, rename: Callable[[str], str] | None) -> Entry:
    return entry if rename is None else entry._replace(key=rename(entry.key))
