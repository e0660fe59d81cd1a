"""Asks Transformers: HfArgumentParser, TrainingArguments, the Trainer as it is built, and its hand-over to DeepSpeed.

The processes that the launch would start are pretended, and the Accelerator of each, which would look for them.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from oracles import Answer, Plain, Question, at_hand
from oracles.accelerate import REFUSALS, accepted
from oracles.trainer import pretended_rank
from oracles.transformers_questions import HIDDEN, questions

__all__ = ["EXPLAINED", "PACKAGES", "ask", "questions"]

PACKAGES = ("accelerate", "deepspeed", "torch", "transformers")

EXPLAINED: Mapping[str, str] = {
    "setting-type-23": "Transformers 4 has adamw_hf, and no file of the question tells the release",
}

STEPS = 1000
"""Steps of a run whose length the data decides."""

_STAGES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "_HYBRID_SHARD_ZERO2": 2}


@dataclass
class ModelArguments:
    """The arguments that the program of the questions declares beside the Trainer's."""

    model_name_or_path: str = field(default="gpt2")
    max_seq_length: int = field(default=2048)


def ask(question: Question) -> Answer:
    """What the program says to its arguments, and what the Trainer settles on."""
    launch = shlex.split(question.files["launch.sh"], comments=True)
    with at_hand(question.files) as said, _machine(_world(launch)):
        try:
            return Answer(None, _trained(launch))
        except REFUSALS as error:
            return Answer(_first_line(error, said.getvalue()), {})


def _first_line(error: BaseException, said: str) -> str:
    if isinstance(error, SystemExit):
        return said.strip().splitlines()[-1].partition("error: ")[2]
    text = str(error).strip()
    lines = [line for line in text.splitlines() if line.startswith("- ")] or text.splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}".rstrip(": ")


def _world(launch: Sequence[str]) -> int | None:
    """Processes that torchrun starts; None where the program is started by itself."""
    if launch[0] != "torchrun":
        return None
    counts = {name: launch[launch.index(name) + 1] for name in ("--nproc_per_node", "--nnodes") if name in launch}
    return int(counts["--nproc_per_node"]) * int(counts.get("--nnodes", "1"))


@contextmanager
def _machine(world: int | None) -> Iterator[None]:
    """A rank of a run on machines with GPUs."""
    from transformers import training_args

    with pretended_rank(world), ExitStack() as stack:
        stack.enter_context(patch.object(training_args, "is_torch_tf32_available", lambda: True))
        stack.enter_context(patch.object(training_args, "enable_tf32", lambda _: None))
        stack.enter_context(patch("transformers.trainer.Accelerator", _Accelerator))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


class _Accelerator:
    """What the Trainer asks of its Accelerator."""

    def __init__(self, deepspeed_plugin: Any = None, fsdp_plugin: Any = None, **_: Any) -> None:
        self.state = SimpleNamespace(fsdp_plugin=fsdp_plugin, deepspeed_plugin=deepspeed_plugin, distributed_type="")
        self.distributed_type = ""

    def unwrap_model(self, model: Any, **_: Any) -> Any:
        """Nothing is wrapped."""
        return model

    def gather_for_metrics(self, found: Any, use_gather_object: bool = False) -> Any:
        """The same on one rank."""
        return found


def _trained(launch: Sequence[str]) -> dict[str, Plain]:
    """What the Trainer makes of the arguments behind the program's name."""
    model, arguments = _parsed(list(launch[launch.index("train.py") + 1 :]))
    hidden = HIDDEN[model.model_name_or_path]
    trainer = _trainer(arguments)
    derived = _batch(arguments)
    if arguments.deepspeed:
        return {**derived, **_deepspeed(arguments, hidden)}
    derived.update({"optimizer.name": str(arguments.optim.value), "optimizer.clip": arguments.max_grad_norm})
    if trainer.is_fsdp_enabled:
        return {**derived, **_fsdp(trainer, arguments)}
    recompute = "full" if arguments.activation_checkpointing else "none"
    return {**derived, "framework": _by_itself(arguments), "checkpointing.activations": recompute}


