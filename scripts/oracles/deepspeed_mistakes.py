"""Mistakes that people make in DeepSpeed configs: where, and what they write there."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from oracles.deepspeed_configs import Config, with_value, without_batch


class Mistake(NamedTuple):
    """Values to write at dotted paths, and the kind of the mistake."""

    kind: str
    values: tuple[tuple[str, Any], ...]

    @property
    def title(self) -> str:
        """The values in short, to tell questions apart."""
        return ", ".join(f"{path}={value!r}" for path, value in self.values)

    def made_in(self, config: Config) -> Config:
        """The config with this mistake in it."""
        for path, value in self.values:
            config = with_value(config, path, value)
        return config


_WRONG_VALUES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("zero_optimization", (None, "stage2", 2, ["stage", 2])),
    ("zero_optimization.stage", (4, -1, "4", "two", 2.5, None, [2])),
    ("zero_optimization.contiguous_gradients", ("maybe", 2, None)),
    ("zero_optimization.overlap_comm", ("sometimes", 3, [])),
    ("zero_optimization.reduce_bucket_size", ("5e8", 0, -1, 0.5, None, "500M", {"size": 1})),
    ("zero_optimization.allgather_bucket_size", ("2e8", -5, 1.5)),
    ("zero_optimization.sub_group_size", ("1e9", -1)),
    ("zero_optimization.stage3_prefetch_bucket_size", ("5e7", -1, "0.9 * h * h")),
    ("zero_optimization.stage3_max_live_parameters", ("1e9", -1)),
    ("zero_optimization.stage3_max_reuse_distance", ("1e9", None)),
    ("zero_optimization.param_persistence_threshold", ("1e5", -10)),
    ("zero_optimization.stage3_gather_16bit_weights_on_model_save", ("always", 5)),
    ("zero_optimization.zero_hpz_partition_size", (-1, 2.5, "node")),
    ("zero_optimization.zero_quantized_weights", ("int8", 8)),
    ("zero_optimization.offload_optimizer", ("cpu", True, ["cpu"])),
    ("zero_optimization.offload_optimizer.device", ("gpu", "CPU", "disk", None, True)),
    ("zero_optimization.offload_optimizer.pin_memory", ("pinned", None)),
    ("zero_optimization.offload_optimizer.buffer_count", ("four", -1)),
    ("zero_optimization.offload_optimizer.nvme_path", (5,)),
    ("zero_optimization.offload_optimizer.ratio", (1.5, -0.1)),
    ("zero_optimization.offload_optimizer.cpuadam_cores_perc", (90, "80%")),
    ("zero_optimization.offload_param", ("nvme", False)),
    ("zero_optimization.offload_param.device", ("NVMe", "ssd")),
    ("zero_optimization.offload_param.buffer_size", ("1e8", -1)),
    ("zero_optimization.zenflow.topk_ratio", (1.0, 0)),
    ("zero_optimization.zenflow.select_strategy", ("best",)),
    ("zero_optimization.zenflow.update_interval", (0, "often")),
    ("zero_optimization.leaf_module.classes", (5,)),
    ("fp16", (True, "auto", None)),
    ("fp16.enabled", ("maybe", 2, None)),
    ("fp16.loss_scale", (-1, "dynamic", True)),
    ("fp16.initial_scale_power", ("16.5", 12.5)),
    ("fp16.hysteresis", ("two", None)),
    ("fp16.loss_scale_window", ("many", True)),
    ("bf16", (True, False)),
    ("bf16.enabled", ("bf16", 16)),
    ("train_batch_size", ("64", [64], 0, -8)),
    ("train_micro_batch_size_per_gpu", ("4", 0, -2)),
    ("gradient_accumulation_steps", (0, -1, "2")),
    ("wall_clock_breakdown", ("yes", None)),
    ("steps_per_print", ("10",)),
    ("gradient_clipping", ("1.0",)),
    ("gradient_predivide_factor", ("2",)),
    ("communication_data_type", ("float16", "int8", 16)),
    ("gradient_allreduce_op", ("avg", 1)),
    ("optimizer", ("AdamW", ["AdamW"], None)),
    ("optimizer.type", (5,)),
    ("scheduler", ("WarmupLR", True)),
    ("activation_checkpointing", (True,)),
    ("flops_profiler", (True, False)),
    ("pipeline", (4,)),
    ("checkpoint", ("out",)),
    ("checkpoint.tag_validation", ("Never", False)),
    ("checkpoint.writer.type", ("zip",)),
    ("data_types.keep_in_fp32_modules", ("norm", [1])),
    ("tensorboard.enabled", ("maybe",)),
    ("tensorboard.output_path", (None, 1)),
    ("wandb.project", (7,)),
    ("csv_monitor", (True,)),
    ("comms_logger.prof_ops", ("all_reduce",)),
    ("compile.deepcompile", ("on-demand",)),
    ("compile.passes", (["z2"], "z3")),
    ("hybrid_engine.max_out_tokens", (0,)),
    ("tensor_parallel.autotp_size", ("two", 1.5)),
    ("tensor_parallel.vocab_parallel_ce_backend", ("cuda",)),
    ("timers", (True,)),
    ("timers.throughput.enabled", ("sure",)),
    ("torch_autocast.dtype", ("bf8",)),
    ("expert_parallel.load_balance_coeff", (0.01,)),
    ("autotuning.results_dir", ("",)),
)

ODD_VALUES: tuple[tuple[str, Any], ...] = (
    ("zero_optimization.stage", True),
    ("zero_optimization.stage", "3.0"),
    ("zero_optimization.stage", 1.0),
    ("zero_optimization.reduce_bucket_size", True),
    ("zero_optimization.reduce_bucket_size", " 1000 "),
    ("zero_optimization.reduce_bucket_size", "5.0"),
    ("zero_optimization.reduce_bucket_size", 5e7),
    ("zero_optimization.overlap_comm", 1.0),
    ("zero_optimization.overlap_comm", "YES"),
    ("zero_optimization.overlap_comm", None),
    ("zero_optimization.offload_optimizer", None),
    ("zero_optimization.offload_optimizer", {}),
    ("zero_optimization.offload_optimizer.nvme_path", None),
    ("zero_optimization.zenflow", None),
    ("zero_optimization.round_robin_gradients", "off"),
    ("bf16", None),
    ("aio", None),
    ("fp16.loss_scale", "128"),
    ("train_batch_size", 64.0),
    ("gradient_accumulation_steps", None),
    ("steps_per_print", None),
    ("memory_breakdown", "false"),
    ("data_types.grad_accum_dtype", "float32"),
    ("data_types.keep_in_fp32_modules", ["norm"]),
    ("checkpoint.tag_validation", "FAIL"),
    ("zero_optimisation", {"stage": 3}),
    ("activation_checkpointing.partitioned_activations", True),
    ("tensor_parallel.tensor_parallel", {"tp_size": 1}),
    ("weight_quantization.num_bits", 4),
    ("zero_optimization.reduce_bucket_size", "auto"),
    ("zero_optimization.offload_optimizer", "auto"),
    ("zero_optimization.stage", "auto"),
    ("bf16.enabled", "auto"),
)
"""What DeepSpeed takes, or ignores, without a word."""

_UNKNOWN: tuple[tuple[str, Any], ...] = (
    ("zero_optimization.overlap_com", True),
    ("zero_optimization.overlap_communication", True),
    ("zero_optimization.allgather_bucket", 5e8),
    ("zero_optimization.reduce_bucketsize", 5e8),
    ("zero_optimization.bucket_size", 5e8),
    ("zero_optimization.contigious_gradients", True),
    ("zero_optimization.contiguous_gradient", True),
    ("zero_optimization.zero_stage", 2),
    ("zero_optimization.enabled", True),
    ("zero_optimization.grad_hooks", True),
    ("zero_optimization.aio", {"block_size": 1048576}),
    ("zero_optimization.stage3_gather_bf16_weights_on_model_save", True),
    ("zero_optimization.stage3_prefetch_bucket", 5e7),
    ("zero_optimization.stage3_reduce_bucket_size", 5e8),
    ("zero_optimization.offload_optimiser", {"device": "cpu"}),
    ("zero_optimization.offload_params", {"device": "cpu"}),
    ("zero_optimization.offload_parameters", {"device": "cpu"}),
    ("zero_optimization.hpz_partition_size", 8),
    ("zero_optimization.quantized_weights", True),
    ("zero_optimization.gradient_accumulation_steps", 2),
    ("zero_optimization._comment", "stage by stage"),
    ("zero_optimization.//", "a note"),
    ("zero_optimization.offload_optimizer.pinned_memory", True),
    ("zero_optimization.offload_optimizer.max_in_cpu", 1e9),
    ("zero_optimization.offload_optimizer.path", "/nvme"),
    ("zero_optimization.offload_optimizer.pipeline", True),
    ("zero_optimization.offload_param.pipeline_read", True),
    ("zero_optimization.offload_param.max_in_gpu", 1e9),
    ("zero_optimization.zenflow.topk", 0.1),
    ("zero_optimization.leaf_module.modules", ["Block"]),
    ("fp16.dynamic_loss_scale", True),
    ("fp16.opt_level", "O2"),
    ("fp16.scale_window", 1000),
    ("fp16.initial_loss_scale_power", 16),
    ("fp16.fp16_opt_level", "O1"),
    ("bf16.loss_scale", 0),
    ("bf16.initial_scale_power", 16),
    ("bf16.min_loss_scale", 1),
    ("bfloat16.enable", True),
    ("tensorboard.path", "logs"),
    ("wandb.entity", "team"),
    ("wandb.name", "run"),
    ("csv_monitor.path", "logs"),
    ("comet.project_name", "p"),
    ("comms_logger.enable", True),
    ("tensor_parallel.size", 2),
    ("tensor_parallel.tp.size", 2),
    ("compile.enabled", True),
    ("compile.backend", "inductor"),
    ("hybrid_engine.max_tokens", 512),
    ("timers.throughput.sync", False),
    ("weight_quantization.bits", 8),
)

_AUTO = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
)

_AUTO_PARAMETERS = (
    ("optimizer", {"type": "AdamW", "params": {"lr": "auto", "weight_decay": 0.1}}),
    ("optimizer", {"type": "Adam", "params": {"lr": 3e-4, "weight_decay": "auto"}}),
    ("scheduler", {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4, "warmup_num_steps": "auto"}}),
    ("scheduler", {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_num_steps": 10}}),
)

_REMOVED: tuple[tuple[str, Any], ...] = (
    ("nebula", {"enabled": True, "persistent_storage_path": "/ckpt"}),
    ("nebula", {"enabled": False}),
    ("compression_training", {"weight_quantization": {"shared_parameters": {"enabled": True}}}),
    ("compression_training", {}),
    ("amp", {"enabled": True, "opt_level": "O1"}),
    ("amp", {"enabled": False}),
    ("quantize_training", {"enabled": False}),
    ("sparse_gradients", True),
    ("sparse_gradients", False),
    ("eigenvalue", {"enabled": False}),
    ("sparse_attention", {"mode": "fixed", "block": 16}),
    ("elasticity", {"enabled": True, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}),
    ("elasticity", {"enabled": False}),
    ("graph_harvesting", True),
    ("curriculum_learning", {"enabled": True, "curriculum_type": "seqlen"}),
    ("curriculum_learning", {"enabled": False}),
    ("progressive_layer_drop", {"enabled": True, "theta": 0.5, "gamma": 0.001}),
    ("zero_optimization.mics_shard_size", 8),
    ("zero_optimization.mics_shard_size", -1),
    ("zero_optimization.mics_hierarchical_params_gather", False),
    ("zero_optimization.zeropp_loco_param", {"err_beta": 0.8, "reset_T": 1024}),
)

_NAMED_TWICE: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("zero_optimization.cpu_offload", True), ("zero_optimization.offload_optimizer", {"device": "cpu"})),
    (("zero_optimization.cpu_offload", False), ("zero_optimization.offload_optimizer", {"device": "none"})),
    (("zero_optimization.cpu_offload_param", True), ("zero_optimization.offload_param", {"device": "cpu"})),
    (("zero_optimization.prefetch_bucket_size", 5e7), ("zero_optimization.stage3_prefetch_bucket_size", 5e7)),
    (("zero_optimization.stage3_max_live_parameters", 1e9), ("zero_optimization.max_live_parameters", 1e8)),
    (("zero_optimization.max_reuse_distance", 1e9), ("zero_optimization.stage3_max_reuse_distance", 1e9)),
    (("zero_optimization.stage3_gather_fp16_weights_on_model_save", True),
     ("zero_optimization.stage3_gather_16bit_weights_on_model_save", True)),
    (("tensor_parallel.tp", {"tp_size": 1}), ("tensor_parallel.tensor_parallel", {"tp_size": 1})),
    (("tensor_parallel.kernel_inject", False), ("tensor_parallel.replace_with_kernel_inject", False)),
)  # fmt: skip

_TOGETHER: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("gradient_allreduce_op", "sum"), ("zero_optimization", {"stage": 3})),
    (("gradient_allreduce_op", "SUM"), ("zero_optimization", {"stage": 3, "overlap_comm": True})),
    (("gradient_allreduce_op", "sum"), ("zero_optimization", {"stage": 1, "zenflow": {"topk_ratio": 0.1}})),
    (("gradient_allreduce_op", "sum"), ("zero_optimization", {"stage": 1}), ("compile", {"deepcompile": True})),
    (("fp16", {"enabled": True, "fp16_master_weights_and_grads": True}), ("zero_optimization", {"stage": 0})),
    (("fp16.fp16_master_weights_and_grads", True), ("zero_optimization", False)),
    (("bf16", {"enabled": True, "bf16_master_weights_and_grads": True}), ("zero_optimization", {})),
    (("bf16.bf16_master_weights_and_grads", True), ("zero_optimization.stage", 0)),
    (("bf16", {"enabled": True, "bf16_optimizer_states": True}), ("zero_optimization", {"stage": 2})),
    (("bf16.bf16_optimizer_states", True), ("zero_optimization", {"stage": 1})),
    (("bf16", {"bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}),
     ("zero_optimization", {"stage": 0})),
    (("zero_optimization", {"stage": 3, "compute_grad_norm": False}),),
    (("zero_optimization", {"compute_grad_norm": False}),),
    (("zero_optimization", {"stage": 0, "compute_grad_norm": False}),),
    (("zero_optimization", {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}),),
    (("zero_optimization", {"stage": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.9}}),),
    (("zero_optimization", {"offload_optimizer": {"ratio": 0}}),),
    (("fp16", {"enabled": True, "loss_scale_window": 0}),),
    (("fp16", {"enabled": True, "loss_scale": 0, "loss_scale_window": -5}),),
    (("fp16", {"enabled": True, "min_loss_scale": 0}),),
    (("fp16", {"enabled": True, "loss_scale": 0, "min_loss_scale": -1}),),
    (("data_efficiency", {"enabled": True, "data_sampling": {"curriculum_learning": {"enabled": True}}}),),
)  # fmt: skip

_BOTH_FORMATS: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("fp16", {"enabled": True}), ("bf16", {"enabled": True})),
    (("fp16", {"enabled": True, "loss_scale": 0}), ("bf16", {"enabled": True, "check_grad_overflow": False})),
    (("fp16.enabled", True), ("bf16", {"enabled": True}), ("bfloat16", {"enabled": False})),
    (("fp16.enabled", True), ("bf16", {"enabled": False}), ("bfloat16", {"enabled": True})),
    (("bf16", {"enabled": "true"}), ("fp16", {"enabled": "true"})),
    (("bf16", {"enabled": 1}), ("fp16", {"enabled": True, "initial_scale_power": 12})),
)


def repeated(mistakes: list[Mistake], count: int) -> Iterator[Mistake]:
    """The mistakes again and again, until there are as many: each time they are made in another config."""
    for number in range(count):
        yield mistakes[number % len(mistakes)]


def mistakes() -> Iterator[Mistake]:
    """All mistakes but those of the batch and of the file's text."""
    yield from (Mistake("setting-type", ((path, value),)) for path, values in _WRONG_VALUES for value in values)
    yield from (Mistake("unknown-setting", ((path, value),)) for path, value in _UNKNOWN)
    yield from repeated([Mistake("auto-without-filler", ((path, "auto"),)) for path in _AUTO], 26)
    yield from (Mistake("auto-without-filler", (value,)) for value in _AUTO_PARAMETERS)
    yield from repeated([Mistake("removed-or-renamed", ((path, value),)) for path, value in _REMOVED], 36)
    yield from repeated([Mistake("named-twice", values) for values in _NAMED_TWICE], 30)
    yield from repeated([Mistake("settings-exclude-each-other", values) for values in _TOGETHER], 33)
    yield from repeated([Mistake("both-formats", values) for values in _BOTH_FORMATS], 30)


