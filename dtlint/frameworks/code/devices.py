"""Finds models and tensors that every rank of a machine puts on its first GPU: NCCL, "cuda" without a number, no device
set.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.pytorch.names import DDP, DEVICE_MESH, FSDP1
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.choices import options
from dtlint.languages.python.constants import evaluate, live_ways
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module
from dtlint.value import Setting, Value

_STARTS = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
_WRAPS = (*DDP, *FSDP1)
_SAME_MODEL = frozenset({"cuda", "to", "train", "eval", "half", "bfloat16", "float", "double", "requires_grad_"})
"""Methods of a model that return the model itself."""
_HANDED_ON = frozenset({"compile", "convert_sync_batchnorm"})
"""Functions that return the model that they are given."""
_SENT: Mapping[str, tuple[str, int]] = {
    "broadcast": ("tensor", 0),
    "all_reduce": ("tensor", 0),
    "reduce": ("tensor", 0),
    "gather": ("tensor", 0),
    "all_gather": ("tensor", 1),
    "all_gather_into_tensor": ("input_tensor", 1),
}
"""Collectives, each with the parameter that holds the tensor which a rank sends."""
_OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")
"""Collectives of objects, which NCCL alone sends from the current device, and gloo beside it from the CPU
(distributed_c10d.py, _get_object_coll_device).
"""
_PACKAGES = ("torch.distributed", "torch.distributed.distributed_c10d")
_WORDS = re.compile(r"\w+")
_NCCL = ("nccl", "cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo", "cuda:nccl")
_SETS = frozenset({"set_device", "set_device_index", "set_device_idx", "_set_device", "set_default_device"})
_MAX_DEPTH = 3
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_CHOOSERS = (
    "accelerate", "colossalai", "composer", "deepspeed", "fairseq", "horovod", "ignite", "lightning", "megatron",
    "mmcv", "mmengine", "nemo", "pytorch_lightning", "ray", "torchtitan", "torchtune", "trl",
)  # fmt: skip
"""Packages that set the device of a process themselves."""
_ASKS = frozenset({"device", "device_count", "current_device", "get_device_name", "get_device_properties"})
"""Functions with `device` in their name that set none."""


def shared_devices(program: Program) -> tuple[Member, ...]:
    """Models that DDP or FSDP1 wraps and that stand on the first GPU of the machine, whatever the rank: `moved` is the
    call that puts one there; `what` says of what (model, tensor, objects), for what a collective sends may stand there
    too.

    Only where the program starts NCCL itself and nothing in it, nor a package that it imports, may choose a device.
    """
    starts = [call for call in calls(program, _STARTS) if stands(call.place) is not False]
    if not starts or not all(_is_nccl(call) and not _chooses(call) for call in starts) or _may_choose(program):
        return ()
    found = [*_models(program, starts[0])] or [*_tensors(program, starts[0])]
    if not found and all(_is_nccl(call, _NCCL[:1]) for call in starts):
        found = [*_objects(program, starts[0])]
    return tuple(found)


def _models(program: Program, start: Call) -> Iterator[Member]:
    for wrap in calls(program, _WRAPS):
        moves = list(_moves_of_model(wrap)) if stands(wrap.place) and not _chooses(wrap) else []
        if moves and all(_is_first(move) for move in moves) and not _is_set(wrap):
            yield _member("model", moves[0], start, wrap)


def _tensors(program: Program, start: Call) -> Iterator[Member]:
    """Tensors on the first GPU that the ranks send each other."""
    for word, (name, position) in _SENT.items():
        for call in calls(program, tuple(f"{package}.{word}" for package in _PACKAGES)):
            if passed(call, "group") or not stands(call.place) or _is_set(call):
                continue
            ends = [way.end for item in passed(call, name, position) for way, _ in live_ways(item.place)]
            if ends and all(isinstance(end, Place) and _is_made_first(end) for end in ends):
                yield from (_member("tensor", end, start, call) for end in ends[:1] if isinstance(end, Place))


def _objects(program: Program, start: Call) -> Iterator[Member]:
    for call in calls(program, tuple(f"{package}.{word}" for package in _PACKAGES for word in _OBJECTS)):
        alone = not call.open and not passed(call, "group") and not passed(call, "device")
        if alone and len(call.positional) <= 2 and stands(call.place) and not _is_set(call):
            yield _member("objects", call.place, start, call)


def _member(what: str, moved: Place, start: Call, meeting: Call) -> Member:
    span, text = moved.module.span(moved.node), moved.module.text(moved.node, 60)
    related = ((start.head, "NCCL starts here without device_id"), (meeting.head, "the ranks meet here"))
    return Member(span, texts(span, moved=text, what=what), related)


def _is_made_first(end: Place) -> bool:
    """Whether a tensor is made on the first GPU, or moved there, and nowhere else."""
    moves = list(_moves_in(end, end.node))
    if moves:
        return all(map(_is_first, moves))
    named = end.node.keywords if isinstance(end.node, ast.Call) and called(end).startswith("torch.") else []
    return any(each.arg == "device" and _is_plain_cuda(end.at(each.value), 0) for each in named)


def _is_nccl(call: Call, words: tuple[str, ...] = _NCCL) -> bool:
    backend = argument(call, "backend", 0)
    return isinstance(backend, Value) and backend.origin.kind == "written" and backend.value in words


def _chooses(call: Call) -> bool:
    """Whether a call names the device of its process, or may."""
    return bool(call.open) or bool(passed(call, "device_id"))


def _may_choose(program: Program) -> bool:
    if any(stands(call.place) is not False for call in calls(program, DEVICE_MESH)):
        return True
    return any(_module_may_choose(program, module) for module in program.modules.values())


def _module_may_choose(program: Program, module: Module) -> bool:
    text = module.source.text
    if _VISIBLE in text or "torch.cuda.device(" in text or _names_trainer(program, text):
        return True
    if any(name.lstrip(".").partition(".")[0] in _CHOOSERS for name in module.imports):
        return True
    return any(_is_a_setter(program, word) for word in module.called)


def _names_trainer(program: Program, text: str) -> bool:
    """Whether a text names a trainer that no file of the program defines: it may set the device."""
    words = frozenset(word for word in _WORDS.findall(text) if "Trainer" in word) if "Trainer" in text else ()
    return any(not any(word in module.definitions for module in program.modules.values()) for word in words)


def _is_set(wrap: Call) -> bool:
    """Whether a device may be set before the model is wrapped: anywhere but further down in the same function."""
    for module in wrap.place.program.modules.values():
        for site in (site for word in _SETS for site in module.called.get(word, ())):
            later = getattr(site.node, "lineno", 0) > getattr(wrap.place.node, "lineno", 0)
            if site.scope is not wrap.place.scope or site.loops or not later:
                return True
    return False


def _is_a_setter(program: Program, word: str) -> bool:
    """Whether a function may set the device that is defined where it is not read: `init_distributed_device(args)`."""
    if word in _ASKS | _SETS or not any(part in word.lower() for part in ("device", "dist", "gpu", "launch", "setup")):
        return False
    if word == "DistributedDataParallel" or word == "DistributedSampler" or word.startswith("is_"):
        return False
    return not any(word in module.definitions for module in program.modules.values())


def _moves_of_model(wrap: Call) -> Iterator[Place]:
    """The calls that move the wrapped model to a device before it is wrapped: in the argument, where its name is bound,
    and as statements of their own in the same function.
    """
    for item in passed(wrap, "module", 0):
        yield from _moves_in(item.place, item.place.node)
        name = dotted(list(_chain(item.place.node))[-1])
        for site in wrap.place.scope.sites if name else ():
            if getattr(site.node, "lineno", 0) < getattr(wrap.place.node, "lineno", 0):
                yield from _moves_at(place_of(wrap.place.program, wrap.place.module, site), name)


def _moves_at(place: Place, name: str) -> Iterator[Place]:
    """The moves in one statement of the model that a name stands for: `name.cuda()`, `name = Net().cuda()`."""
    node = place.node
    if isinstance(node, ast.Assign) and name in (dotted(target) for target in node.targets):
        yield from _moves_in(place, node.value)
    elif isinstance(node, ast.Call) and dotted(list(_chain(node))[-1]) == name:
        yield from _moves_in(place, node)


def _moves_in(place: Place, node: ast.AST) -> Iterator[Place]:
    """The moves in a chain of calls, that of `Net().to(dtype).cuda()` for one."""
    return (place.at(call) for call in _chain(node) if _is_move(place.at(call)))


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    """An expression and the models inside it, down to the one that is not made from another."""
    yield node
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODEL:
            node = node.func.value
        elif dotted(node.func).rpartition(".")[2] in _HANDED_ON and node.args:
            node = node.args[0]
        else:
            return
        yield node


def _is_move(place: Place) -> bool:
    """Whether a call is `.cuda(...)`, or `.to(...)` with anything but a number format."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    target = _target(node)
    if node.func.attr == "cuda":
        return True
    return node.func.attr == "to" and target is not None and not _is_format(evaluate(place.at(target)))


