"""What a key of DeepSpeed's config takes, and what DeepSpeed does with something else.

The catalog's types: `bool`, `plain bool` (no text), `int` and `float` with bounds (`int >=0`, `float >0 <1`) and
perhaps `, no flag`; `stage`; words (`auto/step/epoch`, perhaps `, any case`); `text`, `text not empty`; `list`,
`texts`, `texts or one`, `list of z1/z3`; `nothing`; `section`, `strict section`, `free section`; `any`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from dtlint.catalog import DeepSpeedKey
from dtlint.frameworks.deepspeed.values import flag, is_auto, known, number, whole_number
from dtlint.languages.json_tree import Node
from dtlint.record import NamedTuple
from dtlint.value import Value


class Defect(NamedTuple):
    """A value that its key does not take: what it takes, and what DeepSpeed does with the value.

    `effect` is refused, misread (taken for something else without a word), or fragile (some of the code that gets it
    refuses it). `since` is the release from which on the value is refused, "" for all that look at its section, and
    `earlier` what those before it do.
    """

    expected: str
    effect: str = "refused"
    since: str = ""
    earlier: str = ""


class Range(NamedTuple):
    """The numbers that a key takes: whole or not, the bounds (`>=0`), whether true and false are refused."""

    whole: bool
    bounds: tuple[tuple[str, float], ...] = ()
    no_flag: bool = False


_STRICTER = "0.15.0"
"""The release from which on the sections are checked by pydantic 2; what pydantic 1 makes of a value it converts: a
whole number of one with a fraction, a text of a number (config_utils.py of 0.14.5, deepspeed/pydantic_v1.py).
"""

_COUNTS = frozenset({"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})

CHECKED = frozenset((
    "zero_optimization", "fp16", "bf16", "bfloat16", "tensor_parallel", "comms_logger", "tensorboard", "wandb",
    "csv_monitor", "comet", "compile", "hybrid_engine", "timers", "weight_quantization",
))  # fmt: skip
"""Sections whose values DeepSpeed converts (`"2"` for 2) and checks, and in which it drops "auto"."""


def is_checked(section: str) -> bool:
    """Whether DeepSpeed converts and checks the values of a section."""
    return section.split(".")[0] in CHECKED


def defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    """What is wrong with a value; None if nothing is, or it is not known, or it is left to be filled."""
    if node.kind in ("bare", "unknown") or is_auto(node):
        return None
    if node.kind == "null":
        return _null_defect(key)
    kind = next((check for form, check in _CHECKS.items() if re.fullmatch(form, key.type)), None)
    return kind(key, node) if kind is not None else None


def _null_defect(key: DeepSpeedKey) -> Defect | None:
    """`null` is a value of its own: where the default is another one, DeepSpeed does not fall back to that."""
    if key.default == "null" or key.last:
        return None
    refused = key.type.endswith("section") or key.type == "plain bool" or "/" in key.type or is_checked(key.section)
    return Defect(_expected(key)) if refused and "null" not in _words(key.type) else None


def _section_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    old_form = key.name == "zero_optimization" and node.kind == "bool"
    return None if node.kind == "object" or old_form else Defect("an object")


def _flag_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    checked = is_checked(key.section)
    if not isinstance(flag(node), Value):
        return Defect("true or false", "refused" if checked else "misread")
    if node.kind == "string" and not checked:
        return Defect("true or false without quotes (a text is true whatever it says)", "misread")
    return None


def _plain_flag_defect(_: DeepSpeedKey, node: Node) -> Defect | None:
    return None if node.kind == "bool" else Defect("true or false")


def _number_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    allowed, expected = _range(key.type), _expected(key)
    if node.kind == "bool":
        return Defect(expected, "refused" if allowed.no_flag else "misread")
    if node.kind == "string" and not is_checked(key.section):
        return Defect(f"{expected} without quotes")
    value = known(whole_number(node) if allowed.whole else number(node))
    if not isinstance(value, (int, float)):
        return _fraction_defect(key, node)
    if not _is_within(value, allowed):
        return Defect(expected)
    if key.name in _COUNTS and isinstance(node.value, float):
        return Defect("a whole number, written without a point or exponent", "fragile")
    return None


def _fraction_defect(key: DeepSpeedKey, node: Node) -> Defect:
    """A number with a fraction where a whole one is expected was cut off, and the rest looked at."""
    found, expected = known(number(node)) if node.kind == "number" else None, _expected(key)
    if not isinstance(found, float) or not is_checked(key.section) or not _is_within(int(found), _range(key.type)):
        return Defect(expected)
    return Defect(expected, since=_STRICTER, earlier="cut off its fraction")


def _is_within(value: float, allowed: Range) -> bool:
    return all(_BOUNDS[sign](value, limit) for sign, limit in allowed.bounds)


def _word_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    shown = str(node.value).lower() if key.type.endswith(_ANY_CASE) else node.value
    return None if node.kind == "string" and shown in _words(key.type) else Defect(_expected(key))


def _text_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    if node.kind == "number" and is_checked(key.section):
        return Defect(_expected(key), since=_STRICTER, earlier="make a text of it")
    empty = key.type == "text not empty" and node.value == ""
    return None if node.kind == "string" and not empty else Defect(_expected(key))


def _list_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    if node.kind == "string" and key.type == "texts or one":
        return None
    words = _words(key.type.removeprefix("list of "))
    fits = node.kind == "array" and all(_is_item(item, key.type, words) for item in node.items)
    return None if fits else Defect(_expected(key))


def _is_item(item: Node, form: str, words: tuple[str, ...]) -> bool:
    if form == "list" or item.kind in ("bare", "unknown"):
        return True
    return item.kind == "string" and (form.startswith("texts") or item.value in words)


def _nothing_defect(key: DeepSpeedKey, _: Node) -> Defect | None:
    return Defect(_expected(key))


_ANY_CASE = ", any case"
_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
}

_CHECKS: Mapping[str, Callable[[DeepSpeedKey, Node], Defect | None]] = {
    ".*section": _section_defect,
    "bool": _flag_defect,
    "plain bool": _plain_flag_defect,
    "(int|float|stage).*": _number_defect,
    "text|text not empty": _text_defect,
    "list.*|texts.*": _list_defect,
    "nothing": _nothing_defect,
    ".*/.*": _word_defect,
}
"""What looks at a value, by the form of its key's type."""


