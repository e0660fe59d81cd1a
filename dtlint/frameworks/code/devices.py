"""Finds models and tensors that every rank of a machine puts on its first GPU: NCCL, "cuda" without a number, no device
set.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.first_gpus import has_used_gpu, is_first, is_plain_cuda, moves_in
from dtlint.frameworks.code.model_moves import moves_of
from dtlint.frameworks.code.set_later import certainly_runs, runs_later
from dtlint.frameworks.pytorch.names import DDP, DEVICE_MESH, FSDP1, FSDP2
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.constants import live_ways
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.python.tree import HERE, Module
from dtlint.value import Value

_STARTS = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
_WRAPS = (*DDP, *FSDP1, *FSDP2)
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
_SETS = frozenset(
    {"select_device", "set_device", "set_device_index", "set_device_idx", "_set_device", "set_default_device"}
)
_VISIBLE = "_VISIBLE_DEVICES"
"""The end of the variables that show a process its GPUs: CUDA's, HIP's and ROCR's."""
_CHOOSERS = (
    "accelerate", "axonn", "colossalai", "composer", "deepspeed", "fairseq", "horovod", "ignite", "lightning",
    "megatron", "mmcv", "mmengine", "nemo", "pytorch_lightning", "ray", "torchtitan", "torchtune", "trl",
)  # fmt: skip
"""Packages that set the device of a process themselves (axonn's init does, communication.py of 0.2.0)."""
_BEGINNING = "init"
"""How functions begin by which a package starts what it does, and takes a device where it computes on one."""
_WITHOUT_DEVICES = (
    "aim", "apex", "argparse", "clearml", "colorama", "comet_ml", "dllogger", "fairscale", "faulthandler", "glob",
    "hydra", "logging", "mlflow", "mlperf_logging", "mpi4py", "multiprocessing", "neptune", "nltk", "numpy", "os",
    "pathlib", "random", "swanlab", "sys", "tensorboardX", "torch", "torchvision", "trackio", "transformers", "wandb",
)  # fmt: skip
"""Packages with functions of such names that set no device; of torch's each is known by itself."""
_SETTING = ("device", "dist", "gpu", "launch", "setup")
"""Parts of names of functions that may set the device."""
_MESHES = frozenset(name.rpartition(".")[2] for name in DEVICE_MESH)
_ASKS = frozenset({"device", "device_count", "current_device", "get_device_name", "get_device_properties"})
"""Functions with `device` in their name that set none."""


def shared_devices(program: Program) -> tuple[Member, ...]:
    """Models that DDP or FSDP wraps and that stand on the first GPU of the machine, whatever the rank: `moved` is the
    call that puts one there; `what` says of what (model, tensor, objects), for what a collective sends may stand there
    too; `when` that no rank sets its device, or only later.

    Only where the program starts NCCL itself and nothing in it, nor a package that it imports, may choose a device.
    """
    starts = standing(program, _STARTS)
    if not starts or not all(_is_nccl(call) and not _chooses(call) for call in starts) or _may_choose(program):
        return ()
    found = [*_models(program, starts[0])] or [*_tensors(program, starts[0])]
    if not found and all(_is_nccl(call, _NCCL[:1]) for call in starts):
        found = [*_objects(program, starts[0])]
    return tuple(found)


def _models(program: Program, start: Call) -> Iterator[Member]:
    for wrap in calls(program, _WRAPS):
        if stands(wrap.place) and not _chooses(wrap) and not _is_set(wrap):
            moves = [move for item in passed(wrap, "module", 0) for move in moves_of(item.place, wrap.place)]
            if moves and all(map(is_first, moves)):
                yield _member("model", moves[0], start, wrap)


def _tensors(program: Program, start: Call) -> Iterator[Member]:
    """Tensors on the first GPU that the ranks send each other."""
    for word, (name, position) in _SENT.items():
        for call in calls(program, tuple(f"{package}.{word}" for package in _PACKAGES)):
            if passed(call, "group") or not certainly_runs(call.place) or _is_set(call):
                continue
            ends = [way.end for item in passed(call, name, position) for way, _ in live_ways(item.place)]
            if ends and all(isinstance(end, Place) and _is_made_first(end) for end in ends):
                yield from (_member("tensor", end, start, call) for end in ends[:1] if isinstance(end, Place))


def _objects(program: Program, start: Call) -> Iterator[Member]:
    for call in calls(program, tuple(f"{package}.{word}" for package in _PACKAGES for word in _OBJECTS)):
        alone = not call.open and not passed(call, "group") and not passed(call, "device")
        if alone and len(call.positional) <= 2 and certainly_runs(call.place) and not _is_set(call):
            yield _member("objects", call.place, start, call)


