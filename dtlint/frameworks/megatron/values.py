"""Values of flags that Megatron's parser refuses: of another kind, missing, or behind a flag that takes none."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.kinds import wanted
from dtlint.frameworks.megatron.given import Given, has_deepspeed
from dtlint.frameworks.megatron.known import Flag, known_flag
from dtlint.frameworks.options import Option, literal_place, whole
from dtlint.languages.traced import Word, setting_of


def invalid_values(given: Given) -> Iterator[Member]:
    """Members of `config.invalid`: `key`, `expected`, `value`, and `effect`: refused, or foreign for a word that no
    release of Megatron-LM takes, but a fork may.
    """
    for option in given.flags.values():
        row = known_flag(option.spelled)
        if row is not None and row.training:
            yield from _of_flag(row, option, has_deepspeed(given))
    yield from _levels(given)


def _levels(given: Given) -> Iterator[Member]:
    """The levels of context parallelism multiply to its degree."""
    option, degree = given.flags.get("hierarchical-context-parallel-sizes"), given.number("context-parallel-size")
    sizes = [whole(word.text or "") for word in option.values] if option is not None else []
    known = [size for size in sizes if size is not None]
    if option is not None and degree is not None and len(known) == len(sizes) and prod(known) != degree:
        fields = texts(option.place, key=option.spelled, expected=f"sizes that multiply to {degree}", effect="refused")
        yield Member(option.place, {**fields, "value": setting_of(option.flag, " x ".join(map(str, known)))})


def _of_flag(row: Flag, option: Option, deepspeed: bool) -> Iterator[Member]:
    if not option.values:
        if row.takes not in ("0", "*", "?"):
            yield Member(option.place, texts(option.place, key=option.spelled, expected="a value", effect="refused"))
        return
    if row.takes == "0":
        yield _member(option, option.values[0], "no value", "refused")
        return
    number = row.values in ("int", "float")
    for word in option.values:
        expected = wanted(row.values, word.text) if word.text is not None and (number or not deepspeed) else ""
        if expected:
            yield _member(option, word, expected, "refused" if number else "foreign")


def _member(option: Option, word: Word, expected: str, effect: str) -> Member:
    place = literal_place(word)
    fields = texts(place, key=option.spelled, expected=expected, effect=effect)
    return Member(place, {**fields, "value": setting_of(word)})
