"""What the arguments of Lightning's Trainer claim, be they keys of a file, options of a command line, or a call's.

Lightning 7f0c343 (2.6) pytorch/trainer/connectors/accelerator_connector.py, pytorch/strategies and
pytorch/plugins/precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from dtlint.frameworks import Claim, Member
from dtlint.frameworks.deepspeed.values import known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys, launcher_by_default, one, unread
from dtlint.frameworks.lightning.strategies import Machines, Strategy, claims_of_strategy, strategy_of
from dtlint.languages.json_tree import Node, setting
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, default

TOOL = "Lightning"
COMPUTE: Mapping[str, Plain] = {
    "16-mixed": "fp16", "16": "fp16", "16-true": "fp16", "bf16-mixed": "bf16", "bf16": "bf16", "bf16-true": "bf16",
    "32-true": "fp32", "32": "fp32", "transformer-engine": "fp8", "transformer-engine-float16": "fp8",
}  # fmt: skip
"""The format of the matrix products by the word for the precision."""
_WEIGHTS: Mapping[str, str] = {
    "16-true": "fp16", "bf16-true": "bf16", "transformer-engine": "bf16", "transformer-engine-float16": "fp16",
}  # fmt: skip
"""Precisions in which the weights themselves have 16 bits."""
PRECISIONS = (*COMPUTE, "64-true", "64")
DEVICES = ("devices", "gpus")
"""The argument for the GPUs of a node, and its name before 2.0."""
WAYS = ("strategy", "accelerator", "distributed_backend")
"""The argument that names the strategy, and those that did before 1.5 and 1.2."""
_STARTED_BY_ITSELF = ("dp", "ddp2", "ddp_cpu", "ddp_spawn", "ddp_fork", "ddp_notebook", "horovod", "tpu_spawn")
"""Strategies for which Slurm starts no process of each GPU: one process has them all, or starts the others itself."""
_ALL = "parallel.world_size"
_OTHER_MACHINES = ("cpu", "mps", "tpu", "hpu", "ipu")


def names(section: str) -> Mapping[str, tuple[str, ...]]:
    """The keys of each setting that the Trainer has an argument for, by their dotted paths."""
    arguments = {
        "launch.nodes": ("num_nodes",),
        "launch.processes_per_node": DEVICES,
        "precision.compute": ("precision",),
        "batch.accumulation": ("accumulate_grad_batches",),
        "optimizer.clip": ("gradient_clip_val",),
        "run.steps": ("max_steps",),
    }
    return {name: tuple(f"{section}.{key}" for key in keys) for name, keys in arguments.items()}


def framework_of(keys: Keys, section: str) -> str:
    """What carries out the plan: DDP for several processes where no strategy is named, none of them for one process;
    "" for a strategy that is not known.
    """
    strategy = strategy_of(keys, section)
    if strategy.kind != "auto":
        return strategy.framework
    path = names(section)
    counts = [known(found) for found in (_nodes(keys, path), _devices_of(keys, path)) if found is not None]
    return "pytorch" if counts in ([1], [1, 1]) and keys.node(*path["launch.processes_per_node"]) else "ddp"


def trains_on_gpus(keys: Keys, section: str) -> bool:
    """Whether the accelerator may be a GPU of the kind that plans are made for."""
    return str(keys.known(f"{section}.accelerator")).lower() not in _OTHER_MACHINES


def launch_claims(keys: Keys, section: str, place: Span | None) -> Iterator[Claim]:
    """Lightning starts a process for each device, or finds them started; one node where nothing else is written."""
    path = names(section)
    if place is not None:
        yield launcher_by_default("lightning", place, TOOL)
    if keys.node(*path["launch.nodes"]) is None:
        yield Claim("launch.nodes", default(1, TOOL), path["launch.nodes"][0])
    yield from one(keys, path["launch.nodes"], "launch.nodes", whole_number)
    yield from one(keys, path["launch.processes_per_node"], "launch.processes_per_node", devices)
    yield from counted_claims(keys, section)


def counted_claims(keys: Keys, section: str) -> Iterator[Claim]:
    """The processes that the Trainer counts on, where it is told the devices of a node: that many on each node. An
    environment of its own (`plugins`) may start others; the one device of the strategy that it takes by itself counts
    nobody.

    Lightning 062199a (2.5) fabric/plugins/environments/torchelastic.py, validate_settings.
    """
    path = names(section)
    each, nodes = _devices_of(keys, path), _nodes(keys, path) or default(1, TOOL)
    way = next((told for name in WAYS if (told := keys.known(f"{section}.{name}")) is not None), None)
    if each is None or own_start(way) is not None or keys.node(f"{section}.plugins") is not None:
        return
    counted = _product(each, nodes)
    alone = isinstance(counted, Value) and counted.value == 1 and strategy_of(keys, section).kind == "auto"
    if counted is not None and not alone:
        yield Claim("launch.counted_processes", counted, path["launch.nodes"][0])


def _product(each: Setting, nodes: Setting) -> Value | Unknown | None:
    """Devices times nodes, where one of the two may stand for the number of all processes; None where one is only what
    holds if nothing else is told (`cfg.get("devices", 1)`).
    """
    if any(isinstance(count, Value) and count.origin.kind == "assumed" for count in (each, nodes)):
        return None
    told = [known(each), known(nodes)]
    if all(isinstance(count, int) and count > 0 for count in told):
        last = nodes if isinstance(nodes, Value) and nodes.origin.kind == "written" else each
        return cast("Value", last)._replace(value=cast("int", told[0]) * cast("int", told[1]))
    hidden = [count for count in (each, nodes) if isinstance(count, Unknown)]
    whole = next((count for count in told if isinstance(count, int) and count > 0), None)
    if len(hidden) != 1 or whole is None or hidden[0].means != _ALL:
        return None
    return hidden[0]._replace(means=f"{_ALL} * {whole}")


def training_claims(keys: Keys, section: str) -> Iterator[Claim]:
    """How the model is split, in which formats it computes, and what a step is made of."""
    path, strategy = names(section), strategy_of(keys, section)
    yield from claims_of_strategy(strategy, _compute(keys, section), _machines(keys, path))
    yield from precision_claims(keys, section, strategy)
    yield from one(keys, path["batch.accumulation"], "batch.accumulation", whole_number)
    yield from one(keys, path["optimizer.clip"], "optimizer.clip", number)
    for claim in one(keys, path["run.steps"], "run.steps", whole_number):
        if known(claim.value) != -1:
            yield claim


def precision_claims(keys: Keys, section: str, strategy: Strategy) -> Iterator[Claim]:
    """The format of the compute; with a `true` in its word, that of the weights and what follows them too.

    DeepSpeed makes masters of its own. Megatron's plugins and others replace the word.
    """
    name = f"{section}.precision"
    node = keys.node(name)
    if node is None:
        if (plugins := keys.node(f"{section}.plugins")) is not None:
            yield Claim("precision.compute", unread(plugins, "a plugin may decide on the precision"), name)
        return
    told = setting(node)
    text = str(told.value).lower() if isinstance(told, Value) else ""
    spelled = keys.spelled.get(name, name)
    yield Claim("precision.compute", compute_format(node), spelled)
    if not text or strategy.kind == "deepspeed":
        return
    kept = _WEIGHTS.get(text)
    if kept is not None:
        yield Claim("precision.master", setting(node, "none" if strategy.kind in ("ddp", "auto") else kept), spelled)
        for what in ("precision.gradients", "precision.reduce", "optimizer.state_dtype"):
            yield Claim(what, setting(node, kept), spelled)
    elif strategy.kind == "model-parallel":
        yield Claim("precision.reduce", setting(node, "fp32"), spelled)


def compute_format(node: Node) -> Setting:
    """The format of the compute by Lightning's word or number for it."""
    told = setting(node)
    if not isinstance(told, Value):
        return told
    text = str(told.value).lower()
    if text in COMPUTE:
        return told._replace(value=COMPUTE[text])
    return unread(node, f"{told.value} is a precision that is not known here")


