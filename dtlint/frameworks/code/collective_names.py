"""Recognises calls that every rank has to make: collectives of torch, and methods of frameworks that hold one."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dtlint.frameworks.code.buffers import sends_buffers, sends_prepared_buffers
from dtlint.frameworks.code.engines import runs_metrics
from dtlint.frameworks.code.objects import UNKNOWN, is_prepared, kinds, makers, wrapped_kinds
from dtlint.frameworks.code.sharded_loads import LOADS, shares_out
from dtlint.frameworks.pytorch.names import DDP, FSDP1
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.calls import argument, call_at, called, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.instances import bases_from_outside, method
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import definition, imports_from
from dtlint.record import NamedTuple
from dtlint.value import Value

OPEN = frozenset(
    [
        "all_reduce",
        "all_reduce_coalesced",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_single",
        "all_gather_object",
        "all_gather_coalesced",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_single",
        "all_to_all",
        "all_to_all_single",
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "scatter",
        "scatter_object_list",
        "barrier",
        "monitored_barrier",
        "new_group",
    ]
)
"""The collectives of torch.distributed, which deepspeed.comm and ignite.distributed have too; send and recv are between
two ranks.
"""
_PACKAGES = ("torch.distributed", "torch.distributed.distributed_c10d", "deepspeed.comm", "ignite.distributed")

ALWAYS, SHARDED, STAGE_3, ENGINE, FSDP = "always", "sharded", "stage 3", "engine", "fsdp"
LOADING = "loading"
BARRIER, BUFFERS, PREPARED = "lightning 2.1", "buffers", "prepared buffers"
"""What a call needs to hold a collective: nothing, a sharded model, ZeRO-3, DeepSpeed or FSDP behind a front end, FSDP
alone, weights that ZeRO-3 shares out while the model is built (each is sent from rank 0: deepspeed 0.16.2
runtime/zero/partition_parameters.py, Init), a release of Lightning whose Trainer.save_checkpoint ends in a barrier
(trainer.py of 2.1.0; 2.0.9 has none), or that the other ranks do not run DDP's forward pass next, which broadcasts
the buffers of the model in evaluation too (for a model that Accelerate has prepared: where that is DDP's).
DeepSpeed's load_checkpoint reads the files of its own rank, and gathers the small weights again under ZeRO-3 alone
(checkpoint_event_epilogue of stage3.py; load_checkpoint of engine.py, 0.14.2 and 0.19.6).
"""

_METHODS: Mapping[str, Mapping[str, str]] = {
    "deepspeed": {
        "save_checkpoint": ALWAYS,
        "load_checkpoint": STAGE_3,
        "backward": ALWAYS,
        "step": ALWAYS,
        "train_batch": ALWAYS,
        "eval_batch": ALWAYS,
        "save_16bit_model": STAGE_3,
        "save_fp16_model": STAGE_3,
        "generate": STAGE_3,
    },
    "fsdp1": {"state_dict": ALWAYS, "clip_grad_norm_": ALWAYS, "generate": ALWAYS},
    "accelerator": {
        "gather": ALWAYS,
        "gather_for_metrics": ALWAYS,
        "reduce": ALWAYS,
        "pad_across_processes": ALWAYS,
        "wait_for_everyone": ALWAYS,
        "save_state": ENGINE,
        "load_state": SHARDED,
        "get_state_dict": SHARDED,
        "save_model": SHARDED,
    },
    "trainer": {"evaluate": ALWAYS, "predict": ALWAYS, "train": ALWAYS, "save_model": SHARDED},
    "lightning": {"save_checkpoint": BARRIER, "fit": ALWAYS, "validate": ALWAYS, "test": ALWAYS, "predict": ALWAYS},
    "fabric": {
        "barrier": ALWAYS,
        "all_reduce": ALWAYS,
        "all_gather": ALWAYS,
        "broadcast": ALWAYS,
        "save": ALWAYS,
        "load": ALWAYS,
        "backward": ALWAYS,
        "clip_gradients": SHARDED,
    },
}
_USUAL_NAMES: Mapping[str, str] = {
    "accelerator": "accelerator",
    "fabric": "fabric",
    "engine": "deepspeed",
    "model_engine": "deepspeed",
    "ds_engine": "deepspeed",
    "deepspeed_engine": "deepspeed",
}
"""What objects are usually called, for those that come from out of sight."""
_OF_THEIR_OWN = frozenset(
    {"save_checkpoint", "save_state", "wait_for_everyone", "gather_for_metrics", "save_16bit_model"}
)
"""Methods that by their name belong to such an object."""
_FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(DDP, ALWAYS),
    **dict.fromkeys(FSDP1, ALWAYS),
    **{f"{name}.full_optim_state_dict": ALWAYS for name in FSDP1},
    **{f"{name}.optim_state_dict": ALWAYS for name in FSDP1},
    **{f"{name}.summon_full_params": ALWAYS for name in FSDP1},
    "torch.distributed.checkpoint.save": ALWAYS,
    "torch.distributed.checkpoint.load": ALWAYS,
    "torch.distributed.checkpoint.save_state_dict": ALWAYS,
    "torch.distributed.checkpoint.load_state_dict": ALWAYS,
    "accelerate.utils.gather": ALWAYS,
    "accelerate.utils.gather_object": ALWAYS,
    "accelerate.utils.broadcast_object_list": ALWAYS,
    "deepspeed.initialize": ALWAYS,
    "deepspeed.zero.GatheredParameters": STAGE_3,
}
_OF_STATE: Mapping[str, str] = {
    **dict.fromkeys(("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict"), "full_state_dict"),
    **dict.fromkeys(("set_model_state_dict", "set_optimizer_state_dict", "set_state_dict"), "broadcast_from_rank0"),
}
"""Functions of torch.distributed.checkpoint.state_dict that gather the whole state from the shards, or send it from
rank 0, and the option that asks for it.
"""
_STATE_PACKAGE = "torch.distributed.checkpoint.state_dict"
_LOGS = ("log", "log_dict")
"""Methods of a LightningModule that sum a value over the ranks where they are told to (sync_dist)."""
WORDS = frozenset(
    (
        *OPEN,
        *(method for methods in _METHODS.values() for method in methods),
        *(name.rpartition(".")[2] for name in (*_FUNCTIONS, *_OF_STATE)),
        *_LOGS,
        *LOADS,
        "full_tensor",
        "redistribute",
        "compute",
        "run",
    )
)
"""The last words of calls that may be collectives, but for forward passes of models."""


class Collective(NamedTuple):
    """A call that every rank must make: what people call it, the operation that ranks must agree on, what it needs to
    be one, and whether it runs over the mesh of a tensor, which may be a part of the ranks.
    """

    name: str
    operation: str
    needs: str = ALWAYS
    of_mesh: bool = False


def collective_at(place: Place) -> Collective | None:
    """The collective that a call is or holds; None for any other call, and for one within a smaller group."""
    node = place.node
    if not isinstance(node, ast.Call):
        return None
    last = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    name = called(place)
    if last not in WORDS and name.rpartition(".")[2] not in WORDS:
        return _of_model(place, node)
    package, _, word = name.rpartition(".")
    if package in _PACKAGES and word in OPEN:
        return Collective(last, word) if _spans_all(place, node, word) else None
    if name in _FUNCTIONS:
        unwritten = any(keyword.arg in ("no_dist", "process_group", "enabled") for keyword in node.keywords)
        return None if unwritten else Collective(last, word, _FUNCTIONS[name])
    if last in LOADS:
        return Collective(last, last, LOADING) if shares_out(place, node) else None
    if package == _STATE_PACKAGE and word in _OF_STATE:
        return Collective(last, f"{word[:3]}_state_dict") if _moves_state(place, name, _OF_STATE[word]) else None
    return _of_method(place, node, last)


def _moves_state(place: Place, name: str, option: str) -> bool:
    """Whether the options of such a function certainly ask for it; a model of DDP has no shards to gather."""
    call = call_at(place, name)
    whole = option == "full_state_dict" and any(kinds(item.place) == {"ddp"} for item in passed(call, "model", 0))
    ends = [way.end for item in passed(call, "options") for way in ways(item.place)]
    return not whole and bool(ends) and all(isinstance(end, Place) and _asks_for(end, option) for end in ends)


def _asks_for(options: Place, name: str) -> bool:
    """Whether `StateDictOptions(...)` turns an option on."""
    if called(options) != f"{_STATE_PACKAGE}.StateDictOptions":
        return False
    value = argument(call_at(options, called(options)), name)
    return isinstance(value, Value) and value.value is True


def _spans_all(place: Place, node: ast.Call, word: str) -> bool:
    """Whether a collective is one of all ranks: no group is given but the world."""
    if word == "new_group":
        return not any(keyword.arg == "use_local_synchronization" for keyword in node.keywords)
    groups = [keyword.value for keyword in node.keywords if keyword.arg in ("group", "device_mesh")]
    groups += [item for index, item in enumerate(node.args) if _is_named_group(place, item, index, word)]
    hidden = any(isinstance(item, ast.Starred) for item in node.args) or any(item.arg is None for item in node.keywords)
    return not hidden and all(_is_world(place, group) for group in groups)


def _is_named_group(place: Place, item: ast.expr, index: int, word: str) -> bool:
    """Whether an argument is a group by its name; what a function makes first is the tensor, but for a barrier
    (`all_reduce(grouped(x))`, `all_reduce(x, op, get_data_parallel_group())`).
    """
    if not isinstance(item, ast.Call):
        return "group" in place.module.text(item).lower()
    return (index > 0 or "barrier" in word) and "group" in last_word(item.func).lower()


def _is_world(place: Place, group: ast.expr) -> bool:
    if isinstance(group, ast.Constant):
        return group.value is None
    return qualified(place.module, group, place.scope) in (
        ("torch.distributed.group.WORLD",),
        ("torch.distributed.GroupMember.WORLD",),
    )


def _of_method(place: Place, node: ast.Call, last: str) -> Collective | None:
    if not isinstance(node.func, ast.Attribute):
        return None
    receiver = place.at(node.func.value)
    if last == "full_tensor" and not node.args:
        return Collective(last, last, of_mesh=True)
    if last == "redistribute":
        return Collective(last, last, of_mesh=True) if _makes_whole(place, node) else None
    if last in ("all_gather", "barrier", "save_checkpoint") and _is_lightning(place, node.func.value, last):
        return Collective(last, last, BARRIER if last == "save_checkpoint" else ALWAYS)
    if last in _LOGS:
        synced = is_lightning_module(place, node.func.value) and _is_synced(place, node)
        return Collective(f"{last}(sync_dist=True)", last) if synced else None
    if last == "compute":
        return Collective(last, last) if is_metric(receiver) else None
    if last == "run":
        return Collective(f"{dotted(node.func)}()", last) if runs_metrics(receiver) else None
    found = kinds(receiver)
    if found == {UNKNOWN}:
        usual = _USUAL_NAMES.get(dotted(node.func.value).rpartition(".")[2].lstrip("_"), "")
        found = frozenset((usual,)) if usual and last in _OF_THEIR_OWN and _imports(place, usual) else found
    needs = [_METHODS.get(kind, {}).get(last, "") for kind in found]
    if not all(needs) or _replaces(place, node.func):
        return None
    return Collective(last, last, needs[0])


def _makes_whole(place: Place, node: ast.Call) -> bool:
    """`weight.redistribute(placements=[Replicate()])`, which gathers the shards of a DTensor (torch/distributed/tensor/
    _redistribute.py).
    """
    given = (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "placements"))
    parts = (part for item in given for part in ast.walk(item) if isinstance(part, ast.Call))
    return any(last_word(part.func) == "Replicate" for part in parts)


def _replaces(place: Place, function: ast.Attribute) -> bool:
    """Whether a class of the program has a method in the place of the framework's, and does not call that."""
    own = method(place, function)
    if own is None:
        return False
    called_in = (node.func for node in ast.walk(own.scope.node) if isinstance(node, ast.Call))
    return not any(isinstance(each, ast.Attribute) and _is_inherited(each, function.attr) for each in called_in)


def _is_inherited(function: ast.Attribute, name: str) -> bool:
    """`super().train`, or `Trainer.train` by the name of the class."""
    owner = function.value
    by_super = isinstance(owner, ast.Call) and dotted(owner.func) == "super"
    return function.attr == name and (by_super or dotted(owner)[:1].isupper() or "Trainer" in dotted(owner))


def _is_lightning(place: Place, receiver: ast.expr, method: str) -> bool:
    """`self.all_gather` of a LightningModule, `trainer.strategy.barrier`, `trainer.save_checkpoint`."""
    if method == "all_gather":
        return is_lightning_module(place, receiver)
    words = dotted(receiver).split(".")
    wanted = ["trainer", "strategy"] if method == "barrier" else ["trainer"]
    lightning = _imports(place, "lightning") or _imports(place, "pytorch_lightning")
    return lightning and words[-len(wanted) :] == wanted and kinds(place.at(receiver)) <= {UNKNOWN, "lightning"}


def is_lightning_module(place: Place, receiver: ast.expr) -> bool:
    """`self` of a class that stands on LightningModule."""
    owner = enclosing_class(place.scope)
    bases = owner.node.bases if owner is not None and isinstance(owner.node, ast.ClassDef) else []
    return isinstance(receiver, ast.Name) and any("LightningModule" in place.module.text(base) for base in bases)


def _is_synced(place: Place, node: ast.Call) -> bool:
    """Whether a value that is logged is summed over the ranks: with rank_zero_only Lightning leaves sync_dist out."""
    given = {keyword.arg: evaluate(place.at(keyword.value)) for keyword in node.keywords}
    alone, asked = given.get("rank_zero_only"), given.get("sync_dist")
    by_all = alone is None or (isinstance(alone, Value) and not alone.value)
    return by_all and None not in given and isinstance(asked, Value) and asked.value is True


def is_metric(receiver: Place) -> bool:
    """Whether an object is a metric of torchmetrics, or of a class built on one, which sums over the ranks when it is
    computed (metric.py, _wrap_compute), unless it is told not to.
    """
    found = [maker.call for maker in makers(receiver)]
    return bool(found) and all(call is not None and _makes_metric(call) for call in found)


def _makes_metric(call: Place) -> bool:
    name = called(call)
    own = definition(call.program, call.module, name) if name else None
    names = [name] if own is None else bases_from_outside(call, own)
    alone = isinstance(call.node, ast.Call) and any(item.arg == "sync_on_compute" for item in call.node.keywords)
    return not alone and any(each.startswith("torchmetrics.") for each in names)


def _imports(place: Place, kind: str) -> bool:
    """Whether the program speaks of the package that such an object is from."""
    return imports_from(place.program, {"accelerator": "accelerate", "fabric": "lightning"}.get(kind, kind))


def _of_model(place: Place, node: ast.Call) -> Collective | None:
    """The forward pass of a model whose weights are gathered in it, or whose buffers are broadcast."""
    if isinstance(node.func, ast.Name | ast.Attribute) and dotted(node.func) and not called(place).startswith("torch."):
        found = kinds(place.at(node.func))
        if found == {"fsdp1"}:
            return Collective(f"{dotted(node.func)}()", "forward")
        if found == {"deepspeed"}:
            return Collective(f"{dotted(node.func)}()", "forward", STAGE_3)
        if "ddp" in found and wrapped_kinds(_asked_anew(place, node.func)) == {"ddp"}:
            sent = sends_buffers(_asked_anew(place, node.func))
            return Collective(f"{dotted(node.func)}()", "forward", BUFFERS) if sent else None
        if found == {UNKNOWN} and is_prepared(_asked_anew(place, node.func)):
            sent = sends_prepared_buffers(_asked_anew(place, node.func))
            return Collective(f"{dotted(node.func)}()", "forward", PREPARED) if sent else None
    return None


def _asked_anew(place: Place, node: ast.expr) -> Place:
    """A part of a call for another question, with all its steps to spend."""
    return place._replace(node=node, budget=Budget())
