"""How a program cuts the model whose engine it tells of its groups of ranks (`deepspeed.initialize(mpu=...)`): the
engine's data parallelism is what they leave.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, Reading
from dtlint.languages.python.callers import called_by_name
from dtlint.languages.python.calls import Call, argument
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Origin, Setting, Unknown, Value

_SETTING = "parallel.tensor"
_UNITS = ("mpu", 7)
"""The argument by which the engine is told of the groups, and its place (deepspeed 0.3 to 0.17)."""
_STARTS = "initialize_model_parallel"
"""The function that makes the groups, in Megatron and in all that took its layers over."""
_SIZES = ("tensor_model_parallel_size", "model_parallel_size", "model_parallel_size_")
"""What its first parameter is called."""


def with_groups(told: Reading, call: Call) -> Reading:
    """What an engine's config says, with the ranks that share a layer; `engine.groups` is the call that hands groups
    over. Where the program makes them in one place, that tells how many ranks share a layer, or it is not known.
    """
    units = argument(call, *_UNITS)
    if units is None or (isinstance(units, Value) and units.value is None):
        return told
    groups = {"engine.groups": (Member(call.head, {}),)}
    return told._replace(claims=(*told.claims, *_split(call)), collections={**told.collections, **groups})


def _split(call: Call) -> Iterator[Claim]:
    sizes = list(_sizes(call.place.program))
    if len(sizes) == 1:
        yield Claim(_SETTING, _number(sizes[0]), _STARTS)


def _sizes(program: Program) -> Iterator[Place]:
    """What each call that makes the groups is given."""
    for module, site in called_by_name(program, _STARTS):
        place = place_of(program, module, site)
        node = place.node
        if isinstance(node, ast.Call) and stands(place) is not False:
            named = (keyword.value for keyword in node.keywords if keyword.arg in _SIZES)
            yield from (place.at(each) for each in (*node.args[:1], *named))


def _number(size: Place) -> Setting:
    value = evaluate(size._replace(budget=Budget()))
    if isinstance(value, Value) and type(value.value) is int and value.value > 0:
        return value
    what, origin = size.module.text(size.node, 60), Origin("written", size.module.span(size.node))
    return Unknown(f"how many ranks {what} is, which share each layer, is not known", f"--set {_SETTING}=N", origin)
