"""DeepSpeed configs and launches as people write them, put together from a fixed seed: what the oracle asks about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

Config = dict[str, Any]
"""A config's content; every function here returns a new one."""

VERSION = "0.19.8"
"""The release that is asked, and that dtlint is told."""

CONFIG = "ds_config.json"

TRAIN = """\
import argparse

import deepspeed
import torch
from net import Net, loader

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
model = Net()
engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
for batch, target in loader():
    loss = torch.nn.functional.cross_entropy(engine(batch), target)
    engine.backward(loss)
    engine.step()
"""
"""A script that hands the file to DeepSpeed as it is, so that nobody fills "auto"."""


class Launch(NamedTuple):
    """A launch command, the number of ranks that it starts, and the further files and settings that it needs."""

    command: str
    world: int
    files: Mapping[str, str] = {}
    settings: Mapping[str, int] = {}


_GIVEN = f"train.py --deepspeed --deepspeed_config {CONFIG}"

LAUNCHES = (
    Launch(f"deepspeed --num_gpus 8 {_GIVEN}", 8),
    Launch(f"deepspeed --num_gpus=4 --master_port 29600 {_GIVEN}", 4),
    Launch(f"deepspeed --include localhost:0,1 {_GIVEN}", 2),
    Launch(f"deepspeed --num_gpus 1 {_GIVEN}", 1),
    Launch(f"deepspeed --hostfile hostfile {_GIVEN}", 16, {"hostfile": "worker-1 slots=8\nworker-2 slots=8\n"}),
    Launch(f"deepspeed {_GIVEN}", 8, settings={"parallel.world_size": 8}),
    Launch(f"torchrun --standalone --nproc_per_node 8 {_GIVEN}", 8),
    Launch(f"torchrun --nnodes 4 --nproc_per_node 8 --node_rank $RANK --master_addr $MASTER {_GIVEN}", 32),
    Launch(f"torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=node1:29500 {_GIVEN}", 8),
    Launch(f"python -m torch.distributed.run --nproc_per_node=6 {_GIVEN}", 6),
)


_ZERO: tuple[Config | bool | None, ...] = (
    None,
    True,
    {"stage": 0},
    {"stage": 1},
    {"stage": "1"},
    {"stage": 1, "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8, "round_robin_gradients": True},
    {"stage": 1, "offload_optimizer": {"device": "cpu"}},
    {"stage": 2, "overlap_comm": True, "contiguous_gradients": True},
    {"stage": 2, "allgather_partitions": True, "allgather_bucket_size": 2e8, "overlap_comm": True,
     "reduce_scatter": True, "reduce_bucket_size": 2e8, "contiguous_gradients": True},
    {"stage": 2, "cpu_offload": True, "overlap_comm": False},
    {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "reduce_bucket_size": 50000000},
    {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 5}},
    {"stage": 2, "use_multi_rank_bucket_allreduce": False, "ignore_unused_parameters": False},
    {"stage": 2, "reduce_bucket_size": "200000000", "overlap_comm": "true"},
    {"stage": 2, "compute_grad_norm": False},
    {"stage": 3},
    {"stage": 3.0, "overlap_comm": False},
    {"stage": 3, "stage3_param_persistence_threshold": 1e4, "stage3_max_live_parameters": 3e7,
     "stage3_prefetch_bucket_size": 3e7, "memory_efficient_linear": False, "sub_group_size": 1e9},
    {"stage": 3, "prefetch_bucket_size": 5e7, "param_persistence_threshold": 1e5, "max_live_parameters": 1e9,
     "max_reuse_distance": 1e9, "gather_16bit_weights_on_model_save": True},
    {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True}, "offload_optimizer": {"device": "cpu"},
     "stage3_gather_fp16_weights_on_model_save": True},
    {"stage": 3, "cpu_offload": True, "cpu_offload_param": True, "cpu_offload_use_pin_memory": True},
    {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "pipeline_read": True,
                                       "pipeline_write": True, "fast_init": False},
     "offload_param": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 5, "buffer_size": 1e8,
                       "max_in_cpu": 1e9}},
    {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.4, "cpuadam_cores_perc": 0.9}},
    {"stage": 3, "zero_hpz_partition_size": 8, "zero_quantized_weights": True, "zero_quantized_gradients": True},
    {"stage": 3, "leaf_module": {"classes": ["Block"], "names": "experts"}, "module_granularity_threshold": 1000},
    {"stage": 3, "offload_param": {"device": "none"}, "offload_optimizer": {"device": "none", "pin_memory": True}},
    {"stage": 1, "zenflow": {"topk_ratio": 0.05, "select_strategy": "epoch", "select_interval": 1,
                             "update_interval": 4, "overlap_step": True}},
    {"stage": 2, "offload_param": {"device": "cpu"}, "stage3_prefetch_bucket_size": 5e7},
)  # fmt: skip

_FP16 = {"enabled": True, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000, "hysteresis": 2}

_PRECISION: tuple[Config, ...] = (
    {},
    {"fp16": {"enabled": True}},
    {"fp16": {**_FP16, "min_loss_scale": 1}},
    {"fp16": {"enabled": True, "loss_scale": 128, "loss_scale_window": 0}},
    {"fp16": {"enabled": "true", "auto_cast": True, "loss_scale": "1024"}},
    {"fp16": {"enabled": False}},
    {"bf16": {"enabled": True}},
    {"bf16": {"enabled": True, "immediate_grad_update": True, "check_grad_overflow": False}},
    {"bfloat16": {"enabled": True}},
    {"fp16": {"enabled": False}, "bf16": {"enabled": True}},
    {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    {"bf16": {"enabled": True}, "communication_data_type": "fp32"},
    {"fp16": {"enabled": True}, "communication_data_type": "BF16"},
    {"torch_autocast": {"enabled": True, "dtype": "bfloat16", "lower_precision_safe_modules": ["torch.nn.Linear"]}},
)

_ADAM = {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}}

