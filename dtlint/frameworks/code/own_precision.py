"""The number format that a training loop of its own computes in: autocast around the forward pass, where it is written
out; unknown where a program converts or casts in a way that is not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.code.loss_scales import AUTOCASTS, OF_CUDA, block_of, goes_backward
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2, PRECISIONS, converted
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.places import place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value, written

_COMPUTE = "precision.compute"
_MASTER = "precision.master"
_CASTS = re.compile(r"autocast|GradScaler")
"""Words in the names of what casts while the weights stay in fp32, or scales the loss of what does."""
_APEX = ("apex.amp.initialize",)
"""What casts, or converts the weights, as its level says."""
_CONVERTERS = ("half", "bfloat16", "to", "set_default_dtype")
_HALVES = frozenset(("float16", "half", "bfloat16"))
_ARRAYS = frozenset(("np", "numpy", "jnp", "tf", "pa"))
"""Modules whose number formats are of arrays that no GPU computes with."""
_MODELS = re.compile(
    r"model|net\b|module|transformer|encoder|decoder|backbone|policy|actor|critic|generator|discriminator|\bself\b",
    re.IGNORECASE,
)
"""What models, and their parts, are called."""


def precision_claims(program: Program) -> Iterator[Claim]:
    """The format of the matrix products and of the weights; nothing where no call casts or converts, or where a policy
    of FSDP says it.
    """
    if _has_policy(program):
        return
    known = standing(program, AUTOCASTS)
    found = [call for call in known if _is_on(call) is not False]
    training = [call for call in found if _trains(call)]
    by_apex = next((call.head for call in calls(program, _APEX)), None)
    converts = next(_conversions(program), by_apex)
    islands = {id(call.place.node) for call in known if call not in found}
    casts = next(_casts(program, islands), None)
    place = training[0].head if training else casts or converts
    if place is not None:
        yield Claim(_COMPUTE, _agreed(training) if training else _unread(place), "autocast")
        yield Claim(_MASTER, written("fp32", place) if converts is None else _converted(converts), "autocast")
    if place is not None and any(True for _ in calls(program, (*FSDP1, *FSDP2))):
        yield Claim("precision.reduce", written("fp32", place), "autocast")


def _unread(place: Span) -> Unknown:
    reason = "the program casts or converts in a way that is not read"
    return Unknown(reason, f"--set {_COMPUTE}=...", Origin("written", place))


def _converted(place: Span) -> Unknown:
    return Unknown("the program may convert the weights", f"--set {_MASTER}=...", Origin("written", place))


def _has_policy(program: Program) -> bool:
    """Whether a policy of FSDP says what is computed in."""
    wraps = calls(program, (*FSDP1, *FSDP2))
    return any(passed(call, "mixed_precision", 6) or passed(call, "mp_policy") for call in wraps)


def _is_on(call: Call) -> bool | None:
    """Whether a block casts at all, None where that is not known."""
    enabled = argument(call, "enabled", 0 if call.name == OF_CUDA else 2)
    if enabled is None:
        return None if call.open else True
    return bool(enabled.value) if isinstance(enabled, Value) and enabled.origin.kind == "written" else None


def _trains(call: Call) -> bool:
    block = block_of(call)
    return block is not None and goes_backward(call.place, block)


def _agreed(found: list[Call]) -> Setting:
    """The one format of all blocks that training goes through; unknown where they differ or one is not known."""
    told = [_format(call) for call in found]
    plain = next(_plain_passes(found), None)
    if plain is not None:
        reason = "one of its loops goes backward without autocast"
        return Unknown(reason, f"--set {_COMPUTE}=...", Origin("written", plain))
    first = told[0]
    if isinstance(first, Value) and all(isinstance(each, Value) and each.value == first.value for each in told):
        return first
    unknown = next((each for each in told if isinstance(each, Unknown)), None)
    return unknown or Unknown(
        "its blocks of autocast differ", f"--set {_COMPUTE}=...", Origin("written", found[0].head)
    )


def _plain_passes(found: list[Call]) -> Iterator[Span]:
    """Backward passes in loops of functions that hold none of the blocks."""
    program, scopes = found[0].place.program, {id(call.place.scope) for call in found}
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            if site.loops and id(site.scope) not in scopes and stands(place_of(program, module, site)) is not False:
                yield module.span(site.node)


def _format(call: Call) -> Value | Unknown:
    origin = Origin("written", call.head)
    if _is_on(call) is None or (call.place.guards and not stands(call.place)):
        return Unknown("whether autocast is on is not known", f"--set {_COMPUTE}=...", origin)
    dtype = argument(call, "dtype", 1)
    if dtype is None:
        return _unasked(call)
    known = converted(dtype, PRECISIONS)
    if isinstance(known, Value) and known.origin.kind == "written":
        return known
    return Unknown("the format that autocast is given is not known", f"--set {_COMPUTE}=...", origin)


def _unasked(call: Call) -> Value | Unknown:
    """What autocast takes on CUDA where it is not told (torch/amp/autocast_mode.py)."""
    device = argument(call, "device_type", 0)
    if call.name == OF_CUDA or (isinstance(device, Value) and str(device.value).partition(":")[0] == "cuda"):
        return written("fp16", call.head)
    reason = "the device of autocast is not known, which decides on its format"
    return Unknown(reason, f"--set {_COMPUTE}=...", Origin("written", call.head))


def _casts(program: Program, islands: set[int]) -> Iterator[Span]:
    """Calls that cast or scale, but for blocks that switch it off."""
    for module in program.modules.values():
        for word, sites in module.called.items():
            if _CASTS.search(word):
                yield from (module.span(site.node) for site in sites if id(site.node) not in islands)


def _conversions(program: Program) -> Iterator[Span]:
    """Calls that convert a model to 16 bits, or have all weights made in them."""
    for module in program.modules.values():
        for word in _CONVERTERS:
            for site in module.called.get(word, ()):
                if isinstance(site.node, ast.Call) and _converts(word, site.node):
                    yield module.span(site.node)


def _converts(word: str, node: ast.Call) -> bool:
    if word == "set_default_dtype":
        return True
    owner = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if not _MODELS.search(owner) or owner.partition(".")[0] in _ARRAYS:
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return word != "to" or any(_may_be_half(each) for each in given)


def _may_be_half(node: ast.expr) -> bool:
    """Whether what a model is converted to is a format of 16 bits, or a name for one."""
    last = dotted(node).rpartition(".")[2]
    return last in _HALVES or "dtype" in last or "precision" in last
