"""The settings of a plan: names, types, units, domains and bounds, read from vocabulary.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from dtlint.record import NamedTuple
from dtlint.value import Plain, Value, given

FILE = Path(__file__).with_name("vocabulary.yaml")


LARGEST = 1e18
"""No count or size of a training run comes near: the bound of numbers that have no other."""


class Term(NamedTuple):
    """One setting: its type (integer, number, flag, word, words, map), unit, domain, bounds for estimates, and
    meaning.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    values: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    optimistic: Plain = None
    pessimistic: Plain = None
    typical: Plain = None

    @property
    def bounded(self) -> bool:
        """Whether an estimate can go on when the setting is unknown."""
        return self.optimistic is not None


class Misfit(ValueError):  # noqa: N818 - a fact about an input
    """A name or value that the vocabulary does not take, with the sentence that says why."""


@lru_cache(maxsize=1)
def vocabulary() -> Mapping[str, Term]:
    """Every setting by name, in the order of the file."""
    from dtlint.compiled import load

    entries = cast("dict[str, dict[str, Plain]]", load("vocabulary", [FILE]))
    return {name: _term(name, entry) for name, entry in entries.items()}


def term(name: str) -> Term:
    """The setting of that name; Misfit with a suggestion when there is none."""
    found = vocabulary().get(name)
    if found is None:
        raise Misfit(f"unknown setting '{name}'{_suggestion(name)}")
    return found


def parse(name: str, text: str) -> Value:
    """A value as written on a command line (`--set parallel.tensor=8`), checked against its type and domain; Misfit
    if it does not fit.
    """
    found = term(name)
    return given(fit(found, _plain(found, text.strip())))


def fit(found: Term, value: Plain) -> Plain:
    """`value` if it lies in the setting's domain, else Misfit."""
    if not _has_type(found.type, value):
        raise Misfit(f"{found.name} takes {_article(found)}, not {value!r}")
    if found.values and value not in found.values:
        raise Misfit(f"{found.name} is one of {', '.join(found.values)}, not {value!r}")
    if reason := beyond(found, value):
        raise Misfit(reason)
    return value


def limits(found: Term) -> tuple[float, float]:
    """The least and the greatest number that a setting takes."""
    least = found.minimum if found.minimum is not None else -LARGEST
    return least, found.maximum if found.maximum is not None else LARGEST


def beyond(found: Term, value: Plain) -> str:
    """Why a number lies below the least or above the largest that the setting can have; "" if it does not."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return ""
    least, most = limits(found)
    if value != value:
        return f"{found.name} takes {_article(found)}, not {value!r}"
    if value < least:
        return f"{found.name} is at least {least:g}, not {value!r}"
    return f"{found.name} is at most {most:g}, not {value!r}" if value > most else ""


def read_file() -> object:
    """The file as YAML reads it: what is compiled."""
    import yaml

    return yaml.load(FILE.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _term(name: str, entry: Mapping[str, Plain]) -> Term:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Term(name, **fields)  # type: ignore[arg-type]


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = [each for each in vocabulary() if each.endswith("." + name)] or get_close_matches(name, vocabulary(), 1, 0.6)
    shown = " or ".join(f"'{each}'" for each in near[:3])
    return f"; did you mean {shown}?" if near else "; `dtlint plan` lists the settings"


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _plain(found: Term, text: str) -> Plain:
    if found.type == "flag" and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if found.type in ("integer", "number"):
        return _number(found.type, text)
    if found.type == "words":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _number(kind: str, text: str) -> Plain:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return text
    if value != value or value in (float("inf"), float("-inf")):
        return text
    return int(value) if kind == "integer" and value == int(value) else value


def _has_type(kind: str, value: Plain) -> bool:
    if kind == "flag":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "word":
        return isinstance(value, str)
    return isinstance(value, (tuple, dict))


def _article(found: Term) -> str:
    names = {
        "integer": "a whole number",
        "number": "a number",
        "flag": "true or false",
        "word": "a word",
        "words": "a list of words",
        "map": "a table",
    }
    return names[found.type] + (f" ({found.unit})" if found.unit else "")