_OPTIMIZER: tuple[Config, ...] = (
    {},
    {"optimizer": _ADAM},
    {"optimizer": {"type": "AdamW", "params": {"lr": 2e-5, "weight_decay": 0.01, "torch_adam": True}}},
    {"optimizer": {"type": "Lamb", "params": {"lr": 11e-3, "max_coeff": 0.3, "min_coeff": 0.01}}},
    {"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}, "zero_allow_untested_optimizer": True},
    {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}, "zero_allow_untested_optimizer": True},
    {"optimizer": {"type": "Muon", "params": {"lr": 1e-3}, "legacy_fusion": False}},
    {"optimizer": _ADAM, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.001}}},
    {"optimizer": _ADAM, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000}}},
    {"optimizer": _ADAM, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3}}},
)

_MORE: tuple[Config, ...] = (
    {"steps_per_print": 100},
    {"steps_per_print": 2000, "wall_clock_breakdown": False},
    {"gradient_clipping": 1.0},
    {"gradient_clipping": 0},
    {"prescale_gradients": False, "gradient_predivide_factor": 1.0},
    {"gradient_allreduce_op": "MEAN"},
    {"zero_force_ds_cpu_optimizer": False},
    {"dataloader_drop_last": True},
    {"dump_state": False, "memory_breakdown": False, "disable_allgather": False},
    {"activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": False,
                                  "number_checkpoints": 4, "contiguous_memory_optimization": True}},
    {"flops_profiler": {"enabled": False, "profile_step": 5, "module_depth": -1, "top_modules": 3, "detailed": True,
                        "output_file": None}},
    {"comms_logger": {"enabled": False, "verbose": False, "prof_all": True, "debug": False, "prof_ops": []}},
    {"tensorboard": {"enabled": True, "output_path": "output/", "job_name": "train"}},
    {"wandb": {"enabled": True, "group": "a", "team": "b", "project": "c"}},
    {"csv_monitor": {"enabled": True, "output_path": "logs"}, "comet": {"enabled": False, "project": "p"}},
    {"aio": {"block_size": 1048576, "queue_depth": 16, "single_submit": False, "overlap_events": True}},
    {"aio": {"thread_count": 1, "block_size": 262144}},
    {"checkpoint": {"tag_validation": "Ignore", "load_universal": False, "use_node_local_storage": True,
                    "parallel_write": {"pipeline_stage": False}}},
    {"pipeline": {"stages": "auto", "partition": "best", "activation_checkpoint_interval": 1}},
    {"timers": {"throughput": {"enabled": True, "synchronized": False}}},
    {"compile": {"deepcompile": False, "passes": ["z3"], "double_buffer": True}},
    {"hybrid_engine": {"enabled": False, "max_out_tokens": 512, "inference_tp_size": 1}},
    {"data_efficiency": {"enabled": True, "seed": 1234, "data_sampling": {"enabled": False}}},
    {"seq_parallel_communication_data_type": "bf16", "use_data_before_expert_parallelism": True},
    {"autotuning": {"enabled": False, "fast": True, "arg_mappings": {"train_batch_size": "--batch"}}},
    {"expert_parallel": {"enabled": False, "autoep_size": 4, "preset_model": "mixtral"}},
    {"vocabulary_size": 50257, "log_level": "info", "disable_python_gc": True},
    {"my_own_section": {"lr": 1.0}, "_comment": "kept for the sweep"},
)  # fmt: skip


def launch_of(number: int) -> Launch:
    """The launch that goes with the config of a number."""
    return LAUNCHES[number % len(LAUNCHES)]


def valid_config(number: int) -> Config:
    """A config that DeepSpeed takes on as many ranks as the launch of this number starts."""
    pick = Random(f"config {number}")
    zero = _ZERO[number % len(_ZERO)]
    config = dict(batch(pick, launch_of(number).world))
    config |= {} if zero is None else {"zero_optimization": zero}
    config |= pick.choice(_PRECISION) | pick.choice(_OPTIMIZER)
    for more in pick.sample(_MORE, pick.randint(1, 5)):
        config |= more
    return deepcopy(config)


def batch(pick: Random, world: int) -> Config:
    """Batch keys that multiply out: all three, two of them, or one."""
    micro, accumulation = pick.choice((1, 2, 3, 4, 8, 16)), pick.choice((1, 1, 2, 4, 5, 8))
    kind = pick.choice(("all", "global and micro", "global and steps", "micro and steps", "micro", "global"))
    whole = {
        "train_batch_size": micro * accumulation * world,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulation,
    }
    names = {"global": "train_batch_size", "micro": "train_micro_batch_size_per_gpu"}
    wanted = {names.get(word, "gradient_accumulation_steps") for word in kind.split(" and ")}
    return {key: value for key, value in whole.items() if kind == "all" or key in wanted}


def without_batch(config: Config) -> Config:
    """The config without its batch keys."""
    keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    return {key: value for key, value in config.items() if key not in keys}


def with_value(config: Config, path: str, value: object) -> Config:
    """The config with a value at a dotted path; sections on the way are made where there is no object."""
    changed = deepcopy(config)
    *sections, name = path.split(".")
    place = changed
    for section in sections:
        if not isinstance(place.get(section), dict):
            place[section] = {}
        place = place[section]
    place[name] = value
    return changed


def text_of(config: Config, number: int) -> str:
    """The config as a file; every third is written as hjson allows it, with a comment and a last comma."""
    text = json.dumps(config, indent=2)
    return text.replace("\n}", ",  // as measured\n}") + "\n" if number % 3 == 2 else text + "\n"