def _member(what: str, moved: Place, start: Call, meeting: Call) -> Member:
    span, text = moved.module.span(moved.node), moved.module.text(moved.node, 60)
    related = [(start.head, "NCCL starts here without device_id"), (meeting.head, "the ranks meet here")]
    late = next(_settings(moved.program), None)
    if late is not None:
        related.append((late.module.span(late.node), "the device is set here, behind it"))
    when = "no rank sets its device" if late is None else "each rank sets its device only later"
    return Member(span, texts(span, moved=text, what=what, when=when), tuple(related))


def _is_made_first(end: Place) -> bool:
    """Whether a tensor is made on the first GPU, or moved there, and nowhere else."""
    moves = list(moves_in(end))
    if moves:
        return all(map(is_first, moves))
    named = end.node.keywords if isinstance(end.node, ast.Call) and called(end).startswith("torch.") else []
    return any(each.arg == "device" and is_plain_cuda(end.at(each.value)) for each in named)


def _is_nccl(call: Call, words: tuple[str, ...] = _NCCL) -> bool:
    backend = argument(call, "backend", 0)
    return isinstance(backend, Value) and backend.origin.kind == "written" and backend.value in words


def _chooses(call: Call) -> bool:
    """Whether a call names the device of its process, or may; a mesh from elsewhere may have."""
    meshes = [way.end for item in passed(call, "mesh") for way in ways(item.place)]
    named = bool(call.open) or bool(passed(call, "device_id"))
    return named or not all(isinstance(end, Place) and _is_mesh(end) for end in meshes)


def _is_mesh(place: Place) -> bool:
    """Whether an expression is a mesh that is made in sight, or a part of one: `mesh["shard"]`."""
    if isinstance(place.node, ast.Subscript):
        ends = [way.end for way in ways(place.at(place.node.value))]
        return all(isinstance(end, Place) and called(end) in DEVICE_MESH for end in ends)
    return called(place) in DEVICE_MESH


def _may_choose(program: Program) -> bool:
    """Whether anything may set the device of a process. A mesh does, where the process has not used a GPU yet
    (device_mesh.py, _setup_world_group_and_device).
    """
    meshes = (call.place for call in calls(program, DEVICE_MESH))
    if any(stands(place) is not False and not has_used_gpu(place) for place in meshes):
        return True
    return any(_module_may_choose(program, module) for module in program.modules.values())


def _module_may_choose(program: Program, module: Module) -> bool:
    text = module.source.text
    if _VISIBLE in text or "torch.cuda.device(" in text or _names_trainer(program, text):
        return True
    if any(name.lstrip(".").partition(".")[0] in _CHOOSERS for name in module.imports):
        return True
    return any(_is_a_setter(program, word) for word in module.called) or _is_begun_elsewhere(program, module)


def _is_begun_elsewhere(program: Program, module: Module) -> bool:
    """Whether a file starts a package that is not read, which may set the device: `engine.init(tensor=2)`."""
    sites = (site for word, found in module.called.items() if word.startswith(_BEGINNING) for site in found)
    names = {called(place_of(program, module, site)) for site in sites}
    return any(
        "." in name
        and name.partition(".")[0] not in _WITHOUT_DEVICES
        and not name.startswith(HERE)
        and definition(program, module, name) is None
        for name in names
    )


def _names_trainer(program: Program, text: str) -> bool:
    """Whether a text names a trainer that no file of the program defines: it may set the device."""
    words = frozenset(word for word in _WORDS.findall(text) if "Trainer" in word) if "Trainer" in text else ()
    return any(not any(word in module.definitions for module in program.modules.values()) for word in words)


def _is_set(meeting: Call) -> bool:
    """Whether a device may be set before the ranks meet: anywhere but certainly behind that."""
    return not all(runs_later(setting, meeting.place) for setting in _settings(meeting.place.program))


def _settings(program: Program) -> Iterator[Place]:
    for module in program.modules.values():
        yield from (place_of(program, module, site) for word in _SETS for site in module.called.get(word, ()))


def _is_a_setter(program: Program, word: str) -> bool:
    """Whether a function may set the device that is defined where it is not read: `init_distributed_device(args)`."""
    if word in _ASKS | _SETS | _MESHES or not any(part in word.lower() for part in _SETTING):
        return False
    if word == "DistributedDataParallel" or word == "DistributedSampler" or word.startswith("is_"):
        return False
    return not any(word in module.definitions for module in program.modules.values())
