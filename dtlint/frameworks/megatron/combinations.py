"""Flags that Megatron-LM's start-up refuses beside each other, or without one of others, looked up in a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.megatron.given import Given, has_deepspeed
from dtlint.frameworks.options import Option, whole
from dtlint.record import NamedTuple
from dtlint.source import Span

FILE = Path(__file__).parents[2] / "catalog" / "data" / "megatron_combinations.csv"
_TERM = re.compile(r"(!?)([a-z0-9-]+)(?:(!=|=|>)(.+))?")


class Term(NamedTuple):
    """A condition on one flag: `sign` is "" for a flag that is given, "!" for one that is not, or compares its values
    with `values` ("=", "!=") or its number with them (">").
    """

    name: str
    sign: str = ""
    values: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """As a user would say it."""
        told = {"=": " " + " or ".join(self.values), ">": f" above {self.values[0]}" if self.values else ""}
        return f"--{self.name}{told.get(self.sign, '')}"


class Combination(NamedTuple):
    """A row of the table: terms that hold together, and partners that they need one of, or exclude."""

    flags: tuple[Term, ...]
    relation: str
    partners: tuple[Term, ...]
    since: str
    reason: str


def refused_combinations(given: Given) -> Iterator[Member]:
    """Members of `config.refused`: `key` (the flag), `relation` (needs, excludes), `partner`, `reason`, and `since`,
    the first release with the check ("" where it is as old as the flag). Nothing about Megatron-DeepSpeed, whose
    checks are others.
    """
    if has_deepspeed(given):
        return
    for row in combinations():
        if all(_holds(term, given) for term in row.flags):
            yield from _broken(row, given)


def excluded_flags(given: Given) -> frozenset[str]:
    """The flags that every release refuses beside those that are given (as `refused_combinations` has them)."""
    if has_deepspeed(given):
        return frozenset()
    rows = (row for row in combinations() if row.relation == "excludes" and not row.since)
    excluding = (row for row in rows if all(_holds(term, given) for term in row.flags))
    partners = (term for row in excluding for term in row.partners if not term.sign)
    return frozenset(f"--{term.name}" for term in partners if term.name not in given.flags)


@cache
def combinations() -> tuple[Combination, ...]:
    """The table."""
    import csv

    lines = (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return tuple(
        Combination(
            _terms(row["flags"], " & "), row["relation"], _terms(row["partners"], " / "), row["since"], row["reason"]
        )
        for row in csv.DictReader(lines)
    )


def _terms(text: str, between: str) -> tuple[Term, ...]:
    return tuple(_term(part) for part in text.split(between))


def _term(text: str) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"{FILE.name}: '{text}' is no term")
    absent, name, sign, values = match.groups()
    return Term(name, absent or sign or "", tuple(values.split("|")) if values else ())


def _holds(term: Term, given: Given) -> bool | None:
    """Whether a condition holds; None where the flag may be hidden or its value is not known."""
    option = given.flags.get(term.name)
    if option is None and given.open:
        return None
    if not term.sign or term.sign == "!":
        return given.has(term.name) is not bool(term.sign)
    return option is not None and _compares(term, option)


def _compares(term: Term, option: Option) -> bool | None:
    known = [word.text for word in option.values]
    if None in known or not known:
        return None
    if term.sign == ">":
        number = whole(known[0] or "")
        return None if number is None else number > int(term.values[0])
    return bool(set(known) & set(term.values)) is (term.sign == "=")


def _broken(row: Combination, given: Given) -> Iterator[Member]:
    held = [_holds(term, given) for term in row.partners]
    if row.relation == "needs":
        if not any(found is not False for found in held):
            yield _member(row, given, " or ".join(_needed(row.partners)), ())
        return
    for term, found in zip(row.partners, held, strict=True):
        if found:
            yield _member(row, given, term.shown, ((given.flags[term.name].place, "refused beside it"),))


def _needed(partners: Sequence[Term]) -> list[str]:
    return [term.shown for term in partners]


def _member(row: Combination, given: Given, partner: str, related: tuple[tuple[Span, str], ...]) -> Member:
    flag = row.flags[0]
    place = given.flags[flag.name].place
    fields = {"relation": row.relation, "partner": partner, "reason": row.reason, "since": row.since}
    return Member(place, texts(place, key=flag.shown, **fields), related)
