"""The keys of nanotron's config, and how a user writes a setting there."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Reading
from dtlint.frameworks.dotted_keys import spelled
from dtlint.value import Plain

_SHAPE = "model.model_config"

NAMES: Mapping[str, tuple[str, ...]] = {
    "parallel.data": ("parallelism.dp",),
    "parallel.tensor": ("parallelism.tp",),
    "parallel.pipeline": ("parallelism.pp",),
    "parallel.context": ("parallelism.context_parallel_size",),
    "parallel.expert": ("parallelism.expert_parallel_size",),
    "parallel.sequence": ("parallelism.tp_mode",),
    "overlap.tensor": ("parallelism.tp_linear_async_communication",),
    "schedule.kind": ("parallelism.pp_engine",),
    "checkpointing.activations": ("parallelism.recompute_layer",),
    "batch.micro": ("tokens.micro_batch_size",),
    "batch.accumulation": ("tokens.batch_accumulation_per_replica",),
    "data.sequence_length": ("tokens.sequence_length",),
    "run.steps": ("tokens.train_steps",),
    "sharding.stage": ("optimizer.zero_stage",),
    "optimizer.clip": ("optimizer.clip_grad",),
    "optimizer.name": ("optimizer.optimizer_factory.name",),
    "precision.compute": ("model.dtype",),
    "precision.gradients": ("optimizer.accumulate_grad_in_fp32",),
    "communication.bucket_bytes": ("model.ddp_bucket_cap_mb",),
    "model.layers": (f"{_SHAPE}.num_hidden_layers",),
    "model.hidden": (f"{_SHAPE}.hidden_size",),
    "model.ffn": (f"{_SHAPE}.intermediate_size",),
    "model.heads": (f"{_SHAPE}.num_attention_heads",),
    "model.kv_heads": (f"{_SHAPE}.num_key_value_heads",),
    "model.vocab": (f"{_SHAPE}.vocab_size",),
    "model.tied_embeddings": (f"{_SHAPE}.tie_word_embeddings",),
    "model.experts": (f"{_SHAPE}.moe_config.num_experts", f"{_SHAPE}.moe_num_experts"),
    "model.experts_per_token": (f"{_SHAPE}.moe_config.top_k", f"{_SHAPE}.num_experts_per_tok"),
}
"""The keys of each setting by their dotted paths, today's first."""

_WORDS: Mapping[str, Mapping[Plain, str]] = {
    "parallel.sequence": {True: "REDUCE_SCATTER", False: "ALL_REDUCE"},
    "schedule.kind": {"1f1b": "1f1b", "gpipe": "afab"},
    "checkpointing.activations": {"full": "true", "none": "false"},
    "precision.compute": {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"},
    "precision.gradients": {"fp32": "true", "bf16": "false"},
    "sharding.stage": {0: "0", 1: "1"},
}


def spell_in(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting as the config has it (`parallelism.tp: 8`); None for what it has no key for."""
    if setting not in NAMES:
        return None
    words = _WORDS.get(setting)
    text = words.get(value) if words is not None else _plain(setting, value)
    return None if text is None else spelled(reading, setting, NAMES[setting], text, ": ")


def _plain(setting: str, value: Plain) -> str:
    if setting == "communication.bucket_bytes" and isinstance(value, (int, float)):
        return str(round(value / MIB))
    return str(value).lower() if isinstance(value, bool) else str(value)


MIB = 1 << 20
"""Bytes of the unit that a bucket is written in."""
