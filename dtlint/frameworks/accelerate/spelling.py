"""How a user writes a setting for Accelerate: in its config file, or on the command line of `accelerate launch`."""

from __future__ import annotations

from dtlint.value import Plain

_KEYS = {
    "launch.processes": "num_processes",
    "launch.nodes": "num_machines",
    "launch.node_rank": "machine_rank",
    "launch.rendezvous_host": "main_process_ip",
    "sharding.stage": "zero_stage",
    "sharding.offload_optimizer": "offload_optimizer_device",
    "sharding.offload_parameters": "offload_param_device",
    "batch.accumulation": "gradient_accumulation_steps",
    "optimizer.clip": "gradient_clipping",
    "parallel.tensor": "parallelism_config_tp_size",
    "parallel.context": "parallelism_config_cp_size",
    "parallel.ulysses": "parallelism_config_sp_size",
}

_WORDS: dict[str, tuple[str, dict[Plain, str]]] = {
    "framework": (
        "distributed_type",
        {"ddp": "MULTI_GPU", "fsdp": "FSDP", "deepspeed": "DEEPSPEED", "megatron": "MEGATRON_LM", "pytorch": "NO"},
    ),
    "precision.compute": ("mixed_precision", {"fp32": "no", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}),
    "sharding.units": ("fsdp_auto_wrap_policy", {"wrapped": "TRANSFORMER_BASED_WRAP", "none": "NO_WRAP"}),
    "sharding.prefetch": (
        "fsdp_backward_prefetch",
        {"backward_pre": "BACKWARD_PRE", "backward_post": "BACKWARD_POST", "none": "NO_PREFETCH"},
    ),
    "sharding.reshard_after_forward": ("fsdp_reshard_after_forward", {True: "true", False: "false"}),
}

_LOADING: dict[str, tuple[str, dict[Plain, str]]] = {
    "fsdp": ("fsdp_cpu_ram_efficient_loading", {"first": "true", "all": "false"}),
    "deepspeed": ("zero3_init_flag", {"none": "true", "all": "false"}),
}

_FSDP: dict[str, tuple[str, dict[Plain, str]]] = {
    "sharding.stage": ("fsdp_sharding_strategy", {3: "FULL_SHARD", 2: "SHARD_GRAD_OP", 0: "NO_SHARD"}),
    "sharding.offload_optimizer": ("fsdp_offload_params", {"cpu": "true", "none": "false"}),
    "sharding.offload_parameters": ("fsdp_offload_params", {"cpu": "true", "none": "false"}),
    "checkpointing.activations": ("fsdp_activation_checkpointing", {"full": "true", "none": "false"}),
}

_MEGATRON = {
    "parallel.tensor": "megatron_lm_tp_degree",
    "parallel.pipeline": "megatron_lm_pp_degree",
    "parallel.context": "megatron_lm_context_parallel_size",
    "parallel.expert": "megatron_lm_expert_model_parallel_size",
    "batch.accumulation": "megatron_lm_num_micro_batches",
}

_FLAGS = {"MULTI_GPU": "--multi_gpu", "FSDP": "--use_fsdp", "DEEPSPEED": "--use_deepspeed"}


def spell_in_file(setting: str, value: Plain, framework: str) -> str | None:
    """`key: value` as the config file has it; None for a setting that it has no key for."""
    found = _written(setting, value, framework)
    return f"{found[0]}: {found[1]}" if found is not None else None


def spell_on_command_line(setting: str, value: Plain, framework: str) -> str | None:
    """`--key value` as the command has it; None for a setting that it has no option for."""
    found = _written(setting, value, framework)
    if found is None:
        return None
    key, text = found
    return _FLAGS.get(text) if key == "distributed_type" else f"--{key} {text}"


def _written(setting: str, value: Plain, framework: str) -> tuple[str, str] | None:
    """The key and the value as text."""
    worded = _LOADING.get(framework) if setting == "loading.whole_copies" else _WORDS.get(setting)
    if framework not in ("deepspeed", "megatron"):
        worded = _FSDP.get(setting, worded)
    if worded is not None:
        key, words = worded
        return (key, words[value]) if value in words else None
    name = _MEGATRON.get(setting) if framework == "megatron" else _KEYS.get(setting)
    return None if name is None else (name, str(value).lower() if isinstance(value, bool) else str(value))
