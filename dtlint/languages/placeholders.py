"""Strings that stand for what another program puts in their place."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"\{\{.*\}\}|\$\{.*\}|\$\(.*\)|\$[A-Za-z_]\w*|<[^<>\n]{1,200}>|@\w{1,100}@|%\w{1,100}%|__[A-Z]\w{0,100}__",
    re.DOTALL,
)

TO_FILL_IN = " is a placeholder to fill in"
"""What is said of an unknown text behind the placeholder that it is."""


_HOLE = r"\{\{(?:(?!\{\{).)*?\}\}"
"""`{{ gpus }}`; what opens twice opens at the second place."""

HOLE = _HOLE + r"|\$\{(?:(?!\$\{)[^}\n])*\}"
"""A stretch of a text that is left for another program: `{{ gpus }}`, `${gpus}`."""

TEMPLATE_HOLE = _HOLE + r"|\{%(?:(?!\{%).)*?%\}"
"""A stretch that a template engine fills: `{{ gpus }}`, `{% if gpus %}`."""


def is_placeholder(text: str) -> bool:
    """Whether a whole string is a placeholder: `<GPUS>`, `{{ gpus }}`, `$GPUS`, `@GPUS@`, `%GPUS%`, `__GPUS__`."""
    return _PLACEHOLDER.fullmatch(text) is not None
