"""Lightning: what LightningCLI and its Trainer make of configs, options and calls, on a pretended machine of 8 GPUs.

jsonargparse reads the files and options, the Trainer checks its arguments and builds the strategy; both stop before the
processes start. DeepSpeed itself is not asked: its strategy is built beside an empty package.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

from oracles import Answer, Plain, Question, at_hand
from oracles.lightning_questions import GPUS, questions

__all__ = ["EXPLAINED", "PACKAGES", "ask", "questions"]

PACKAGES = ("lightning", "torch", "jsonargparse")
EXPLAINED: Mapping[str, str] = {}

_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3}
_FRAMEWORKS = {
    "DDPStrategy": "ddp",
    "FSDPStrategy": "fsdp",
    "DeepSpeedStrategy": "deepspeed",
    "ModelParallelStrategy": "fsdp",
    "SingleDeviceStrategy": "pytorch",
}
_FORMATS = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32"}
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def ask(question: Question) -> Answer:
    """What Lightning says to a config or a call, and what it settles on."""
    with at_hand(question.files) as said, _machine():
        try:
            return Answer(None, _derived(_trainer(question.files)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever stops the launch is its answer
            return Answer(_first_line(error, said.getvalue()), {})


def _first_line(error: BaseException, said: str) -> str:
    lines = (said if isinstance(error, SystemExit) else str(error)).strip().splitlines()
    told = next((line for line in lines if "rror" in line or not isinstance(error, SystemExit)), "refused")
    return f"{type(error).__name__}: {told.strip()}"[:200]


@contextmanager
def _machine() -> Iterator[None]:
    """A machine with GPUs and a package named deepspeed."""
    import torch
    from lightning.fabric.strategies import deepspeed as of_fabric
    from lightning.pytorch.strategies import deepspeed

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.dict(sys.modules, {"deepspeed": MagicMock()}))
        stack.enter_context(patch.object(torch.cuda, "device_count", lambda: GPUS))
        stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
        for module in (deepspeed, of_fabric):
            stack.enter_context(patch.object(module, "_DEEPSPEED_AVAILABLE", True))
            stack.enter_context(patch.object(module, "_DEEPSPEED_GREATER_EQUAL_0_16", True))
        yield


def _trainer(files: Mapping[str, str]) -> Any:
    """The Trainer that would fit."""
    from lightning.pytorch.cli import LightningCLI
    from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

    if "train.py" in files:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(files["train.py"], "train.py", "exec"), names)
        return names["trainer"]
    words = shlex.split(files["launch.sh"].replace("\\\n", " "), comments=True)
    with patch.object(LightningCLI, "_run_subcommand"):
        return LightningCLI(BoringModel, BoringDataModule, args=words[words.index("main.py") + 1 :]).trainer


def _derived(trainer: Any) -> dict[str, Plain]:
    strategy = trainer.strategy
    kind = type(strategy).__name__
    found: dict[str, Plain] = {
        "framework": _FRAMEWORKS[kind],
        "launch.nodes": trainer.num_nodes,
        "launch.processes_per_node": trainer.num_devices,
        "parallel.world_size": trainer.num_nodes * trainer.num_devices,
        "batch.accumulation": trainer.accumulate_grad_batches,
        "optimizer.clip": trainer.gradient_clip_val or 0.0,
    }
    details = {"DDPStrategy": _ddp, "FSDPStrategy": _fsdp, "DeepSpeedStrategy": _deepspeed}
    more = {"ModelParallelStrategy": _model_parallel, **details}.get(kind)
    return {**found, **_precision(strategy), **(more(strategy) if more is not None else {})}


def _precision(strategy: Any) -> dict[str, Plain]:
    """The formats, as the plugin holds them."""
    from lightning.pytorch.plugins import FSDPPrecision, HalfPrecision, MixedPrecision

    plugin = strategy.precision_plugin
    if isinstance(plugin, FSDPPrecision):
        config = plugin.mixed_precision_config
        held = _FORMATS[str(plugin._desired_input_dtype)]
        compute, reduced = (_FORMATS[str(each)] for each in (config.param_dtype, config.reduce_dtype))
        return {"precision.compute": compute, "precision.reduce": reduced, "precision.master": held}
    if isinstance(plugin, HalfPrecision):
        return {"precision.compute": _FORMATS[str(plugin._desired_input_dtype)]}
    word = plugin.precision
    if isinstance(plugin, MixedPrecision):
        return {"precision.compute": {"16-mixed": "fp16", "bf16-mixed": "bf16"}[word], "precision.master": "fp32"}
    found = {"16": "fp16", "bf16": "bf16", "32": "fp32"}.get(word.partition("-")[0])
    return {} if found is None else {"precision.compute": found}


def _ddp(strategy: Any) -> dict[str, Plain]:
    given = strategy._ddp_kwargs
    found: dict[str, Plain] = {"communication.find_unused": given.get("find_unused_parameters", False)}
    if given.get("bucket_cap_mb") is not None:
        found["communication.bucket_bytes"] = given["bucket_cap_mb"] << 20
    return found


def _fsdp(strategy: Any) -> dict[str, Plain]:
    offload = "cpu" if strategy.cpu_offload is not None and strategy.cpu_offload.offload_params else "none"
    found: dict[str, Plain] = {
        "sharding.stage": _STAGES[strategy.sharding_strategy.name],
        "sharding.offload_parameters": offload,
        "sharding.units": "wrapped" if strategy.kwargs.get("auto_wrap_policy") is not None else "none",
        "checkpointing.activations": "full" if strategy._activation_checkpointing_kwargs else "none",
    }
    mesh = strategy.kwargs.get("device_mesh")
    return found if mesh is None else {**found, "sharding.group": mesh[1]}


def _deepspeed(strategy: Any) -> dict[str, Plain]:
    zero = strategy.config["zero_optimization"]
    compute = _precision(strategy).get("precision.compute")
    found: dict[str, Plain] = {
        "sharding.stage": zero["stage"],
        "overlap.gradients": zero["overlap_comm"],
        "sharding.offload_optimizer": (zero.get("offload_optimizer") or {}).get("device", "none"),
    }
    if zero["stage"] == 3:
        found["sharding.offload_parameters"] = (zero.get("offload_param") or {}).get("device", "none")
    return {**found, "communication.bucket_bytes": zero["reduce_bucket_size"] * _BYTES[str(compute)]}


def _model_parallel(strategy: Any) -> dict[str, Plain]:
    """The degrees, held against the processes as the strategy does when these have started."""
    from lightning.fabric.strategies import model_parallel

    nodes, each = strategy.num_nodes, strategy.num_processes
    data = nodes if strategy._data_parallel_size == "auto" else strategy._data_parallel_size
    tensor = each if strategy._tensor_parallel_size == "auto" else strategy._tensor_parallel_size
    with patch("torch.distributed.device_mesh.init_device_mesh"):
        model_parallel._setup_device_mesh(data, tensor, nodes * each, strategy.root_device)
    return {"parallel.tensor": tensor, "parallel.data": data}
