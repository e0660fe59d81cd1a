"""Files and command lines of LLaMA-Factory: sound ones, then ones with a mistake each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence

from oracles import VALID, Plain, Question

GPUS = 8
"""GPUs of each node of the pretended machines."""
_SETTINGS: Mapping[str, Plain] = {"cluster.gpus_per_node": GPUS}

Keys = dict[str, object]

_TUNING: Sequence[Keys] = (
    {"finetuning_type": "full"},
    {"finetuning_type": "lora", "lora_target": "all"},
    {"finetuning_type": "lora", "lora_target": "all", "lora_rank": 16},
    {"finetuning_type": "lora", "lora_rank": 64, "quantization_bit": 4},
    {"finetuning_type": "lora", "quantization_bit": 8},
    {"finetuning_type": "freeze", "freeze_trainable_layers": 2},
)
_FORMATS: Sequence[Keys] = ({"bf16": True}, {"fp16": True}, {"pure_bf16": True}, {"bf16": False, "fp16": True}, {})
_MISSPELT = (
    "per_device_train_batchsize", "gradient_accumulation_step", "finetunning_type", "lora_rnk", "cutof_len",
    "quantization_bits", "disable_gradient_checkpointin", "deepspeeed", "max_grad_norms", "ddp_timeouts", "templates",
    "pure_bf_16", "enable_liger_kernels", "use_galores", "lora_targets", "flash_atn",
)  # fmt: skip
_ZERO3 = "ds_z3.json"


def questions() -> list[Question]:
    """Sound ones in three forms (the command with a file, with words over it, torchrun), then one mistake in each."""
    pick = random.Random(7)
    kinds = {
        VALID: list(_valid(pick)),
        "unknown-setting": list(_misspelt(pick)),
        "refused-combination": list(_together(pick)),
        "setting-type": list(_types(pick)),
    }
    return [
        Question(f"{kind}-{number:03}", kind, _files(keys, number, pick), _SETTINGS)
        for kind, several in kinds.items()
        for number, keys in enumerate(several)
    ]


def _base(pick: random.Random) -> Keys:
    return {
        "model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct",
        "stage": "sft",
        "do_train": True,
        "dataset": "alpaca_en_demo",
        "template": "llama3",
        "cutoff_len": pick.choice((1024, 2048, 4096)),
        "output_dir": "saves/out",
        "per_device_train_batch_size": pick.choice((1, 2, 4)),
        "gradient_accumulation_steps": pick.choice((1, 2, 8)),
        "learning_rate": 0.0001,
        "report_to": "none",
    }


def _valid(pick: random.Random) -> Iterator[Keys]:
    for number in range(64):
        tuning = pick.choice(_TUNING)
        sharded = (
            {},
            {"deepspeed": pick.choice(("ds_z0.json", "ds_z2.json", "ds_z2_offload.json"))},
            {"deepspeed": pick.choice((_ZERO3, "ds_z3_offload.json"))},
            {"fsdp": "full_shard auto_wrap"},
        )[number % 4]
        formats = [each for each in _FORMATS if number % 4 != 2 or "pure_bf16" not in each]
        keys = {**_base(pick), **tuning, **sharded, **pick.choice(formats)}
        for name, values in _OTHERS.items():
            if pick.random() < 0.25:
                keys[name] = pick.choice(values)
        if pick.random() < 0.15:
            del keys["gradient_accumulation_steps"]
        yield keys


_OTHERS: Mapping[str, Sequence[object]] = {
    "max_grad_norm": (0.5, 2.0),
    "ddp_timeout": (180000000, 3600),
    "optim": ("adamw_torch", "paged_adamw_8bit", "adafactor"),
    "max_steps": (500, 3000),
    "disable_gradient_checkpointing": (True, False),
    "ddp_find_unused_parameters": (True, False),
}


def _misspelt(pick: random.Random) -> Iterator[Keys]:
    for name in _MISSPELT:
        yield {**_base(pick), **_TUNING[1], "bf16": True, name: 4}


def _together(pick: random.Random) -> Iterator[Keys]:
    """Arguments that exclude each other, or one without another; DeepSpeed beside FSDP is left to the Trainer."""
    lora, full, freeze = _TUNING[1], _TUNING[0], _TUNING[5]
    for _ in range(2):
        for whole in (full, freeze):
            yield _with(pick, whole, {"quantization_bit": pick.choice((4, 8))})
            yield _with(pick, whole, {"use_dora": True})
            yield _with(pick, whole, {"use_rslora": True})
            yield _with(pick, whole, {"pissa_init": True})
            yield _with(pick, whole, {"loraplus_lr_ratio": 16.0})
        yield _with(pick, lora, {"fp16": True})
        yield _with(pick, full, {"fp16": True})
        yield _with(pick, full, {"pure_bf16": True, "bf16": False, "deepspeed": _ZERO3})
        yield _with(pick, lora, {"pissa_init": True, "deepspeed": _ZERO3})
        yield _with(pick, lora, {"pissa_init": True, "quantization_bit": 4})
        yield _with(pick, lora, {pick.choice(("use_galore", "use_apollo", "use_badam")): True})
        yield _with(pick, full, {"use_galore": True, "deepspeed": "ds_z2.json"})
        yield _with(pick, full, {"use_apollo": True, "deepspeed": _ZERO3})
        yield _with(pick, full, {"use_galore": True, "use_apollo": True})
        yield _with(pick, full, {"use_unsloth": True, "deepspeed": _ZERO3})
        yield _with(pick, full, {"streaming": True})


def _types(pick: random.Random) -> Iterator[Keys]:
    """Words that no release takes, and in command lines values of another kind."""
    for word in ("qlora", "LoRA", "peft"):
        yield _with(pick, {"finetuning_type": word})
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "lora_rank", "cutoff_len"):
        for wrong in ("two", "1.5"):
            yield _with(pick, _TUNING[1], {name: wrong, "": True})
    for name in ("bf16", "fp16", "pure_bf16", "use_galore", "disable_gradient_checkpointing"):
        yield _with(pick, _TUNING[1], {name: "maybe", "": True})
    for name, wrong in (("max_grad_norm", "one"), ("optim", "adamww"), ("stage", "sftt"), ("quantization_bit", "nf4")):
        yield _with(pick, _TUNING[1], {name: wrong, "": True})


def _with(pick: random.Random, *parts: Mapping[str, object]) -> Keys:
    keys = {**_base(pick), "bf16": True}
    for part in parts:
        keys.update(part)
    return keys


def _files(keys: Keys, number: int, pick: random.Random) -> dict[str, str]:
    """As a file, a file with words over it, or all on the command line, which a key without a name asks for."""
    given = {name: value for name, value in keys.items() if name}
    named = str(keys.get("deepspeed", ""))
    beside = {named: _deepspeed(named)} if named.endswith(".json") else {}
    launch = _launch(pick)
    if "" in keys or number % 6 == 5:
        return {**beside, "launch.sh": f"#!/bin/bash\n{launch} {_options(given)}\n"}
    if number % 6 == 4 and "per_device_train_batch_size" in given:
        over = f" per_device_train_batch_size={given['per_device_train_batch_size']} bf16=true"
        over = over if "bf16" in given and given["bf16"] is True else over.removesuffix(" bf16=true")
        below = {**given, "per_device_train_batch_size": 3}
        return {**beside, "config.yaml": _yaml(below), "launch.sh": f"#!/bin/bash\n{launch} config.yaml{over}\n"}
    return {**beside, "config.yaml": _yaml(given), "launch.sh": f"#!/bin/bash\n{launch} config.yaml\n"}


def _launch(pick: random.Random) -> str:
    nodes, several = pick.choice((1, 2)), pick.choice((4, 8))
    return pick.choice(
        (
            "FORCE_TORCHRUN=1 llamafactory-cli train",
            f"FORCE_TORCHRUN=1 NNODES={nodes} NPROC_PER_NODE={several} llamafactory-cli train",
            f"torchrun --nproc_per_node {several} --nnodes {nodes} src/train.py",
        )
    )


def _options(keys: Keys) -> str:
    return " \\\n  ".join(f"--{name} {_shown(value)}" for name, value in keys.items())


def _yaml(keys: Keys) -> str:
    return "".join(f"{name}: {_plain(value)}\n" for name, value in keys.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) and " " in value else str(value)


def _deepspeed(name: str) -> str:
    """A config of DeepSpeed by its name: ds_z3_offload.json."""
    zero: Keys = {"stage": int(name[4])}
    if "offload" in name:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    config = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": zero,
    }
    return json.dumps(config, indent=2) + "\n"
