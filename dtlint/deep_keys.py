"""TOML keys with more dots than are read: Python's reader would follow them as deep as they lead."""

from __future__ import annotations

import re

MAX_DEPTH = 100
"""Keys within keys, and tables and arrays within each other, deeper than this are not read; no config is."""
_DEEP_KEY = rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MAX_DEPTH}}}"""


def deep_key(text: str) -> int | None:
    """Where a dotted key begins that is nested too deep to be read; what looks like one counts, wherever it stands."""
    found = re.search(_DEEP_KEY, text)
    return found.start() if found is not None else None