def _target(node: ast.Call) -> ast.expr | None:
    """Where a move goes, None if it does not say."""
    named = (keyword.value for keyword in node.keywords if keyword.arg == "device")
    return next(iter(node.args), None) or next(named, None)


def _is_format(value: Setting) -> bool:
    return isinstance(value, Value) and str(value.value).startswith("torch.")


def _is_first(move: Place) -> bool:
    """Whether a move certainly goes to the current device, which is the first GPU where nothing sets another."""
    assert isinstance(move.node, ast.Call)
    target = _target(move.node)
    return not move.node.keywords if target is None else _is_plain_cuda(move.at(target), 0)


def _is_plain_cuda(place: Place, depth: int) -> bool:
    """Whether a device is "cuda" without a number, on every way that has a GPU."""
    ends = [way.end for way, _ in live_ways(place)]
    found = [_devices(end, depth) if isinstance(end, Place) else ("?",) for end in ends]
    words = {word for item in found for word in item}
    return "cuda" in words and words <= {"cuda", "cpu"}


def _devices(end: Place, depth: int) -> tuple[str, ...]:
    """What a device expression can be, "?" for what is not known for certain."""
    node = end.node
    if isinstance(node, ast.Call) and called(end) == "torch.device":
        whole = len(node.args) == 1 and not node.keywords and depth < _MAX_DEPTH
        return ("cuda",) if whole and _is_plain_cuda(end.at(node.args[0]), depth + 1) else ("?",)
    return tuple(_word(option.value) for option in options(evaluate(end)))


def _word(value: Setting) -> str:
    certain = isinstance(value, Value) and value.origin.kind == "written"
    return str(value.value) if isinstance(value, Value) and certain else "?"
