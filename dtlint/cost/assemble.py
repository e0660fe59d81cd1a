"""From whole settings to the numbers of a job: fallbacks and conventions of frameworks, nothing open any more."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dtlint.catalog import gpu
from dtlint.cost import constants
from dtlint.cost.constants import Family
from dtlint.cost.figures import Batch, Job, Layout, Machine, Schedule, Sharding
from dtlint.cost.formats import precision_of
from dtlint.cost.shape import shape_of
from dtlint.cost.told import Values, amount_in, count_in, word_in
from dtlint.plan.vocabulary import term
from dtlint.value import Plain


def model_ways(values: Values) -> int:
    """Ranks that share one copy of the model: TP x PP x CP x Ulysses."""
    ways = 1
    for axis in ("tensor", "pipeline", "context", "ulysses"):
        ways *= count_in(values, f"parallel.{axis}", 1)
    return ways


def assemble(values: Values, known: Values) -> Job:
    """The job of whole settings; `known` are those that the plan itself tells (else links follow the GPU)."""
    framework = word_in(values, "framework", "pytorch")
    layout = layout_of(values)
    style = style_of(framework, count_in(values, "sharding.stage", 0))
    return Job(
        style,
        framework,
        shape_of(values),
        layout,
        _sharding(values, layout, style),
        _batch(values, layout, framework),
        precision_of(values, style),
        _schedule(values, layout),
        _machine(values, known, layout),
    )


def varied(job: Job, values: Values, known: Values, names: Iterable[str]) -> Job:
    """The job of whole settings that differ in `names` from those of `job`: it shares the parts that they leave
    alone."""
    if not all(name in _PART_OF for name in names):
        return assemble(values, known)
    parts = {_PART_OF[name] for name in names}
    schedule = _schedule(values, job.layout) if "schedule" in parts else job.schedule
    sharding = _sharding(values, job.layout, job.style) if "sharding" in parts else job.sharding
    machine = _machine(values, known, job.layout) if "machine" in parts else job.machine
    return job._replace(schedule=schedule, sharding=sharding, machine=machine)


_PART_OF = {
    "attention.flash": "schedule",
    "checkpointing.activations": "schedule",
    "cluster.internode_gbit_per_s": "machine",
    "communication.moe_dispatcher": "schedule",
    "overlap.gradients": "schedule",
    "overlap.parameters": "schedule",
    "overlap.pipeline": "schedule",
    "overlap.tensor": "schedule",
    "sharding.reshard_after_forward": "sharding",
    "sharding.units": "sharding",
}
"""The part of a job that a setting decides, for those that are often open and decide one only."""


def style_of(framework: str, stage: int) -> str:
    """Who keeps the model states: Megatron's and DeepSpeed's optimizers hold fp32 masters beside 16-bit weights, FSDP
    and DDP fp32 weights."""
    if framework in ("megatron", "nemo", "nanotron"):
        return "megatron"
    if framework in ("megatron-deepspeed", "deepspeed", "gpt-neox"):
        return "deepspeed"
    return "fsdp" if stage >= 2 or framework in ("fsdp", "torchtitan") else "ddp"


def layout_of(values: Values) -> Layout:
    """The degrees of parallelism and the order of the ranks."""
    pipeline = count_in(values, "parallel.pipeline", 1)
    tensor = count_in(values, "parallel.tensor", 1)
    ways = model_ways(values)
    stage_layers = values.get("parallel.stage_layers")
    order = values.get("parallel.order")
    sequence = values.get("parallel.sequence")
    framework = word_in(values, "framework", "")
    expert = count_in(values, "parallel.expert", 1)
    return Layout(
        world=count_in(values, "parallel.world_size", 1),
        data=count_in(values, "parallel.world_size", 1) // ways,
        tensor=tensor,
        pipeline=pipeline,
        chunks=count_in(values, "parallel.virtual_pipeline", 1) if pipeline > 1 else 1,
        context=count_in(values, "parallel.context", 1),
        ulysses=count_in(values, "parallel.ulysses", 1),
        expert=expert,
        expert_tensor=_expert_tensor(values, pipeline, expert),
        sequence_parallel=bool(sequence) and tensor > 1,
        order=whole_order(order) if isinstance(order, tuple) else order_of(framework),
        stage_layers=_counts(stage_layers),
    )


def _counts(told: Plain) -> tuple[int, ...]:
    """Whole numbers as told; none where one of them is no number."""
    words = [str(each) for each in told] if isinstance(told, tuple) else []
    return tuple(int(word) for word in words) if all(word.isdecimal() and len(word) < 10 for word in words) else ()


def _expert_tensor(values: Values, pipeline: int, expert: int) -> int:
    """Tensor-parallel degree of an expert; 1 where the told one does not divide the world."""
    told = count_in(values, "parallel.expert_tensor", 1)
    return told if count_in(values, "parallel.world_size", 1) % (pipeline * expert * told) == 0 else 1


def order_of(framework: str) -> tuple[str, ...]:
    """The axes of a framework's rank layout, the fastest-varying first (Megatron parallel_state.py, DeepSpeed
    topology.py, torchtitan parallel_dims.py)."""
    if framework == "nanotron":
        return ("tensor", "context", "data", "pipeline", "expert")
    return ("tensor", "context", "ulysses", "expert", "data", "pipeline")


def whole_order(told: tuple[Plain, ...]) -> tuple[str, ...]:
    """The axes that the told order names, each once; context and sequence ranks that it leaves out lie beside the
    tensor ranks, other axes outside."""
    usual = order_of("")
    named = [str(axis) for axis in dict.fromkeys(told) if axis in usual]
    inner = [axis for axis in ("context", "ulysses") if axis not in named]
    after = named.index("tensor") + 1 if "tensor" in named else 0
    whole = [*named[:after], *inner, *named[after:]]
    return (*whole, *(axis for axis in usual if axis not in whole))


def _sharding(values: Values, layout: Layout, style: str) -> Sharding:
    """DeepSpeed's smaller group (zero_hpz_partition_size) holds a second copy of the weights beside shards over all
    replicas; the others' holds one of as many replicas of all states."""
    replicas = layout.data * layout.context * layout.ulysses
    stage = count_in(values, "sharding.stage", 0)
    group = max(1, min(count_in(values, "sharding.group", replicas), replicas))
    copies = style == "deepspeed" and stage == 3 and group < replicas
    return Sharding(
        stage=stage,
        group=replicas if copies else group,
        copy=group if copies else 0,
        reshard=values.get("sharding.reshard_after_forward") is not False,
        wrapped=values.get("sharding.units") != "none",
        offload_optimizer=values.get("sharding.offload_optimizer") in ("cpu", "nvme"),
        offload_parameters=_holds_parameters_on_host(values, stage, style),
        bucket_bytes=amount_in(values, "communication.bucket_bytes", 0.0),
    )


