"""The keys of NeMo's configs, and how a user writes a setting there."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Reading
from dtlint.frameworks.dotted_keys import spelled, written_name
from dtlint.value import Plain


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
    "communication.moe_dispatcher": ("model.moe_token_dispatcher_type",),
    "checkpointing.activations": ("model.activations_checkpoint_granularity",),
    "checkpointing.layers": ("model.activations_checkpoint_num_layers",),
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

_WORDS: Mapping[str, Mapping[Plain, str]] = {
    "checkpointing.activations": {"none": "null", "selective": "selective", "full": "full"},
    "precision.compute": {"bf16": "bf16", "fp16": "16", "fp32": "32"},
}


def spell_in(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting as the config has it (`model.tensor_model_parallel_size: 8`), or the override on the command line;
    None for what neither has a key for.
    """
    ours = setting in NAMES and (reading.framework == "nemo" or setting.startswith(("launch.", "precision.", "run.")))
    if not ours and not written_name(reading, setting):
        return None
    words = _WORDS.get(setting)
    text = str(value).lower() if words is None and isinstance(value, bool) else str(value)
    text = text if words is None else words.get(value, "")
    return spelled(reading, setting, NAMES.get(setting, ("",))[0], text, ": ") if text else None
