"""How a user writes a setting for the Hugging Face Trainer: the arguments of its command line."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.value import Plain

_MIB = 1 << 20

_SPELLINGS: Mapping[str, str] = {
    "batch.micro": "--per_device_train_batch_size",
    "batch.accumulation": "--gradient_accumulation_steps",
    "optimizer.clip": "--max_grad_norm",
    "optimizer.name": "--optim",
    "launch.timeout_seconds": "--ddp_timeout",
    "communication.find_unused": "--ddp_find_unused_parameters",
    "data.drop_last": "--dataloader_drop_last",
    "data.sequence_length": "--model_max_length",
    "parallel.ulysses": "--sequence_parallel_size",
    "parallel.rollout": "--vllm_tensor_parallel_size",
    "run.steps": "--max_steps",
}
_WORDS: Mapping[tuple[str, Plain], str] = {
    ("precision.compute", "bf16"): "--bf16 True",
    ("precision.compute", "fp16"): "--fp16 True",
    ("checkpointing.activations", "full"): "--gradient_checkpointing True",
    ("checkpointing.activations", "none"): "--gradient_checkpointing False",
    (
        "checkpointing.placement",
        "inside",
    ): '"activation_checkpointing": true in --fsdp_config, no --gradient_checkpointing',
    ("sharding.stage", 3): '--fsdp "full_shard auto_wrap"',
    ("sharding.stage", 2): '--fsdp "shard_grad_op auto_wrap"',
    ("sharding.units", "wrapped"): '--fsdp "full_shard auto_wrap"',
    ("sharding.offload_parameters", "cpu"): '--fsdp "full_shard auto_wrap offload"',
    ("sharding.offload_optimizer", "cpu"): '--fsdp "full_shard auto_wrap offload"',
}


_NOT_DEEPSPEEDS = (
    "communication.bucket_bytes",
    "communication.find_unused",
    "sharding.stage",
    "sharding.units",
    "sharding.offload_parameters",
    "sharding.offload_optimizer",
)
"""Settings whose arguments speak to DDP or FSDP; DeepSpeed has them in its own config."""


def spell(setting: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the Trainer's command line has it, None for what it has no argument for.

    `framework` is the one that carries the training out, "" where that is not known.
    """
    if framework == "deepspeed" and setting in _NOT_DEEPSPEEDS:
        return None
    if (setting, value) in _WORDS:
        return _WORDS[setting, value]
    if setting == "communication.bucket_bytes" and isinstance(value, (int, float)):
        return f"--ddp_bucket_cap_mb {value / _MIB:g}"
    flag = _SPELLINGS.get(setting)
    return f"{flag} {value}" if flag is not None else None