def _holds_parameters_on_host(values: Values, stage: int, style: str) -> bool:
    """DeepSpeed offloads parameters at stage 3 only (zero/config.py): below it the weights stay whole on the GPU."""
    told = values.get("sharding.offload_parameters") in ("cpu", "nvme")
    return told and not (style == "deepspeed" and stage < 3)


def _batch(values: Values, layout: Layout, framework: str) -> Batch:
    micro = count_in(values, "batch.micro", 1)
    ranks = layout.data * (layout.tensor if framework == "deepspeed" else 1)
    count = values.get("schedule.microbatches") or values.get("batch.accumulation")
    total = values.get("batch.global")
    if isinstance(total, int) and (
        not isinstance(count, int) or ("batch.micro" in values and count * micro * ranks != total)
    ):
        count = max(1, round(total / (micro * ranks)))
    return Batch(micro, count if isinstance(count, int) and count > 0 else 1)


def _schedule(values: Values, layout: Layout) -> Schedule:
    recomputed = values.get("checkpointing.layers")
    return Schedule(
        kind=word_in(values, "schedule.kind", "interleaved" if layout.chunks > 1 else "1f1b"),
        recompute=word_in(values, "checkpointing.activations", "none"),
        recomputed_layers=recomputed if isinstance(recomputed, int) and recomputed > 0 else None,
        overlap_gradients=bool(values.get("overlap.gradients")),
        overlap_parameters=bool(values.get("overlap.parameters")),
        overlap_tensor=bool(values.get("overlap.tensor")),
        overlap_pipeline=bool(values.get("overlap.pipeline")) and layout.chunks > 1,
        flash=bool(values.get("attention.flash")),
        dispatcher=word_in(values, "communication.moe_dispatcher", "alltoall"),
        offload=bool(values.get("checkpointing.offload")),
        context_exchange=word_in(values, "parallel.context_exchange", "p2p"),
        recompute_unit=count_in(values, "checkpointing.unit", 1),
        split_inputs=bool(values.get("checkpointing.partitioned")),
    )


def _machine(values: Values, known: Values, layout: Layout) -> Machine:
    found = gpu(word_in(values, "cluster.gpu", "")) or gpu(str(term("cluster.gpu").typical))
    assert found is not None, "the vocabulary's typical GPU is in the catalog"
    family = family_of(found.name)
    per_node = max(1, min(count_in(values, "cluster.gpus_per_node", found.gpus_per_node), layout.world))
    told = known if "cluster.internode_gbit_per_s" in known else values
    gbit = amount_in(told, "cluster.internode_gbit_per_s", family.network_gbit_per_s)
    if gbit == term("cluster.internode_gbit_per_s").typical and "cluster.internode_gbit_per_s" not in known:
        gbit = family.network_gbit_per_s
    gigabytes = amount_in(known, "cluster.intranode_gb_per_s", found.intranode_gb_per_s or 25.0)
    memory = amount_in(values, "cluster.gpu_memory_gib", found.memory_gib)
    return Machine(
        found,
        family,
        per_node,
        max(per_node, count_in(values, "cluster.nvlink_domain", per_node)),
        gigabytes * 1e9,
        gbit * 1e9 / 8,
        memory * 2**30,
    )


@cache
def family_of(gpu_name: str) -> Family:
    """The generation of a GPU by the catalog's name of it."""
    return constants.FAMILIES.get(gpu_name.split("-")[0], constants.USUAL_FAMILY)
