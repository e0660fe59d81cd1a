"""Flags at fault: those that Megatron's parser does not know, or no longer, and those that have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import meant, misspelt_flag, texts
from dtlint.frameworks.megatron.given import Given, has_deepspeed
from dtlint.frameworks.megatron.known import Flag, known_flag, known_flags, training_names
from dtlint.frameworks.options import Option
from dtlint.frameworks.renamed import without_doubled

MOST_STRANGE = 2
"""Unknown flags, beside a fifth of all, with which a program still counts as one with Megatron's parser."""

MOST_LOOKED_AT = 30
"""Unknown flags from which on none is looked at: no command line has as many."""

SHORTEST_BEGINNING = 12
"""Letters, dashes in front included, from which on the beginning of one flag alone is no other's name."""

_SECTION = "Megatron-LM"
_RECOMPUTATION = ("recompute-granularity", "recompute-activations", "checkpoint-activations")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "num-query-groups": ("group-query-attention",),
    "data-parallel-sharding-strategy": ("use-megatron-fsdp", "use-custom-fsdp"),
    "recompute-num-layers": _RECOMPUTATION,
    "recompute-method": _RECOMPUTATION,
    "recompute-modules": _RECOMPUTATION,
    "optimizer-offload-fraction": ("optimizer-cpu-offload",),
}
"""Flags that are read only beside one of others."""
_DESCRIBED = ("num-layers", "hidden-size", "num-attention-heads")
_NEEDED = (("seq-length", "encoder-seq-length"), ("max-position-embeddings",))
"""Flags that have no default and are asserted, each with others that will do."""


