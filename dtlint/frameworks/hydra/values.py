"""The values that hydra's command line gives to keys, by hydra's own grammar: it is not YAML's (`yes` is a text).

hydra 1.3.2 hydra/grammar/OverrideLexer.g4 and OverrideParser.g4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks.hydra.omegaconf import at_commas
from dtlint.frameworks.options import literal_place
from dtlint.languages.json_tree import Entry, Kind, Node
from dtlint.languages.traced import Word, setting_of
from dtlint.languages.yaml_scalars import quoted_scalar
from dtlint.source import Span
from dtlint.value import Origin, Plain, Unknown, Value

_WHOLE = re.compile(r"[+-]?(?:0|[1-9](?:_?\d)*)")
_FRACTION = re.compile(
    r"(?i)[+-]?(?:(?:(?:0|[1-9](?:_?\d)*)?\.\d(?:_?\d)*|(?:0|[1-9](?:_?\d)*)\.?)(?:e[+-]?\d(?:_?\d)*)?|inf|nan)"
)
_DIGITS = 4000
_MOST_NESTED = 20
_CALL = re.compile(
    r"(?:choice|range|interval|glob|sort|shuffle|tag|extend_list|float|int|str|bool|json_str|cast)\(.*\)"
)


def value_of(word: Word) -> Node:
    """The value that an override gives to its key, with the place of the word; a sweep over several is not known."""
    told, place = setting_of(word), literal_place(word)
    if isinstance(told, Unknown):
        return Node("unknown", None, place, told=told)
    text = (word.text or "").strip()
    if _is_sweep(text):
        reason = f"{text} stands for a run with each of several values"
        return Node("unknown", None, place, told=Unknown(reason, "", Origin("written", place)))
    found = _node(text, place, 0)
    if found.kind not in ("number", "bool", "string") or not isinstance(told, Value):
        return found
    return found._replace(told=told._replace(value=found.value))


def names_in(text: str) -> tuple[str, ...]:
    """The choices of a config group: a name, or several in brackets; none for `null`."""
    text = text.strip()
    if text.lower() in ("null", ""):
        return ()
    parts = _split(text[1:-1]) if _is_within(text, "[]") else [text]
    return tuple(_bare(part.strip()) for part in parts)


def _is_sweep(text: str) -> bool:
    return len(_split(text)) > 1 or _CALL.fullmatch(text) is not None


def _node(text: str, place: Span, depth: int) -> Node:
    if _is_within(text, "[]") and depth < _MOST_NESTED:
        return Node("array", None, place, (), tuple(_node(part, place, depth + 1) for part in _parts(text)))
    if _is_within(text, "{}") and depth < _MOST_NESTED:
        pairs = (part.partition(":") for part in _parts(text))
        entries = (Entry(_bare(key.strip()), place, _node(value.strip(), place, depth + 1)) for key, _, value in pairs)
        return Node("object", None, place, tuple(entries))
    kind, value = _scalar(text)
    return Node(kind, value, place)


def _scalar(text: str) -> tuple[Kind, Plain]:
    lowered = text.lower()
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return quoted_scalar(text[1:-1])
    if lowered == "null":
        return "null", None
    if lowered in ("true", "false"):
        return "bool", lowered == "true"
    if len(text) < _DIGITS and _WHOLE.fullmatch(text):
        return "number", int(text)
    if len(text) < _DIGITS and _FRACTION.fullmatch(text):
        return "number", float(text)
    return quoted_scalar(text)


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas of a list or a mapping."""
    return (part.strip() for part in _split(text[1:-1]) if part.strip())


def _is_within(text: str, brackets: str) -> bool:
    return len(text) > 1 and text[0] == brackets[0] and text[-1] == brackets[1]


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def _split(text: str) -> list[str]:
    return at_commas(text, "[{(", ")}]")
