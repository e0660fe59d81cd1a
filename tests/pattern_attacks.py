"""The regular expressions of the package with how they are used, and texts that would make each backtrack most."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dtlint

if sys.version_info >= (3, 11):
    from re import _constants as kinds
    from re import _parser as parser
else:
    import sre_constants as kinds
    import sre_parse as parser

METHODS = {"search": "finditer", "finditer": "finditer", "findall": "finditer", "sub": "finditer", "split": "finditer"}
METHODS |= {"match": "match", "fullmatch": "fullmatch", "compile": "compile"}
MEMBERS = [chr(code) for code in (*range(32, 127), 9, 10, 13)]
FAVOURITES = 'a1 -_.=\n\\"'
REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT)
MANY = 20
"""Times from which on a bounded repetition is attacked too."""


class Use(NamedTuple):
    """A pattern, its flags, and how it is applied: finditer (from every place), match or fullmatch."""

    pattern: str
    flags: int
    method: str


def uses() -> tuple[dict[Use, str], set[str]]:
    """Each use of a pattern with its place; and the places of those whose pattern only a run puts together."""
    found: dict[Use, str] = {}
    assembled: set[str] = set()
    for info in pkgutil.walk_packages([str(Path(dtlint.__file__).parent)], "dtlint."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
                _add(call, info.name, vars(module), found, assembled)
    applied = {use[:2] for use in found if use.method != "compile"}
    for use in [use for use in found if use.method == "compile"]:
        place = found.pop(use)
        if use[:2] not in applied:
            found[use._replace(method="finditer")] = place
    return found, assembled


def _add(call: ast.AST, module: str, names: dict[str, Any], found: dict[Use, str], assembled: set[str]) -> None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in METHODS:
        return
    of_module = ast.unparse(call.func.value) == "re"
    subject = call.args[0] if of_module and call.args else call.func.value
    try:
        value = eval(ast.unparse(subject), dict(names))
    except Exception:  # noqa: BLE001 - names of functions, not of modules
        if of_module:
            assembled.add(f"{module}: {ast.unparse(subject)}")
        return
    if of_module and isinstance(value, str):
        flags = [ast.unparse(each) for each in (*call.args[1:], *(word.value for word in call.keywords))]
        value = re.compile(value, sum(int(eval(flag)) for flag in flags if flag.startswith("re.")))
    if isinstance(value, re.Pattern):
        text = value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
        found.setdefault(Use(text, value.flags & ~re.UNICODE.value, METHODS[call.func.attr]), f"{module}:{call.lineno}")


def attacks(pattern: str, flags: int, length: int) -> set[str]:
    """Texts of some `length` characters: each repetition of the pattern fed without end behind what leads to it, and then
    broken off; what leads to it again and again; and parts of what fits again and again.
    """
    tree = parser.parse(pattern, flags)
    found: set[str] = set()
    for before, pump in _pumps(list(tree), [""]):
        found.update(before + pump * (length // len(pump)) + end for end in ("\0", "\n"))
        found.add((before + pump) * (length // len(before + pump)))
    for text in filter(None, _fitting(list(tree))[:3] if found else ()):
        found.update(
            part * (length // len(part)) for cut in range(min(len(text), 12)) for part in (text[cut:], text[: cut + 1])
        )
    return found


def _pumps(tree: Sequence[Any], before: list[str]) -> Iterator[tuple[str, str]]:
    """What can be repeated without end, with what leads to it."""
    for number, (kind, value) in enumerate(tree):
        leading = [first + then for first in before for then in _fitting(tree[:number])[:2]][:2]
        if kind in REPEATS and (value[1] is kinds.MAXREPEAT or value[1] >= MANY):
            pumps = {*_fitting(list(value[2])), *(_some(value[2][0]) if len(value[2]) == 1 else ())}
            yield from ((each, pump) for each in leading for pump in pumps if pump)
        for inner in _inside(kind, value):
            yield from _pumps(inner, leading)


def _inside(kind: Any, value: Any) -> list[list[Any]]:
    if kind in REPEATS:
        return [list(value[2])]
    if kind is kinds.BRANCH:
        return [list(branch) for branch in value[1]]
    if kind is kinds.SUBPATTERN:
        return [list(value[3])]
    return [list(value[1])] if kind in (kinds.ASSERT, kinds.ASSERT_NOT) else []


def _fitting(tree: Sequence[Any]) -> list[str]:
    """A few short texts that fit."""
    found = [""]
    for kind, value in tree:
        found = [before + text for before in found for text in _texts(kind, value)][:6]
    return found


def _texts(kind: Any, value: Any) -> list[str]:
    if kind in REPEATS:
        once = _fitting(list(value[2]))[:2]
        return [text * value[0] for text in once] if value[0] else ["", *once[:1]]
    if kind in (kinds.BRANCH, kinds.SUBPATTERN):
        return [text for inner in _inside(kind, value) for text in _fitting(inner)[:2]][:12]
    return _some((kind, value))[:3] or [""]


def _some(item: tuple[Any, Any]) -> list[str]:
    """Characters that one part of a pattern fits, the favourites first; none for what fits no character."""
    kind, value = item
    if kind is kinds.LITERAL:
        return [chr(value)]
    if kind not in (kinds.IN, kinds.NOT_LITERAL, kinds.ANY):
        return []
    matcher = re.compile(_class(kind, value), re.DOTALL)
    return sorted(filter(matcher.fullmatch, MEMBERS), key=lambda each: (each not in FAVOURITES, each))[:6]


def _class(kind: Any, value: Any) -> str:
    if kind is kinds.ANY:
        return "."
    if kind is kinds.NOT_LITERAL:
        return f"[^{re.escape(chr(value))}]"
    return "[" + "".join(map(_member, value)) + "]"


def _member(item: tuple[Any, Any]) -> str:
    kind, value = item
    if kind is kinds.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    if kind is kinds.CATEGORY:
        letter = {"space": "s", "digit": "d", "word": "w"}[str(value).lower().rpartition("_")[2]]
        return "\\" + (letter.upper() if "NOT" in str(value) else letter)
    return "^" if kind is kinds.NEGATE else re.escape(chr(value))
