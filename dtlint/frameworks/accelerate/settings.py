"""What Accelerate's keys say about the plan; its config file and its command line share their names."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.accelerate import fsdp as accelerate_fsdp
from dtlint.frameworks.accelerate.given import Given, by_default, one, other, switched, whole
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number, word
from dtlint.languages.json_tree import setting
from dtlint.source import Span

FAMILIES = {
    "MULTI_GPU": "ddp", "MULTI_NPU": "ddp", "MULTI_MLU": "ddp", "MULTI_SDAA": "ddp", "MULTI_MUSA": "ddp",
    "MULTI_XPU": "ddp", "MULTI_HPU": "ddp", "MULTI_NEURON": "ddp", "FSDP": "fsdp", "DEEPSPEED": "deepspeed",
    "MEGATRON_LM": "megatron", "NO": "pytorch",
}  # fmt: skip
"""The framework that a distributed_type stands for; CPUs and TPUs have none here."""

_FORMATS = {"no": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}


def common(given: Given) -> Iterator[Claim]:
    """How many processes start where, and the format that they compute in. num_processes counts those of all machines;
    -1 leaves it to the command line.
    """
    for claim in whole(given, "num_processes", "launch.processes"):
        if known(claim.value) != -1:
            yield claim
    yield from whole(given, "num_machines", "launch.nodes")
    yield from whole(given, "machine_rank", "launch.node_rank")
    yield from _named_gpus(given)
    address = given.node("main_process_ip")
    if address is not None:
        yield Claim("launch.rendezvous_host", setting(address), given.spelled("main_process_ip"))
    compute = given.node("mixed_precision")
    if compute is not None:
        name = "no" if compute.value is False else str(compute.value).lower()
        value = setting(compute, _FORMATS[name]) if name in _FORMATS else other(compute, "a precision")
        yield Claim("precision.compute", value, given.spelled("mixed_precision"))


def _named_gpus(given: Given) -> Iterator[Claim]:
    """The GPUs of gpu_ids, which become CUDA_VISIBLE_DEVICES whatever that was before (accelerate 1.2.1
    utils/launch.py).
    """
    node = given.node("gpu_ids")
    if node is None or given.known("use_cpu") is True or node.kind not in ("string", "unknown"):
        return
    numbers = {part.strip() for part in str(node.value).split(",") if part.strip()}
    if node.kind == "string" and node.value != "all" and numbers:
        yield Claim("launch.named_gpus", setting(node, len(numbers)), given.spelled("gpu_ids"))
    elif node.kind == "unknown":
        yield Claim("launch.named_gpus", setting(node), given.spelled("gpu_ids"))


def family(given: Given, framework: str) -> Iterator[Claim]:
    """What the keys of a framework's section claim; of every section where the framework is not known ("")."""
    for name, read in (("fsdp", accelerate_fsdp.fsdp), ("deepspeed", _deepspeed), ("megatron", _megatron)):
        if framework in (name, ""):
            yield from read(given)
    if framework in ("fsdp", "deepspeed", "ddp", ""):
        yield from _degrees(given)


def absent(given: Given, framework: str, place: Span) -> Iterator[Claim]:
    """What Accelerate takes for keys that are not written, where the framework's own default differs or hangs on it.
    `place` is where such a key would be written.
    """
    if framework == "fsdp":
        told = any(name.startswith("fsdp_") for name in given.nodes if name != "fsdp_config")
        yield from accelerate_fsdp.absent(given, place) if told else accelerate_fsdp.by_plugin(place)
    if framework == "ddp":
        yield Claim("sharding.stage", by_default(0, place), "distributed_type")
    if framework == "deepspeed" and given.node("deepspeed_config_file") is None and given.node("zero_stage") is None:
        yield Claim("sharding.stage", by_default(2, place), "zero_stage")


# DeepSpeed


