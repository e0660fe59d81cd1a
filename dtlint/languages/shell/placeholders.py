"""Stretches such as `<Specify path>` that a user has yet to fill in, where bash would see redirections."""

from __future__ import annotations

import re

from dtlint.languages.shell.cursor import Cursor

PLACEHOLDER = r"<[A-Za-z_](?:[^<>\n|&;$`\"'(){}]*[^<>\n|&;$`\"'(){}\s])?>(?=[\s\"'/.;,:_-]|$)"
REDIRECTED_DESCRIPTOR = r"\s\d>$"


def placeholder_end(cursor: Cursor) -> int:
    """Where the placeholder at the reading position ends; the position itself if none begins there."""
    if cursor.peek() != "<":
        return cursor.at
    match = re.compile(PLACEHOLDER).match(cursor.text, cursor.at)
    return cursor.at if not match or re.search(REDIRECTED_DESCRIPTOR, match[0]) else match.end()
