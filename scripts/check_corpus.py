"""Loads public configs plainly, by the rules of the framework that reads them, and compares what they say with the plan
that dtlint makes of them. A setting that dtlint leaves open is counted with its reason; one that differs is a fault.

    python scripts/check_corpus.py FOLDER

FOLDER holds SOURCES.csv, whose column `file` names the configs as KIND/NAME.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from dtlint.api import check
from dtlint.report.json import report_json

Tree: TypeAlias = Mapping[str, Any]
Expected: TypeAlias = dict[str, Any]


class _Untold:
    """What a file leaves to somebody else: "auto", or a word that a script replaces."""


UNTOLD: Final = _Untold()


class Kind(NamedTuple):
    """How a kind of config is loaded, what it says by its framework's rules, and how dtlint shows that it knows it.
    `says` gives None for a file that is another front end's, or starts nothing.
    """

    load: Callable[[str], Tree]
    says: Callable[[Tree], Expected | None]


class Answer(NamedTuple):
    """One file: what became of it, and the outcome of each setting: equal, left (by the file itself), wrong, or the
    reason why dtlint leaves it open.
    """

    state: str
    settings: Mapping[str, str] = {}


# DeepSpeed's config (deepspeed 0.19.8 runtime/config.py and runtime/zero/config.py)

_PLACEHOLDER = re.compile(r"(:\s*)(?!true\b|false\b|null\b)([A-Za-z_$][\w$]*)(?=\s*[,}\n])")


def load_json(text: str) -> Tree:
    """JSON; the bare words of a template become None. hjson, which DeepSpeed reads with, allows comments and a comma
    too many besides.
    """
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError:
        loaded = json.loads(_as_json(text))
    assert isinstance(loaded, dict)
    return loaded


def _as_json(text: str) -> str:
    without_comments = re.sub(r"(?m)^\s*(//|#).*$", "", text)
    return re.sub(r",(?=\s*[}\]])", "", _PLACEHOLDER.sub(r'\1"auto"', without_comments))


_NEOX = {"pipe-parallel-size", "pipe_parallel_size", "model-parallel-size", "model_parallel_size"}


def deepspeed_says(config: Tree) -> Expected | None:
    """The settings of the plan that DeepSpeed takes from a config; GPT-NeoX's hold its keys among their own."""
    if _NEOX & config.keys():
        return neox_says(config)
    zero = config.get("zero_optimization", {})
    stage = _told(zero.get("stage", 0))
    return {
        "framework": "deepspeed",
        **_deepspeed_batch(config),
        "sharding.stage": stage,
        "precision.compute": _deepspeed_format(config),
        "overlap.gradients": _told(zero.get("overlap_comm", UNTOLD if stage is UNTOLD else stage == 3)),
        **_deepspeed_offload(zero, stage),
        **_deepspeed_bucket(config, zero),
        **_named(config, {"gradient_clipping": "optimizer.clip", "sequence_parallel_size": "parallel.ulysses"}),
        **_named(config.get("optimizer", {}), {"type": "optimizer.name"}),
        **_named(config.get("data_types", {}), {"grad_accum_dtype": "precision.gradients"}),
        **_named(config.get("tensor_parallel", {}), {"autotp_size": "parallel.tensor"}),
        **_deepspeed_groups(zero),
    }


def _told(value: Any) -> Any:
    """The value; a number may stand as text."""
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return UNTOLD if value == "auto" else value


def _is_on(switch: object) -> bool:
    """pydantic takes texts for true."""
    return str(switch).lower() in ("true", "1", "yes", "on")


def _named(section: Tree, names: Mapping[str, str]) -> Expected:
    return {setting: _told(section[key]) for key, setting in names.items() if section.get(key) is not None}


def _deepspeed_batch(config: Tree) -> Expected:
    """The batch triple: with one of the batch sizes alone there is no accumulation; with all three the ranks follow."""
    names = {
        "train_batch_size": "batch.global",
        "train_micro_batch_size_per_gpu": "batch.micro",
        "gradient_accumulation_steps": "batch.accumulation",
    }
    batch = _named(config, names)
    if len(batch) == 1 and UNTOLD not in batch.values() and "batch.accumulation" not in batch:
        batch["batch.accumulation"] = 1
    if len(batch) == 3 and UNTOLD not in batch.values():
        batch["parallel.data"] = batch["batch.global"] // batch["batch.micro"] // batch["batch.accumulation"]
    return batch


