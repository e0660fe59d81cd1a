"""Tells what else in a program exchanges gradients: wrappers, frameworks, partial sums of split layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.frameworks.pytorch.step_area import Area, called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Origin, Setting, Unknown, Value, written

_WRAPPERS: Mapping[str, tuple[str, ...]] = {
    "ddp": (
        *DDP,
        "apex.parallel.DistributedDataParallel",
        "mmcv.parallel.MMDistributedDataParallel",
        "mmengine.model.MMDistributedDataParallel",
        "detectron2.engine.create_ddp_model",
        "ray.train.torch.prepare_model",
    ),
    "fsdp": (*FSDP1, *FSDP2),
    "deepspeed": ("deepspeed.initialize",),
    "accelerate": ("accelerate.Accelerator",),
    "lightning": ("lightning.Fabric", "lightning.fabric.Fabric", "lightning.Trainer", "pytorch_lightning.Trainer"),
    "tensor parallelism": (
        "torch.distributed.tensor.parallel.parallelize_module",
        "torch.distributed.tensor.parallel.api.parallelize_module",
    ),
}
_FOREIGN = frozenset({"horovod", "megatron", "colossalai", "fairscale", "nemo", "bagua", "byteps", "hivemind"})
"""Packages that exchange gradients of their own accord, or partial sums that must be sums."""
_SPLIT_LAYERS = re.compile(r"(Column|Row|Vocab|Tensor|Expert|Sequence|Context)\w{0,60}Parallel|ParallelEmbedding")
"""Names of layers whose weights or inputs are split over ranks."""
_WRAPPING_NAMES = re.compile(r"ddp|fsdp|distribut|parallel|shard|prepare", re.IGNORECASE)
_DATA_GROUP = re.compile(r"world|data_parallel|(^|[._])d?dp(_|$)|replica", re.IGNORECASE)
_PARTIAL_GROUP = re.compile(r"tensor|sequence|expert|pipeline|context|(^|[._])(tp|sp|cp|ep|pp|mp)(_|$)", re.IGNORECASE)


def is_foreign(program: Program) -> bool:
    """Whether the program is one of a package that exchanges gradients itself."""
    imported = {name.partition(".")[0] for module in program.modules.values() for name in module.imports}
    return not imported.isdisjoint(_FOREIGN)


def other_exchange(area: Area, call: Call) -> Setting:
    """What else exchanges gradients around a call: "none" only if nothing does, and the call spans all ranks."""
    if argument(call, "group", 2) is not None and not _is_data_group(call):
        return _unknown(call, "the process group may not be the data-parallel one")
    for word, names in _WRAPPERS.items():
        verdicts = {stands(found.place): found for found in calls(area.program, names)}
        if True in verdicts:
            return written(word, verdicts[True].head)
        if None in verdicts:
            return _unknown(verdicts[None], f"{word} may wrap the model")
    if _has_split_layers(area.program):
        return _unknown(call, "layers of the program are split over ranks")
    hidden = next((place for place in area.places() if _may_wrap(place)), None)
    if hidden is not None:
        return _unknown(call, f"{hidden.module.text(hidden.node, 40)} may wrap the model")
    return Value("none", Origin("derived", call.span))


def _unknown(call: Call, reason: str) -> Unknown:
    return Unknown(reason, "", Origin("written", call.head))


def _has_split_layers(program: Program) -> bool:
    words = (word for module in program.modules.values() for word in (*module.definitions, *module.called))
    return any(_SPLIT_LAYERS.search(word) for word in words)


def _may_wrap(place: Place) -> bool:
    """A call out of the files read that by its name may wrap the model that it is given."""
    node = place.node
    if not isinstance(node, ast.Call) or called_function(place) is not None or called(place).startswith("torch."):
        return False
    spelled = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    given = " ".join(dotted(item) for item in node.args).lower()
    return bool(_WRAPPING_NAMES.search(spelled)) and any(word in given for word in ("model", "net", "module"))


def _is_data_group(call: Call) -> bool:
    """Whether the group of a call is that of all ranks or of the data-parallel ones, by what it is or how it is
    named.
    """
    for item in passed(call, "group", 2):
        text = item.place.module.text(item.place.node)
        by_name = bool(_DATA_GROUP.search(text)) and not _PARTIAL_GROUP.search(text)
        for way in ways(item.place):
            if not by_name and (isinstance(way.end, Unknown) or not _spans_all(way.end)):
                return False
    return True


def _spans_all(end: Place) -> bool:
    """None, or `new_group()` without ranks."""
    node = end.node
    if isinstance(node, ast.Constant):
        return node.value is None
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return qualified(end.module, node.func, end.scope) == ("torch.distributed.new_group",)
