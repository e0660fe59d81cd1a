"""The keys of NeMo's configs, and how a user writes a setting there."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Reading
from dtlint.frameworks.dotted_keys import spelled
from dtlint.value import Plain

NEMO_MARKS = ("nemo.collections", "nemo import", "nemo_run", "megatron.bridge")
"""Texts of which a program that builds NeMo 2's or Megatron-Bridge's configs holds one."""


def _degree(name: str) -> tuple[str, ...]:
    """A key of the model's section in NeMo 1, of the strategy's in NeMo 2."""
    return (f"model.{name}", f"strategy.{name}", f"trainer.strategy.{name}")


def _batch(name: str) -> tuple[str, ...]:
    """A key of the model's section in NeMo 1 (of its data in finetuning), of others in NeMo 2 and Megatron-Bridge."""
    return (f"model.{name}", f"model.data.train_ds.{name}", f"data.{name}", f"train.{name}")


NAMES: Mapping[str, tuple[str, ...]] = {
    "parallel.tensor": _degree("tensor_model_parallel_size"),
    "parallel.pipeline": _degree("pipeline_model_parallel_size"),
    "parallel.virtual_pipeline": _degree("virtual_pipeline_model_parallel_size"),
    "parallel.context": _degree("context_parallel_size"),
    "parallel.expert": _degree("expert_model_parallel_size"),
    "parallel.expert_tensor": _degree("expert_tensor_parallel_size"),
    "parallel.sequence": _degree("sequence_parallel"),
    "batch.micro": _batch("micro_batch_size"),
    "batch.global": _batch("global_batch_size"),
    "data.sequence_length": (
        "model.encoder_seq_length",
        "model.data.seq_length",
        "data.seq_length",
        "model.seq_length",
    ),
    "model.layers": ("model.num_layers",),
    "model.hidden": ("model.hidden_size",),
    "model.ffn": ("model.ffn_hidden_size",),
    "model.heads": ("model.num_attention_heads",),
    "model.kv_heads": ("model.num_query_groups",),
    "model.head_dim": ("model.kv_channels",),
    "model.tied_embeddings": ("model.share_embeddings_and_output_weights",),
    "model.experts": ("model.num_moe_experts",),
    "model.experts_per_token": ("model.moe_router_topk",),
    "model.expert_ffn": ("model.moe_ffn_hidden_size",),
    "model.shared_expert_ffn": ("model.moe_shared_expert_intermediate_size",),
    "communication.moe_dispatcher": ("model.moe_token_dispatcher_type",),
    "parallel.context_exchange": ("model.cp_comm_type",),
    "checkpointing.activations": ("model.activations_checkpoint_granularity",),
    "checkpointing.layers": ("model.activations_checkpoint_num_layers",),
    "checkpointing.unit": ("model.activations_checkpoint_num_layers",),
    "overlap.tensor": ("model.ub_tp_comm_overlap",),
    "overlap.pipeline": ("model.overlap_p2p_comm",),
    "overlap.gradients": ("model.optim.overlap_grad_sync",),
    "overlap.parameters": ("model.optim.overlap_param_sync",),
    "optimizer.name": ("model.optim.name", "optim.config.optimizer"),
    "optimizer.clip": ("trainer.gradient_clip_val", "optim.config.clip_grad"),
    "precision.compute": ("trainer.precision", "plugins.precision", "trainer.plugins.precision"),
    "launch.nodes": ("trainer.num_nodes",),
    "launch.processes_per_node": ("trainer.devices",),
    "run.steps": ("trainer.max_steps",),
}
"""The keys of each setting by their dotted paths, that of NeMo 1 first."""

_LIGHTNING: Mapping[str, tuple[str, ...]] = {
    "batch.micro": ("model.train_ds.batch_size",),
    "batch.accumulation": ("trainer.accumulate_grad_batches",),
    "communication.find_unused": ("trainer.strategy",),
    "precision.compute": NAMES["precision.compute"],
    "optimizer.clip": NAMES["optimizer.clip"],
    "launch.nodes": NAMES["launch.nodes"],
    "launch.processes_per_node": NAMES["launch.processes_per_node"],
    "run.steps": NAMES["run.steps"],
}
"""The keys of models that DDP copies to every GPU."""

_WORDS: Mapping[str, Mapping[Plain, str]] = {
    "checkpointing.activations": {"none": "null", "selective": "selective", "full": "full"},
    "communication.find_unused": {True: "ddp_find_unused_parameters_true", False: "ddp"},
    "precision.compute": {"bf16": "bf16", "fp16": "16", "fp32": "32"},
    "sharding.stage": {0: "fused_adam", 1: "distributed_fused_adam"},
}


def spell_in(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting as the config has it (`model.tensor_model_parallel_size: 8`), or the override on the command line;
    None for what neither has a key for.
    """
    names = {**NAMES, "sharding.stage": NAMES["optimizer.name"]} if reading.framework == "nemo" else _LIGHTNING
    if setting not in names:
        return None
    words = _WORDS.get(setting)
    text = _plain(value) if words is None else words.get(value)
    return None if text is None else spelled(reading, setting, names[setting], text, ": ")


def _plain(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
