"""What Accelerate is asked: a launch script and a config as `accelerate config` writes it, or one with a mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

from oracles import Question, with_mutants

Keys = dict[str, object]

EACH = 30
"""Questions with one mistake in each kind, at least."""

PROGRAM = """from accelerate import Accelerator

accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(*built())
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
"""
SERVER = "10.1.0.7"

FILE_STAGES = (1, 2, 3)


class Case(NamedTuple):
    """A launch: its config file (None for none), the flags before the program, and DeepSpeed's file if it names one."""

    keys: Mapping[str, object] | None
    flags: tuple[str, ...] = ()
    deepspeed: Mapping[str, object] | None = None


def questions() -> list[Question]:
    """Valid launches first, then one list of mutants for each mistake that Accelerate checks."""
    return with_mutants(list(_valid()), _KINDS, _question)


def _question(name: str, kind: str, case: Case) -> Question:
    named = () if case.keys is None else ("--config_file", "acc.yaml")
    words = ("accelerate", "launch", *named, *case.flags, "train.py", "--epochs", "3")
    files = {"launch.sh": f"#!/bin/bash\n{' '.join(words)}\n", "train.py": PROGRAM}
    if case.keys is not None:
        files["acc.yaml"] = _yaml(case.keys)
    if case.deepspeed is not None:
        files["ds.json"] = json.dumps(case.deepspeed, indent=2)
    return Question(name, kind, files, {})


def _yaml(keys: Mapping[str, object]) -> str:
    import yaml

    return str(yaml.safe_dump(dict(keys), sort_keys=True))


# Valid launches


def _config(kind: str, processes: object, machines: int = 1, precision: object = "bf16", **sections: object) -> Keys:
    """A config as `accelerate config` writes it."""
    several = {"main_process_ip": SERVER, "main_process_port": 29500} if machines > 1 else {}
    return {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": kind,
        "downcast_bf16": "no",
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": precision,
        "num_machines": machines,
        "num_processes": processes,
        "rdzv_backend": "static",
        "same_network": True,
        "tpu_env": [],
        "use_cpu": False,
        **several,
        **sections,
    }


def _valid() -> Iterator[Case]:
    yield from _data_parallel()
    yield from _first_fsdp()
    yield from _second_fsdp()
    yield from _deepspeed_keys()
    yield from _deepspeed_file()
    yield from _degrees()
    yield from _flags_only()
    yield from _flags_over_file()


def _data_parallel() -> Iterator[Case]:
    for (machines, processes), precision in product(((1, 2), (1, 8), (2, 16), (4, 32)), ("no", "fp16", "bf16")):
        yield Case(_config("MULTI_GPU", processes, machines, precision))
    yield Case(_config("NO", 1, 1, "no"))
    yield Case(_config("MULTI_GPU", 4, gpu_ids="0,1,2,3"))
    yield Case({"distributed_type": "MULTI_GPU", "num_processes": 4})


def _first_fsdp() -> Iterator[Case]:
    strategies = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
    prefetches = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
    for index, (strategy, prefetch) in enumerate(product(strategies, prefetches)):
        size = index % 3 == 2
        policy = {"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 20000} if size else {
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
        }  # fmt: skip
        section = {
            **policy,
            "fsdp_backward_prefetch": prefetch,
            "fsdp_cpu_ram_efficient_loading": index % 2 == 0,
            "fsdp_forward_prefetch": False,
            "fsdp_offload_params": index % 4 == 1,
            "fsdp_sharding_strategy": strategy,
            "fsdp_state_dict_type": ("FULL_STATE_DICT", "SHARDED_STATE_DICT")[index % 2],
            "fsdp_sync_module_states": True,
            "fsdp_use_orig_params": True,
            "fsdp_activation_checkpointing": index % 5 == 0,
        }
        yield Case(_config("FSDP", 8, fsdp_config=section))
    yield Case(_config("FSDP", 8, precision="fp16", fsdp_config={"fsdp_sharding_strategy": "1"}))
    yield Case(_config("FSDP", 16, 2, fsdp_config={"fsdp_auto_wrap_policy": "NO_WRAP", "fsdp_version": 1}))


