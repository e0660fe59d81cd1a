"""The names of the layers that adapters are put on, as programs, flags and files list them."""

from __future__ import annotations

import re

from dtlint.value import Setting, Value

EVERY_LAYER = "all-linear"
"""What stands for the names of all linear layers but the output's, in peft and in those on top of it."""
_LISTED = re.compile(r"[\w.\-,\s'\"\[\]()]*")
_WORDS = re.compile(r"[\w.\-]+")


def targets_of(told: Setting | None) -> Value | None:
    """The names of layers in a list or a text that lists them; None where they are not known, or a pattern stands for
    them.
    """
    if not isinstance(told, Value):
        return None
    listed = told.value if isinstance(told.value, tuple) else (told.value,)
    texts = [each for each in listed if isinstance(each, str) and _LISTED.fullmatch(each)]
    names = tuple(name for text in texts for name in _WORDS.findall(text))
    return told._replace(value=names) if names and len(texts) == len(listed) else None