@cache
def _range(form: str) -> Range:
    if form == "stage":
        return Range(True, ((">=", 0), ("<=", 3)))
    bounds = tuple((sign, float(limit)) for sign, limit in re.findall(r"([<>]=?)(-?[\d.]+)", form))
    return Range(form.startswith("int"), bounds, form.endswith("no flag"))


def _words(form: str) -> tuple[str, ...]:
    return tuple(form.removesuffix(_ANY_CASE).split("/")) if "/" in form else ()


_PLAIN_TYPES = {
    "stage": "a stage from 0 to 3",
    "text": "a text",
    "text not empty": "a text that is not empty",
    "list": "a list",
    "texts": "a list of texts",
    "texts or one": "a list of texts",
    "nothing": "no value in a file",
}


def _expected(key: DeepSpeedKey) -> str:
    """What a key takes, in words."""
    if key.type in _PLAIN_TYPES:
        return _PLAIN_TYPES[key.type]
    if key.type.endswith("section"):
        return "an object"
    if key.type.endswith("bool"):
        return "true or false"
    if key.type.startswith(("int", "float")):
        return _in_words(_range(key.type))
    listed = ", ".join(_words(key.type.removeprefix("list of ")))
    return f"a list of {listed}" if key.type.startswith("list of ") else f"one of {listed}"


_SIGNS = {">": "above", ">=": "of at least", "<": "below", "<=": "of at most"}


def _in_words(allowed: Range) -> str:
    bounds = " and ".join(f"{_SIGNS[sign]} {limit:g}" for sign, limit in allowed.bounds)
    return f"{'a whole number' if allowed.whole else 'a number'} {bounds}".rstrip()
