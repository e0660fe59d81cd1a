"""From whole settings to the numbers of a job: fallbacks and conventions of frameworks, nothing open any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from dtlint.catalog import LatentAttention, gpu, model
from dtlint.cost import constants
from dtlint.cost.constants import Family
from dtlint.cost.figures import Batch, Job, Layout, Machine, Precision, Schedule, Shape, Sharding
from dtlint.plan.vocabulary import term
from dtlint.value import Plain

Values = Mapping[str, Plain]


def model_ways(values: Values) -> int:
    """Ranks that share one copy of the model: TP x PP x CP x Ulysses."""
    ways = 1
    for axis in ("tensor", "pipeline", "context", "ulysses"):
        ways *= _count(values, f"parallel.{axis}", 1)
    return ways


def assemble(values: Values, known: Values) -> Job:
    """The job of whole settings; `known` are those that the plan itself tells (else links follow the GPU)."""
    framework = _word(values, "framework", "pytorch")
    layout = layout_of(values)
    style = style_of(framework, _count(values, "sharding.stage", 0))
    return Job(
        style,
        framework,
        _shape(values),
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


def _shape(values: Values) -> Shape:
    hidden, layers = _count(values, "model.hidden", 1), _count(values, "model.layers", 1)
    gated = bool(values.get("model.gated_mlp"))
    heads = _count(values, "model.heads", max(1, hidden // 128))
    experts = _count(values, "model.experts", 0)
    expert_ffn = _count(values, "model.expert_ffn", 0)
    ffn = _count(values, "model.ffn", 0) or (expert_ffn if experts else (8 * hidden // 3 if gated else 4 * hidden))
    return Shape(
        layers=layers,
        hidden=hidden,
        ffn=ffn,
        heads=heads,
        kv_heads=_count(values, "model.kv_heads", heads),
        head_dim=_head_dim(values, hidden, heads),
        vocab=_count(values, "model.vocab", 1),
        gated=gated,
        tied=bool(values.get("model.tied_embeddings")),
        sequence=_count(values, "data.sequence_length", 1),
        experts=experts,
        experts_per_token=min(_count(values, "model.experts_per_token", 1), max(1, experts)),
        expert_ffn=expert_ffn or ffn,
        shared_ffn=_count(values, "model.shared_expert_ffn", 0),
        moe_layers=_moe_layers(values, layers) if experts else 0,
        latent=_latent(values),
        trainable=_amount(values, "model.trainable_parameters", 0.0) if _count(values, "model.lora_rank", 0) else None,
        fused_loss=bool(values.get("model.fused_loss")),
    )


def _head_dim(values: Values, hidden: int, heads: int) -> int:
    """Width of a head: as told; but a catalog model of the same name and another shape does not tell it."""
    named = model(_word(values, "model.name", ""))
    if named is not None and (named.hidden, named.heads) != (hidden, heads):
        return max(1, hidden // heads)
    return _count(values, "model.head_dim", max(1, hidden // heads))


def _moe_layers(values: Values, layers: int) -> int:
    """Layers with experts; where a DeepSeek-like model tells only the width of its dense layers, the first one is
    dense (their config.json)."""
    told = min(layers, _count(values, "model.moe_layers", layers))
    dense_first = _word(values, "model.architecture", "").endswith("mla") and values.get("model.ffn") != values.get(
        "model.expert_ffn"
    )
    return layers - 1 if told == layers and layers > 1 and dense_first else told


def _latent(values: Values) -> LatentAttention | None:
    written = values.get("model.latent_attention")
    if isinstance(written, LatentAttention):
        return written
    if isinstance(written, Mapping):
        return LatentAttention._make(_count(written, field, 0) for field in LatentAttention._fields)
    named = model(_word(values, "model.name", ""))
    if named is not None and named.hidden == values.get("model.hidden"):
        return named.latent_attention
    return constants.USUAL_LATENT if _word(values, "model.architecture", "").endswith("mla") else None


def layout_of(values: Values) -> Layout:
    """The degrees of parallelism and the order of the ranks."""
    pipeline = _count(values, "parallel.pipeline", 1)
    tensor = _count(values, "parallel.tensor", 1)
    ways = model_ways(values)
    stage_layers = values.get("parallel.stage_layers")
    order = values.get("parallel.order")
    sequence = values.get("parallel.sequence")
    framework = _word(values, "framework", "")
    expert = _count(values, "parallel.expert", 1)
    return Layout(
        world=_count(values, "parallel.world_size", 1),
        data=_count(values, "parallel.world_size", 1) // ways,
        tensor=tensor,
        pipeline=pipeline,
        chunks=_count(values, "parallel.virtual_pipeline", 1) if pipeline > 1 else 1,
        context=_count(values, "parallel.context", 1),
        ulysses=_count(values, "parallel.ulysses", 1),
        expert=expert,
        expert_tensor=_expert_tensor(values, pipeline, expert),
        sequence_parallel=bool(sequence) and tensor > 1,
        order=_whole_order(order) if isinstance(order, tuple) else order_of(framework),
        stage_layers=_counts(stage_layers),
    )


def _counts(told: Plain) -> tuple[int, ...]:
    """Whole numbers as told; none where one of them is no number."""
    words = [str(each) for each in told] if isinstance(told, tuple) else []
    return tuple(int(word) for word in words) if all(word.isdecimal() and len(word) < 10 for word in words) else ()


def _expert_tensor(values: Values, pipeline: int, expert: int) -> int:
    """Tensor-parallel degree of an expert; 1 where the told one does not divide the world."""
    told = _count(values, "parallel.expert_tensor", 1)
    return told if _count(values, "parallel.world_size", 1) % (pipeline * expert * told) == 0 else 1


def order_of(framework: str) -> tuple[str, ...]:
    """The axes of a framework's rank layout, the fastest-varying first (Megatron parallel_state.py, DeepSpeed
    topology.py, torchtitan parallel_dims.py)."""
    if framework == "nanotron":
        return ("tensor", "context", "data", "pipeline", "expert")
    return ("tensor", "context", "ulysses", "expert", "data", "pipeline")


def _whole_order(told: tuple[Plain, ...]) -> tuple[str, ...]:
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
    stage = _count(values, "sharding.stage", 0)
    group = max(1, min(_count(values, "sharding.group", replicas), replicas))
    copies = style == "deepspeed" and stage == 3 and group < replicas
    return Sharding(
        stage=stage,
        group=replicas if copies else group,
        copy=group if copies else 0,
        reshard=values.get("sharding.reshard_after_forward") is not False,
        wrapped=values.get("sharding.units") != "none",
        offload_optimizer=values.get("sharding.offload_optimizer") in ("cpu", "nvme"),
        offload_parameters=values.get("sharding.offload_parameters") in ("cpu", "nvme"),
        bucket_bytes=_amount(values, "communication.bucket_bytes", 0.0),
    )


def _batch(values: Values, layout: Layout, framework: str) -> Batch:
    micro = _count(values, "batch.micro", 1)
    ranks = layout.data * (layout.tensor if framework == "deepspeed" else 1)
    count = values.get("schedule.microbatches") or values.get("batch.accumulation")
    total = values.get("batch.global")
    if isinstance(total, int) and (
        not isinstance(count, int) or ("batch.micro" in values and count * micro * ranks != total)
    ):
        count = max(1, round(total / (micro * ranks)))
    return Batch(micro, count if isinstance(count, int) and count > 0 else 1)


_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "int8": 1.0}


def precision_of(values: Values, style: str) -> Precision:
    """The number formats as told, else as the keeper of the states (`style`) has them."""
    compute = _word(values, "precision.compute", "bf16")
    own_weights = style in ("fsdp", "ddp")
    master_word = _word(values, "precision.master", "")
    weight, master = _weights(compute, master_word, own_weights)
    gradient = weight if own_weights else _gradient_bytes(values, compute, weight, style)
    reduce = _BYTES.get(_word(values, "precision.reduce", ""), gradient if style != "fsdp" else 2.0)
    state = _BYTES.get(_word(values, "optimizer.state_dtype", ""), weight if master_word == "none" else 4.0)
    moments = moment_bytes(_word(values, "optimizer.name", "adam"), state)
    kept = not values.get("optimizer.in_backward")
    return Precision(compute, weight, gradient, reduce, master, moments, frozen_bytes(values), kept)


def frozen_bytes(values: Values) -> float:
    """Bytes of a weight that does not train: nf4 with its quantization constants 0.5 + 0.016 to 0.06 (QLoRA, section
    3)."""
    stored = _word(values, "precision.frozen", _word(values, "precision.compute", "bf16"))
    return {"nf4": 0.52, "int8": 1.0, "fp32": 4.0}.get(stored, 2.0)


def _weights(compute: str, master_word: str, own_weights: bool) -> tuple[float, float]:
    """Bytes of a weight as the model holds it, and of the optimizer's copy of it."""
    if compute == "fp32":
        return 4.0, 0.0
    if master_word == "none":
        return 2.0, 0.0
    return (_BYTES.get(master_word, 4.0), 0.0) if own_weights else (2.0, _BYTES.get(master_word, 4.0))


