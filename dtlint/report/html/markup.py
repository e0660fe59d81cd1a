"""HTML and SVG that no text can break: every child and attribute is escaped unless it was made here."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dtlint.interval import Interval
from dtlint.report.json import Json, range_json
from dtlint.report.terminal import printable

VOID = frozenset(("meta", "input", "rect", "line", "path", "br", "circle"))
"""Elements that never have children; those of SVG are closed, which HTML takes too."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Text as content or attribute; control and direction-changing characters become visible escapes."""
    shown = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(shown.replace('"', "&quot;").replace("'", "&#39;"))


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element; children that are no Markup are escaped.

    In names of attributes `_` stands for `-`, one at the end is dropped (`class_`); None and False leave the attribute
    out, True has no value.
    """
    written = "".join(_attribute(each, value) for each, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Parts one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def figure(path: str, value: Interval, text: str) -> Markup:
    """A number of the report as text, with the place of its value in the JSON report and that value itself."""
    return element("data", text, **told(path, value))


def told(path: str, value: Interval) -> dict[str, str]:
    """The attributes that say which number of the JSON report is drawn."""
    return {"data_of": path, "value": embedded(range_json(value))}


def embedded(data: Json) -> Markup:
    """JSON that may stand in a page: what could end a script or begin a tag is written as escapes."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {shown}"
    return f' {shown}="{escape(value if isinstance(value, str) else short(value))}"'


def short(number: float) -> str:
    """A coordinate: at most two decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
