"""Reads the policy objects that an FSDP call is given: mixed precision and offload, each possibly under a condition."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.pytorch.names import PRECISIONS, converted
from dtlint.languages.python.calls import Call, argument, call_at, called, passed
from dtlint.languages.python.choices import combined, joined, options
from dtlint.languages.python.constants import live_ways
from dtlint.languages.python.places import Place, guard_text, unknown
from dtlint.record import NamedTuple
from dtlint.value import Option, Origin, Setting, Unknown, Value


class Parameter(NamedTuple):
    """A parameter of an FSDP call: its name, and its position where it can be passed without the name."""

    name: str
    position: int | None = None


class Policy(NamedTuple):
    """What a parameter can be under a condition: the call that builds it, None for none, or why it is not known."""

    condition: str
    built: Call | Unknown | None


Read = Callable[[Call], Setting | None]


def offload_claims(call: Call, parameter: Parameter) -> list[Claim]:
    """Where parameters live: CPU offload in FSDP moves parameters, gradients and the optimizer's step to the host."""
    value = _value(call, parameter, _offloaded, absent="none")
    if value is None:
        return []
    return [Claim(f"sharding.offload_{what}", value, parameter.name) for what in ("parameters", "optimizer")]


def _offloaded(policy: Call) -> Setting | None:
    """FSDP1's CPUOffload says it in an argument, FSDP2's policies by their class."""
    span = policy.span
    if policy.name.endswith(".CPUOffloadPolicy"):
        return Value("cpu", Origin("written", span))
    if not policy.name.endswith(".CPUOffload"):
        return Value("none", Origin("written", span))
    moved = argument(policy, "offload_params", 0)
    if isinstance(moved, Value):
        return moved._replace(value="cpu" if moved.value else "none")
    return moved or Value("none", Origin("written", span))


def precision_claims(call: Call, parameter: Parameter) -> list[Claim]:
    """The dtypes of a mixed-precision policy; without a reduce dtype gradients are reduced in the compute dtype."""
    compute = _value(call, parameter, _compute_precision, absent=None)
    reduce = _value(call, parameter, _reduce_precision, absent=None)
    claims = [("precision.compute", compute), ("precision.reduce", reduce)]
    return [Claim(setting, value, parameter.name) for setting, value in claims if value is not None]


def _compute_precision(policy: Call) -> Setting | None:
    value = argument(policy, "param_dtype", 0)
    return None if value is None or _is_none(value) else converted(value, PRECISIONS)


def _reduce_precision(policy: Call) -> Setting | None:
    value = argument(policy, "reduce_dtype", 1)
    return _compute_precision(policy) if value is None or _is_none(value) else converted(value, PRECISIONS)


def _is_none(value: Setting) -> bool:
    return isinstance(value, Value) and value.value is None


def _value(call: Call, parameter: Parameter, read: Read, absent: str | None) -> Setting | None:
    """What the policies of a parameter say, as one setting; None if none of them says anything.

    `absent` is the value where no policy is passed on some way; None: the model's own, which is not known here.
    """
    found = [(policy.condition, _said(policy, read)) for policy in _policies(call, parameter)]
    if all(said is None for _, said in found) and absent is None:
        return None
    nothing = Unknown("no policy says so") if absent is None else Value(absent, Origin("written", call.span))
    choices = [
        Option(joined(condition, option.guard), option.value)
        for condition, said in found
        for option in options(said or nothing)
    ]
    return combined(call.place, choices) if choices else None


def _said(policy: Policy, read: Read) -> Setting | None:
    return read(policy.built) if isinstance(policy.built, Call) else policy.built


def _policies(call: Call, parameter: Parameter) -> Iterator[Policy]:
    found = passed(call, parameter.name, parameter.position)
    if not found and call.open:
        yield Policy("", unknown(call.place, f"it may be passed by {call.open}"))
    for item in found:
        guards = [guard_text(item.place.module, guard) for guard in item.guards]
        for way, condition in live_ways(item.place):
            yield Policy(joined(*guards, condition), _built(way.end))
    if found and all(item.guards for item in found):
        yield Policy("otherwise", None)


def _built(end: Place | Unknown) -> Call | Unknown | None:
    if isinstance(end, Unknown):
        return end
    if isinstance(end.node, ast.Constant) and end.node.value is None:
        return None
    name = called(end)
    if name.startswith("torch.distributed."):
        return call_at(end, name)
    return unknown(end, f"{end.module.text(end.node, 40)} is not a policy that is written out")
