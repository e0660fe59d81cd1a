"""The attributes of NeMo 2's recipes and Megatron-Bridge's configs, what they mean, and how a user writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed.values import flag, number, whole_number, word
from dtlint.frameworks.dotted_keys import written_name
from dtlint.frameworks.keys import EXCHANGES, Meaning
from dtlint.frameworks.program import model_claim
from dtlint.languages.json_tree import Node, setting
from dtlint.languages.python.built import Built, Part
from dtlint.languages.traced import literal_word
from dtlint.source import Span
from dtlint.value import Plain, Setting, Unknown, Value, written

Table = Mapping[str, Meaning]

_DEGREES = {
    "tensor_model_parallel_size": "parallel.tensor", "pipeline_model_parallel_size": "parallel.pipeline",
    "virtual_pipeline_model_parallel_size": "parallel.virtual_pipeline", "context_parallel_size": "parallel.context",
    "expert_model_parallel_size": "parallel.expert", "expert_tensor_parallel_size": "parallel.expert_tensor",
}  # fmt: skip
_SHAPE = {
    "num_layers": "model.layers", "hidden_size": "model.hidden", "ffn_hidden_size": "model.ffn",
    "num_attention_heads": "model.heads", "num_query_groups": "model.kv_heads", "kv_channels": "model.head_dim",
    "num_moe_experts": "model.experts", "moe_router_topk": "model.experts_per_token", "vocab_size": "model.vocab",
    "moe_ffn_hidden_size": "model.expert_ffn", "moe_shared_expert_intermediate_size": "model.shared_expert_ffn",
}  # fmt: skip
_GRANULARITY: dict[str, Plain] = {"selective": "selective", "full": "full", "none": "none"}


def _steps(node: Node) -> Setting:
    """A number of steps; -1 sets no bound."""
    found = whole_number(node)
    return Unknown("no number of steps bounds the run") if isinstance(found, Value) and found.value == -1 else found


def _devices(node: Node) -> Setting:
    """A count, or all GPUs of the machine."""
    if str(node.value) in ("-1", "auto"):
        found = setting(node)
        origin = found.origin if isinstance(found, Value) else None
        return Unknown("every GPU of the node is used", "", origin, means="cluster.gpus_per_node")
    return whole_number(node)


def _model(prefix: str) -> dict[str, Meaning]:
    found = {f"{prefix}.{key}": Meaning(name) for key, name in _SHAPE.items()}
    found[f"{prefix}.recompute_granularity"] = Meaning("checkpointing.activations", words=_GRANULARITY)
    found[f"{prefix}.gated_linear_unit"] = Meaning("model.gated_mlp", flag)
    found[f"{prefix}.share_embeddings_and_output_weights"] = Meaning("model.tied_embeddings", flag)
    found[f"{prefix}.cp_comm_type"] = Meaning(
        "parallel.context_exchange", words={str(name): kind for name, kind in EXCHANGES.items()}
    )
    found[f"{prefix}.moe_token_dispatcher_type"] = Meaning("communication.moe_dispatcher", word)
    return found


def _layout(prefix: str) -> dict[str, Meaning]:
    found = {f"{prefix}.{key}": Meaning(name) for key, name in _DEGREES.items()}
    return {**found, f"{prefix}.sequence_parallel": Meaning("parallel.sequence", flag)}


NEMO: Table = {
    **_layout("trainer.strategy"),
    "trainer.num_nodes": Meaning("launch.nodes"),
    "trainer.devices": Meaning("launch.processes_per_node", _devices),
    "trainer.max_steps": Meaning("run.steps", _steps),
    "data.micro_batch_size": Meaning("batch.micro"),
    "data.global_batch_size": Meaning("batch.global"),
    "data.seq_length": Meaning("data.sequence_length"),
    "optim.config.optimizer": Meaning("optimizer.name", word),
    "optim.config.clip_grad": Meaning("optimizer.clip", number),
    **_model("model.config"),
}
"""NVIDIA/NeMo 8cfedd7 nemo/lightning/pytorch/strategies/megatron_strategy.py, nemo/collections/llm/recipes."""

BRIDGE: Table = {
    **_layout("model"),
    "train.micro_batch_size": Meaning("batch.micro"),
    "train.global_batch_size": Meaning("batch.global"),
    "train.train_iters": Meaning("run.steps", _steps),
    "model.seq_length": Meaning("data.sequence_length"),
    "dataset.seq_length": Meaning("data.sequence_length"),
    "dataset.sequence_length": Meaning("data.sequence_length"),
    "tokenizer.vocab_size": Meaning("model.vocab"),
    "optimizer.optimizer": Meaning("optimizer.name", word),
    "optimizer.clip_grad": Meaning("optimizer.clip", number),
    "ddp.num_distributed_optimizer_instances": Meaning("sharding.instances"),
    **_model("model"),
}
"""NVIDIA-NeMo/Megatron-Bridge 067f987 src/megatron/bridge/training/config.py, and initialize.py, which hands the
instances of the optimizer to Megatron-Core's groups.
"""

_PARALLELISMS = {
    "tensor_parallelism": "tensor_model_parallel_size", "pipeline_parallelism": "pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": "virtual_pipeline_model_parallel_size",
    "context_parallelism": "context_parallel_size", "expert_parallelism": "expert_model_parallel_size",
    "sequence_parallelism": "sequence_parallel",
}  # fmt: skip
BRIDGE_ARGUMENTS: Mapping[str, str] = {
    **{name: f"model.{name}" for name in (*_DEGREES, "sequence_parallel", "seq_length")},
    **{name: f"model.{attribute}" for name, attribute in _PARALLELISMS.items()},
    **{name: f"train.{name}" for name in ("global_batch_size", "micro_batch_size", "train_iters")},
}
"""Attributes that the arguments of a recipe's function set: NVIDIA-NeMo/Megatron-Bridge 5d194b9 and 19bdca9, the
keyword arguments in src/megatron/bridge/recipes (since 2026-02 the functions take none).
"""

_PATHS = {"ddp": ("trainer.strategy.ddp", "ddp"), "optimizer": ("optim.config", "optimizer")}


def path_of(what: str, recipe: bool) -> str:
    """Where the data-parallel wrapper's or the optimizer's config is: in a NeMo recipe, else in Bridge's config."""
    nemo, bridge = _PATHS[what]
    return nemo if recipe else bridge