def _deepspeed_format(config: Tree) -> Any:
    switches = {name: config.get(name, {}).get("enabled", False) for name in ("fp16", "bf16", "bfloat16")}
    on = next((name for name, switch in switches.items() if _is_on(switch)), None)
    if on is not None:
        return "bf16" if on == "bfloat16" else on
    return UNTOLD if "auto" in switches.values() else "fp32"


def _deepspeed_offload(zero: Tree, stage: object) -> Expected:
    """Parameters are offloaded at stage 3 alone, and NVMe is used by stage 3 alone."""
    optimizer = "none" if stage == 0 else _device(zero, "offload_optimizer", "cpu_offload")
    parameters = "none" if stage in (0, 1, 2) else _device(zero, "offload_param", "cpu_offload_param")
    placed = "cpu" if optimizer == "nvme" and stage != 3 else optimizer
    return {"sharding.offload_optimizer": placed, "sharding.offload_parameters": parameters}


def _device(zero: Tree, section: str, old: str) -> Any:
    device = (zero.get(section) or {}).get("device", "none")
    return "cpu" if zero.get(old) is True else UNTOLD if device == "auto" else device or "none"


def _deepspeed_bucket(config: Tree, zero: Tree) -> Expected:
    """A bucket counts elements of the gradients' format."""
    size = zero.get("reduce_bucket_size")
    kept = config.get("data_types", {}).get("grad_accum_dtype") or _deepspeed_format(config)
    if size is None:
        return {}
    if size == "auto" or kept is UNTOLD:
        return {"communication.bucket_bytes": UNTOLD}
    return {"communication.bucket_bytes": int(size) * (4 if kept == "fp32" else 2)}


def _deepspeed_groups(zero: Tree) -> Expected:
    sizes = [zero.get(name) for name in ("zero_hpz_partition_size", "mics_shard_size")]
    shared = [size for size in sizes if isinstance(size, int) and size > 1]
    return {"sharding.group": shared[-1]} if shared else {}


# Accelerate's config (accelerate 1.15.0 commands/launch.py and utils/launch.py)