def unknown_flags(given: Given) -> tuple[Member, ...]:
    """Flags of no Megatron release that are very near to one that exists: misspelt, or written with underscores.

    Fields as `config.unknown` has them: key, section, effect, suggestion. A flag near to none may be a fork's own, and
    a program with many unknown flags has a parser of its own.
    """
    strange = [
        option for option in given.flags.values() if known_flag(option.spelled) is None and "?" not in option.spelled
    ]
    if len(strange) > min(MOST_STRANGE + len(given.flags) // 5, MOST_LOOKED_AT):
        return ()
    return tuple(member for option in strange if (member := _misspelt(option, given)) is not None)


def needed_flags(given: Given) -> Iterator[Member]:
    """Flags without which the start-up stops (Megatron's validate_args), as members of `config.needed`: `key`, beside
    the model that the command line describes. A fork's own flags may fill them in, and a retrieval project does.
    """
    retrieves = any(name.startswith("retro-") for name in given.flags)
    own = retrieves or any(known_flag(option.spelled) is None for option in given.flags.values())
    if given.open or own or not all(given.has(name) for name in _DESCRIBED):
        return
    place = given.flags[_DESCRIBED[0]].place
    for names in _NEEDED:
        if not any(name in given.flags for name in names):
            yield Member(place, texts(place, key=f"--{names[0]}"))


def unused_config(given: Given) -> Iterator[Member]:
    """The config that is named for DeepSpeed (`key`) where no flag switches its engine on."""
    option = given.flags.get("deepspeed-config")
    if option is not None and not given.open and not given.has("deepspeed"):
        yield Member(option.place, texts(option.place, key=option.spelled))


def removed_flags(given: Given) -> tuple[Member, ...]:
    """Flags that newer releases lack, refuse or ignore, with the fields key, section, first, last, instead and effect
    as the table of known flags has them; `beside` and `came`, another flag that is written and the release that it
    came with, where none takes both.
    """
    written = {(_SECTION, option.spelled) for option in given.flags.values()}
    return tuple(without_doubled(_removed(given), written))


def inert_flags(given: Given) -> tuple[Member, ...]:
    """Flags that the parser takes and that change nothing beside the others, with the fields key, section, setting,
    reason and matters (no).
    """
    return tuple(_inert(given))


def _inert(given: Given) -> Iterator[Member]:
    for flag, partners in _NEEDS.items():
        option = given.flags.get(flag)
        if option is not None and not given.open and not any(given.has(partner) for partner in partners):
            yield _without_effect(option, f"it is read only beside --{partners[0]}", "")
    option, ways = given.flags.get("sequence-parallel"), given.flags.get("tensor-model-parallel-size")
    absent = ways is None and not given.open
    if option is not None and (absent or given.number("tensor-model-parallel-size") == 1):
        yield _without_effect(option, "there is one tensor-parallel rank", "parallel.sequence")


def _without_effect(option: Option, why: str, setting: str) -> Member:
    matters = "no" if setting else "yes"
    fields = texts(option.place, key=option.spelled, section=_SECTION, setting=setting, reason=why)
    return Member(option.place, {**fields, **texts(option.place, matters=matters)})


def later_flags(given: Given) -> frozenset[str]:
    """The flags of later releases than the last that takes a flag of the given ones: no parser has both, for what came
    later refuses the old one. Not those that stand for the old ones: who writes them moves to a later release.
    """
    rows = [row for option in given.flags.values() if (row := known_flag(option.spelled)) is not None]
    refused = [row for row in rows if row.effect == "refused" and not (row.deepspeed and has_deepspeed(given))]
    last = min((_number(row.last) for row in refused), default=None)
    if last is None:
        return frozenset()
    renamed = {row.instead for row in rows}
    later = (row.name for row in known_flags() if row.first and _number(row.first) > last)
    return frozenset(later) - renamed


def _removed(given: Given) -> Iterator[Member]:
    deepspeed = has_deepspeed(given)
    for option in given.flags.values():
        row = known_flag(option.spelled)
        if row is not None and row.training and row.last and not (row.deepspeed and deepspeed):
            fields = {"first": row.first, "last": row.last, "instead": row.instead, "effect": row.effect, "of": ""}
            newer, came = _newer_than(row, given)
            both = {"beside": newer.spelled, "came": came} if newer is not None else {}
            others = ((newer.place, f"came with {came}"),) if newer is not None else ()
            told = texts(option.place, key=option.spelled, section=_SECTION, **fields, **both)
            yield Member(option.place, told, others)


def _newer_than(gone: Flag, given: Given) -> tuple[Option | None, str]:
    """The flag beside that came latest, with its release, if no parser takes both."""
    rows = ((option, known_flag(option.spelled)) for option in given.flags.values())
    came = [(option, row.first) for option, row in rows if row is not None and _excludes(gone, row)]
    return max(came, key=lambda each: _number(each[1]), default=(None, ""))


def _excludes(gone: Flag, newer: Flag) -> bool:
    """Whether a flag that is gone had left before another came: by releases where the parser still knows it and
    refuses it, and by days too where it does not, since commits between two releases have both.
    """
    if not newer.training or not newer.first or (gone.deepspeed and newer.deepspeed):
        return False
    if _number(newer.first) <= _number(gone.last):
        return False
    return gone.effect == "refused" or (gone.effect == "" and "" < gone.went < newer.came)


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdecimal())


def _misspelt(option: Option, given: Given) -> Member | None:
    near = _meant(option.spelled)
    if near is None or given.flags.get(near.lstrip("-")) not in (None, option):
        return None
    return misspelt_flag(option, near, _SECTION)


def is_misspelt(option: Option) -> bool:
    """Whether a flag most likely stands for one that exists."""
    return _meant(option.spelled) is not None


@cache
def _meant(name: str) -> str | None:
    """The flag that a misspelt or shortened name most likely stands for (Megatron's parser takes no beginnings)."""
    dashed = name.replace("_", "-")
    if dashed in training_names():
        return dashed
    longer = [each for each in training_names() if each.startswith(dashed)]
    return longer[0] if len(longer) == 1 and len(dashed) >= SHORTEST_BEGINNING else meant(dashed, training_names())
