"""The keys of torchtitan's config, and how a user writes a setting there."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Reading
from dtlint.frameworks.dotted_keys import spelled, written_name
from dtlint.value import Plain, Value

NAMES: Mapping[str, tuple[str, ...]] = {
    "parallel.tensor": ("parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"),
    "parallel.pipeline": ("parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"),
    "parallel.context": ("parallelism.context_parallel_degree", "experimental.context_parallel_degree"),
    "parallel.expert": ("parallelism.expert_parallel_degree", "experimental.expert_parallel_degree"),
    "parallel.expert_tensor": ("parallelism.expert_tensor_parallel_degree",),
    "sharding.group": (
        "parallelism.data_parallel_shard_degree",
        "training.data_parallel_shard_degree",
        "training.data_parallel_degree",
    ),
    "sharding.instances": ("parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"),
    "sharding.offload_optimizer": ("training.enable_cpu_offload",),
    "sharding.offload_parameters": ("training.enable_cpu_offload",),
    "sharding.reshard_after_forward": (
        "parallelism.fsdp_reshard_after_forward",
        "training.fsdp_reshard_after_forward",
    ),
    "schedule.kind": ("parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"),
    "batch.micro": ("training.local_batch_size", "training.batch_size"),
    "batch.global": ("training.global_batch_size",),
    "data.sequence_length": ("training.seq_len", "training.max_context_length"),
    "run.steps": ("training.steps",),
    "precision.compute": ("training.mixed_precision_param",),
    "precision.reduce": ("training.mixed_precision_reduce",),
    "precision.master": ("training.dtype",),
    "optimizer.name": ("optimizer.name",),
    "optimizer.clip": ("training.max_norm",),
    "checkpointing.activations": ("activation_checkpoint.mode",),
    "overlap.tensor": (
        "parallelism.enable_async_tensor_parallel",
        "compile.enable_async_tensor_parallel",
        "experimental.enable_async_tensor_parallel",
    ),
    "launch.timeout_seconds": ("comm.train_timeout_seconds",),
}
"""The keys of each setting by their dotted paths: that of v0.2 first, then those of earlier releases."""

REGISTRY_ROLE = "torchtitan-module"
"""The role of a module of config functions."""

TOKENS = "training.num_tokens_per_microbatch_per_dp_rank"
"""Main's key for the tokens of a rank's forward pass."""
STEP_TOKENS = "training.num_tokens_per_train_step"

PART = "parallelism.pipeline_parallel_microbatch_size"
"""The key for the samples of a pipeline's micro-batch."""

_WORDS: Mapping[str, Mapping[Plain, str]] = {
    "sharding.reshard_after_forward": {True: '"always"', False: '"never"'},
    "sharding.offload_optimizer": {"cpu": "true", "none": "false"},
    "sharding.offload_parameters": {"cpu": "true", "none": "false"},
    "schedule.kind": {
        "1f1b": '"1F1B"',
        "gpipe": '"GPipe"',
        "interleaved": '"Interleaved1F1B"',
        "zbv": '"ZBVZeroBubble"',
    },
    "precision.compute": {"bf16": '"bfloat16"', "fp32": '"float32"'},
    "precision.reduce": {"fp32": '"float32"'},
    "precision.master": {"bf16": '"bfloat16"', "fp32": '"float32"'},
    "checkpointing.activations": {"none": '"none"', "selective": '"selective"', "full": '"full"'},
}


def spell_in(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting as the config has it (`parallelism.tensor_parallel_degree = 8`), or the command line where it stands
    there; None for what neither has a key for.

    The micro-batches of a pipeline are parts of the local batch, so that it is the local batch which grows with the
    global one.
    """
    if setting == "batch.accumulation":
        return _accumulation(reading, value)
    if setting not in NAMES:
        return None
    if setting in _IN_TOKENS and written_name(reading, "batch.micro").endswith(TOKENS):
        return _tokens(reading, setting, value)
    words = _WORDS.get(setting)
    text = _plain(value) if words is None else words.get(value)
    if text is None:
        return None
    if setting == "batch.global" and written_name(reading, "parallel.pipeline"):
        return f"training.local_batch_size x DP = {text}"
    names = NAMES[setting]
    if setting == "batch.micro" and written_name(reading, "parallel.pipeline"):
        names = (PART,)
    return spelled(reading, setting, names, text, " = ")


_IN_TOKENS = {"batch.micro": TOKENS, "batch.global": STEP_TOKENS}


def _tokens(reading: Reading, setting: str, value: Plain) -> str | None:
    """A number of sequences as the tokens that main counts."""
    length = next((claim.value for claim in reading.claims if claim.setting == "data.sequence_length"), None)
    if not isinstance(length, Value) or not isinstance(length.value, int) or not isinstance(value, int):
        return None
    return f"{_IN_TOKENS[setting]} = {value * length.value}"


def _accumulation(reading: Reading, value: Plain) -> str | None:
    """The micro-batches of a step as the local batch that holds them; without a pipeline the global batch decides."""
    parts = next((claim.value for claim in reading.claims if claim.setting == "batch.micro"), None)
    if written_name(reading, "batch.micro").endswith(TOKENS):
        return f"parallelism.num_pp_microbatches = {value}" if written_name(reading, "parallel.pipeline") else None
    if not written_name(reading, "parallel.pipeline") or not isinstance(parts, Value) or not isinstance(value, int):
        return None
    return f"training.local_batch_size = {value * int(str(parts.value))}"


def _plain(value: Plain) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
