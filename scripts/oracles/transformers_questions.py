"""What Transformers is asked: a training program with its arguments on the command line or in a file, a DeepSpeed
config or FSDP's beside it, whole and with one mistake.
"""

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

HIDDEN: Mapping[str, int] = {
    "gpt2": 768,
    "meta-llama/Llama-2-7b-hf": 4096,
    "meta-llama/Llama-2-13b-hf": 5120,
    "mistralai/Mistral-7B-v0.1": 4096,
}
"""Hidden sizes (each model's config.json)."""

_IMPORTS = """import sys
from dataclasses import dataclass, field

from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="gpt2")
    max_seq_length: int = field(default=2048)


parser = HfArgumentParser((ModelArguments, TrainingArguments))
"""
_TRAINING = """model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
trainer = Trainer(model=model, args=training_args, train_dataset=data())
trainer.train()
"""
_PARSERS = {
    "": "model_args, training_args = parser.parse_args_into_dataclasses()\n",
    "json": "model_args, training_args = parser.parse_json_file(sys.argv[1])\n",
    "yaml": "model_args, training_args = parser.parse_yaml_file(sys.argv[1])\n",
}


class Case(NamedTuple):
    """A training: the launcher's words, the program's arguments by name, where they stand ("" for the command line,
    json, yaml), more words behind them, and the files beside it.
    """

    arguments: Mapping[str, object]
    launcher: str = "torchrun --nproc_per_node 8"
    where: str = ""
    words: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, object]] = {}


def questions() -> list[Question]:
    """Valid trainings first, then one list of mutants for each mistake that Transformers checks."""
    return with_mutants(list(_valid()), _KINDS, _question)


def _question(name: str, kind: str, case: Case) -> Question:
    program = _IMPORTS + _PARSERS[case.where] + _TRAINING
    files = {path: json.dumps(keys, indent=2) for path, keys in case.files.items()}
    words = [*_words(case.arguments), *case.words]
    if case.where:
        path = f"args.{case.where}"
        files[path], words = _text(case.where, case.arguments), [path]
    line = " ".join((*case.launcher.split(), "train.py", *words))
    return Question(name, kind, {"launch.sh": f"#!/bin/bash\n{line}\n", "train.py": program, **files}, {})


def _words(arguments: Mapping[str, object]) -> Iterator[str]:
    for name, value in arguments.items():
        yield f"--{name}"
        if value is not None:
            yield f'"{value}"' if " " in str(value) else str(value)


def _text(where: str, arguments: Mapping[str, object]) -> str:
    if where == "json":
        return json.dumps(arguments, indent=2)
    import yaml

    return str(yaml.safe_dump(dict(arguments), sort_keys=False))


# Valid trainings

_MODELS = tuple(HIDDEN)


def _arguments(index: int, **more: object) -> Keys:
    """Arguments as launch scripts have them."""
    return {
        "model_name_or_path": _MODELS[index % len(_MODELS)],
        "output_dir": "out",
        "per_device_train_batch_size": (1, 2, 4, 8)[index % 4],
        "gradient_accumulation_steps": (1, 4, 8)[index % 3],
        "learning_rate": 2e-5,
        "num_train_epochs": 3,
        "bf16": True,
        **more,
    }


def _zero(stage: int, **more: object) -> Keys:
    sizes = {"stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"} if stage == 3 else {}
    section = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": "auto"}
    return {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": {**section, **sizes},
        **more,
    }


def _valid() -> Iterator[Case]:
    yield from _data_parallel()
    yield from _deepspeed()
    yield from _fsdp()
    yield from _in_files()


