"""What values an option takes (a number, one of some words), and whether a text is one."""

from __future__ import annotations

from dtlint.frameworks.options import is_number, whole


def wanted(kind: str, text: str) -> str:
    """What an option of a kind takes, "" if `text` is that.

    `kind` is "int" or "float" as Python reads them, or the words that are allowed, with `/` between them; "" takes any.
    """
    if kind == "int":
        return "" if whole(text) is not None else "a whole number"
    if kind == "float":
        return "" if is_number(text) else "a number"
    words = kind.split("/") if kind else [text]
    return "" if text in words else "one of " + ", ".join(words)