_FAMILIES = {"FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "megatron", "NO": "pytorch", False: "pytorch"}
_FORMATS = {"no": "fp32", False: "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
_FSDP1 = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
_FSDP1_STAGES = dict(zip(_FSDP1, (3, 2, 0, 3, 2), strict=True))


def load_yaml(text: str) -> Tree:
    """YAML as its safe loader reads it."""
    loaded = yaml.safe_load(text)
    assert isinstance(loaded, dict)
    return loaded


def load_omegaconf(text: str) -> Tree:
    """YAML as OmegaConf reads it: `1e-5` is a number."""

    class OmegaConfLoader(yaml.SafeLoader):
        """A safe loader with one more form of numbers."""

    exponent = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+")
    OmegaConfLoader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+0123456789."))
    loaded = yaml.load(text, OmegaConfLoader)
    assert isinstance(loaded, dict)
    return loaded


def accelerate_says(config: Tree) -> Expected | None:
    """The settings of the plan that `accelerate launch` takes from a config, for one that starts GPU processes here."""
    family = _family(config)
    if family is None:
        return None
    sections = {"fsdp": _accelerate_fsdp, "deepspeed": _accelerate_deepspeed, "megatron": _accelerate_megatron}
    own = sections[family](config.get(_SECTIONS[family]) or {}) if family in sections else {}
    return {
        "framework": family,
        "frontend": "accelerate",
        **_named(config, {"num_processes": "launch.processes", "num_machines": "launch.nodes"}),
        **_named(config, {"machine_rank": "launch.node_rank", "num_processes": "parallel.world_size"}),
        **_accelerate_format(config),
        **own,
        **_accelerate_degrees(config.get("parallelism_config") or {}),
    }


_SECTIONS = {"fsdp": "fsdp_config", "deepspeed": "deepspeed_config", "megatron": "megatron_lm_config"}


def _family(config: Tree) -> str | None:
    name = config.get("distributed_type")
    if config.get("compute_environment") == "AMAZON_SAGEMAKER" or config.get("use_cpu") is True or name == "MULTI_CPU":
        return None
    return _FAMILIES.get(name, "ddp") if name is not None else None


def _accelerate_format(config: Tree) -> Expected:
    """A DeepSpeed file decides by itself."""
    if (config.get("deepspeed_config") or {}).get("deepspeed_config_file") or "mixed_precision" not in config:
        return {}
    return {"precision.compute": _FORMATS[config["mixed_precision"]]}


def _accelerate_fsdp(section: Tree) -> Expected:
    device = "cpu" if section.get("fsdp_offload_params") is True else "none"
    offload = {"sharding.offload_optimizer": device, "sharding.offload_parameters": device}
    wrap = section.get("fsdp_auto_wrap_policy", "NO_WRAP")
    units = {"sharding.units": "none" if wrap == "NO_WRAP" else "wrapped"}
    recomputed = {"checkpointing.activations": "full"} if section.get("fsdp_activation_checkpointing") is True else {}
    return {**_accelerate_stage(section), **offload, **units, **recomputed, **_accelerate_prefetch(section)}


def _accelerate_stage(section: Tree) -> Expected:
    if section.get("fsdp_version", 1) == 2:
        kept = section.get("fsdp_reshard_after_forward", True)
        return {"sharding.stage": 3 if kept else 2, "sharding.reshard_after_forward": kept}
    strategy = section.get("fsdp_sharding_strategy", "FULL_SHARD")
    return {"sharding.stage": _FSDP1_STAGES[_FSDP1[strategy - 1] if isinstance(strategy, int) else strategy]}


def _accelerate_prefetch(section: Tree) -> Expected:
    if section.get("fsdp_version", 1) == 2 or "fsdp_backward_prefetch" not in section:
        return {}
    return {"sharding.prefetch": section["fsdp_backward_prefetch"].lower().replace("no_prefetch", "none")}


def _accelerate_deepspeed(section: Tree) -> Expected:
    """A file stands for all keys; without it the stage is 2 and micro-batches are not accumulated."""
    if section.get("deepspeed_config_file"):
        return {}
    stage = section.get("zero_stage", 2)
    optimizer, parameters = (section.get(f"offload_{name}_device", "none") for name in ("optimizer", "param"))
    return {
        "sharding.stage": stage,
        "sharding.offload_optimizer": optimizer if stage else "none",
        "sharding.offload_parameters": parameters if stage == 3 else "none",
        "batch.accumulation": section.get("gradient_accumulation_steps", 1),
        **_named(section, {"gradient_clipping": "optimizer.clip"}),
    }


def _accelerate_megatron(section: Tree) -> Expected:
    names = {
        "megatron_lm_tp_degree": "parallel.tensor",
        "megatron_lm_pp_degree": "parallel.pipeline",
        "megatron_lm_num_micro_batches": "batch.accumulation",
        "megatron_lm_gradient_clipping": "optimizer.clip",
        "megatron_lm_sequence_parallelism": "parallel.sequence",
    }
    return _named(section, names)


def _accelerate_degrees(section: Tree) -> Expected:
    names = {"tp": "parallel.tensor", "cp": "parallel.context", "sp": "parallel.ulysses"}
    return _named(section, {f"parallelism_config_{short}_size": setting for short, setting in names.items()})


# torchtitan's config (v0.2.2 torchtitan/config/job_config.py and distributed/parallel_dims.py)


def load_toml(text: str) -> Tree:
    """TOML as the standard reader reads it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def torchtitan_says(config: Tree) -> Expected | None:
    """The settings of the plan that torchtitan takes from a config."""
    training, parallel = config.get("training", {}), config.get("parallelism", {})
    pipelined = parallel.get("pipeline_parallel_degree", 1) > 1
    local, replicas = training.get("local_batch_size", 8), parallel.get("data_parallel_replicate_degree", 1)
    shards = parallel.get("data_parallel_shard_degree", -1)
    return {
        "framework": "torchtitan",
        "parallel.tensor": parallel.get("tensor_parallel_degree", 1),
        "parallel.pipeline": parallel.get("pipeline_parallel_degree", 1),
        "parallel.context": parallel.get("context_parallel_degree", 1),
        "parallel.expert": parallel.get("expert_parallel_degree", 1),
        "batch.micro": parallel.get("pipeline_parallel_microbatch_size", 1) if pipelined else local,
        "data.sequence_length": training.get("seq_len", 2048),
        "run.steps": training.get("steps", 10000),
        "optimizer.clip": training.get("max_norm", 1.0),
        "optimizer.name": config.get("optimizer", {}).get("name", "AdamW"),
        "checkpointing.activations": config.get("activation_checkpoint", {}).get("mode", "selective"),
        "precision.compute": _torchtitan_format(config),
        "precision.master": _SIXTEEN_BITS.get(training.get("dtype", "float32"), "fp32"),
        "sharding.stage": 0 if shards == 1 and parallel.get("context_parallel_degree", 1) == 1 else 3,
        **({"parallel.data": shards * replicas} if shards > 0 else {}),
        **({"sharding.instances": replicas} if replicas > 1 and shards != 1 else {}),
        **({"batch.global": training["global_batch_size"]} if training.get("global_batch_size", -1) > 0 else {}),
        **({"batch.accumulation": local} if pipelined and "global_batch_size" not in training else {}),
        "overlap.tensor": parallel.get("enable_async_tensor_parallel") is True and _is_compiled(config),
    }


_SIXTEEN_BITS = {"bfloat16": "bf16", "float16": "fp16"}


def _torchtitan_format(config: Tree) -> str:
    converters = config.get("model", {}).get("converters", [])
    if any("float8" in name and "grouped" not in name for name in converters):
        recipe = config.get("quantize", {}).get("linear", {}).get("float8", {}).get("recipe_name") or ""
        return "fp8-rowwise" if recipe.startswith("rowwise") else "fp8"
    return "mxfp8" if "mx" in converters or "quantize.linear.mx" in converters else "bf16"


def _is_compiled(config: Tree) -> bool:
    return config.get("compile", {}).get("enable") is True


# NeMo's configs (2.6.0rc0 nemo/collections/nlp and Lightning's Trainer)

_NEMO_DEGREES = {
    "tensor_model_parallel_size": "parallel.tensor",
    "pipeline_model_parallel_size": "parallel.pipeline",
    "virtual_pipeline_model_parallel_size": "parallel.virtual_pipeline",
    "context_parallel_size": "parallel.context",
    "expert_model_parallel_size": "parallel.expert",
    "sequence_parallel": "parallel.sequence",
}
_NEMO_MODEL = {
    "micro_batch_size": "batch.micro",
    "global_batch_size": "batch.global",
    "encoder_seq_length": "data.sequence_length",
    "num_layers": "model.layers",
    "hidden_size": "model.hidden",
    "num_attention_heads": "model.heads",
    "num_query_groups": "model.kv_heads",
    "activations_checkpoint_granularity": "checkpointing.activations",
    "ub_tp_comm_overlap": "overlap.tensor",
    "share_embeddings_and_output_weights": "model.tied_embeddings",
}
_NEMO_FORMATS = {
    "32": "fp32",
    "16": "fp16",
    "16-mixed": "fp16",
    "bf16": "bf16",
    "bf16-mixed": "bf16",
    "bf16-true": "bf16",
}


def nemo_says(config: Tree) -> Expected | None:
    """The settings of the plan that NeMo takes from a config; a reference (`${...}`) is what it leads to."""
    config = _without_references(config, config)
    model, trainer = config.get("model") or {}, config["trainer"]
    degrees = {**_nemo_section(config.get("strategy") or {}), **_nemo_section(model)}
    if not degrees:
        return {"framework": "ddp", "frontend": "lightning", **_nemo_trainer(trainer), **_nemo_copies(model, trainer)}
    return {
        "framework": "nemo",
        **_nemo_trainer({**trainer, **(config.get("plugins") or {})}),
        **degrees,
        **_named(model, _NEMO_MODEL),
        **_named((config.get("optim") or {}).get("config") or {}, {"clip_grad": "optimizer.clip"}),
        "parallel.sequence": bool(degrees.get("parallel.sequence")),
    }


def _without_references(node: Any, root: Tree) -> Any:
    """The tree with each `${a.b}` replaced by what it names; what else OmegaConf would compute is left open."""
    if isinstance(node, dict):
        return {key: _without_references(value, root) for key, value in node.items()}
    if not isinstance(node, str) or "${" not in node:
        return UNTOLD if node == "???" else node
    value: Any = root
    for key in node[2:-1].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return UNTOLD if value is None or "${" in str(value) else value


def _nemo_section(section: Tree) -> Expected:
    return _named(section, _NEMO_DEGREES)


def _nemo_trainer(trainer: Tree) -> Expected:
    precision = trainer.get("precision", 32)
    return {
        "launch.nodes": trainer.get("num_nodes", 1),
        "launch.processes_per_node": UNTOLD if trainer.get("devices", -1) == -1 else trainer["devices"],
        "precision.compute": UNTOLD if precision is UNTOLD else _NEMO_FORMATS[str(precision)],
        **({"run.steps": trainer["max_steps"]} if trainer.get("max_steps") not in (None, -1, UNTOLD) else {}),
        **_named(trainer, {"gradient_clip_val": "optimizer.clip"}),
    }


def _nemo_copies(model: Tree, trainer: Tree) -> Expected:
    strategy = trainer.get("strategy")
    flags = strategy if isinstance(strategy, dict) else {}
    unused = flags.get("find_unused_parameters", strategy == "ddp_find_unused_parameters_true")
    return {
        **_named(trainer, {"accumulate_grad_batches": "batch.accumulation"}),
        **_named(model.get("train_ds") or {}, {"batch_size": "batch.micro"}),
        "communication.find_unused": unused,
        "sharding.stage": 0,
    }


# nanotron's config (2411b02 src/nanotron/config)

_NANOTRON_NAMES: Mapping[str, Mapping[str, str]] = {
    "parallelism": {
        "dp": "parallel.data",
        "tp": "parallel.tensor",
        "pp": "parallel.pipeline",
        "context_parallel_size": "parallel.context",
        "expert_parallel_size": "parallel.expert",
        "tp_linear_async_communication": "overlap.tensor",
    },
    "tokens": {
        "micro_batch_size": "batch.micro",
        "batch_accumulation_per_replica": "batch.accumulation",
        "sequence_length": "data.sequence_length",
        "train_steps": "run.steps",
    },
    "optimizer": {"zero_stage": "sharding.stage", "clip_grad": "optimizer.clip"},
}
_NANOTRON_SHAPE = {
    "num_hidden_layers": "model.layers",
    "hidden_size": "model.hidden",
    "intermediate_size": "model.ffn",
    "num_attention_heads": "model.heads",
    "num_key_value_heads": "model.kv_heads",
    "vocab_size": "model.vocab",
    "tie_word_embeddings": "model.tied_embeddings",
}


def nanotron_says(config: Tree) -> Expected | None:
    """The settings of the plan that nanotron takes from a config."""
    parallel, model = config["parallelism"], config["model"]
    degrees = [parallel[name] for name in ("dp", "tp", "pp")]
    kept = "fp32" if config["optimizer"]["accumulate_grad_in_fp32"] else _SIXTEEN_BITS[model["dtype"]]
    shape = {} if model["model_config"].get("is_mamba_config") else _named(model["model_config"], _NANOTRON_SHAPE)
    return {
        "framework": "nanotron",
        **{
            name: value
            for section, names in _NANOTRON_NAMES.items()
            for name, value in _named(config[section], names).items()
        },
        "parallel.world_size": math.prod(degrees) * parallel.get("context_parallel_size", 1),
        "parallel.sequence": parallel.get("tp_mode") == "REDUCE_SCATTER",
        "schedule.kind": "1f1b" if parallel.get("pp_engine") == "1f1b" else "gpipe",
        "checkpointing.activations": "full" if parallel.get("recompute_layer") else "none",
        "precision.compute": _SIXTEEN_BITS[model["dtype"]],
        "precision.gradients": kept,
        "communication.bucket_bytes": model.get("ddp_bucket_cap_mb", 25) * 2**20,
        "batch.global": degrees[0]
        * config["tokens"]["micro_batch_size"]
        * config["tokens"].get("batch_accumulation_per_replica", 1),
        **shape,
    }


# GPT-NeoX's configs (EleutherAI/gpt-neox ea7aefd megatron/neox_arguments)

_NEOX_NAMES = {
    "num_layers": "model.layers",
    "hidden_size": "model.hidden",
    "num_attention_heads": "model.heads",
    "num_kv_heads": "model.kv_heads",
    "intermediate_size": "model.ffn",
    "seq_length": "data.sequence_length",
    "max_position_embeddings": "model.max_positions",
    "train_batch_size": "batch.global",
    "train_micro_batch_size_per_gpu": "batch.micro",
    "gradient_accumulation_steps": "batch.accumulation",
    "gradient_clipping": "optimizer.clip",
    "sequence_parallel": "parallel.sequence",
    "train_iters": "run.steps",
}
_NEOX_FORMATS = {"fp16": "fp16", "bfloat16": "bf16", "fp32": "fp32"}


def neox_says(config: Tree) -> Expected | None:
    """The settings that GPT-NeoX takes from one file. A list of modules, as other tools have it, is none."""
    keys = {key.replace("-", "_"): value for key, value in config.items()}
    if "extends" in keys or "num_layers" not in keys:
        return None
    zero = keys.get("zero_optimization") or {}
    return {
        "framework": "gpt-neox",
        "parallel.pipeline": max(1, keys.get("pipe_parallel_size", 0)),
        "parallel.tensor": max(1, keys.get("model_parallel_size", 1)),
        "sharding.stage": zero.get("stage", 0),
        "overlap.gradients": zero.get("overlap_comm", False),
        "checkpointing.activations": "full" if keys.get("checkpoint_activations") else "none",
        "model.tied_embeddings": not keys.get("no_weight_tying", False),
        "precision.compute": _neox_format(keys),
        **_neox_batch(keys),
        **_named(keys, _NEOX_NAMES),
    }


def _neox_batch(keys: Tree) -> Expected:
    """Without a number of micro-batches there is one."""
    return {} if "train_batch_size" in keys else {"batch.accumulation": keys.get("gradient_accumulation_steps", 1)}


def _neox_format(keys: Tree) -> str:
    if "precision" in keys:
        return _NEOX_FORMATS[keys["precision"]]
    half = keys.get("fp16") or {}
    if half.get("type") == "bfloat16" or (keys.get("bf16") or {}).get("enabled"):
        return "bf16"
    return "fp16" if half.get("enabled") else "fp32"


# Axolotl's configs (axolotl 0.19.0 utils/schemas)

_AXOLOTL_NAMES = {
    "micro_batch_size": "batch.micro",
    "gradient_accumulation_steps": "batch.accumulation",
    "sequence_len": "data.sequence_length",
    "max_grad_norm": "optimizer.clip",
    "optimizer": "optimizer.name",
    "tensor_parallel_size": "parallel.tensor",
    "context_parallel_size": "parallel.context",
    "expert_parallel_size": "parallel.expert",
    "max_steps": "run.steps",
}
_QUANTIZED = {"load_in_4bit": "nf4", "load_in_8bit": "int8"}


def axolotl_says(config: Tree) -> Expected | None:
    """The settings that Axolotl takes from its config; what it ships of DeepSpeed's is named by the end of its path."""
    section = {key.removeprefix("fsdp_"): value for key, value in (config.get("fsdp_config") or {}).items()}
    stages = {} if not config.get("deepspeed") else {"sharding.stage": int(config["deepspeed"].split("zero")[1][0])}
    adapter = config.get("adapter")
    stored = [name for key, name in _QUANTIZED.items() if config.get(key) and adapter]
    return {
        "frontend": "axolotl",
        **({"framework": family} if (family := _axolotl_family(config)) else {}),
        **_named(config, _AXOLOTL_NAMES),
        **({"model.lora_rank": config["lora_r"]} if adapter and "lora_r" in config else {}),
        **({"precision.frozen": stored[0]} if stored else {}),
        **({"checkpointing.activations": "full"} if config.get("gradient_checkpointing") else {}),
        **_axolotl_format(config),
        **stages,
        **(_axolotl_fsdp(config, section) if _axolotl_family(config) == "fsdp" else {}),
    }


def _axolotl_family(config: Tree) -> str:
    return "deepspeed" if config.get("deepspeed") else "fsdp" if config.get("fsdp") or config.get("fsdp_config") else ""


def _axolotl_format(config: Tree) -> Expected:
    if config.get("fp8"):
        return {"precision.compute": "fp8"}
    for key, name in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16"), ("float16", "fp16")):
        if config.get(key):
            return {"precision.compute": name}
    return {}


def _axolotl_fsdp(config: Tree, section: Tree) -> Expected:
    device = "cpu" if section.get("offload_params") else "none"
    offload = {f"sharding.offload_{what}": device for what in ("parameters", "optimizer")}
    wrapped = section.get("auto_wrap_policy") or "auto_wrap" in (config.get("fsdp") or ())
    units = {"sharding.units": "wrapped"} if wrapped else {}
    second = 2 in (config.get("fsdp_version"), section.get("version"))
    kept = {"sharding.reshard_after_forward": section.get("reshard_after_forward", True)} if second else {}
    return {**offload, **units, **kept, **({} if second and not kept.popitem()[1] else {"sharding.stage": 3})}


# LLaMA-Factory's configs (llamafactory 0.9.5 hparams), which hold the Trainer's arguments

_FACTORY_NAMES = {
    "per_device_train_batch_size": "batch.micro",
    "gradient_accumulation_steps": "batch.accumulation",
    "cutoff_len": "data.sequence_length",
    "max_grad_norm": "optimizer.clip",
    "ddp_timeout": "launch.timeout_seconds",
    "max_steps": "run.steps",
}


def factory_says(config: Tree) -> Expected | None:
    """The settings that LLaMA-Factory takes from its config, for one that trains and is not Megatron's."""
    if not config.get("do_train") or config.get("do_predict") or "tensor_model_parallel_size" in config:
        return None
    path = str(config.get("deepspeed") or "")
    stages = {"framework": "deepspeed", "sharding.stage": int(path.split("ds_z")[1][0])} if "ds_z" in path else {}
    kind = config.get("finetuning_type", "lora")
    rank = {"model.lora_rank": config.get("lora_rank", 8)} if kind == "lora" else {}
    formats = [name for name in ("bf16", "fp16") if config.get(name)]
    return {
        "frontend": "llama-factory",
        **_named(config, _FACTORY_NAMES),
        **rank,
        **({"precision.compute": formats[0]} if formats else {}),
        "checkpointing.activations": "none" if config.get("disable_gradient_checkpointing") else "full",
        **stages,
    }


# llm-foundry's configs (mosaicml/llm-foundry 0.19, mosaicml/composer 0.32), which OmegaConf resolves

_FOUNDRY_NAMES = {
    "global_train_batch_size": "batch.global",
    "device_train_microbatch_size": "batch.micro",
    "max_seq_len": "data.sequence_length",
}
_MPT_NAMES = {
    "d_model": "model.hidden",
    "n_heads": "model.heads",
    "n_layers": "model.layers",
    "vocab_size": "model.vocab",
}


def load_resolved(text: str) -> Tree:
    """YAML with `${a.b}` replaced by what stands there."""
    tree = load_omegaconf(text)
    resolved = _resolved(tree, tree)
    assert isinstance(resolved, dict)
    return resolved


def _resolved(value: Any, tree: Tree) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(inner, tree) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner, tree) for inner in value]
    found = re.fullmatch(r"\$\{([\w.]+)\}", value) if isinstance(value, str) else None
    if found is None:
        return value
    target: Any = tree
    for key in found[1].split("."):
        target = target.get(key) if isinstance(target, dict) else None
    return _resolved(target, tree)