def _by_itself(arguments: Any) -> str:
    from transformers.training_args import ParallelMode

    return "ddp" if arguments.parallel_mode == ParallelMode.DISTRIBUTED else "pytorch"


def _parsed(words: list[str]) -> tuple[ModelArguments, Any]:
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    if len(words) == 1 and words[0].endswith(".json"):
        found = parser.parse_json_file(words[0])
    elif len(words) == 1 and words[0].endswith(".yaml"):
        found = parser.parse_yaml_file(words[0])
    else:
        with patch.object(sys, "argv", ["train.py"]):
            found = parser.parse_args_into_dataclasses(words)
    return found[0], found[1]


def _trainer(arguments: Any) -> Any:
    import torch
    from transformers import Trainer

    data = [{"x": torch.zeros(1)}]
    return Trainer(model=torch.nn.Linear(1, 1), args=arguments, train_dataset=data, eval_dataset=data)


def _batch(arguments: Any) -> dict[str, Plain]:
    micro, accumulation = arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps
    found: dict[str, Plain] = {
        "frontend": "transformers",
        "batch.accumulation": accumulation,
        "launch.processes": arguments.world_size,
        "launch.timeout_seconds": arguments.ddp_timeout,
    }
    if arguments.bf16 or arguments.fp16:
        found["precision.compute"] = "bf16" if arguments.bf16 else "fp16"
    if not arguments.auto_find_batch_size:
        found.update({"batch.micro": micro, "batch.global": micro * accumulation * arguments.world_size})
    return found


def _deepspeed(arguments: Any, hidden: int) -> dict[str, Plain]:
    """The config as DeepSpeed gets it, which DeepSpeed itself is given."""
    config = arguments.hf_deepspeed_config
    steps = arguments.max_steps if arguments.max_steps > 0 else STEPS
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=hidden))
    config.trainer_config_finalize(arguments, model, steps)
    accepted(config.config, arguments.world_size)
    zero = config.config.get("zero_optimization", {})
    found: dict[str, Plain] = {
        "framework": "deepspeed",
        "sharding.stage": zero.get("stage", 0),
        "sharding.offload_optimizer": (zero.get("offload_optimizer") or {}).get("device", "none"),
        "checkpointing.activations": "full" if arguments.activation_checkpointing else "none",
    }
    if "gradient_clipping" in config.config:
        found["optimizer.clip"] = config.config["gradient_clipping"]
    if isinstance(zero.get("reduce_bucket_size"), int) and arguments.bf16:
        found["communication.bucket_bytes"] = zero["reduce_bucket_size"] * 2
    return found


def _fsdp(trainer: Any, arguments: Any) -> dict[str, Plain]:
    plugin = trainer.accelerator.state.fsdp_plugin
    sized = getattr(plugin.auto_wrap_policy, "__name__", "") == "size_based_auto_wrap_policy"
    wraps = plugin.auto_wrap_policy is not None and (plugin.min_num_params or not sized)
    offload = getattr(plugin.cpu_offload, "offload_params", type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy")
    recompute = plugin.activation_checkpointing or arguments.activation_checkpointing
    found: dict[str, Plain] = {
        "framework": "fsdp",
        "sharding.units": "wrapped" if wraps else "none",
        "sharding.offload_parameters": "cpu" if offload else "none",
        "checkpointing.activations": "full" if recompute else "none",
    }
    if plugin.fsdp_version == 2:
        return {**found, "sharding.stage": 3} if plugin.reshard_after_forward else found
    prefetch = plugin.backward_prefetch.name.lower() if plugin.backward_prefetch is not None else "none"
    return {**found, "sharding.stage": _STAGES[plugin.reshard_after_forward.name], "sharding.prefetch": prefetch}