def _gradient_bytes(values: Values, compute: str, weight: float, style: str) -> float:
    """As told; else Megatron accumulates bf16 gradients in fp32 (arguments.py), also above DeepSpeed's bf16 optimizer,
    and elsewhere gradients have the format of the weights."""
    if compute == "bf16" and values.get("framework") == "megatron-deepspeed":
        return 4.0
    usual = 4.0 if style == "megatron" and compute not in ("fp16", "fp32") else weight
    return _BYTES.get(_word(values, "precision.gradients", ""), usual)


def moment_bytes(optimizer: str, state: float) -> float:
    """Bytes that an optimizer keeps per parameter beside the weights, with numbers of `state` bytes unless it stores
    them in fewer bits: 8 (Dettmers et al. 2022) or 4, each block with a scale of its own."""
    name = optimizer.lower().replace("_", "").replace("-", "")
    kept = 2.0
    if "adafactor" in name or "lomo" in name:
        kept = 0.05
    elif "lion" in name or "muon" in name or "sgd" in name or "mini" in name:
        kept = 1.0
    elif "galore" in name or "apollo" in name or "badam" in name:  # moments of a low rank, or of one block at a time
        kept = 0.25
    narrow = next((bits for bits in ("8bit", "4bit") if bits in name), "")
    return kept * (constants.NARROW_STATE_BYTES[narrow] if narrow else state)


