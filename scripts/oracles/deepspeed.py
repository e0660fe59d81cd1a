"""Asks DeepSpeed's config parser, as deepspeed.initialize calls it, without a GPU and without starting ranks.

Needs torch and deepspeed (the CPU builds will do).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from oracles import VALID, Answer, Plain, Question
from oracles.deepspeed_configs import (
    CONFIG,
    TRAIN,
    VERSION,
    Config,
    Launch,
    launch_of,
    text_of,
    valid_config,
    with_value,
)
from oracles.deepspeed_mistakes import (
    ODD_VALUES,
    Mistake,
    broken_text,
    missing,
    mistakes,
    not_divisible,
    triple_mismatch,
)

PACKAGES = ("deepspeed", "hjson", "pydantic", "torch")

VALID_CONFIGS = 56
"""Two for each shape of the ZeRO section."""

PER_KIND = 30
"""Mistakes of each kind that are made up at random."""


def questions() -> list[Question]:
    """Configs that work, and the same with one mistake each."""
    return [*_working(), *_whole_sections(), *_odd(), *_parallel(), *_mistaken(), *_wrong_batches(), *_broken()]


def _question(kind: str, title: str, text: str, launch: Launch) -> Question:
    files = {CONFIG: text, "train.py": TRAIN, "launch.sh": launch.command + "\n", **launch.files}
    settings: dict[str, Plain] = {"framework.version": VERSION, **launch.settings}
    return Question(f"{kind}: {title}", kind, files, settings)


def _working() -> Iterator[Question]:
    for number in range(VALID_CONFIGS):
        yield _question(VALID, str(number), text_of(valid_config(number), number), launch_of(number))


def _whole_sections() -> Iterator[Question]:
    """Each section with all the keys that DeepSpeed knows in it, at their defaults."""
    for number, (path, keys) in enumerate(_sections()):
        config = {"train_micro_batch_size_per_gpu": 1}
        yield _question(VALID, f"all of {path}", text_of(with_value(config, path, keys), number), launch_of(number))


def _sections() -> Iterator[tuple[str, Config]]:
    import deepspeed.monitor.config as monitor
    from deepspeed.comm.config import CommsLoggerConfig
    from deepspeed.compile.config import CompileConfig
    from deepspeed.inference.config import WeightQuantConfig
    from deepspeed.runtime import config, precision_config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
    from deepspeed.runtime.zero import config as zero
    from deepspeed.runtime.zero import offload_config as offload
    from deepspeed.utils.config import DeepSpeedThroughputTimerConfig

    yield "zero_optimization", _defaults(zero.DeepSpeedZeroConfig)
    yield "zero_optimization.offload_param", _defaults(offload.DeepSpeedZeroOffloadParamConfig)
    yield "zero_optimization.offload_optimizer", _defaults(offload.DeepSpeedZeroOffloadOptimizerConfig)
    yield "zero_optimization.zenflow", _defaults(ZenFlowConfig)
    yield "zero_optimization.leaf_module", _defaults(zero.DeepSpeedZeroLeafModuleConfig)
    yield "fp16", _defaults(precision_config.DeepSpeedFP16Config)
    yield "bf16", _defaults(precision_config.DeepSpeedBF16Config)
    yield "tensor_parallel", _defaults(TPTrainingConfig)
    yield "compile", _defaults(CompileConfig)
    yield "hybrid_engine", _defaults(config.HybridEngineConfig)
    yield "comms_logger", _defaults(CommsLoggerConfig)
    yield "tensorboard", _defaults(monitor.TensorBoardConfig)
    yield "wandb", _defaults(monitor.WandbConfig)
    yield "csv_monitor", _defaults(monitor.CSVConfig)
    yield "comet", _defaults(monitor.CometConfig)
    yield "timers.throughput", _defaults(DeepSpeedThroughputTimerConfig)
    yield "weight_quantization", _defaults(WeightQuantConfig)


def _defaults(model: Any) -> Config:
    """The keys of a section's model by the names that a file has, without deprecated ones and Python objects."""
    fields = {
        (field.alias or name): getattr(
            field.get_default(call_default_factory=True), "value", field.get_default(call_default_factory=True)
        )
        for name, field in model.model_fields.items()
        if not (field.json_schema_extra or {}).get("deprecated")
    }
    return {name: value for name, value in fields.items() if isinstance(value, Plain | list | dict)}