def foundry_says(config: Tree) -> Expected | None:
    """The settings that llm-foundry takes from its config."""
    sharded, model = config.get("fsdp_config"), config["model"]
    compute = config["precision"].removeprefix("amp_")
    return {
        "frontend": "composer",
        "framework": "fsdp" if sharded else "ddp",
        "precision.compute": compute,
        "optimizer.name": config["optimizer"]["name"],
        "optimizer.clip": config["algorithms"]["gradient_clipping"]["clipping_threshold"],
        **_named(config, _FOUNDRY_NAMES),
        **_named(model, _MPT_NAMES),
        **({"model.ffn": model["d_model"] * model["expansion_ratio"]} if "expansion_ratio" in model else {}),
        **({"model.lora_rank": model["peft_config"]["r"]} if "peft_config" in model else {}),
        **(_foundry_fsdp(sharded, compute) if sharded else {}),
    }


def _foundry_fsdp(section: Tree, compute: str) -> Expected:
    return {
        "sharding.stage": _FSDP1_STAGES[section["sharding_strategy"]],
        "precision.reduce": compute if section["mixed_precision"] == "PURE" else "fp32",
        "checkpointing.activations": "full" if section["activation_checkpointing"] else "none",
        "sharding.prefetch": section.get("backward_prefetch", "BACKWARD_POST").lower(),
    }


