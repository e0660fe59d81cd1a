"""Texts that stand for what another program, or the reader of a template, puts in their place."""

from __future__ import annotations

import re

BRACED = re.compile(
    r"(?<![${\w])\{(?=[^{}\n]{0,80}(?<![a-z])(?:your|path|name|dir)(?![a-z]))[a-z][\w ./-]{0,80}\}(?!\})", re.IGNORECASE
)
"""Words in braces that name what a reader fills in, as a part of a text: `{your_path_to_model}`, `{PATH TO DATA}`."""

_PLACEHOLDER = re.compile(
    r"\{\{.*\}\}|\$\{.*\}|\$\(.*\)|\$[A-Za-z_]\w*|<[^<>\n]{1,200}>|@\w{1,100}@|%\w{1,100}%|__[A-Z]\w{0,100}__",
    re.DOTALL,
)

_BLANK = re.compile(
    r"[xX]{2,20}|\?{1,20}|\.{3}|TODO|TBD|FIXME|(?:your|YOUR|Your)[-_ ].{1,100}"
    r"|(?:NUM|MY)_[A-Z0-9_]{1,60}|n[A-Z][A-Za-z]{1,40}"
    r"|CUDA_VISIBLE_DEVICES|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)|(?:NODE_|LOCAL_)?RANK|NPROC_PER_NODE|SLURM_[A-Z_]{1,60}"
    r"|[^{}\n]{0,200}(?:\{[A-Za-z_]\w{1,80}\}[^{}\n]{0,200}){1,20}"
)


def is_placeholder(text: str) -> bool:
    """Whether a whole string is a placeholder: `<GPUS>`, `{{ gpus }}`, `$GPUS`, `@GPUS@`, `%GPUS%`, `__GPUS__`,
    `{your_gpus}`.
    """
    return _PLACEHOLDER.fullmatch(text) is not None or BRACED.fullmatch(text) is not None


def is_blank(text: str) -> bool:
    """Whether a text that should be a number or one of some words is left for the reader of a template to fill in:
    `xxx`, `TODO`, `your_batch_size`, `NUM_GPUS`, `nGPUs`, `{host}:{port}`; a variable of the launch by its bare name
    (`CUDA_VISIBLE_DEVICES`) stands for what it will hold.
    """
    return is_placeholder(text) or _BLANK.fullmatch(text) is not None