def triple_mismatch(pick: Random, config: Config, world: int) -> Config:
    """All three batch keys, and they do not multiply out: another number of ranks, or a slip of the pen."""
    micro, accumulation = pick.choice((1, 2, 4, 8, 12)), pick.choice((1, 2, 4, 8))
    right = micro * accumulation * world
    wrong = [
        size for size in (micro * accumulation, right * 2, right + micro, right - 1, 1028) if size not in (0, right)
    ]
    keys = {"train_batch_size": pick.choice(wrong), "train_micro_batch_size_per_gpu": micro}
    return {**without_batch(config), **keys, "gradient_accumulation_steps": accumulation}


def not_divisible(pick: Random, config: Config, world: int) -> Config:
    """A global batch that its micro batch, its accumulation or the ranks do not divide."""
    given = pick.choice(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
    size = pick.choice((2, 3, 4, 8))
    step = size * world
    rest = pick.choice([1, step // 2, step - 1, step + 1, 3 * step + step // 2])
    return {**without_batch(config), "train_batch_size": rest, given: size}


def missing(pick: Random, config: Config) -> Config:
    """Neither a global nor a micro batch."""
    steps = pick.choice((None, 1, 4, 16))
    return {**without_batch(config), **({} if steps is None else {"gradient_accumulation_steps": steps})}


def broken_text(pick: Random, text: str) -> str:
    """A text with one mistake in it that hjson does not forgive."""
    lines = text.splitlines(keepends=True)
    keys = [number for number, line in enumerate(lines) if line.rstrip().endswith(",") and '": ' in line]
    kind = pick.choice(("twice", "twice", "never closed", "closed twice", "no colon", "two commas", "quote"))
    at = pick.choice(keys)
    if kind == "twice":
        lines.insert(pick.choice([number for number in keys if _depth(lines[number]) == _depth(lines[at])]) + 1, "")
        lines[at] = lines[at] * 2
    elif kind == "never closed":
        lines[-1] = lines[-1].replace("}", "")
    elif kind == "closed twice":
        lines[-1] += "}\n"
    elif kind == "no colon":
        lines[at] = lines[at].replace('": ', '" ', 1)
    elif kind == "two commas":
        lines[at] = lines[at].rstrip() + ",\n"
    else:
        lines[at] = lines[at].replace('": ', ": ", 1)
    return "".join(lines)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
