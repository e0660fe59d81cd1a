"""Configs, options and calls of Lightning's Trainer: sound ones, then ones with a mistake each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from oracles import VALID, Plain, Question

GPUS = 8
"""GPUs of the pretended machine."""
VERSION = "2.6.6"
_SETTINGS: Mapping[str, Plain] = {"cluster.gpus_per_node": GPUS, "version.lightning": VERSION}

Given = dict[str, object]
"""Arguments of a Trainer; a strategy is a name, or a class (`class_path`) with its arguments (`init_args`)."""

_NAMES = (
    "auto", "ddp", "ddp_spawn", "ddp_find_unused_parameters_true", "ddp_find_unused_parameters_false",
    "ddp_notebook_find_unused_parameters_true", "fsdp", "fsdp_cpu_offload", "deepspeed", "deepspeed_stage_1",
    "deepspeed_stage_2", "deepspeed_stage_2_offload", "deepspeed_stage_3", "deepspeed_stage_3_offload",
    "deepspeed_stage_3_offload_nvme",
)  # fmt: skip
_PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "bf16-true", "16-true", 32, 16, "bf16", "32")
_MODEL_PARALLEL = ("32-true", "bf16-mixed", "bf16-true", "16-true")
_BLOCKS = ("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer")


_NO_STRATEGIES = (
    "ddpp", "fsdp_offload", "deepspeed_stage_4", "deepspeed_stage3", "zero3", "ddp_find_unused", "fsdp2",
    "ddp_find_unused_parameters", "deepspeed_stage_2_offload_nvme", "model_parallel", "FSDP_native2",
)  # fmt: skip
_NO_ARGUMENTS = (
    "device", "num_node", "accumulate_grad_batch", "gradient_clip_value", "precison", "stratgy", "max_epoch",
    "sync_batch_norm", "use_distributed_samplers", "limit_val_batch", "accelerators",
)  # fmt: skip


def questions() -> list[Question]:
    """Sound ones in three forms (a file, a file with options over it, a call), then one mistake in each."""
    pick = random.Random(0)
    sound = [_asked(given, number % 3) for number, given in enumerate(_valid(pick))]
    wrong = {
        "setting-type": list(_wrong_values()),
        "refused-combination": list(_wrong_together()),
        "unknown-setting": list(_misspelt()),
        "world-size-mismatch": list(_wrong_degrees()),
    }
    found = [(VALID, sound)]
    found += [(kind, [_asked(given, number % 2) for number, given in enumerate(each)]) for kind, each in wrong.items()]
    return [
        Question(f"{kind}-{number:03}", kind, files, _SETTINGS)
        for kind, several in found
        for number, files in enumerate(several)
    ]


def _valid(pick: random.Random) -> Iterator[Given]:
    for number in range(180):
        strategy = _strategy(pick, number)
        given: Given = {"accelerator": pick.choice(("gpu", "cuda", "auto")), "strategy": strategy}
        if (isinstance(strategy, str) and "fsdp" in strategy) or _class(strategy) == "FSDPStrategy":
            given["accelerator"] = "gpu"
        several = pick.choice((8, 4, "auto", -1, [0, 1, 2, 3], 2))
        given["devices"] = 8 if _class(strategy) == "ModelParallelStrategy" else several
        given["num_nodes"] = 2 if _class(strategy) == "ModelParallelStrategy" else pick.choice((1, 2, 4))
        given["precision"] = pick.choice(
            _MODEL_PARALLEL if _class(strategy) == "ModelParallelStrategy" else _PRECISIONS
        )
        for name, values in (("accumulate_grad_batches", (1, 2, 8)), ("gradient_clip_val", (0.5, 1.0))):
            if pick.random() < 0.6:
                given[name] = pick.choice(values)
        yield given


def _class(strategy: object) -> str:
    return str(strategy["class_path"]).rpartition(".")[2] if isinstance(strategy, dict) else ""


def _strategy(pick: random.Random, number: int) -> object:
    if number % 2:
        return _NAMES[number // 2 % len(_NAMES)]
    build = (_ddp, _fsdp, _fsdp, _deepspeed, _model_parallel)[number // 2 % 5]
    name, arguments = build(pick)
    return {"class_path": f"lightning.pytorch.strategies.{name}", "init_args": arguments}


def _ddp(pick: random.Random) -> tuple[str, Given]:
    choices: Given = {"find_unused_parameters": pick.random() < 0.5, "bucket_cap_mb": pick.choice((25, 50))}
    return "DDPStrategy", _some(pick, choices)


def _fsdp(pick: random.Random) -> tuple[str, Given]:
    arguments = _some(
        pick,
        {
            "sharding_strategy": pick.choice(("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")),
            "cpu_offload": pick.random() < 0.5,
            "auto_wrap_policy": [pick.choice(_BLOCKS)],
            "activation_checkpointing_policy": [pick.choice(_BLOCKS)],
        },
    )
    if pick.random() < 0.3:
        arguments |= {"sharding_strategy": "HYBRID_SHARD", "device_mesh": [2, pick.choice((4, 8))]}
    return "FSDPStrategy", arguments


def _deepspeed(pick: random.Random) -> tuple[str, Given]:
    stage = pick.choice((1, 2, 3))
    arguments: Given = {
        "stage": stage,
        "offload_optimizer": pick.random() < 0.5,
        "overlap_comm": pick.random() < 0.5,
        "reduce_bucket_size": pick.choice((200_000_000, 500_000_000)),
    }
    if stage == 3:
        arguments["offload_parameters"] = pick.random() < 0.5
    return "DeepSpeedStrategy", _some(pick, arguments)


def _model_parallel(pick: random.Random) -> tuple[str, Given]:
    """Two nodes of eight."""
    data, tensor = pick.choice(((2, 8), (4, 4), (16, 1), ("auto", "auto"), ("auto", 8), (2, "auto")))
    return "ModelParallelStrategy", {"data_parallel_size": data, "tensor_parallel_size": tensor}


def _some(pick: random.Random, choices: Given) -> Given:
    return {name: value for name, value in choices.items() if pick.random() < 0.6}


def _sound(**changes: object) -> Given:
    start: Given = {"accelerator": "gpu", "strategy": "ddp", "devices": 8, "num_nodes": 2, "precision": "bf16-mixed"}
    return {**start, **changes}


def _wrong_values() -> Iterator[Given]:
    for name in _NO_STRATEGIES:
        yield _sound(strategy=name)
    for precision in ("bf16-mix", "fp16", "bfloat16", 8, "mixed", "bf16_mixed", "fp8", "16-Mixed"):
        yield _sound(precision=precision)
    for nodes in (0, -1):
        yield _sound(num_nodes=nodes)
    for several in (0, "0"):
        yield _sound(devices=several)


def _wrong_together() -> Iterator[Given]:
    for precision in ("64-true", "transformer-engine", 64):
        yield _sound(strategy="fsdp", precision=precision)
        yield _sound(strategy=_built("FSDPStrategy", cpu_offload=True), precision=precision)
    for precision in ("16-mixed", "transformer-engine", 16, "64-true"):
        strategy = _built("ModelParallelStrategy", data_parallel_size=2, tensor_parallel_size=8)
        yield _sound(strategy=strategy, precision=precision)
    yield _sound(strategy=_built("FSDPStrategy", sharding_strategy="HYBRID_SHARD"))
    yield _sound(strategy=_built("FSDPStrategy", sharding_strategy="HYBRID_SHARD", cpu_offload=True))


def _misspelt() -> Iterator[Given]:
    for wrong in _NO_ARGUMENTS:
        yield _sound(**{wrong: 4})


def _wrong_degrees() -> Iterator[Given]:
    for data, tensor in ((2, 4), (4, 8), (8, 8), (3, 4), (1, 8), ("auto", 4), (4, "auto")):
        strategy = _built("ModelParallelStrategy", data_parallel_size=data, tensor_parallel_size=tensor)
        yield _sound(strategy=strategy)


def _built(name: str, **arguments: object) -> object:
    return {"class_path": f"lightning.pytorch.strategies.{name}", "init_args": arguments}


# How they are written


def _asked(given: Given, form: int) -> dict[str, str]:
    if form == 2:
        return {"train.py": _call(given)}
    if form == 1:
        return {"config.yaml": _yaml(_before(given)), "launch.sh": _command(given)}
    return {"config.yaml": _yaml(given), "launch.sh": "#!/bin/bash\npython main.py fit --config config.yaml\n"}


def _before(given: Given) -> Given:
    """What the file says that options replace in part."""
    return {**given, "devices": 1, "num_nodes": 1} if "devices" in given else given


def _command(given: Given) -> str:
    words = [
        f"--trainer.{name}={value}"
        for name, value in given.items()
        if name in ("devices", "num_nodes") and not isinstance(value, list)
    ]
    if isinstance(given.get("devices"), list):
        words.append("--trainer.devices='" + str(given["devices"]).replace(" ", "") + "'")
    return "#!/bin/bash\npython main.py fit --config config.yaml \\\n  " + " ".join(words) + "\n"


def _yaml(given: Given) -> str:
    return "seed_everything: 1\ntrainer:\n" + "".join(_entries(given, 1))


def _entries(given: Mapping[str, object], depth: int) -> Iterator[str]:
    for name, value in given.items():
        if isinstance(value, dict) and value:
            yield f"{'  ' * depth}{name}:\n"
            yield from _entries(value, depth + 1)
        else:
            yield f"{'  ' * depth}{name}: {_scalar(value)}\n"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, str) and value.isdigit():
        return f'"{value}"'
    return str(value)


def _call(given: Given) -> str:
    strategy = given["strategy"]
    arguments = {name: repr(value) for name, value in given.items()}
    imports = "import torch\nimport lightning as L\n"
    if isinstance(strategy, dict):
        name = _class(strategy)
        imports += f"from lightning.pytorch.strategies import {name}\n"
        arguments["strategy"] = f"{name}({_keywords(strategy['init_args'])})"
    shown = ",\n    ".join(f"{name}={text}" for name, text in arguments.items())
    return f"{imports}\ntrainer = L.Trainer(\n    {shown},\n)\n"


def _keywords(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_python(name, value)}" for name, value in arguments.items())


def _python(name: str, value: object) -> str:
    if name.endswith("_policy") and isinstance(value, Sequence):
        return "{" + ", ".join(map(str, value)) + "}"
    return str(tuple(value)) if isinstance(value, list) else repr(value)