def spell_in(reading: Reading, setting_name: str, value: Plain) -> str | None:
    """A setting as an assignment to the attribute that states it, else to the one that would."""
    names = [name for table in (NEMO, BRIDGE) for name, meaning in table.items() if meaning.setting == setting_name]
    if not names:
        return None
    stated = written_name(reading, setting_name)
    recipe = any(claim.name.startswith("trainer.") for claim in reading.claims)
    name = stated if stated in names else names[0] if recipe else names[-1]
    return f"{name} = {value!r}"


# Precision


def recipe_formats(part: Part | None) -> dict[str, Setting]:
    """The formats that a precision plugin, the name of a mixture or the function that makes it stands for."""
    if part is None:
        return {}
    if not isinstance(part, Built):
        return {"precision.compute": _by_name(part)}
    found: dict[str, Setting] = {}
    eight, mixture = part.fields.get("fp8"), part.fields.get("precision")
    if isinstance(eight, Value) and eight.value is not None:
        found["precision.compute"] = eight._replace(value=_eight_bits(part))
    elif eight is not None and not isinstance(eight, Value):
        found["precision.compute"] = Unknown("it depends on a condition", "--set precision.compute=...")
    elif mixture is not None and not isinstance(mixture, Built):
        found["precision.compute"] = _by_name(mixture)
    else:
        found["precision.compute"] = _by_name(written(part.name.rpartition(".")[2], part.span))
    reduced = part.fields.get("grad_reduce_in_fp32")
    compute = found["precision.compute"]
    if isinstance(reduced, Value) and reduced.value is False and isinstance(compute, Value) and compute.value == "bf16":
        found["precision.gradients"] = reduced._replace(value="bf16")
    return found


def _eight_bits(part: Built) -> str:
    recipe = part.fields.get("fp8_recipe")
    return "mxfp8" if isinstance(recipe, Value) and recipe.value == "mxfp8" else "fp8"


def _by_name(value: Setting) -> Setting:
    """`bf16-mixed`, `bf16_with_fp8_delayed_scaling_mixed` by the narrowest format that its name holds."""
    text = str(value.value).replace("-", "_").lower() if isinstance(value, Value) else ""
    words = text.split("_")
    for kind in ("nvfp4", "mxfp8", "fp8", "bf16", "fp16"):
        if kind in words:
            return value._replace(value=kind) if isinstance(value, Value) else value
    if text in ("32", "32_true"):
        return value._replace(value="fp32") if isinstance(value, Value) else value
    return value if isinstance(value, Unknown) else Unknown("the precision is made by code that is not read")


# The model


def model_of(model: Built) -> Iterator[Claim]:
    """The model by the name that a bridge loads it under, or by the class of its config."""
    loaded = model.given.get("0")
    if isinstance(loaded, Value) and isinstance(loaded.value, str):
        span = loaded.origin.span or model.span
        claim = model_claim("from_hf_pretrained", literal_word(loaded.value, span))
        yield from (() if claim is None else (claim,))
        return
    config = model.fields.get("config", loaded)
    if isinstance(config, Built) and config.name:
        yield from _of_class(config.name.rpartition(".")[2], config.span)


def recipes_model(built: Built) -> Iterator[Claim]:
    """The model that a recipe of the library is for, by the recipe's name (`llama3_70b.pretrain_recipe`)."""
    from dtlint.catalog import model

    *_, family, function = ("", *built.name.split("."))
    text = family if function.endswith("_recipe") else re.split(r"_(?:pretrain|sft|peft|finetune)_", f"{function}_")[0]
    found = model(text) if text and text != f"{function}_" else None
    if found is not None and built.open:
        yield Claim("model.name", written(found.name, built.span), "recipe")


def _of_class(name: str, span: Span) -> Iterator[Claim]:
    from dtlint.catalog import model

    found = model(f"nemo-{name}")
    if found is not None:
        yield Claim("model.name", written(found.name, span), "model.config")
