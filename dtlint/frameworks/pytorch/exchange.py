"""Finds gradients that a program exchanges by hand, with all_reduce or reduce and broadcast: `code.collectives`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch.gradient_scaling import Division, divided, rate_scaled
from dtlint.frameworks.pytorch.loss_scaling import Loss, loss_scaling
from dtlint.frameworks.pytorch.other_exchange import is_foreign, other_exchange
from dtlint.frameworks.pytorch.step_area import Area, area_around
from dtlint.frameworks.pytorch.tensor_kinds import OTHER, is_gradient, kind_of, may_be_gradient
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.places import guard_text
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import Scope
from dtlint.source import Span
from dtlint.value import Choice, Origin, Setting, Unknown, Value, written

ALL_REDUCE = (
    "torch.distributed.all_reduce",
    "torch.distributed.all_reduce_coalesced",
    "torch.distributed.distributed_c10d.all_reduce",
    "torch.distributed.distributed_c10d.all_reduce_coalesced",
)
_REDUCE = ("torch.distributed.reduce", "torch.distributed.distributed_c10d.reduce")
_BROADCAST = ("torch.distributed.broadcast", "torch.distributed.distributed_c10d.broadcast")
MAX_MEMBERS = 50
"""Most exchanges of one program that are looked at."""
_OPERATIONS: Mapping[str, str] = {"SUM": "sum", "AVG": "avg", "MAX": "max", "MIN": "min", "PRODUCT": "product"}
_PARTIAL = re.compile(
    r"sequence|tensor|(^|_)(tp|sp|cp|ep|pp)(_|$)|norm|shard|shared|tied|tie_|embed|expert|moe|stage|pipeline|ulysses|context",
    re.IGNORECASE,
)
"""Words that go with gradients of which each rank holds a part; those are rightly summed."""


def collectives(program: Program) -> tuple[Member, ...]:
    """The members of `code.collectives`: every all_reduce of what is or may be a gradient, and every reduce of one
    that goes back to all ranks.

    None for a program of a package whose partial sums must be sums.
    """
    return kept(program, "collectives of gradients", lambda: _collectives(program), sure=lambda: False)


def _collectives(program: Program) -> tuple[Member, ...]:
    if is_foreign(program):
        return ()
    found = (_member(program, call) for call in calls(program, (*ALL_REDUCE, *_REDUCE)))
    return tuple(islice((member for member in found if member is not None), MAX_MEMBERS))


def _member(program: Program, call: Call) -> Member | None:
    tensor = passed(call, "tensor", 0) or passed(call, "tensors", 0)
    kind = kind_of(tensor[0].place) if tensor else OTHER
    if not may_be_gradient(kind) or stands(call.place) is False:
        return None
    area = area_around(program, call.place)
    if call.name in _REDUCE:
        if not _comes_back(area):
            return None
        call = _to_all(call)
    loss = loss_scaling(area)
    fields: dict[str, Setting] = {
        "name": written(tensor[0].place.module.text(tensor[0].place.node), call.span),
        "operation": _operation(call),
        "over_gradients": _over_gradients(call, is_gradient(kind)),
        "divided": _divided(divided(area), call.span),
        "loss_scaled": _loss_scaled(loss, rate_scaled(area), call.span),
        "wrapper": other_exchange(area, call),
        "optimizer": _optimizer(area, call.span),
    }
    related = [(loss.place, "the gradients come from here")] if loss.place is not None else []
    return Member(call.span, fields, tuple(related))


def _comes_back(area: Area) -> bool:
    """Whether gradients are broadcast around: a sum that stays with one rank may be for its log alone."""
    sent = (call_at(place, called(place)) for place in area.places() if called(place) in _BROADCAST)
    return any(may_be_gradient(kind_of(item.place)) for call in sent for item in passed(call, "tensor", 0))


def _to_all(call: Call) -> Call:
    """A reduce with the arguments of an all_reduce: without the rank that receives, which comes second."""
    return call._replace(positional=(*call.positional[:1], *call.positional[2:]))


def _divided(found: Division, otherwise: Span) -> Setting:
    place = found.place or otherwise
    if found.verdict == "unknown":
        return Unknown("the gradients may be scaled here, by what is not certain", "", Origin("written", place))
    return written(found.verdict == "yes", place)


def _loss_scaled(loss: Loss, rate: Span | None, otherwise: Span) -> Setting:
    """Whether the loss carries the division; a learning rate computed from the number of ranks may carry it too."""
    place = loss.place or otherwise
    if loss.verdict == "unknown":
        return Unknown(loss.reason, "", Origin("written", place))
    if loss.verdict == "no" and rate is not None:
        return Unknown("the learning rate is computed from the number of ranks", "", Origin("written", rate))
    return written(loss.verdict == "yes", place)


def _operation(call: Call) -> Setting:
    """What the ranks' tensors become; torch sums them if nothing is said."""
    value = argument(call, "op", 1)
    if value is None:
        return Value("sum", Origin("default", call.span, (), call.name))
    if isinstance(value, Choice):
        return Unknown("the operation depends on a condition", "", Origin("written", call.span))
    if isinstance(value, Unknown):
        return value
    word = _OPERATIONS.get(str(value.value).rpartition(".")[2].upper())
    return value._replace(value=word) if word else Unknown("an operation that is not known here", "", value.origin)


def _over_gradients(call: Call, certain: bool) -> Setting:
    """True for the gradients of all parameters; unknown where a condition or a name picks those held in part."""
    words = [*_names_around(call), *(guard_text(call.place.module, guard) for guard in call.place.guards)]
    suspect = next((word for word in words if _PARTIAL.search(_without_packages(word))), None)
    if certain and suspect is None:
        return written(True, call.span)
    reason = (
        f"`{suspect}` speaks of gradients that each rank holds in part"
        if suspect
        else "it is not certain that these are all gradients"
    )
    return Unknown(reason, "", Origin("written", call.span))


def _without_packages(text: str) -> str:
    return re.sub(r"data_parallel|distributed|torch\.\w+|is_tensor|clip_grad_norm_?|grad_norm", "", text)


def _names_around(call: Call) -> Iterator[str]:
    """The names of the enclosing functions and classes, and the iterables of the loops around the call."""
    scope: Scope | None = call.place.scope
    while scope is not None:
        yield scope.name.rpartition(".")[2]
        scope = scope.parent
    for loop in call.loops:
        if isinstance(loop, ast.For | ast.AsyncFor):
            yield call.place.module.text(loop.iter)
    for item in passed(call, "tensor", 0):
        yield item.place.module.text(item.place.node)


def _optimizer(area: Area, otherwise: Span) -> Setting:
    """The class of the optimizer that is built in sight (`torch.optim.SGD` -> sgd)."""
    found: dict[str, Span] = {}
    for place in area.places():
        name = called(place)
        if name.startswith("torch.optim.") and "lr_scheduler" not in name:
            found.setdefault(name.rpartition(".")[2].lower(), place.module.span(place.node))
    if len(found) == 1:
        return written(*next(iter(found.items())))
    reason = "several optimizers are built" if found else "no optimizer of torch is built in sight"
    return Unknown(reason, "", Origin("written", otherwise))