# Comparing

KINDS: Mapping[str, Kind] = {
    "deepspeed-json": Kind(load_json, deepspeed_says),
    "accelerate-yaml": Kind(load_yaml, accelerate_says),
    "torchtitan-toml": Kind(load_toml, torchtitan_says),
    "nemo-yaml": Kind(load_yaml, nemo_says),
    "nanotron-yaml": Kind(load_yaml, nanotron_says),
    "neox-yml": Kind(load_yaml, neox_says),
    "axolotl-yaml": Kind(load_yaml, axolotl_says),
    "llama-factory-yaml": Kind(load_omegaconf, factory_says),
    "llm-foundry-yaml": Kind(load_resolved, foundry_says),
}


def main(arguments: list[str]) -> int:
    """1 if a setting is wrong, a file crashes or is not recognised."""
    folder = Path(arguments[0])
    faults = 0
    for name, kind in KINDS.items():
        answers = {file: _answer(folder / file, kind) for file in _files(folder, name)}
        faults += _report(name, answers)
    return int(faults > 0)


def _files(folder: Path, kind: str) -> list[str]:
    with (folder / "SOURCES.csv").open(encoding="utf-8", newline="") as listed:
        return [row["file"] for row in csv.DictReader(listed) if row["file"].startswith(f"{kind}/")]