def _deepspeed(given: Given) -> Iterator[Claim]:
    yield from whole(given, "zero_stage", "sharding.stage")
    yield from whole(given, "gradient_accumulation_steps", "batch.accumulation")
    yield from one(given, "gradient_clipping", "optimizer.clip", number)
    stage = given.known("zero_stage")
    if stage not in (0, "0"):
        yield from one(given, "offload_optimizer_device", "sharding.offload_optimizer", word)
    yield from one(given, "offload_param_device", "sharding.offload_parameters", word)
    if stage in (None, 3, "3"):
        yield from switched(given, "zero3_init_flag", "loading.whole_copies", "none", "all")


# Megatron-LM


def _megatron(given: Given) -> Iterator[Claim]:
    for name, setting_name in _MEGATRON_COUNTS.items():
        yield from whole(given, f"megatron_lm_{name}", setting_name)
    yield from one(given, "megatron_lm_gradient_clipping", "optimizer.clip", number)
    yield from one(given, "megatron_lm_sequence_parallelism", "parallel.sequence", flag)
    yield from switched(given, "megatron_lm_use_distributed_optimizer", "sharding.stage", 1, 0)
    for claim in switched(given, "megatron_lm_recompute_activations", "checkpointing.activations", "selective", ""):
        if known(claim.value) != "":
            yield claim
    yield from one(given, "megatron_lm_recompute_granularity", "checkpointing.activations", word)
    counted = _RECOMPUTED.get(str(given.known("megatron_lm_recompute_method")))
    if counted is not None:
        yield from whole(given, "megatron_lm_recompute_num_layers", counted)
    yield from switched(given, "megatron_lm_optimizer_cpu_offload", "sharding.offload_optimizer", "cpu", "none")


_MEGATRON_COUNTS = {
    "tp_degree": "parallel.tensor",
    "pp_degree": "parallel.pipeline",
    "num_micro_batches": "batch.accumulation",
    "context_parallel_size": "parallel.context",
    "expert_model_parallel_size": "parallel.expert",
    "expert_tensor_parallel_size": "parallel.expert_tensor",
}
_RECOMPUTED = {"block": "checkpointing.layers", "uniform": "checkpointing.unit"}
"""What the number of layers beside a method of recomputation is: of a stage, or recomputed together."""


# Degrees

_DEGREES = {"tp": "parallel.tensor", "cp": "parallel.context", "sp": "parallel.ulysses"}


def _degrees(given: Given) -> Iterator[Claim]:
    """The sizes of a parallelism config. What is not written is 1, so that the data-parallel size is decided too;
    all of them 1 stand for plain data parallelism, and DeepSpeed's sequence parallelism is not held to the product.
    """
    for name, setting_name in _DEGREES.items():
        yield from whole(given, f"parallelism_config_{name}_size", setting_name)
    names = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
    sizes = {name: degree(given, name) for name in names}
    replicas, shards = sizes["dp_replicate"], sizes["dp_shard"]
    if replicas is None or shards is None or sizes["sp"] != 1 or all(size == 1 for size in sizes.values()):
        return
    at = next(
        (
            node
            for name in names
            if (node := given.node(f"parallelism_config_{name}_size")) is not None and node.value != 1
        ),
        None,
    )
    if at is not None:
        yield Claim("parallel.data", setting(at, replicas * shards), given.spelled("parallelism_config_dp_shard_size"))
    if at is not None and replicas > 1 and sizes["cp"] is not None:
        name = "parallelism_config_dp_shard_size"
        yield Claim("sharding.group", setting(given.node(name) or at, shards * sizes["cp"]), given.spelled(name))


def degree(given: Given, axis: str) -> int | None:
    """A size of the parallelism config, 1 where it is not written; None where it is not known."""
    node = given.node(f"parallelism_config_{axis}_size")
    value = 1 if node is None else known(whole_number(node))
    return value if isinstance(value, int) and not isinstance(value, bool) else None