def _data_parallel() -> Iterator[Case]:
    for index in range(14):
        yield Case(_arguments(index), ("torchrun --nproc_per_node 8", "torchrun --nproc_per_node 4")[index % 2])
    yield Case(_arguments(1, bf16=False, fp16=True))
    yield Case({**_arguments(2), "bf16": None})
    yield Case({"output_dir": "out"})
    yield Case(_arguments(3, optim="adafactor", max_grad_norm=0.5, ddp_timeout=7200))
    yield Case(_arguments(4, activation_checkpointing=True))
    yield Case(_arguments(5, gradient_checkpointing=True, ddp_find_unused_parameters=False))
    yield Case(_arguments(6, gradient_checkpointing=False), "torchrun --nproc_per_node 1")
    yield Case(_arguments(7), "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint head:29500")
    yield Case(_arguments(8), "python")
    yield Case(_arguments(9, ddp_bucket_cap_mb=50, dataloader_drop_last=True, max_steps=500))
    dashed = {name.replace("_", "-"): value for name, value in _arguments(10).items()}
    yield Case(dashed)
    yield Case({"model_name_or_path": "gpt2", "output_dir": "o", "per_device_train_batch": 4, "bf16": True})
    yield Case({"model_name_or_path": "gpt2", "output_dir": "o", "gradient_acc": 4, "bf16": True, "do_train": None})