def _schedule(values: Values, layout: Layout) -> Schedule:
    recomputed = values.get("checkpointing.layers")
    return Schedule(
        kind=_word(values, "schedule.kind", "interleaved" if layout.chunks > 1 else "1f1b"),
        recompute=_word(values, "checkpointing.activations", "none"),
        recomputed_layers=recomputed if isinstance(recomputed, int) and recomputed > 0 else None,
        overlap_gradients=bool(values.get("overlap.gradients")),
        overlap_parameters=bool(values.get("overlap.parameters")),
        overlap_tensor=bool(values.get("overlap.tensor")),
        overlap_pipeline=bool(values.get("overlap.pipeline")) and layout.chunks > 1,
        flash=bool(values.get("attention.flash")),
        dispatcher=_word(values, "communication.moe_dispatcher", "alltoall"),
        offload=bool(values.get("checkpointing.offload")),
    )


def _machine(values: Values, known: Values, layout: Layout) -> Machine:
    found = gpu(_word(values, "cluster.gpu", "")) or gpu(str(term("cluster.gpu").typical))
    assert found is not None, "the vocabulary's typical GPU is in the catalog"
    family = family_of(found.name)
    per_node = max(1, min(_count(values, "cluster.gpus_per_node", found.gpus_per_node), layout.world))
    told = known if "cluster.internode_gbit_per_s" in known else values
    gbit = _amount(told, "cluster.internode_gbit_per_s", family.network_gbit_per_s)
    if gbit == term("cluster.internode_gbit_per_s").typical and "cluster.internode_gbit_per_s" not in known:
        gbit = family.network_gbit_per_s
    gigabytes = _amount(known, "cluster.intranode_gb_per_s", found.intranode_gb_per_s or 25.0)
    memory = _amount(values, "cluster.gpu_memory_gib", found.memory_gib)
    return Machine(
        found,
        family,
        per_node,
        max(per_node, _count(values, "cluster.nvlink_domain", per_node)),
        gigabytes * 1e9,
        gbit * 1e9 / 8,
        memory * 2**30,
    )


@cache
def family_of(gpu_name: str) -> Family:
    """The generation of a GPU by the catalog's name of it."""
    return constants.FAMILIES.get(gpu_name.split("-")[0], constants.USUAL_FAMILY)


def _count(values: Values, name: str, otherwise: int) -> int:
    found = values.get(name)
    return int(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else otherwise


def _amount(values: Values, name: str, otherwise: float) -> float:
    found = values.get(name)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0 else otherwise


def _word(values: Values, name: str, otherwise: str) -> str:
    found = values.get(name)
    return found if isinstance(found, str) and found else otherwise
