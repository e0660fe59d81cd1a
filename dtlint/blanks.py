"""Texts that stand for what another program, or the reader of a template, puts in their place."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"\{\{.*\}\}|\$\{.*\}|\$\(.*\)|\$[A-Za-z_]\w*|<[^<>\n]{1,200}>|@\w{1,100}@|%\w{1,100}%|__[A-Z]\w{0,100}__",
    re.DOTALL,
)

_BLANK = re.compile(
    r"[xX]{2,20}|\?{1,20}|\.{3}|TODO|TBD|FIXME|(?:your|YOUR|Your)[-_ ].{1,100}"
    r"|(?:NUM|MY)_[A-Z0-9_]{1,60}"
)


def is_placeholder(text: str) -> bool:
    """Whether a whole string is a placeholder: `<GPUS>`, `{{ gpus }}`, `$GPUS`, `@GPUS@`, `%GPUS%`, `__GPUS__`."""
    return _PLACEHOLDER.fullmatch(text) is not None


def is_blank(text: str) -> bool:
    """Whether a text that should be a number or one of some words is left for the reader of a template to fill in:
    `xxx`, `TODO`, `your_batch_size`, `NUM_GPUS`.
    """
    return is_placeholder(text) or _BLANK.fullmatch(text) is not None