def _odd() -> Iterator[Question]:
    """Values that look wrong and are taken."""
    for number, (path, value) in enumerate(ODD_VALUES):
        config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}
        yield _question(VALID, f"{path}={value!r}", text_of(with_value(config, path, value), number), launch_of(number))


def _parallel() -> Iterator[Question]:
    """Sequence and tensor parallelism that the config asks for: which of them divide the ranks of the batch."""
    for number, (tensor, ulysses, data) in enumerate(
        ((2, 0, 0), (4, 0, 0), (8, 0, 0), (0, 2, 0), (0, 2, 4), (0, 4, 2))
    ):
        world = 8 if tensor or not ulysses else 8 // ulysses
        config: Config = {"train_batch_size": 4 * world, "train_micro_batch_size_per_gpu": 2}
        config["gradient_accumulation_steps"] = 2
        config |= {"tensor_parallel": {"autotp_size": tensor}} if tensor else {}
        config |= {"sequence_parallel_size": ulysses} if ulysses else {}
        config |= {"data_parallel_size": data} if data else {}
        title = f"tensor {tensor}, sequence {ulysses}, data {data}"
        yield _question(VALID, title, text_of(config, number), launch_of(0))


def _mistaken() -> Iterator[Question]:
    for number, mistake in enumerate(mistakes()):
        text = text_of(mistake.made_in(valid_config(_base(number))), number)
        yield _question(mistake.kind, _title(number, mistake), text, launch_of(_base(number)))


def _title(number: int, mistake: Mistake) -> str:
    return f"{mistake.title} ({number})"


def _base(number: int) -> int:
    """Another valid config for each repetition of a mistake."""
    return number * 11 % VALID_CONFIGS


def _wrong_batches() -> Iterator[Question]:
    makers: tuple[tuple[str, Callable[[Random, Config, int], Config]], ...] = (
        ("batch-triple-mismatch", triple_mismatch),
        ("batch-not-divisible", not_divisible),
        ("batch-missing", lambda pick, config, _: missing(pick, config)),
    )
    for kind, make in makers:
        for number in range(PER_KIND):
            launch = launch_of(number)
            config = make(Random(f"{kind} {number}"), valid_config(number), launch.world)
            yield _question(kind, str(number), text_of(config, number), launch)


def _broken() -> Iterator[Question]:
    for number in range(PER_KIND):
        text = broken_text(Random(f"text {number}"), text_of(valid_config(number), 0))
        yield _question("unreadable-input", str(number), text, launch_of(number))


EXPLAINED: Mapping[str, str] = {}


