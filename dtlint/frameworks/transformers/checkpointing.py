"""Recomputation in the Trainer's arguments: whether it is on, in which variant, and a cache that stands against it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim, Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.transformers.fsdp import checkpoints_by_flag
from dtlint.languages.traced import setting_of
from dtlint.value import Value

VARIANT = "use_reentrant"
_SWITCHES = ("gradient-checkpointing", "activation-checkpointing", "grad-checkpoint")
_OWN_VARIANT = "use-reentrant-gc"
_OPTIONS = ("gradient-checkpointing-kwargs", "activation-checkpointing-kwargs")


def checkpointing_claims(flags: Flags) -> Iterator[Claim]:
    """Whether activations are recomputed, where that is wrapped, and by which variant."""
    off = flags.flags.get("disable-gradient-checkpointing")
    if off is not None and flags.on("disable-gradient-checkpointing"):
        yield Claim("checkpointing.activations", setting_of(off.flag, "none"), off.spelled)
        return
    option = flags.first(_SWITCHES)
    value = switch(option) if option is not None else None
    if option is not None and value is not None:
        if isinstance(value, Value):
            value = value._replace(value="full" if value.value else "none")
        yield Claim("checkpointing.activations", value, option.spelled)
    on = checkpoints_by_flag(flags)
    if on is not None:
        yield Claim("checkpointing.placement", setting_of(on.value or on.flag, "outside"), on.spelled)
    yield from _variant(flags)


def _variant(flags: Flags) -> Iterator[Claim]:
    """`--gradient_checkpointing_kwargs '{"use_reentrant": false}'`, LLaMA-Factory's `--use_reentrant_gc false`."""
    own = flags.first((_OWN_VARIANT,))
    switched = switch(own) if own is not None else None
    if own is not None and switched is not None:
        yield Claim("checkpointing.reentrant", switched, own.spelled)
    option = flags.first(_OPTIONS)
    if option is None or option.value is None:
        return
    value = setting_of(option.value)
    if isinstance(value, Value):
        told = _told(option.value.text or "")
        if told is not None:
            yield Claim("checkpointing.reentrant", value._replace(value=told), option.spelled)
        return
    yield Claim("checkpointing.reentrant", value, option.spelled)


def _told(text: str) -> bool | None:
    try:
        options = json.loads(text)
    except ValueError:
        return None
    found = options.get(VARIANT) if isinstance(options, dict) else None
    return found if isinstance(found, bool) else None


def caches(flags: Flags) -> Mapping[str, tuple[Member, ...]]:
    """The collection `code.obstacles`, as far as flags add to it: `kind` (cache), `name`."""
    option = flags.flags.get("use-cache")
    if option is None or not flags.on("use-cache"):
        return {}
    return {"code.obstacles": (Member(option.place, texts(option.place, kind="cache", name=option.spelled)),)}
