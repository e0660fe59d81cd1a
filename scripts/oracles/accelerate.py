"""Asks Accelerate: the command line of `accelerate launch`, its config file, and the plugins that the program builds
from the environment that it passes on.

Nothing is started: where Accelerate would start the processes, torchrun's own parser and the plugins are asked instead.
A machine of eight GPUs is pretended.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from oracles import Answer, Plain, Question, at_hand
from oracles.accelerate_questions import questions

__all__ = ["EXPLAINED", "PACKAGES", "REFUSALS", "accepted", "ask", "questions"]

PACKAGES = ("accelerate", "torch", "deepspeed")

EXPLAINED: Mapping[str, str] = {}

REFUSALS = (
    ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError, ImportError, OSError, SystemExit,
)  # fmt: skip
"""What frameworks raise when they refuse; SystemExit is argparse."""

GPUS = 8
"""GPUs of the pretended machine."""

_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "_HYBRID_SHARD_ZERO2": 2}


def ask(question: Question) -> Answer:
    """What Accelerate says to a launch, and what it settles on."""
    with at_hand(question.files) as said, _machine():
        try:
            return Answer(None, _launched(shlex.split(question.files["launch.sh"], comments=True)[2:]))
        except REFUSALS as error:
            return Answer(_first_line(error, said.getvalue()), {})


def _first_line(error: BaseException, said: str) -> str:
    if isinstance(error, SystemExit):
        return said.strip().splitlines()[-1].partition("error: ")[2]
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


@contextmanager
def _machine() -> Iterator[None]:
    """A machine with GPUs, whose environment is put back afterwards."""
    import torch
    from accelerate.utils import launch

    real = launch.is_port_in_use
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
        stack.enter_context(patch.object(torch.cuda, "device_count", lambda: GPUS))
        stack.enter_context(patch.object(torch.cuda, "current_device", lambda: 0))
        stack.enter_context(patch.object(torch.cuda, "is_bf16_supported", lambda *_: True))
        stack.enter_context(patch("accelerate.commands.launch.check_cuda_p2p_ib_support", lambda: True))
        stack.enter_context(patch.object(launch, "is_port_in_use", lambda port: real(port) and False))
        yield


def _launched(words: list[str]) -> dict[str, Plain]:
    """What the program of a launch finds, or the error that comes before."""
    from accelerate.commands import launch
    from torch.distributed import run

    derived: dict[str, Plain] = {}

    def torchrun(args: Any) -> None:
        derived.update(_processes(args), **_program(_world(args)))

    class Process:
        """A program that is started without torchrun, by itself or by DeepSpeed's launcher."""

        returncode = 0

        def __init__(self, cmd: list[str], env: Mapping[str, str]) -> None:
            counts = _by_deepspeed(cmd) if cmd[0] == "deepspeed" else {"parallel.world_size": 1}
            with patch.dict(os.environ, env, clear=True):
                derived.update(counts, **_program(int(str(counts.get("parallel.world_size", 1)))))

        def wait(self) -> None:
            """It ends at once."""

    with patch.object(run, "run", torchrun), patch.object(subprocess, "Popen", Process):
        launch.launch_command(launch.launch_command_parser().parse_args(words))
    return derived


def _by_deepspeed(cmd: list[str]) -> dict[str, Plain]:
    from deepspeed.launcher.runner import parse_args

    return {"launch.processes_per_node": parse_args(cmd[1:]).num_gpus}


# Processes


def _config(args: Any) -> Any:
    from torch.distributed.run import config_from_args

    return config_from_args(args)[0]


def _world(args: Any) -> int:
    config = _config(args)
    return int(config.max_nodes * config.nproc_per_node)


def _processes(args: Any) -> dict[str, Plain]:
    """What torchrun makes of the counts, and whether the first machine can be reached by its name."""
    from torch.distributed.elastic.agent.server import WorkerSpec

    config = _config(args)
    WorkerSpec("", config.nproc_per_node, rdzv_handler=None, entrypoint="train.py")
    if config.max_nodes > 1:
        socket.getaddrinfo(config.rdzv_endpoint.partition(":")[0], 29500)
    return {
        "launch.nodes": config.max_nodes,
        "launch.processes_per_node": config.nproc_per_node,
        "parallel.world_size": _world(args),
    }


# The program


def _program(world: int) -> dict[str, Plain]:
    """What `Accelerator()` finds in the environment of the launch."""
    precision = os.environ["ACCELERATE_MIXED_PRECISION"]
    derived: dict[str, Plain] = {"precision.compute": {"no": "fp32"}.get(precision, precision)}
    if _on("ACCELERATE_USE_DEEPSPEED"):
        derived.update(_deepspeed(precision, world))
    if _on("ACCELERATE_USE_FSDP"):
        derived.update(_fsdp())
    if _on("ACCELERATE_USE_PARALLELISM_CONFIG"):
        derived.update(_degrees(world))
    return derived


