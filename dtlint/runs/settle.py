"""Claims of several readings, settled into one set of settings: who wins, who loses, which framework is in charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from dtlint.frameworks import AUTO, Claim, Member, Reading
from dtlint.runs.model import Options
from dtlint.value import Choice, Setting, Unknown, Value, written

PRECEDENCE = Path(__file__).parent.parent / "catalog" / "data" / "precedence.yaml"

STRENGTH = (
    "nemo",
    "nanotron",
    "gpt-neox",
    "torchtitan",
    "megatron-deepspeed",
    "megatron",
    "deepspeed",
    "fsdp",
    "ddp",
    "pytorch",
)
"""Frameworks from the one that decides most: a Megatron command under torchrun is a Megatron run, a DDP call beside
DeepSpeed is not DDP.
"""


class Settled(NamedTuple):
    """The effective settings, and the claims that lost against another value."""

    settings: Mapping[str, Setting]
    conflicts: tuple[Member, ...]

    @property
    def framework(self) -> str:
        """The framework in charge, "" if none is known."""
        found = self.settings.get("framework")
        return str(found.value) if isinstance(found, Value) else ""


class _Stated(NamedTuple):
    claim: Claim
    layer: str
    rank: int


def settle(readings: Sequence[Reading], options: Options) -> Settled:
    """One value per setting. A later claim of one layer beats an earlier one (argparse keeps the last), a known one
    an unknown or "auto".
    """
    stated: dict[str, list[_Stated]] = {}
    for reading in readings:
        for claim in reading.claims:
            rank = _rank(claim.setting, reading.layer)
            stated.setdefault(claim.setting, []).append(_Stated(claim, reading.layer, rank))
    settings: dict[str, Setting] = {name: value for name, value in options.cluster.items() if name not in stated}
    settings.update({name: _winner(claims) for name, claims in stated.items()})
    settings.update(_identity(readings))
    settings.update(options.settings)
    return Settled(settings, tuple(member for name, claims in stated.items() for member in _conflicts(name, claims)))


def _winner(claims: Sequence[_Stated]) -> Setting:
    latest_first = reversed(list(enumerate(claims)))
    ordered = [each for _, each in sorted(latest_first, key=lambda item: (item[1].rank, -item[0]))]
    best = next((each for each in ordered if not _is_auto(each.claim.value)), ordered[0])
    if isinstance(best.claim.value, Unknown):
        return next((each.claim.value for each in ordered if isinstance(each.claim.value, Value)), best.claim.value)
    return best.claim.value


def _is_auto(value: Setting) -> bool:
    return isinstance(value, Unknown) and value.reason == AUTO


def _conflicts(name: str, claims: Sequence[_Stated]) -> list[Member]:
    """The losers whose value differs from the winner's, one per layer."""
    last = {each.layer: each for each in claims}
    winner = _winner(claims)
    if isinstance(winner, (Unknown, Choice)) or winner.origin.span is None:
        return []
    return [_loser(name, each, winner) for each in last.values() if _differs(each.claim.value, winner)]


def _differs(value: Setting, winner: Value) -> bool:
    return isinstance(value, Value) and value.value != winner.value and value.origin.span is not None


def _loser(name: str, lost: _Stated, winner: Value) -> Member:
    assert isinstance(lost.claim.value, Value)
    place, won = lost.claim.value.origin.span, winner.origin.span
    assert place is not None and won is not None
    fields: dict[str, Setting] = {
        "setting": written(name, place),
        "name": written(lost.claim.name or name, place),
        "value": lost.claim.value,
        "winner": winner,
    }
    return Member(place, fields, ((won, f"{name} = {winner.value}"),))


def _identity(readings: Sequence[Reading]) -> dict[str, Setting]:
    """The framework and front end that the readings speak for, where no claim states them."""
    found: dict[str, Setting] = {}
    frameworks = [reading for reading in readings if reading.framework]
    if frameworks:
        chief = min(
            frameworks,
            key=lambda reading: STRENGTH.index(reading.framework) if reading.framework in STRENGTH else len(STRENGTH),
        )
        found["framework"] = _named(chief.framework, chief)
    front = next((reading for reading in readings if reading.frontend), None)
    if front is not None:
        found["frontend"] = _named(front.frontend, front)
    return found


def _named(name: str, reading: Reading) -> Value:
    from dtlint.value import derived

    return written(name, reading.place) if reading.place is not None else derived(name, note=reading.layer)


def _rank(setting: str, layer: str) -> int:
    order = _order(setting)
    return order.index(layer) if layer in order else len(order)


@lru_cache(maxsize=256)
def _order(setting: str) -> tuple[str, ...]:
    table = _table()["any"]
    best = max((prefix for prefix in table if setting.startswith(prefix)), key=len)
    return tuple(table[best])


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    from dtlint.compiled import load

    return cast("dict[str, dict[str, list[str]]]", load("precedence", [PRECEDENCE]))


def read_table() -> object:
    """The precedence table as YAML reads it: what is compiled."""
    import yaml

    return yaml.load(PRECEDENCE.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