def _deepspeed() -> Iterator[Case]:
    for stage, index in product((0, 1, 2, 3), (0, 1, 2, 3)):
        yield Case(_arguments(index, deepspeed="ds.json"), files={"ds.json": _zero(stage)})
    literal = _zero(2, train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=8, gradient_clipping=1.0)
    del literal["train_batch_size"]
    yield Case(_arguments(2, deepspeed="ds.json"), files={"ds.json": literal})
    yield Case(_arguments(2, deepspeed="ds.json"), files={"ds.json": {**literal, "bf16": {"enabled": True}}})
    yield Case(
        _arguments(1, deepspeed="ds.json", max_grad_norm=0.3, gradient_checkpointing=True),
        files={"ds.json": {**_zero(3), "gradient_clipping": 0.3}},
    )
    yield Case(_arguments(3, deepspeed="ds.json"), files={"ds.json": _with_optimizer(_zero(2))})
    offload = {**_section(_zero(3)), "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
    yield Case(_arguments(0, deepspeed="ds.json"), files={"ds.json": {**_zero(3), "zero_optimization": offload}})
    sized = {**_section(_zero(2)), "reduce_bucket_size": 200000000}
    yield Case(_arguments(0, deepspeed="ds.json"), files={"ds.json": {**_zero(2), "zero_optimization": sized}})
    yield Case(_arguments(5, deepspeed="ds.json", bf16=False, fp16=True), files={"ds.json": _zero(2)})
    several = "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint head:29500"
    yield Case(_arguments(1, deepspeed="ds.json"), several, files={"ds.json": _zero(3)})
    yield Case(_arguments(1, deepspeed="ds.json", auto_find_batch_size=True), files={"ds.json": _zero(2)})


def _section(config: Mapping[str, object]) -> Keys:
    found = config["zero_optimization"]
    return dict(found) if isinstance(found, dict) else {}


def _with_optimizer(config: Keys, **params: object) -> Keys:
    auto = {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto", **params}
    steps = {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}
    return {
        **config,
        "optimizer": {"type": "AdamW", "params": auto},
        "scheduler": {"type": "WarmupDecayLR", "params": steps},
    }


def _fsdp() -> Iterator[Case]:
    for index, words in enumerate(("full_shard auto_wrap", "shard_grad_op auto_wrap", "full_shard auto_wrap offload")):
        yield Case(_arguments(index, fsdp=words))
        yield Case(_arguments(index, fsdp=words, fsdp_config="fsdp.json"), files={"fsdp.json": _wrapped(index)})
    yield Case(_arguments(3, fsdp=None, fsdp_config="fsdp.json"), files={"fsdp.json": _wrapped(3)})
    yield Case({**_arguments(4), "fsdp": None, "fsdp_config": "fsdp.json"}, files={"fsdp.json": {"version": 2}})
    first = {"version": 1, "backward_prefetch": "backward_pre", "reshard_after_forward": "shard_grad_op"}
    yield Case(_arguments(5, fsdp=None, fsdp_config="fsdp.json"), files={"fsdp.json": {**_wrapped(5), **first}})
    inside = {**_wrapped(6), "activation_checkpointing": True}
    yield Case(_arguments(6, fsdp=None, fsdp_config="fsdp.json"), files={"fsdp.json": inside})
    yield Case(_arguments(7, fsdp="full_shard auto_wrap", gradient_checkpointing=True))
    kept = {**_wrapped(8), "reshard_after_forward": False, "cpu_offload": True}
    yield Case(_arguments(8, fsdp=None, fsdp_config="fsdp.json"), files={"fsdp.json": kept})


def _wrapped(index: int) -> Keys:
    layer = ("GPT2Block", "LlamaDecoderLayer", "LlamaDecoderLayer", "MistralDecoderLayer")[index % 4]
    return {"transformer_layer_cls_to_wrap": [layer], "state_dict_type": "SHARDED_STATE_DICT"}


def _in_files() -> Iterator[Case]:
    for index, where in product(range(4), ("json", "yaml")):
        yield Case(_arguments(index, gradient_checkpointing=index % 2 == 0), where=where)
        zero = {"ds.json": _zero(2 + index % 2)}
        yield Case(_arguments(index, deepspeed="ds.json"), where=where, files=zero)


# Mistakes

Mutants = Iterator[Case]


def _pick(cases: Sequence[Case], random: Random, count: int = EACH) -> list[Case]:
    chosen = list(cases)
    random.shuffle(chosen)
    return (chosen * (count // max(1, len(chosen)) + 1))[:count]


def _changed(case: Case, **arguments: object) -> Case:
    return case._replace(arguments={**case.arguments, **arguments})


def _on_line(valid: Sequence[Case]) -> list[Case]:
    return [case for case in valid if not case.where and "model-name-or-path" not in case.arguments]


def _with_zero(valid: Sequence[Case]) -> list[Case]:
    return [case for case in valid if "ds.json" in case.files and not case.arguments.get("auto_find_batch_size")]


def _zeroed(case: Case, **keys: object) -> Case:
    return case._replace(files={**case.files, "ds.json": {**case.files["ds.json"], **keys}})


_TYPOS = (
    "per_device_train_batchsize", "per_device_train_batch_sizes", "per_devices_train_batch_size",
    "gradient_accumulation_step_s", "gradient_accumulations_steps", "grad_accumulation_steps", "learning_rates",
    "learnin_rate", "num_train_epoch_s", "num_training_epochs", "max_grad_norms", "maxgrad_norm",
    "gradient_checkpointings", "gradient_checkpoint_ing", "activation_checkpoint_ing", "deep_speed", "deepspeeds",
    "fsdp_configs", "ddp_timeouts", "ddp_time_out", "ddp_find_unused_parameter_s", "bf16_full_evals", "optimm",
    "lr_schedular_type", "weight_decays", "warmup_step_s", "save_step_s", "logging_stepss", "output_dirs",
    "dataloader_num_worker_s", "max_stepss", "ddp_bucket_cap_mbs",
)  # fmt: skip


def _typos(valid: Sequence[Case], random: Random) -> Mutants:
    for name, case in zip(_TYPOS, _pick(_on_line(valid), random, len(_TYPOS)), strict=True):
        yield _changed(case, **{name: 4})


_FOREIGN = (
    "zero_stage", "micro_batch_size", "global_batch_size", "tensor_model_parallel_size", "pipeline_parallel_size",
    "num_gpus", "world_size", "batch_size", "train_batch_size", "epochs", "lr", "mixed_precision", "use_deepspeed",
    "use_fsdp", "num_processes", "seq_length", "tp_size", "sharding_strategy", "offload_optimizer", "precision",
    "master_port", "nproc_per_node", "cutoff_len", "lora_rank", "use_lora", "dataset_path", "train_file", "packing",
    "attn_implementation", "eval_dataset",
)  # fmt: skip


def _foreign(valid: Sequence[Case], random: Random) -> Mutants:
    for name, case in zip(_FOREIGN, _pick(_on_line(valid), random, len(_FOREIGN)), strict=True):
        yield _changed(case, **{name: 4})


def _strange_keys(valid: Sequence[Case], random: Random) -> Mutants:
    """Keys in a file of arguments that no dataclass has."""
    names = (*_TYPOS[::2], *_FOREIGN[::2])
    for name, case in zip(names, _pick([case for case in valid if case.where], random, len(names)), strict=True):
        yield _changed(case, **{name: 4})


_WRONG: tuple[tuple[str, object], ...] = (
    *(("per_device_train_batch_size", value) for value in ("four", "2.0", "auto", "1e1")),
    *(("gradient_accumulation_steps", value) for value in ("auto", "4.5", "x")),
    *(("max_steps", value) for value in ("1e3", "all")),
    *(("learning_rate", value) for value in ("auto", "2e-5x")),
    *(("max_grad_norm", value) for value in ("off", "one")),
    *(("bf16", value) for value in ("maybe", "auto", "bf16")),
    *(("fp16", value) for value in ("O2", "apex")),
    *(("gradient_checkpointing", value) for value in ("full", "selective", "2")),
    *(("optim", value) for value in ("adam", "AdamW", "adamw_hf", "muon")),
    *(("lr_scheduler_type", value) for value in ("cosin", "step")),
    *(("ddp_timeout", value) for value in ("1h", "1800.5")),
    *(("ddp_bucket_cap_mb", value) for value in ("25.5", "big")),
    *(("ddp_find_unused_parameters", value) for value in ("none", "auto")),
    *(("ddp_backend", value) for value in ("NCCL", "ucc")),
    *(("per_device_eval_batch_size", value) for value in ("2.5", "small")),
    *(("weight_decay", value) for value in ("none", "0,1")),
    *(("adam_beta2", value) for value in ("0.95x", "auto")),
    *(("save_total_limit", value) for value in ("1.5", "all")),
    *(("dataloader_num_workers", value) for value in ("auto", "4.0")),
    *(("do_train", value) for value in ("train", "2")),
    ("auto_find_batch_size", "4"), ("dataloader_drop_last", "x"), ("num_train_epochs", "three"), ("tf32", "high"),
)  # fmt: skip


def _wrong(valid: Sequence[Case], random: Random) -> Mutants:
    for (name, value), case in zip(_WRONG, _pick(_on_line(valid), random, len(_WRONG)), strict=True):
        yield _changed(case, **{name: value})


def _both_formats(valid: Sequence[Case], random: Random) -> Mutants:
    for index, case in enumerate(_pick([each for each in valid if each.arguments.get("bf16") is True], random)):
        yield _changed(case, fp16=None if index % 3 == 0 and not case.where else True)


def _both_frameworks(valid: Sequence[Case], random: Random) -> Mutants:
    on_line = [case for case in _with_zero(valid) if not case.where]
    for index, case in enumerate(_pick(on_line, random)):
        words = ("full_shard auto_wrap", "shard_grad_op auto_wrap", None)[index % 3]
        yield _changed(case, fsdp=words)


def _strange_words(valid: Sequence[Case], random: Random) -> Mutants:
    """Words of --fsdp that it does not take."""
    words = (
        "fullshard auto_wrap", "full_shard autowrap", "full-shard auto_wrap", "zero3 auto_wrap", "full_shard,auto_wrap",
        "full_shard auto_wrap cpu_offload", "fsdp auto_wrap", "full_shard transformer_wrap", "shard_grad auto_wrap",
        "True",
    )  # fmt: skip
    plain = [case for case in _on_line(valid) if not case.files and "torchrun" in case.launcher]
    for index, case in enumerate(_pick(plain, random)):
        yield _changed(case, fsdp=words[index % len(words)])


def _strange_wrapping(valid: Sequence[Case], random: Random) -> Mutants:
    """Values of the file of --fsdp_config that it does not take."""
    changes: tuple[Keys, ...] = (
        {"auto_wrap_policy": "transformer"},
        {"auto_wrap_policy": "LlamaDecoderLayer"},
        {"version": 2, "reshard_after_forward": "full_shard"},
        {"version": 2, "reshard_after_forward": "maybe"},
        {"activation_checkpointing": "selective"},
        {"cpu_ram_efficient_loading": "rank0"},
        {"version": 2, "state_dict_type": "LOCAL_STATE_DICT"},
        {"state_dict_type": "FULL"},
        {"version": 1, "backward_prefetch": "pre"},
        {"version": 1, "reshard_after_forward": True},
        {"version": 1, "use_orig_params": "auto"},
        {"version": "two"},
    )
    files = [case for case in valid if "fsdp.json" in case.files and "fsdp" in case.arguments]
    files = [case for case in files if "version" not in case.files["fsdp.json"]]
    for index, case in enumerate(_pick(files, random, 36)):
        yield case._replace(files={"fsdp.json": {**case.files["fsdp.json"], **changes[index % len(changes)]}})


def _twice(valid: Sequence[Case], random: Random) -> Mutants:
    """Recomputation by FSDP and by the Trainer."""
    files = [case for case in valid if "fsdp.json" in case.files]
    for index, case in enumerate(_pick(files, random)):
        name = ("gradient_checkpointing", "activation_checkpointing")[index % 2]
        inside = {("fsdp_" if index % 3 == 2 else "") + "activation_checkpointing": (True, "true")[index % 4 == 3]}
        both = case._replace(files={"fsdp.json": {**case.files["fsdp.json"], **inside}})
        yield _changed(both, **{name: (True, None)[index % 5 == 4]})


_LITERALS: tuple[Keys, ...] = (
    {"train_micro_batch_size_per_gpu": 16},
    {"train_micro_batch_size_per_gpu": 3},
    {"gradient_accumulation_steps": 2},
    {"gradient_accumulation_steps": 16},
    {"gradient_clipping": 0.7},
    {"gradient_clipping": 5},
    {"train_batch_size": 1000},
    {"train_batch_size": 24},
    {"train_micro_batch_size_per_gpu": "4"},
    {"gradient_accumulation_steps": "8"},
)


def _mismatches(valid: Sequence[Case], random: Random) -> Mutants:
    """Literals of the DeepSpeed config that differ from the arguments."""
    for index, case in enumerate(_pick(_with_zero(valid), random, 40)):
        yield _zeroed(case, **_LITERALS[index % len(_LITERALS)])


def _format_mismatches(valid: Sequence[Case], random: Random) -> Mutants:
    """A format that the config turns on or off, and the arguments do not."""
    bf16 = [case for case in _with_zero(valid) if case.arguments.get("bf16") is True]
    for index, case in enumerate(_pick(bf16, random)):
        if index % 3 == 0:
            yield _zeroed(case, bf16={"enabled": False})
        elif index % 3 == 1:
            yield _zeroed(_changed(case, bf16=False), bf16={"enabled": True})
        else:
            yield _zeroed(_changed(case, bf16=False), fp16={"enabled": True})


def _number_mismatches(valid: Sequence[Case], random: Random) -> Mutants:
    """Numbers of the config's optimizer and scheduler that differ from the arguments."""
    params: tuple[Keys, ...] = (
        {"lr": 1e-4},
        {"lr": 3e-4},
        {"weight_decay": 0.1},
        {"weight_decay": 0.01},
        {"eps": 1e-6},
        {"betas": [0.9, 0.95]},
        {"betas": [0.8, 0.999]},
    )
    for index, case in enumerate(_pick(_with_zero(valid), random)):
        config = {key: value for key, value in case.files["ds.json"].items() if key not in ("optimizer", "scheduler")}
        if index % 4 == 3:
            changed = _with_optimizer(dict(config))
            scheduler = {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": "auto"}}
            yield case._replace(files={"ds.json": {**changed, "scheduler": scheduler}})
        else:
            yield case._replace(files={"ds.json": _with_optimizer(dict(config), **params[index % len(params)])})


def _found_batch(valid: Sequence[Case], random: Random) -> Mutants:
    """A batch that is looked for under ZeRO-3."""
    third = [case for case in _with_zero(valid) if _section(case.files["ds.json"])["stage"] == 3]
    for case in _pick(third, random):
        yield _changed(case, auto_find_batch_size=True)


def _alone(valid: Sequence[Case], random: Random) -> Mutants:
    """FSDP without a launcher."""
    sharded = [case for case in valid if "fsdp" in case.arguments]
    for case in _pick(sharded, random):
        yield case._replace(launcher="python")


_KINDS = {
    "unknown-setting": _typos,
    "unknown-setting (of another program)": _foreign,
    "unknown-setting (in a file)": _strange_keys,
    "setting-type": _wrong,
    "setting-type (both formats)": _both_formats,
    "setting-type (words of --fsdp)": _strange_words,
    "setting-type (FSDP config)": _strange_wrapping,
    "checkpointing-twice": _twice,
    "conflicting-settings (frameworks)": _both_frameworks,
    "conflicting-settings": _mismatches,
    "conflicting-settings (format)": _format_mismatches,
    "conflicting-settings (optimizer)": _number_mismatches,
    "conflicting-settings (batch looked for)": _found_batch,
    "fsdp without a launcher": _alone,
}