def expected(keys: Keys, section: str, place: Span) -> Member:
    """The member of `code.trainers`: the devices of a node (-1: all of them) and the nodes that the Trainer counts on,
    as far as they are written.
    """
    path = names(section)
    each, node = _devices_of(keys, path), keys.node(*path["launch.processes_per_node"])
    if node is not None and isinstance(each, Unknown) and each.means:
        each = Value(-1, Origin("written", node.span))
    way = next((told for name in WAYS if (told := keys.known(f"{section}.{name}")) is not None), None)
    counts = {"devices": own_start(way) or each, "nodes": _nodes(keys, path)}
    fields = {name: value for name, value in counts.items() if value is not None}
    return Member(place if node is None else node.span, fields)


def own_start(way: Plain | None) -> Unknown | None:
    """Why no GPU has a process that Slurm starts, None where each has."""
    alone = str(way).lower() in _STARTED_BY_ITSELF
    return Unknown(f"the strategy {way} starts its processes itself") if alone else None


def devices(node: Node) -> Setting:
    """A count, a list of numbers of GPUs (be it as text), or -1 and "auto" for all of the machine."""
    if node.kind == "array":
        return Value(len(node.items), Origin("written", node.span))
    if node.told is not None and isinstance(node.told, Value) and isinstance(node.told.value, tuple):
        return node.told._replace(value=len(node.told.value))
    text = str(node.value).strip("[]")
    if text in ("-1", "auto"):
        return unread(node, "every GPU of the node is used")._replace(means="cluster.gpus_per_node")
    if node.kind == "string" and "," in text:
        return setting(node, len([part for part in text.split(",") if part.strip()]))
    return whole_number(node)


def _machines(keys: Keys, path: Mapping[str, tuple[str, ...]]) -> Machines:
    return Machines(_nodes(keys, path), _devices_of(keys, path))


def _nodes(keys: Keys, path: Mapping[str, tuple[str, ...]]) -> Setting | None:
    node = keys.node(*path["launch.nodes"])
    return None if node is None else whole_number(node)


def _devices_of(keys: Keys, path: Mapping[str, tuple[str, ...]]) -> Setting | None:
    node = keys.node(*path["launch.processes_per_node"])
    return None if node is None else devices(node)


def _compute(keys: Keys, section: str) -> str:
    """The format of the compute, "" where it is not known."""
    node = keys.node(f"{section}.precision")
    return "fp32" if node is None else str(known(compute_format(node)) or "")