def _on(name: str) -> bool:
    return os.environ.get(name, "false").lower() == "true"


def _deepspeed(precision: str, world: int) -> dict[str, Plain]:
    """The plugin's settings, which DeepSpeed itself is given with a micro batch of one where the program has to say."""
    from accelerate.utils import DeepSpeedPlugin

    plugin = DeepSpeedPlugin()
    plugin.set_mixed_precision(precision)
    config = plugin.deepspeed_config
    accumulation, clip = config["gradient_accumulation_steps"], config.get("gradient_clipping", "auto")
    accepted(config, world)
    zero = config["zero_optimization"]
    formats = [name for name in ("bf16", "fp16") if config[name]["enabled"] is True]
    found: dict[str, Plain] = {
        "framework": "deepspeed",
        "sharding.stage": zero.get("stage", 0),
        "sharding.offload_optimizer": (zero.get("offload_optimizer") or {}).get("device", "none"),
        "precision.compute": formats[0] if formats else "fp32",
    }
    if zero.get("stage") == 3:
        found["sharding.offload_parameters"] = (zero.get("offload_param") or {}).get("device", "none")
    if accumulation != "auto":
        found["batch.accumulation"] = accumulation
    return found if clip == "auto" else {**found, "optimizer.clip": clip}


def accepted(config: Mapping[str, Any], world: int) -> None:
    """Whether DeepSpeed takes the config when the program's values stand for "auto"."""
    from deepspeed.runtime import config as deepspeed

    told = {key: value for key, value in config.items() if (key, value) != ("train_batch_size", "auto")}
    filled = {key: 1 if value == "auto" else value for key, value in told.items()}
    with (
        patch.object(deepspeed.dist, "get_world_size", lambda: world),
        patch.object(deepspeed.dist, "get_rank", lambda: 0),
    ):
        deepspeed.DeepSpeedConfig(filled)


def _fsdp() -> dict[str, Plain]:
    from accelerate.utils import FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin()
    wraps = plugin.auto_wrap_policy is not None and plugin.min_num_params != 0
    offload = (
        plugin.cpu_offload.offload_params if plugin.fsdp_version == 1 else "CPU" in type(plugin.cpu_offload).__name__
    )
    found: dict[str, Plain] = {
        "framework": "fsdp",
        "sharding.units": "wrapped" if wraps else "none",
        "sharding.offload_parameters": "cpu" if offload else "none",
        "checkpointing.activations": "full" if plugin.activation_checkpointing else "none",
        "loading.whole_copies": "first" if plugin.cpu_ram_efficient_loading else "all",
    }
    if plugin.fsdp_version == 2:
        return {**found, "sharding.stage": 3, "sharding.reshard_after_forward": plugin.reshard_after_forward}
    prefetch = plugin.backward_prefetch.name.lower() if plugin.backward_prefetch is not None else "none"
    return {**found, "sharding.stage": _STAGES[plugin.sharding_strategy.name], "sharding.prefetch": prefetch}


def _degrees(world: int) -> dict[str, Plain]:
    """The parallelism config, held against the processes as Accelerator and its state do."""
    from accelerate.parallelism_config import ParallelismConfig

    config = ParallelismConfig()
    config._validate_accelerator(_Accelerator(world))
    if config.cp_enabled and not _on("ACCELERATE_USE_FSDP"):
        raise ValueError("`cp_size > 1` specified in the `parallelism_config`, but no `fsdp_plugin` was provided")
    if config.cp_enabled and os.environ["FSDP_VERSION"] == "1":
        raise ValueError("Using `cp_size>1` requires FSDP2, but the provided `fsdp_plugin` is using FSDP1")
    found: dict[str, Plain] = {
        "parallel.tensor": config.tp_size,
        "parallel.context": config.cp_size,
        "parallel.ulysses": config.sp_size,
        "parallel.data": config.data_parallel_size,
    }
    if config.dp_replicate_enabled and config.dp_shard_enabled:
        found["sharding.group"] = config.dp_shard_size * config.cp_size
    return found


class _Accelerator:
    """What a parallelism config asks of the program's Accelerator."""

    def __init__(self, world: int) -> None:
        from accelerate.utils import DistributedType

        fsdp, deepspeed = _on("ACCELERATE_USE_FSDP"), _on("ACCELERATE_USE_DEEPSPEED")
        self.num_processes = world
        self.is_main_process = True
        self.is_fsdp2 = fsdp and os.environ["FSDP_VERSION"] == "2"
        self.multi_device = world > 1 and not fsdp and not deepspeed
        self.distributed_type = (
            DistributedType.DEEPSPEED if deepspeed else DistributedType.FSDP if fsdp else DistributedType.MULTI_GPU
        )
