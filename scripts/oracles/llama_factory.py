"""LLaMA-Factory: what its parser makes of files and command lines, as a rank of the launch sees them.

get_train_args checks the arguments and builds TrainingArguments; nothing is loaded after it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from oracles import Answer, Plain, Question, at_hand
from oracles.llama_factory_questions import GPUS, questions
from oracles.trainer import pretended_rank

__all__ = ["EXPLAINED", "PACKAGES", "ask", "questions"]

PACKAGES = ("accelerate", "deepspeed", "llamafactory", "torch", "transformers")
EXPLAINED: Mapping[str, str] = {}

_PROGRAMS = ("train", "src/train.py")


def ask(question: Question) -> Answer:
    """What LLaMA-Factory says to its arguments, and what it settles on."""
    words = shlex.split(question.files["launch.sh"].replace("\\\n", " "), comments=True)
    start = next(index for index, word in enumerate(words) if word in _PROGRAMS)
    with at_hand(question.files) as said, _rank(_world(words[:start])):
        try:
            return Answer(None, _derived(*_parsed(words[start + 1 :])))
        except (ValueError, AssertionError, TypeError, KeyError, AttributeError, OSError, SystemExit) as error:
            return Answer(_first_line(error, said.getvalue()), {})


def _first_line(error: BaseException, said: str) -> str:
    if isinstance(error, SystemExit):
        return (said.strip().splitlines() or ["refused"])[-1].rpartition("error: ")[2][:200]
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:200]


def _world(launcher: Sequence[str]) -> int:
    """Processes of the launch: what the variables or torchrun say, one on each GPU where neither does."""
    told = dict(word.split("=", 1) for word in launcher if "=" in word)
    told |= {
        name.lstrip("-").upper(): launcher[index + 1] for index, name in enumerate(launcher) if name.startswith("--n")
    }
    return int(told.get("NPROC_PER_NODE", GPUS)) * int(told.get("NNODES", 1))


@contextmanager
def _rank(world: int) -> Iterator[None]:
    """A rank of a run on machines with GPUs."""
    from llamafactory.hparams import parser
    from transformers.integrations import deepspeed

    with pretended_rank(world), ExitStack() as stack:
        stack.enter_context(patch.object(parser, "is_torch_bf16_gpu_available", lambda: True))
        stack.enter_context(patch.object(parser, "check_version", lambda *_, **__: None))
        stack.callback(deepspeed.unset_hf_deepspeed_config)
        yield


def _parsed(words: list[str]) -> Any:
    from llamafactory.hparams import get_train_args

    with patch.object(sys, "argv", ["train.py", *words]):
        return get_train_args()


def _derived(model: Any, data: Any, training: Any, tuning: Any, _: Any) -> dict[str, Plain]:
    micro, steps, world = (
        training.per_device_train_batch_size,
        training.gradient_accumulation_steps,
        training.world_size,
    )
    pure = tuning.pure_bf16
    found: dict[str, Plain] = {
        "frontend": "llama-factory",
        "launch.processes": world,
        "batch.micro": micro,
        "batch.accumulation": steps,
        "batch.global": micro * steps * world,
        "data.sequence_length": data.cutoff_len,
        "model.lora_rank": tuning.lora_rank if tuning.finetuning_type == "lora" else 0,
        "launch.timeout_seconds": training.ddp_timeout,
        "checkpointing.activations": "none" if model.disable_gradient_checkpointing else "full",
    }
    if training.bf16 or training.fp16 or pure:
        found["precision.compute"] = "bf16" if training.bf16 or pure else "fp16"
    if pure and not training.deepspeed:
        found["precision.master"] = "none"
    if model.quantization_bit in (4, 8):
        found["precision.frozen"] = {4: "nf4", 8: "int8"}[model.quantization_bit]
    if training.max_steps > 0:
        found["run.steps"] = training.max_steps
    return {**found, **_carried_out(training)}


def _carried_out(training: Any) -> dict[str, Plain]:
    """By whom, and what that one shards."""
    if training.deepspeed:
        zero = training.hf_deepspeed_config.config["zero_optimization"]
        offload = zero.get("offload_optimizer", {}).get("device", "none")
        return {"framework": "deepspeed", "sharding.stage": zero["stage"], "sharding.offload_optimizer": offload}
    told: dict[str, Plain] = {"optimizer.name": str(training.optim.value), "optimizer.clip": training.max_grad_norm}
    if training.fsdp:
        return {**told, "framework": "fsdp"}
    unused = training.ddp_find_unused_parameters
    return {**told, "framework": "ddp", **({} if unused is None else {"communication.find_unused": unused})}