def _second(**more: object) -> Keys:
    return {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": False,
        "fsdp_reshard_after_forward": True,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        **more,
    }


def _second_fsdp() -> Iterator[Case]:
    for reshard, offload, recompute in product((True, False), (True, False), (True, False)):
        section = _second(
            fsdp_reshard_after_forward=reshard, fsdp_offload_params=offload, fsdp_activation_checkpointing=recompute
        )
        yield Case(_config("FSDP", 8, fsdp_config=section))
    yield Case(_config("FSDP", 16, 2, fsdp_config=_second(fsdp_state_dict_type="FULL_STATE_DICT")))
    yield Case(_config("FSDP", 8, fsdp_config=_second(fsdp_sharding_strategy="FULL_SHARD")))


def _zero(stage: int, **more: object) -> Keys:
    third = {"zero3_init_flag": True, "zero3_save_16bit_model": True} if stage == 3 else {"zero3_init_flag": False}
    devices = {"offload_optimizer_device": "none", "offload_param_device": "none"}
    return {"gradient_accumulation_steps": 1, "zero_stage": stage, **devices, **third, **more}


def _deepspeed_keys() -> Iterator[Case]:
    for stage, accumulation, clip in product((0, 1, 2, 3), (1, 4), (0.3, 1.0)):
        section = _zero(stage, gradient_accumulation_steps=accumulation, gradient_clipping=clip)
        yield Case(_config("DEEPSPEED", 8, precision=("bf16", "fp16")[accumulation == 4], deepspeed_config=section))
    yield Case(_config("DEEPSPEED", 8, deepspeed_config=_zero(2, offload_optimizer_device="cpu")))
    offloads = {"offload_optimizer_device": "cpu", "offload_param_device": "cpu"}
    yield Case(_config("DEEPSPEED", 8, deepspeed_config=_zero(3, **offloads)))
    several = _zero(3, deepspeed_multinode_launcher="standard")
    yield Case(_config("DEEPSPEED", 16, 2, deepspeed_config=several))
    yield Case(_config("DEEPSPEED", 32, 4, deepspeed_config=several))


def _json(stage: int, **more: object) -> Keys:
    return {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, "overlap_comm": True, "contiguous_gradients": True},
        **more,
    }


def _file_section(**more: object) -> Keys:
    return {"deepspeed_config_file": "ds.json", "zero3_init_flag": True, **more}


def _by_file(processes: int, deepspeed: Keys, machines: int = 1, **more: object) -> Case:
    keys = _config("DEEPSPEED", processes, machines, deepspeed_config=_file_section(**more))
    del keys["mixed_precision"]
    return Case(keys, (), deepspeed)


def _deepspeed_file() -> Iterator[Case]:
    for stage, processes in product(FILE_STAGES, (4, 8)):
        yield _by_file(processes, _json(stage))
    yield _by_file(8, _json(3, gradient_accumulation_steps="auto", gradient_clipping="auto"))
    yield _by_file(16, _json(2), 2, deepspeed_multinode_launcher="standard")


def _sizes(**sizes: int) -> Keys:
    return {f"parallelism_config_{axis}_size": size for axis, size in sizes.items()}


_PRODUCTS: tuple[tuple[int, Keys], ...] = (
    (8, _sizes(dp_replicate=1, dp_shard=8, tp=1, cp=1)),
    (8, _sizes(dp_replicate=2, dp_shard=4, tp=1, cp=1)),
    (8, _sizes(dp_replicate=1, dp_shard=2, tp=4, cp=1)),
    (8, _sizes(dp_replicate=1, dp_shard=4, tp=2)),
    (16, _sizes(dp_replicate=2, dp_shard=2, tp=2, cp=2)),
    (16, _sizes(dp_replicate=1, dp_shard=4, tp=1, cp=4)),
    (4, _sizes(dp_shard=2, cp=2)),
)


def _degrees() -> Iterator[Case]:
    for processes, sizes in _PRODUCTS:
        yield Case(_config("FSDP", processes, fsdp_config=_second(), parallelism_config=sizes))


