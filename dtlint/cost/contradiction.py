"""What no run can be: numbers outside their domain, and settings that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dtlint.cost.assemble import model_ways
from dtlint.cost.told import Values
from dtlint.plan.vocabulary import beyond, limits, term
from dtlint.value import Unknown

READ = (
    "parallel.world_size", "parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.context",
    "parallel.ulysses", "parallel.expert", "parallel.stage_layers", "model.experts", "model.experts_per_token",
    "model.layers",
)  # fmt: skip
"""The settings that can contradict each other."""


def first_contradiction(completions: Iterable[Values]) -> Unknown | None:
    """The first contradiction in completions of a plan; those that agree in what is read are looked at once."""
    seen: list[tuple[object, ...]] = []
    for values in completions:
        read = tuple(map(values.get, READ))
        found = None if read in seen else contradiction(values)
        if found is not None:
            return found
        seen.append(read)
    return None


def contradiction(values: Values) -> Unknown | None:
    """What of whole settings cannot be together, with the setting to change; None if all can."""
    return _degrees(values) or _experts(values) or _stage_layers(values)


def outside_domain(values: Values) -> Unknown | None:
    """The first stated number that its setting does not take; None if there is none."""
    for name, value in values.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            least, most = _limits(name)
            if not least <= value <= most:
                return _against(name, beyond(term(name), value))
    return None


@cache
def _limits(name: str) -> tuple[float, float]:
    return limits(term(name))


def _degrees(values: Values) -> Unknown | None:
    world, ways, data = _number(values, "parallel.world_size", 1), model_ways(values), values.get("parallel.data")
    if isinstance(data, int) and data * ways != world:
        shown = f"parallel.data {data} x TP x PP x CP = {ways} does not make up parallel.world_size {world}"
        return _against("parallel.data", shown)
    if world % ways:
        return _against("parallel.data", f"TP x PP x CP = {ways} does not make up parallel.world_size {world}")
    return None


def _experts(values: Values) -> Unknown | None:
    """Experts have a grid of their own over the world, and no more of them can be visited than there are."""
    experts, visited = _number(values, "model.experts", 0), _number(values, "model.experts_per_token", 1)
    if experts and visited > experts:
        return _against("model.experts_per_token", f"model.experts_per_token {visited} is more than {experts} experts")
    world, expert = _number(values, "parallel.world_size", 1), _number(values, "parallel.expert", 1)
    ways = expert * _number(values, "parallel.pipeline", 1)
    if world % ways:
        return _against("parallel.expert", f"parallel.expert {expert} x PP = {ways} does not divide {world} processes")
    return None


def _stage_layers(values: Values) -> Unknown | None:
    """Layers that are told for each stage are the model's."""
    told, layers = values.get("parallel.stage_layers"), _number(values, "model.layers", 0)
    if not isinstance(told, tuple) or not all(str(each).isdecimal() for each in told):
        return None
    total = sum(int(str(each)) for each in told)
    if len(told) != _number(values, "parallel.pipeline", 1) or total == layers:
        return None
    return _against("parallel.stage_layers", f"parallel.stage_layers holds {total} layers, not model.layers {layers}")


def _number(values: Values, name: str, otherwise: int) -> int:
    found = values.get(name)
    return int(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else otherwise


def _against(name: str, reason: str) -> Unknown:
    return Unknown(reason, f"--set {name}=...")
