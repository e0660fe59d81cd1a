"""Configs of Axolotl: sound ones, ones with keys that it passes over, then ones with a mistake each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence

from oracles import VALID, Plain, Question

GPUS = 8
"""GPUs of each node of the pretended machines."""
_SETTINGS: Mapping[str, Plain] = {"cluster.gpus_per_node": GPUS}

Keys = dict[str, object]

_ADAPTERS: Sequence[Keys] = (
    {},
    {"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True},
    {"adapter": "lora", "lora_r": 8, "lora_alpha": 16, "load_in_8bit": True, "lora_target_linear": True},
    {"adapter": "qlora", "lora_r": 32, "lora_alpha": 16, "load_in_4bit": True, "lora_target_linear": True},
)
_FORMATS: Sequence[Keys] = (
    {"bf16": True},
    {"bf16": "auto"},
    {"bf16": "auto", "fp16": None},
    {"fp16": True, "bf16": False},
    {"bf16": True, "fp16": True},
    {"bf16": False, "fp16": False},
    {"bfloat16": True},
    {"bf16": "auto", "tf32": True, "fp16": False},
)
_ALONE: Sequence[Keys] = (
    {},
    {"fp16": True},
    {"bf16": "auto", "fp16": True},
    {"bf16": None},
    {"float16": True},
    {"float16": True, "bf16": False},
    {"bfloat16": True, "bf16": False},
    {"bfloat16": True, "fp16": True, "bf16": False},
)
"""Formats beside what holds where nothing is written, and those without mixed precision."""
_CHECKPOINTING: Sequence[Keys] = (
    {"gradient_checkpointing": True},
    {"gradient_checkpointing": False},
    {},
    {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
    {"gradient_checkpointing": "offload"},
)
_FSDP2: Keys = {
    "fsdp_version": 2,
    "fsdp_config": {
        "offload_params": False,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
        "state_dict_type": "FULL_STATE_DICT",
        "reshard_after_forward": True,
    },
}
_FSDP1: Keys = {
    "fsdp": ["full_shard", "auto_wrap"],
    "fsdp_config": {
        "fsdp_offload_params": True,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
        "fsdp_state_dict_type": "FULL_STATE_DICT",
    },
}
_ATTENTION: Sequence[Keys] = (
    {"flash_attention": True},
    {"attn_implementation": "flash_attention_2"},
    {"sdp_attention": True},
    {},
)
_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "paged_adamw_32bit", "lion_8bit", "adafactor")
_EIGHT_BITS = ("adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit")
_DEEPSPEED: Keys = {"deepspeed": "ds.json"}


def questions() -> list[Question]:
    """Sound configs under three launchers, keys that no schema has, and one mistake in each of the rest."""
    pick = random.Random(11)
    kinds = {
        VALID: list(_valid(pick)),
        "passed-over": list(_passed_over(pick)),
        "refused-combination": list(_together(pick)),
        "setting-type": list(_types(pick)),
    }
    asked = [each for kind, several in kinds.items() for each in _numbered(kind, several, pick)]
    apart = random.Random(12)
    return [*asked, *_numbered("formats", list(_formats(apart)), apart)]


def _numbered(kind: str, several: Sequence[Keys], pick: random.Random) -> list[Question]:
    return [Question(f"{kind}-{number:03}", kind, _files(keys, pick), _SETTINGS) for number, keys in enumerate(several)]


def _base(pick: random.Random) -> Keys:
    """A config that trains, with none of what decides between frameworks."""
    return {
        "base_model": "meta-llama/Llama-3.1-8B",
        "datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}],
        "output_dir": "./out",
        "sequence_len": pick.choice((2048, 4096, 8192)),
        "micro_batch_size": pick.choice((1, 2, 4)),
        "gradient_accumulation_steps": pick.choice((1, 4, 8)),
        "num_epochs": 1,
        "optimizer": "adamw_torch",
        "learning_rate": 0.0002,
    }


def _valid(pick: random.Random) -> Iterator[Keys]:
    for number in range(64):
        keys = _base(pick)
        keys |= pick.choice(_FORMATS) | pick.choice(_CHECKPOINTING) | pick.choice(_ADAPTERS)
        keys |= _sharded(pick, keys, number % 4) | _degrees(pick, number)
        keys["sample_packing"] = (
            not keys.keys() & {"context_parallel_size", "sequence_parallel_degree"} and pick.random() < 0.5
        )
        for name, values in (("max_grad_norm", (0.3, 1.0)), ("max_steps", (100, 2000))):
            if pick.random() < 0.4:
                keys[name] = pick.choice(values)
        if pick.random() < 0.2:
            del keys["gradient_accumulation_steps"]
        yield keys


def _sharded(pick: random.Random, keys: Keys, number: int) -> Keys:
    """One of: DDP, DeepSpeed, FSDP2, FSDP1 for which nothing is quantized."""
    if number == 1:
        return {**_DEEPSPEED, "optimizer": pick.choice((*_OPTIMIZERS, *_EIGHT_BITS))}
    if number == 0:
        return {"optimizer": pick.choice((*_OPTIMIZERS, *_EIGHT_BITS))}
    return dict(_FSDP2 if number == 2 else _FSDP1)


def _degrees(pick: random.Random, number: int) -> Keys:
    """Degrees of tensor and context parallelism in some, and how attention is computed."""
    if number % 8 == 5:
        return {pick.choice(("context_parallel_size", "sequence_parallel_degree")): 2, "flash_attention": True}
    if number % 8 == 2:
        return {"tensor_parallel_size": pick.choice((2, 4)), "attn_implementation": "sdpa"}
    return pick.choice(_ATTENTION)


def _passed_over(pick: random.Random) -> Iterator[Keys]:
    """Misspelt keys, which the schemas take without a word: the defaults hold."""
    for wrong, value in (
        ("micro_batchsize", 4),
        ("per_device_train_batch_size", 4),
        ("grad_accumulation_steps", 8),
        ("gradient_accumulation", 8),
        ("gradient_checkpoint", True),
        ("tensor_parallel", 2),
        ("context_parallel_degree", 2),
        ("deepspeed_config", "ds.json"),
        ("max_gradient_norm", 0.5),
        ("sequence_length", 4096),
        ("lora_rank", 64),
        ("load_in_4_bit", True),
    ):
        keys = _base(pick)
        if "batch" in wrong:
            del keys["micro_batch_size"]
        if "accumulation" in wrong:
            del keys["gradient_accumulation_steps"]
        yield {**keys, "bf16": True, wrong: value}


def _together(pick: random.Random) -> Iterator[Keys]:
    """Keys that exclude each other, or one without another."""
    offloaded = {**_FSDP1, "fsdp_config": {**_part(_FSDP1), "fsdp_offload_params": True}}
    renamed = {"fsdp_config": {"offload_params": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}}
    lora, qlora = _ADAPTERS[1], _ADAPTERS[3]
    for _ in range(3):
        yield _with(pick, {"batch_size": 32})
        yield _with(pick, _DEEPSPEED, {"fsdp": ["full_shard", "auto_wrap"]})
        yield _with(pick, _DEEPSPEED, _FSDP1)
        yield _with(pick, {pick.choice(("load_in_8bit", "load_in_4bit")): True})
        yield _with(pick, lora, {"adapter": "qlora"})
        yield _with(pick, qlora, {"load_in_8bit": True})
        yield _with(pick, lora, {"adapter": "qlora", "load_in_8bit": True})
        yield _with(pick, offloaded, _eight_bits(pick))
        yield _with(pick, renamed, _eight_bits(pick))
        yield _with(pick, {"context_parallel_size": 2, "attn_implementation": pick.choice(("sdpa", "eager"))})
        yield _with(pick, {"sequence_parallel_degree": 4})
        packed = {"flash_attention": True, "sample_packing": True, "micro_batch_size": pick.choice((2, 4))}
        yield _with(pick, {"context_parallel_size": 2}, packed)
    for only in ({"batch_size": 64}, {"batch_size": 8}):
        keys = _with(pick, only)
        yield {name: value for name, value in keys.items() if name not in _BATCHES}


def _eight_bits(pick: random.Random) -> Keys:
    return {"optimizer": pick.choice(_EIGHT_BITS)}


_BATCHES = ("micro_batch_size", "gradient_accumulation_steps")


def _part(keys: Keys) -> Keys:
    section = keys["fsdp_config"]
    return dict(section) if isinstance(section, dict) else {}


def _with(pick: random.Random, *parts: Mapping[str, object]) -> Keys:
    keys = {**_base(pick), "bf16": "auto", "gradient_checkpointing": True}
    for part in parts:
        keys.update(part)
    return keys


def _types(pick: random.Random) -> Iterator[Keys]:
    """Values of another kind, and words that no release takes."""
    numbers = ("micro_batch_size", "gradient_accumulation_steps", "sequence_len", "tensor_parallel_size",
               "context_parallel_size", "lora_r", "max_steps")  # fmt: skip
    for name in numbers:
        yield _with(pick, {"adapter": "lora", "lora_alpha": 16, name: pick.choice(("two", "2e", "many"))})
        yield _with(pick, {"adapter": "lora", "lora_r": 8, "lora_alpha": 16, name: [4]})
        yield _with(pick, {"adapter": "lora", "lora_r": 8, "lora_alpha": 16, name: 1.5})
    for name, wrong in (
        ("max_grad_norm", "one"),
        ("adapter", "lorra"),
        ("adapter", "q_lora"),
        ("bf16", "bfloat"),
        ("bf16", "half"),
        ("fp16", "sometimes"),
        ("load_in_4bit", "nf4"),
        ("gradient_checkpointing", "selective"),
        ("gradient_checkpointing", "full"),
        ("deepspeed", 3),
        ("fsdp_version", "two"),
    ):
        yield _with(pick, {name: wrong})
    for name, wrong in (
        ("state_dict_type", "FULL"),
        ("state_dict_type", "SHARDED"),
        ("auto_wrap_policy", "TRANSFORMER"),
        ("auto_wrap_policy", "transformer_auto_wrap"),
        ("offload_params", "cpu"),
        ("reshard_after_forward", "FULL_SHARD"),
    ):
        yield _with(pick, _FSDP2, {"fsdp_config": {**_part(_FSDP2), name: wrong}})


def _formats(pick: random.Random) -> Iterator[Keys]:
    """Each way to ask for a format, under DDP and both FSDPs."""
    for asked in (*_FORMATS, *_ALONE):
        for sharded in ({}, _FSDP1, _FSDP2):
            yield {**_base(pick), **asked, **sharded, "sample_packing": False}


def _files(keys: Keys, pick: random.Random) -> dict[str, str]:
    stage = pick.choice((1, 2, 3))
    zero: Keys = {"stage": stage}
    if pick.random() < 0.3:
        zero["offload_optimizer"] = {"device": "cpu"}
    config = {
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "zero_optimization": zero,
    }
    beside = {"ds.json": json.dumps(config, indent=2) + "\n"} if keys.get("deepspeed") == "ds.json" else {}
    return {"config.yaml": "".join(_lines(keys, 0)), **beside, "launch.sh": f"#!/bin/bash\n{_launch(pick)}\n"}


def _launch(pick: random.Random) -> str:
    several = pick.choice((8, 16))
    nodes = several // GPUS
    return pick.choice(
        (
            "axolotl train config.yaml",
            f"accelerate launch --num_processes {several} --num_machines {nodes} -m axolotl.cli.train config.yaml",
            f"torchrun --nproc_per_node 8 --nnodes {nodes} -m axolotl.cli.train config.yaml",
        )
    )


def _lines(keys: Mapping[str, object], depth: int) -> Iterator[str]:
    """YAML as people write it."""
    for key, value in keys.items():
        start = "  " * depth + f"{key}:"
        if isinstance(value, dict):
            yield start + "\n"
            yield from _lines(value, depth + 1)
        else:
            yield f"{start} {_shown(value)}\n"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return json.dumps(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return str(value)