def _flags_only() -> Iterator[Case]:
    yield Case(None, ("--multi_gpu", "--num_processes", "8"))
    yield Case(None, ("--multi_gpu", "--num_processes=4", "--mixed_precision=bf16"))
    yield Case(None, ("--multi-gpu", "--num-processes", "4", "--mixed-precision", "fp16"))
    machines = ("--num_machines", "2", "--num_processes", "16", "--machine_rank", "0", "--main_process_ip", SERVER)
    yield Case(None, ("--multi_gpu", *machines, "--main_process_port", "29501"))
    yield Case(None, ("--use_deepspeed", "--zero_stage", "3", "--num_processes", "8", "--mixed_precision", "bf16"))
    yield Case(None, ("--use_deepspeed", "--num_processes", "8", "--gradient_accumulation_steps", "4"))
    fsdp = ("--use_fsdp", "--num_processes", "8", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    yield Case(None, (*fsdp, "--fsdp_sharding_strategy", "SHARD_GRAD_OP"))
    yield Case(None, (*fsdp, "--fsdp_version", "2", "--fsdp_reshard_after_forward", "false"))
    yield Case(None, (*fsdp, "--fsdp_offload_params", "true", "--fsdp_use_orig_params", "false"))


def _flags_over_file() -> Iterator[Case]:
    keys = _config("MULTI_GPU", 8)
    yield Case(keys, ("--num_processes", "4"))
    yield Case(
        keys, ("--num_processes", "16", "--num_machines", "2", "--machine_rank", "1", "--main_process_ip", SERVER)
    )
    yield Case(keys, ("--mixed_precision", "fp16", "--main_process_port", "29511"))
    yield Case(_config("DEEPSPEED", 8, deepspeed_config=_zero(2)), ("--zero_stage", "3", "--num_processes", "4"))
    yield Case(_config("DEEPSPEED", 8, deepspeed_config=_zero(2)), ("--gradient_accumulation_steps", "16"))
    yield Case(_config("FSDP", 8, fsdp_config=_second()), ("--fsdp_reshard_after_forward", "false"))
    yield Case({key: value for key, value in keys.items() if key != "num_processes"}, ("--num_processes", "8"))


# Mistakes

Mutants = Iterator[Case]


def _pick(cases: Sequence[Case], random: Random, count: int = EACH) -> list[Case]:
    chosen = list(cases)
    random.shuffle(chosen)
    return (chosen * (count // max(1, len(chosen)) + 1))[:count]


def _with_file(valid: Sequence[Case]) -> list[Case]:
    return [case for case in valid if case.keys is not None]


def _of(valid: Sequence[Case], kind: str) -> list[Case]:
    return [case for case in _with_file(valid) if (case.keys or {})["distributed_type"] == kind]


def _changed(case: Case, **keys: object) -> Case:
    return case._replace(keys={**(case.keys or {}), **keys})


def _in_section(case: Case, section: str, **keys: object) -> Case:
    inner = (case.keys or {}).get(section)
    return _changed(case, **{section: {**(inner if isinstance(inner, dict) else {}), **keys}})


def _flagged(case: Case, *flags: str) -> Case:
    return case._replace(flags=(*case.flags, *flags))


_STRANGE_KEYS = (
    "num_process", "num_processess", "num_machine", "machine_ranks", "mixed_precison", "main_proces_ip", "master_port",
    "main_process_ports", "fsdp", "deepspeed", "fsdp_configs", "deepspeed_config_file", "zero_stage", "num_gpus",
    "gradient_accumulation_steps", "world_size", "nproc_per_node", "nnodes", "node_rank", "rdzv_endpoint", "backend",
    "fsdp_version", "use_fsdp", "use_deepspeed", "multi_gpu", "learning_rate", "tp_size", "parallelism", "bf16",
    "offload_optimizer_device", "same_networks", "distributed_types", "dynamo",
)  # fmt: skip


def _unknown_keys(valid: Sequence[Case], random: Random) -> Mutants:
    for name, case in zip(_STRANGE_KEYS, _pick(_with_file(valid), random, len(_STRANGE_KEYS)), strict=True):
        yield _changed(case, **{name: random.choice((1, 2, True, "auto"))})


_STRANGE_INNER = (
    "fsdp_sharding_stratgy", "fsdp_reshard_after_foward", "fsdp_auto_wrap", "sharding_strategies", "fsdp_cpu_offload",
    "fsdp_limit_all_gathers", "fsdp_use_orig_param", "fsdp_mixed_precision", "fsdp_transformer_cls_to_wrap",
    "fsdp_gradient_checkpointing", "my_own_key",
)  # fmt: skip


def _unknown_inner(valid: Sequence[Case], random: Random) -> Mutants:
    for name, case in zip(_STRANGE_INNER, _pick(_of(valid, "FSDP"), random, len(_STRANGE_INNER)), strict=True):
        yield _in_section(case, "fsdp_config", **{name: True})


_STRANGE_FLAGS = (
    "--num_process 8", "--nproc_per_node 8", "--nnodes 2", "--node_rank 0", "--master_addr 10.1.0.7", "--num_gpus 8",
    "--master_port 29500", "--rdzv_endpoint a:1", "--mixed_prec bf16", "--num_proc 8", "--machine_ran 0", "--fsdp",
    "--deepspeed ds.json", "--zero-stages 3", "--multigpu", "--gpus 8", "--main_process_por 29500", "--bf16",
    "--config acc.yaml", "--use_fsdp2", "--fsdp_auto_wrap TRANSFORMER_BASED_WRAP", "--fsdp_sharding FULL_SHARD",
    "--offload_optimizer cpu", "--dynamo no", "--gradient_accumulation 4", "--num-node 2", "--standalone",
    "--tp_size 2", "--parallelism_config_pp_size 2", "--use_deepspeed_config", "--zero3_init True",
    "--mixedprecision bf16",
)  # fmt: skip


def _unknown_flags(valid: Sequence[Case], random: Random) -> Mutants:
    for text, case in zip(_STRANGE_FLAGS, _pick(valid, random, len(_STRANGE_FLAGS)), strict=True):
        yield _flagged(case, *text.split())


_WRONG_FLAGS = (
    "--num_processes eight", "--num_processes 8.0", "--num_processes 4x", "--num_machines two", "--num_machines 1.5",
    "--machine_rank first", "--main_process_port auto", "--main_process_port 29500.5", "--mixed_precision bfloat16",
    "--mixed_precision float16", "--mixed_precision yes", "--mixed_precision BF16", "--mixed_precision fp32",
    "--fsdp_version 3", "--fsdp_version two", "--fsdp_version 2.0", "--zero_stage three", "--zero_stage 2.5",
    "--gradient_accumulation_steps auto", "--gradient_accumulation_steps 1.0", "--gradient_clipping auto",
    "--gradient_clipping yes", "--fsdp_min_num_params 1e8", "--fsdp_min_num_params auto", "--dynamo_backend fast",
    "--dynamo_mode turbo", "--max_restarts many", "--monitor_interval x", "--num_cpu_threads_per_process all",
    "--parallelism_config_tp_size x", "--parallelism_config_dp_shard_size auto", "--megatron_lm_tp_degree 1.0",
    "--parallelism_config_cp_backend nccl", "--parallelism_config_sp_backend torch", "--fp8_format fp8",
)  # fmt: skip


def _wrong_flags(valid: Sequence[Case], random: Random) -> Mutants:
    for text, case in zip(_WRONG_FLAGS, _pick(valid, random, len(_WRONG_FLAGS)), strict=True):
        yield _flagged(case, *text.split())


def _wrong_keys(valid: Sequence[Case], random: Random) -> Mutants:
    """Wrong kinds of values at the top level of the file."""
    values: tuple[tuple[str, object], ...] = (
        *(("mixed_precision", value) for value in ("fp32", "bfloat16", "float16", "amp", "yes", True, False, 16)),
        *(("distributed_type", value) for value in ("DDP", "fsdp", "DeepSpeed", "FSDP2", "GPU", "multi_gpu", "ZERO3")),
        *(("compute_environment", value) for value in ("LOCAL", "SLURM", "local_machine", "AWS")),
        *(("num_machines", value) for value in ("1", "two", "2", [1], 1.5)),
        *(("num_processes", value) for value in ("eight", "auto", "8", [8], 4.0)),
        *(("machine_rank", value) for value in ("0", "first")),
        *(("main_process_port", value) for value in ("29500", "auto", 29500.5)),
        *(("gpu_ids", value) for value in (0, 3, [0, 1, 2, 3], "all", "0")),
        ("fsdp_config", "fsdp.yaml"), ("deepspeed_config", "ds.json"), ("use_cpu", "false"), ("debug", "false"),
    )  # fmt: skip
    usable = [case for case in _of(valid, "MULTI_GPU") if not case.flags]
    for (name, value), case in zip(values, _pick(usable, random, len(values)), strict=True):
        yield _changed(case, **{name: value})


def _without(valid: Sequence[Case], random: Random) -> Mutants:
    """Keys that are needed."""
    for case in _pick([case for case in _with_file(valid) if not case.flags], random):
        name = random.choice(("distributed_type", "num_processes"))
        yield case._replace(keys={key: value for key, value in (case.keys or {}).items() if key != name})


def _wrong_fsdp(valid: Sequence[Case], random: Random) -> Mutants:
    """Wrong values in the section of FSDP1."""
    values: tuple[tuple[str, object], ...] = (
        *(("fsdp_sharding_strategy", value) for value in ("FULL", "ZERO3", "full-shard", 0, 6, "GRAD", "SHARD", True)),
        *(
            ("fsdp_auto_wrap_policy", value)
            for value in ("TRANSFORMER", "LlamaDecoderLayer", "SIZE", 1, "AUTO", "none")
        ),
        *(("fsdp_backward_prefetch", value) for value in ("PRE", "BACKWARD", 4, 0, "backward", "POST")),
        *(("fsdp_state_dict_type", value) for value in ("FULL", "SHARDED", "sharded", "FULL_STATE", 9)),
        *(("fsdp_offload_params", value) for value in ("cpu", "maybe", "none", 2)),
        *(("fsdp_use_orig_params", value) for value in ("auto", "x")),
        *(("fsdp_activation_checkpointing", value) for value in ("full", "selective")),
        *(("fsdp_version", value) for value in ("two", "x")),
    )
    first = [case for case in _of(valid, "FSDP") if "fsdp_version" not in _section(case, "fsdp_config")]
    for (name, value), case in zip(values, _pick(first, random, len(values)), strict=True):
        yield _in_section(case, "fsdp_config", **{name: value})


def _section(case: Case, name: str) -> Mapping[str, object]:
    found = (case.keys or {}).get(name)
    return found if isinstance(found, dict) else {}


def _versions(valid: Sequence[Case], random: Random) -> Mutants:
    """Keys of one version of FSDP given to the other."""
    changes: tuple[Keys, ...] = (
        {"fsdp_reshard_after_forward": "FULL_SHARD"},
        {"fsdp_reshard_after_forward": "SHARD_GRAD_OP"},
        {"fsdp_reshard_after_forward": "HYBRID_SHARD"},
        {"fsdp_reshard_after_forward": 2},
        {"fsdp_state_dict_type": "LOCAL_STATE_DICT"},
        {"fsdp_activation_checkpointing_offload": True, "fsdp_activation_checkpointing": False},
        {"fsdp_sync_module_states": False},
        {"fsdp_version": 1, "fsdp_activation_checkpointing_offload": True, "fsdp_activation_checkpointing": True},
    )
    second = [case for case in _of(valid, "FSDP") if _section(case, "fsdp_config").get("fsdp_version") == 2]
    second = [case for case in second if not case.flags and not _section(case, "parallelism_config")]
    for index, case in enumerate(_pick(second, random, len(changes) * 4)):
        yield _in_section(case, "fsdp_config", **changes[index % len(changes)])


def _loaded_unsynced(valid: Sequence[Case], random: Random) -> Mutants:
    """Loading on one rank without sending the weights to the others."""
    first = [case for case in _of(valid, "FSDP") if "fsdp_sync_module_states" in _section(case, "fsdp_config")]
    for index, case in enumerate(_pick(first, random)):
        inner = dict(_section(case, "fsdp_config"))
        if index % 4 == 3:
            del inner["fsdp_cpu_ram_efficient_loading"]
        else:
            inner["fsdp_cpu_ram_efficient_loading"] = True
        inner["fsdp_sync_module_states"] = (False, "false")[index % 8 == 7]
        yield _changed(case, fsdp_config=inner)


def _two_sources(valid: Sequence[Case], random: Random) -> Mutants:
    """Accelerate's keys beside a DeepSpeed file."""
    beside: tuple[Keys, ...] = (
        {"zero_stage": 2},
        {"zero_stage": 3},
        {"gradient_accumulation_steps": 4},
        {"gradient_accumulation_steps": 1},
        {"gradient_clipping": 1.0},
        {"offload_optimizer_device": "none"},
        {"offload_optimizer_device": "cpu"},
        {"offload_param_device": "none"},
        {"zero3_save_16bit_model": True},
        {"offload_optimizer_nvme_path": "/nvme"},
    )
    by_file = [case for case in valid if case.deepspeed is not None]
    for index, case in enumerate(_pick(by_file, random)):
        if index % 8 == 7:
            yield _changed(case, mixed_precision=("bf16", "no", "fp16")[index % 3])
        else:
            yield _in_section(case, "deepspeed_config", **beside[index % len(beside)])


def _wrong_zero(valid: Sequence[Case], random: Random) -> Mutants:
    """Wrong values in the section of DeepSpeed."""
    values: tuple[tuple[str, object], ...] = (
        *(("zero_stage", value) for value in ("two", "ZeRO-3", 4, 5, -1, 2.5, "3", "auto")),
        *(("gradient_clipping", value) for value in ("yes", "none", "auto", "1.0", "max")),
        *(("gradient_accumulation_steps", value) for value in ("four", 0, -1, 2.5, "4", "auto")),
        *(("offload_optimizer_device", value) for value in ("gpu", "disk", "CPU", "cuda", True)),
        *(("offload_param_device", value) for value in ("gpu", "ssd", "cpu:0", False)),
        *(("zero3_init_flag", value) for value in ("maybe", "stage3", "true", "no")),
    )
    own = [case for case in _of(valid, "DEEPSPEED") if case.deepspeed is None and not case.flags]
    third = [case for case in own if _section(case, "deepspeed_config").get("zero_stage") == 3]
    for (name, value), case in zip(values, _pick(third, random, len(values)), strict=True):
        yield _in_section(case, "deepspeed_config", **{name: value})


def _too_few(valid: Sequence[Case], random: Random) -> Mutants:
    """Fewer processes than machines, or a remainder."""
    several = [case for case in _of(valid, "MULTI_GPU") if (case.keys or {}).get("num_machines", 1) != 1]
    several += [case for case in _of(valid, "FSDP") if (case.keys or {})["num_machines"] != 1]
    for index, case in enumerate(_pick([case for case in several if not case.flags], random)):
        machines = (case.keys or {})["num_machines"]
        assert isinstance(machines, int)
        yield _changed(case, num_processes=random.randrange(1, machines) if index % 2 else machines * 8 - 1)


def _nowhere_to_meet(valid: Sequence[Case], random: Random) -> Mutants:
    """Several machines without the address of the first."""
    several = [case for case in _with_file(valid) if (case.keys or {}).get("main_process_ip")]
    for case in _pick([case for case in several if not case.flags], random):
        yield case._replace(keys={key: value for key, value in (case.keys or {}).items() if key != "main_process_ip"})


def _no_rank(valid: Sequence[Case], random: Random) -> Mutants:
    """Several machines by flags alone, without this one's number."""
    kinds = (("--multi_gpu",), ("--use_fsdp",), ("--use_fsdp", "--fsdp_version", "2"), ("--multi_gpu", "--debug"))
    for index in range(EACH):
        machines = (2, 3, 4, 8)[index % 4]
        counts = ("--num_machines", str(machines), "--num_processes", str(machines * random.choice((1, 4, 8))))
        yield Case(None, (*kinds[index // 8], *counts, "--main_process_ip", SERVER))


def _products(valid: Sequence[Case], random: Random) -> Mutants:
    """Degrees whose product is not the number of processes."""
    for index in range(EACH):
        processes, sizes = _PRODUCTS[index % len(_PRODUCTS)]
        if index % 2:
            axis = random.choice(sorted(sizes))
            size = sizes[axis]
            assert isinstance(size, int)
            changed, count = {**sizes, axis: size * random.choice((2, 3))}, processes
        else:
            changed, count = sizes, processes * random.choice((2, 3))
        yield Case(_config("FSDP", count, fsdp_config=_second(), parallelism_config=changed))


def _clashing_degrees(valid: Sequence[Case], random: Random) -> Mutants:
    """Degrees that exclude each other."""
    pairs = (
        _sizes(cp=2, sp=2, dp_shard=2),
        _sizes(dp_replicate=4, tp=2),
        _sizes(dp_replicate=2, cp=4, dp_shard=1),
        _sizes(tp=0, dp_shard=8),
        _sizes(dp_shard=-1),
        _sizes(dp_replicate=8, dp_shard=1),
        _sizes(tp=8),
        _sizes(dp_replicate=2, dp_shard=0, tp=4),
    )
    for index in range(EACH):
        sizes = pairs[index % len(pairs)]
        version = _second(fsdp_offload_params=index // 8 % 2 == 1)
        yield Case(
            _config("FSDP", 8, precision=("bf16", "no")[index // 16], fsdp_config=version, parallelism_config=sizes)
        )


def _first_with_degrees(valid: Sequence[Case], random: Random) -> Mutants:
    """A parallelism config beside what can't carry it out."""
    for index in range(EACH):
        processes, sizes = _PRODUCTS[index % len(_PRODUCTS)]
        if index % 2:
            flags = [word for axis, size in sizes.items() for word in (f"--{axis}", str(size))]
            yield Case(None, ("--multi_gpu", "--num_processes", str(processes), "--use_parallelism_config", *flags))
        else:
            section = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_offload_params": index % 4 == 0}
            yield Case(_config("FSDP", processes, fsdp_config=section, parallelism_config=sizes))


def _excluding_flags(valid: Sequence[Case], random: Random) -> Mutants:
    """Flags that stand for two ways to train, or for one that the others rule out."""
    pairs = (
        "--multi_gpu --use_fsdp", "--multi_gpu --use_deepspeed", "--use_fsdp --use_deepspeed", "--multi_gpu --cpu",
        "--use_fsdp --cpu", "--use_deepspeed --cpu", "--multi_gpu --tpu", "--module --no_python --multi_gpu",
    )  # fmt: skip
    for index in range(EACH):
        if index % 4 == 3:
            yield Case(
                None,
                ("--multi_gpu", "--num_processes", "1", *(("--mixed_precision", "bf16") if index % 8 == 3 else ())),
            )
            continue
        flags = (*pairs[index % len(pairs)].split(), "--num_processes", str(random.choice((2, 4, 8))))
        yield Case(_config("MULTI_GPU", 8) if index % 3 == 0 else None, flags)


_KINDS = {
    "unknown-setting": _unknown_keys,
    "unknown-setting (in a section)": _unknown_inner,
    "unknown-setting (flag)": _unknown_flags,
    "setting-type (flag)": _wrong_flags,
    "setting-type (key)": _wrong_keys,
    "setting-type (FSDP)": _wrong_fsdp,
    "setting-type (FSDP version)": _versions,
    "setting-type (unsynced loading)": _loaded_unsynced,
    "setting-type (DeepSpeed)": _wrong_zero,
    "missing key": _without,
    "conflicting-settings": _two_sources,
    "conflicting-settings (flags)": _excluding_flags,
    "num-processes-vs-machines": _too_few,
    "rendezvous": _nowhere_to_meet,
    "node-rank-missing": _no_rank,
    "world-size-mismatch": _products,
    "world-size-mismatch (degrees)": _clashing_degrees,
    "world-size-mismatch (FSDP1)": _first_with_degrees,
}