def _answer(path: Path, kind: Kind) -> Answer:
    try:
        report = json.loads(report_json(check([path])))
    except Exception:  # noqa: BLE001 - the very thing that is looked for
        print(traceback.format_exc(), file=sys.stderr)
        return Answer("crashed")
    runs = report["runs"]
    try:
        expected = kind.says(kind.load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError:
        told = any(each["rule"] == "unreadable-input" for each in report["findings"])
        return Answer("broken, as dtlint says" if told else "not recognised")
    if expected is None:
        return Answer("claimed" if any("value" in run["settings"]["framework"] for run in runs) else "another's")
    if len(runs) != 1 or any(_misnamed(name, expected, runs[0]["settings"]) for name in ("framework", "frontend")):
        return Answer("not recognised")
    return Answer("recognised", dict(_compared(expected, runs[0]["settings"])))


def _misnamed(name: str, expected: Expected, settings: Mapping[str, Any]) -> bool:
    return name in expected and settings.get(name, {}).get("value") != expected[name]


def _compared(expected: Expected, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in expected.items():
        found = settings.get(name, {"unknown": "not in the plan"})
        if value is UNTOLD:
            wrong = "value" in found and found.get("origin") not in ("assumed", "derived")
            yield name, f"wrong: the file leaves it open, dtlint says {found['value']}" if wrong else "left"
        elif "unknown" in found:
            yield name, found["unknown"]
        else:
            same = _plain(found["value"]) == _plain(value)
            yield name, "equal" if same else f"wrong: the file says {value}, dtlint {found['value']}"


def _plain(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _report(kind: str, answers: Mapping[str, Answer]) -> int:
    """Print one kind's figures and every fault; how many faults there are."""
    states = Counter(answer.state for answer in answers.values())
    outcomes = [(file, *each) for file, answer in answers.items() for each in answer.settings.items()]
    wrong = [each for each in outcomes if each[2].startswith("wrong")]
    equal, left = (sum(each[2] == outcome for each in outcomes) for outcome in ("equal", "left"))
    print(f"{kind}: {len(answers)} files, " + ", ".join(f"{count} {state}" for state, count in states.items()))
    decided = max(len(outcomes) - left, 1)
    print(
        f"  {decided} settings, {equal / decided:.1%} known and equal, {len(wrong)} wrong; {left} left open by the file"
    )
    for (name, reason), count in Counter(each[1:] for each in outcomes if each not in wrong).most_common():
        if reason not in ("equal", "left"):
            print(f"  open {count} x {name}: {reason}")
    faulty = [(file, answer.state) for file, answer in answers.items() if answer.state in _FAULTS]
    for fault in (*wrong, *faulty):
        print("  " + ": ".join(fault))
    return len(wrong) + len(faulty)


_FAULTS = ("crashed", "not recognised", "claimed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
