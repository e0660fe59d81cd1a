"""What a key that DeepSpeed does not have was likely meant to be, by its letters and by its words."""

from __future__ import annotations

from dtlint.catalog import deepspeed_keys

_CLOSE = 0.85
"""Likeness (difflib's ratio) from which a key is taken for a slip of the pen (`comment` is not meant to be `comet`)."""
_ALIKE = 0.6
"""Likeness from which one word of a name is a slip of another: `per_cpu` of `per_gpu`, but no `dtype` of `steps`."""
_SHORTEST = 4
"""Letters from which on the beginning of a word stands for it: `grad` for `gradient`."""


def nearest(name: str, section: str) -> str:
    """The known key of the section that a misspelt one is likely meant to be, "" if none is near."""
    from difflib import get_close_matches

    names = [row.name for row in deepspeed_keys() if row.section == section and not row.last]
    return next((near for near in get_close_matches(name, names, 3, _CLOSE) if _is_slip(name, near)), "")


def _is_slip(name: str, near: str) -> bool:
    """Whether the words that differ resemble each other; a name of other words means something else."""
    from difflib import SequenceMatcher

    ours, theirs = name.lower().split("_"), near.split("_")
    pairs = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
    return len(ours) != len(theirs) or all(SequenceMatcher(None, *pair).ratio() >= _ALIKE for pair in pairs)


def written_out(name: str, section: str) -> str:
    """The one key of another section, as a dotted path, whose words a name has written out or cut short
    (`gradient_accumulation_dtype` of `data_types.grad_accum_dtype`); "" if there is none.
    """
    others = (row for row in deepspeed_keys() if row.section != section and not row.last)
    homes = [f"{row.section}.{row.name}".lstrip(".") for row in others if _is_same(name, row.name)]
    return homes[0] if len(homes) == 1 else ""


def _is_same(name: str, other: str) -> bool:
    ours, theirs = name.lower().split("_"), other.split("_")
    return name != other and len(ours) == len(theirs) > 1 and all(map(_is_short_of, ours, theirs))


def _is_short_of(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    return word == other or (len(short) >= _SHORTEST and long.startswith(short))


def home(name: str) -> str:
    """The one place where the table has a key of this name, as a dotted path."""
    homes = [f"{row.section}.{name}".lstrip(".") for row in deepspeed_keys() if row.name == name and not row.last]
    return homes[0] if len(homes) == 1 else ""
