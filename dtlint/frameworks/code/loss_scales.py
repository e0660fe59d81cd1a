"""Finds fp16 gradients that go without their loss scale, or are clipped while it is on them: `code.loss_scales`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.loss_factors import AVERAGING
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.microsteps import is_inside
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2, PRECISIONS, converted
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Site
from dtlint.source import Span
from dtlint.value import Setting, Value

_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
_POLICIES = (".MixedPrecision", ".MixedPrecisionPolicy")
AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.amp.autocast_mode.autocast")
OF_CUDA = "torch.cuda.amp.autocast"
"""The older autocast, which has `enabled` in front and is for CUDA."""
_CLIPS = tuple(
    f"torch.nn.utils.{module}clip_grad_{what}_" for module in ("", "clip_grad.") for what in ("norm", "value")
)
_SCALED = re.compile(r"scaler|loss_scale|scale_loss|unscale|accelerator|fabric|deepspeed|lightning|apex", re.IGNORECASE)
"""Words of programs in which something may scale the loss."""
_UNSCALES = re.compile(r"unscale|_scale\b|get_scale|Accelerator|Fabric|deepspeed|apex")
"""Words of programs that may take the scale off, or reckon with it, before they clip."""


def loss_scales(program: Program) -> tuple[Member, ...]:
    """The collection `code.loss_scales`: `fault` is absent (autocast to fp16 and no scale), clipped (gradients are
    clipped before unscale_) or plain (a scaler that looks for infinities in the shards of one rank).
    """
    if all(stands(call.place) is False for call in calls(program, AVERAGING)):
        return ()
    scalers = [call for call in calls(program, _SCALERS) if stands(call.place) is not False and _is_on(call)]
    if not scalers:
        return () if mentions(program, _SCALED) else tuple(_unscaled(program))
    return (*_plain(program, scalers[0]), *_clipped(program, scalers[0]))


def _is_on(call: Call) -> bool:
    """Whether a scaler or a context is certainly turned on."""
    enabled = argument(call, "enabled", 0 if call.name == OF_CUDA else 2 if call.name in AUTOCASTS else None)
    return not call.open and (enabled is None or (isinstance(enabled, Value) and enabled.value is True))


def _unscaled(program: Program) -> Iterator[Member]:
    """Blocks of autocast to fp16 whose result goes backward in the same loop or function."""
    for call in calls(program, AUTOCASTS):
        block = block_of(call)
        if block is None or not _is_on(call) or not _is_half(call) or stands(call.place) is False:
            continue
        backward = _backward_of(call.place, block)
        if backward is not None:
            yield Member(call.head, texts(call.head, fault="absent"), ((backward, "goes backward here"),))


def block_of(call: Call) -> ast.With | None:
    """The block that enters a context where it is made, None for one that is made elsewhere."""
    return next((each for each in with_blocks(call.place) if _enters(each, call.place.node)), None)


def goes_backward(place: Place, block: ast.With) -> bool:
    """Whether what a block binds goes backward in its function, or is handed to a scaler that goes backward with it."""
    return _backward_of(place, block) is not None or any(
        isinstance(site.node, ast.Call) and _is_scaler(site.node) and _names_in(site.node.args) & _bound_by(block)
        for site in place.scope.sites
    )


def _is_scaler(node: ast.Call) -> bool:
    return "scaler" in dotted(node.func).rpartition(".")[2].lower()


def _names_in(nodes: Sequence[ast.AST]) -> set[str]:
    return {dotted(part) for node in nodes for part in ast.walk(node)} - {""}


def _bound_by(block: ast.With) -> set[str]:
    return _names_in([target for node in ast.walk(block) for target in _targets(node)])


def _enters(block: ast.With, call: ast.AST) -> bool:
    return any(item.context_expr is call for item in block.items)


def _is_half(call: Call) -> bool:
    """Whether autocast computes in fp16: by its dtype, or on CUDA unasked."""
    dtype = argument(call, "dtype", 1)
    if dtype is not None:
        return _is_fp16(dtype)
    device = argument(call, "device_type", 0)
    return call.name == OF_CUDA or (isinstance(device, Value) and device.value == "cuda")


def _is_fp16(dtype: Setting | None) -> bool:
    found = converted(dtype, PRECISIONS) if dtype is not None else None
    return isinstance(found, Value) and found.value == "fp16"


def _backward_of(place: Place, block: ast.With) -> Span | None:
    """Where what a block binds goes backward: `loss.backward()`, in it or behind it."""
    bound = _bound_by(block)
    for site in place.scope.sites:
        node = site.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            names = {dotted(part) for part in ast.walk(node.func.value)}
            if names & bound or is_inside(node, block):
                return place.module.span(node)
    return None


def _targets(node: ast.AST) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else []


def _plain(program: Program, scaler: Call) -> Iterator[Member]:
    """A scaler that knows of no shards beside FSDP1, which has one of its own for fp16."""
    wraps = [call for call in calls(program, FSDP1) if stands(call.place)]
    if wraps and any(True for _ in _half_policies(wraps)):
        related = ((wraps[0].head, "the gradients are sharded here"),)
        yield Member(scaler.head, texts(scaler.head, fault="plain"), related)


def _half_policies(wraps: Sequence[Call]) -> Iterator[Call]:
    """The policies of FSDP by which units compute in fp16."""
    given = (item for wrap in wraps for name in ("mixed_precision", "mp_policy") for item in passed(wrap, name))
    ends = (way.end for item in given for way in ways(item.place))
    built = (call_at(end, called(end)) for end in ends if isinstance(end, Place) and called(end).endswith(_POLICIES))
    yield from (policy for policy in built if _is_fp16(argument(policy, "param_dtype", 0)))


def unscaled_units(program: Program) -> tuple[Member, ...]:
    """The collection `code.unscaled_units`: policies by which FSDP computes in fp16, in a program without a scaler."""
    wraps = [call for call in calls(program, (*FSDP1, *FSDP2)) if stands(call.place)]
    if not wraps or any(True for _ in calls(program, _SCALERS)) or mentions(program, _SCALED):
        return ()
    found = {policy.head: Member(policy.head, {}) for policy in _half_policies(wraps)}
    return tuple(found.values())


def _clipped(program: Program, scaler: Call) -> Iterator[Member]:
    """Calls that clip between a backward pass of the scaled loss and the scaler's step, where nothing unscales."""
    if mentions(program, _UNSCALES):
        return
    for call in calls(program, _CLIPS):
        site = next((each for each in call.place.scope.sites if each.node is call.place.node), None)
        scaled = _between(call.place, site) if site is not None and stands(call.place) is not False else None
        if scaled is not None:
            related = ((scaled, "the gradients are multiplied by the scale"), (scaler.head, "the scaler"))
            yield Member(call.head, texts(call.head, fault="clipped"), related)


def _between(place: Place, site: Site) -> Span | None:
    """Where the loss is scaled before a call, if the scaler steps behind it, in the same function."""
    scaled = None
    for other in (each for each in place.scope.sites if isinstance(each.node, ast.Call)):
        before = _line(other.node) < _line(site.node)
        if before and _is_scaled_pass(other.node):
            scaled = place_of(place.program, place.module, other)
        if not before and scaled is not None and _steps_by_scaler(other.node):
            return scaled.module.span(scaled.node)
    return None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _is_scaled_pass(node: ast.AST) -> bool:
    """`scaler.scale(loss).backward()`"""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "backward":
        return False
    inner = node.func.value
    return isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "scale"


def _steps_by_scaler(node: ast.AST) -> bool:
    """`scaler.step(optimizer)`"""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "step" and "scaler" in dotted(node.func.value).lower() and len(node.args) == 1