def ask(question: Question) -> Answer:
    """What DeepSpeed makes of the question's config on the ranks that its launch starts."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    world = _world(question)
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as folder:
        path = Path(folder) / CONFIG
        path.write_text(question.files[CONFIG], encoding="utf-8")
        try:
            config = _parsed(str(path), world)
            _use(config)
        except Exception as error:  # noqa: BLE001 - whatever DeepSpeed raises is its refusal
            return Answer(_first_line(error), {})
    return Answer(None, _derived(config))


def _world(question: Question) -> int:
    command = question.files["launch.sh"].rstrip("\n")
    return next(launch.world for launch in map(launch_of, range(VALID_CONFIGS)) if launch.command == command)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"


class _Mesh:
    """What DeepSpeed makes of data_parallel_size and sequence_parallel_size: a grid over all ranks."""

    def __init__(self, data: int, sequence: int, world: int) -> None:
        if data * sequence != world:
            raise RuntimeError(f"Mesh should not be bigger than default world size {world}")
        self.data = data

    def get_group(self, mesh_dim: str) -> int:
        assert mesh_dim == "data_parallel"
        return self.data


def _parsed(path: str, world: int) -> Any:
    """The file as deepspeed.initialize takes it: read, a mesh where two degrees are given, then the config."""
    import deepspeed.runtime.config as runtime
    from deepspeed.runtime.tensor_parallel.init_utils import load_ds_config

    config = load_ds_config(path)
    grid = "sequence_parallel_size" in config and "data_parallel_size" in config
    mesh = _Mesh(config["data_parallel_size"], config["sequence_parallel_size"], world) if grid else None
    with (
        patch.object(runtime.dist, "get_rank", lambda *_: 0),
        patch.object(runtime.dist, "get_world_size", lambda group=None: world if group is None else group),
    ):
        return runtime.DeepSpeedConfig(config, mesh_device=mesh)


def _use(config: Any) -> None:
    """What the engine does first with values that the parser hands on as they are: builds optimizer and scheduler,
    compares the clipping, counts the steps (runtime/engine.py).
    """
    import torch
    from deepspeed.runtime import lr_schedules

    weights = [torch.nn.Parameter(torch.zeros(1))]
    if config.optimizer_name in ("adam", "adamw"):
        own = {key: value for key, value in config.optimizer_params.items() if key not in ("torch_adam", "adam_w_mode")}
        torch.optim.AdamW(weights, **own)
    if config.scheduler_name is not None:
        scheduler = getattr(lr_schedules, config.scheduler_name)
        scheduler(torch.optim.SGD(weights, lr=0.1, momentum=0.9), **(config.scheduler_params or {}))
    assert config.gradient_clipping > 0.0 or config.gradient_clipping == 0.0
    assert config.steps_per_print is None or 1 % config.steps_per_print >= 0
    assert 1.0 / config.gradient_predivide_factor


def _derived(config: Any) -> Mapping[str, Plain]:
    """The settled values by dtlint's names, as far as the two mean the same."""
    compute = "fp16" if config.float16_config.enabled else "bf16" if config.bfloat16_config.enabled else "fp32"
    gradients = _format(config.grad_accum_dtype) or compute
    zero = config.zero_config
    derived: dict[str, Plain] = {
        "batch.global": int(config.train_batch_size),
        "batch.micro": config.train_micro_batch_size_per_gpu,
        "batch.accumulation": config.gradient_accumulation_steps,
        "sharding.stage": int(zero.stage),
        "sharding.offload_optimizer": _offloaded_optimizer(zero),
        "sharding.offload_parameters": _device(zero.offload_param) if zero.stage == 3 else "none",
        "precision.compute": compute,
        "precision.gradients": gradients,
        "communication.bucket_bytes": zero.reduce_bucket_size * {"fp32": 4, "fp16": 2, "bf16": 2}[gradients],
        "data.drop_last": config.dataloader_drop_last,
    }
    derived |= {"overlap.gradients": zero.overlap_comm} if zero.stage else {}
    derived |= {"overlap.parameters": zero.overlap_comm} if zero.stage == 3 else {}
    derived |= {"optimizer.name": config.optimizer_name.lower()} if config.optimizer_name else {}
    clip = config.gradient_clipping
    derived |= {} if isinstance(clip, str) else {"optimizer.clip": float(clip)}
    reduce = str(config.communication_data_type).removeprefix("torch.")
    derived |= {"precision.reduce": _format(reduce)} if config.communication_data_type is not None else {}
    return derived


def _format(name: str | None) -> str | None:
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(name or "", name)


def _device(section: Any) -> str:
    return "none" if section is None else str(getattr(section.device, "value", section.device))


def _offloaded_optimizer(zero: Any) -> str:
    """Stages 1 and 2 keep in main memory what is to go to NVMe; stage 0 offloads nothing."""
    device = _device(zero.offload_optimizer)
    if zero.stage == 0:
        return "none"
    return "cpu" if device == "nvme" and zero.stage < 3 else device
