"""How a user writes a setting for DeepSpeed: in its config file, or on its launcher's command line."""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.value import Plain

_KEYS = {
    "batch.global": "train_batch_size",
    "batch.micro": "train_micro_batch_size_per_gpu",
    "batch.accumulation": "gradient_accumulation_steps",
    "data.drop_last": "dataloader_drop_last",
    "optimizer.clip": "gradient_clipping",
    "optimizer.name": "optimizer.type",
    "precision.reduce": "communication_data_type",
    "precision.gradients": "data_types.grad_accum_dtype",
    "sharding.stage": "zero_optimization.stage",
    "sharding.group": "zero_optimization.zero_hpz_partition_size",
    "sharding.offload_optimizer": "zero_optimization.offload_optimizer.device",
    "sharding.offload_parameters": "zero_optimization.offload_param.device",
    "overlap.gradients": "zero_optimization.overlap_comm",
    "overlap.parameters": "zero_optimization.overlap_comm",
    "overlap.tensor": "tensor_parallel.tp_overlap_comm",
    "communication.bucket_bytes": "zero_optimization.reduce_bucket_size",
    "communication.whole_buckets": "zero_optimization.contiguous_gradients",
    "parallel.tensor": "tensor_parallel.autotp_size",
    "parallel.ulysses": "sequence_parallel_size",
    "parallel.expert": "expert_parallel.autoep_size",
}

_FLAGS = {
    "launch.nodes": "--num_nodes",
    "launch.processes_per_node": "--num_gpus",
    "launch.node_rank": "--node_rank",
    "launch.rendezvous_host": "--master_addr",
}

_GRADIENT_BYTES = 2
"""A bucket is written in elements; gradients of the usual 16-bit formats have two bytes."""


_PREFETCH = "stage3_prefetch_bucket_size"


def key_of(setting: str) -> str | None:
    """The dotted path of the config key that writes a setting, None if DeepSpeed has none."""
    return _KEYS.get(setting)


def spell(setting: str, value: Plain) -> str | None:
    """A setting as DeepSpeed's config has it (`"overlap_comm": true` in zero_optimization) or its launcher's flag.

    None for what DeepSpeed has no word for.
    """
    if setting in _FLAGS:
        return f"{_FLAGS[setting]} {value}"
    if setting == "sharding.prefetch" and value != "none":
        return _fetched(_PREFETCH)
    if setting == "precision.compute":
        return f'"{value}": {{"enabled": true}}' if value in ("fp16", "bf16") else None
    path = _KEYS.get(setting)
    if path is None:
        return None
    section, _, key = path.rpartition(".")
    return f'"{key}": {json_text(value_of(setting, value))}' + (f" in {section}" if section else "")


def spell_in(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting as a config would have it: the prefetch by each of the keys that switch it off there, in a copy of one
    that a tool brings along.
    """
    if setting != "sharding.prefetch" or value == "none":
        return spell(setting, value)
    told = [claim.name for claim in reading.claims if claim.setting == setting]
    names = (name.rpartition(".")[2] for name in told)
    brought = next((f" of a copy of {name.partition(':')[0]}" for name in told if ":" in name), "")
    return _fetched(*([name for name in names if _default(name) is not None] or [_PREFETCH])) + brought


def _fetched(*keys: str) -> str:
    return ", ".join(f'"{key}": {_default(key)}' for key in keys) + " in zero_optimization"


def _default(key: str) -> str | None:
    """What DeepSpeed takes for a stage-3 key that is not written, by its own name or the one without `stage3_`; None
    for what is no key of its.
    """
    from dtlint.catalog import deepspeed_keys

    return next((row.default for row in deepspeed_keys() if row.name in (key, f"stage3_{key}")), None)


def value_of(setting: str, value: Plain) -> Plain:
    """What stands in the file for a setting's value."""
    if setting == "communication.bucket_bytes" and isinstance(value, (int, float)):
        return int(value) // _GRADIENT_BYTES
    return value


def json_text(value: Plain) -> str:
    """A value as JSON writes it."""
    import json

    return json.dumps(value)
