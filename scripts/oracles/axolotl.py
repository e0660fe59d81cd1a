"""Axolotl: what its schemas and its normalization make of configs, on a pretended machine of 8 H100 for each node.

Its own files are read as its command line does; the model's config is a stand-in, and ring attention an empty package.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, patch

from oracles import Answer, Plain, Question, at_hand
from oracles.axolotl_questions import GPUS, questions

__all__ = ["EXPLAINED", "PACKAGES", "ask", "questions"]

PACKAGES = ("axolotl", "pydantic", "torch", "transformers")
EXPLAINED: Mapping[str, str] = {}

_CAPABILITIES = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": GPUS, "compute_capability": "sm_90"}
_TORCH = "2.8.0"
_FORMATS = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32"}


def ask(question: Question) -> Answer:
    """What Axolotl says to the config, and what it settles on."""
    import yaml

    with at_hand(question.files), _machine(_world(question.files["launch.sh"])):
        try:
            return Answer(None, _derived(_settled(yaml.safe_load(question.files["config.yaml"]))))
        except (ValueError, TypeError, ImportError, AttributeError) as error:
            return Answer(_first_line(error), {})


def _first_line(error: Exception) -> str:
    """What a validator says; pydantic puts the key's name before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[1:3] if len(lines) > 1 and "validation error" in lines[0] else lines[:1]
    return f"{type(error).__name__}: {' '.join(told)}".partition(" [type=")[0][:200]


def _world(launch: str) -> int:
    """Processes that the command starts: one on each GPU where it names no number."""
    words = shlex.split(launch, comments=True)
    counts = {name: int(words[words.index(name) + 1]) for name in _COUNTS if name in words}
    if "--num_processes" in counts:
        return counts["--num_processes"]
    return counts.get("--nproc_per_node", GPUS) * counts.get("--nnodes", 1)


_COUNTS = ("--num_processes", "--nproc_per_node", "--nnodes")


@contextmanager
def _machine(world: int) -> Iterator[None]:
    """A rank of the launch without a network, with ring attention installed and the model's config at hand."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {"WORLD_SIZE": str(world), "HF_HUB_OFFLINE": "1"}))
        sys.modules.setdefault("ring_flash_attn", MagicMock())
        import transformers.utils
        from axolotl.utils import config
        from transformers import LlamaConfig

        transformers.utils.is_flash_attn_greater_or_equal_2_10 = MagicMock()
        stack.enter_context(patch.object(config, "load_model_config", lambda _: LlamaConfig()))
        stack.enter_context(patch.object(config, "is_torch_bf16_gpu_available", lambda: True))
        yield


def _settled(keys: Mapping[str, Any]) -> Any:
    from axolotl.utils.config import normalize_config, validate_config
    from axolotl.utils.dict import DictDefault

    found = validate_config(DictDefault(keys), capabilities=_CAPABILITIES, env_capabilities={"torch_version": _TORCH})
    normalize_config(found)
    return found


def _derived(found: Any) -> dict[str, Plain]:
    derived: dict[str, Plain] = {
        "frontend": "axolotl",
        "framework": _framework(found),
        "launch.processes": found.world_size,
        "batch.micro": found.micro_batch_size,
        "batch.accumulation": found.gradient_accumulation_steps,
        "batch.global": found.batch_size,
        "parallel.tensor": found.tensor_parallel_size,
        "parallel.context": found.context_parallel_size,
        "data.sequence_length": found.sequence_len,
        "precision.compute": "fp8" if found.fp8 else _FORMATS[str(found.torch_dtype)],
    }
    if found.max_grad_norm is not None:
        derived["optimizer.clip"] = found.max_grad_norm
    if found.max_steps is not None:
        derived["run.steps"] = found.max_steps
    parts = (_formats(found), _checkpointing(found), _adapter(found), _attention(found), _sharding(found))
    return {**derived, **{name: value for part in parts for name, value in part.items()}}


def _framework(found: Any) -> str:
    if found.deepspeed:
        return "deepspeed"
    if found.fsdp or found.fsdp_config:
        return "fsdp"
    return "ddp" if found.world_size > 1 else "pytorch"


def _formats(found: Any) -> dict[str, Plain]:
    """The copy of the weights that trains: what they are loaded in, which FSDP raises to fp32 where the Trainer is
    asked for mixed precision. DeepSpeed decides by itself, and so does PEFT of adapters.
    """
    if found.deepspeed or found.adapter or str(found.torch_dtype) == "torch.float32":
        return {}
    asked = _mixed_precision(found)
    raised = (found.fsdp or found.fsdp_config) and (asked.get("bf16") or asked.get("fp16"))
    return {"precision.master": "fp32" if raised else "none"}


def _mixed_precision(found: Any) -> Mapping[str, Any]:
    """The Trainer's arguments about formats, as Axolotl's own builder makes them."""
    from axolotl.core.builders.base import TrainerBuilderBase

    told: dict[str, Any] = {}
    TrainerBuilderBase._configure_precision_settings(cast("Any", SimpleNamespace(cfg=found)), told)
    return told


def _checkpointing(found: Any) -> dict[str, Plain]:
    """Recomputation, where FSDP's own switch is not what decides it."""
    if (found.fsdp_config or {}).get("activation_checkpointing"):
        return {"checkpointing.activations": "full"}
    if not found.gradient_checkpointing:
        return {"checkpointing.activations": "none"}
    reentrant = (found.gradient_checkpointing_kwargs or {}).get("use_reentrant")
    told: dict[str, Plain] = {} if reentrant is None else {"checkpointing.reentrant": reentrant}
    return {"checkpointing.activations": "full", **told}


def _adapter(found: Any) -> dict[str, Plain]:
    if not found.adapter:
        return {"model.lora_rank": 0}
    stored = "nf4" if found.load_in_4bit else "int8" if found.load_in_8bit else None
    told: dict[str, Plain] = {} if stored is None else {"precision.frozen": stored}
    return {"model.lora_rank": found.lora_r, **told}


def _attention(found: Any) -> dict[str, Plain]:
    named = found.attn_implementation
    known = {"flash_attention_2": True, "sdpa": True, "eager": False}
    return {"attention.flash": known[named]} if named in known else {}


def _sharding(found: Any) -> dict[str, Plain]:
    if isinstance(found.deepspeed, dict):
        zero = found.deepspeed["zero_optimization"]
        offload = zero.get("offload_optimizer", {}).get("device", "none")
        return {"sharding.stage": zero["stage"], "sharding.offload_optimizer": offload}
    if not found.fsdp_config:
        return {}
    config = found.fsdp_config
    units = {"TRANSFORMER_BASED_WRAP": "wrapped", "SIZE_BASED_WRAP": "wrapped"}.get(config.auto_wrap_policy, "none")
    told: dict[str, Plain] = {"sharding.offload_parameters": "cpu" if config.offload_params else "none"}
    return {**told, "sharding.units": units, "sharding.stage": 3 if config.reshard_after_forward is not False else 2}
