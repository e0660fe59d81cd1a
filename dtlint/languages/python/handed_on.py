"""Attributes that a library's front end fills with a setting of the plan, and that code hands on to torch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import lookup
from dtlint.languages.python.tree import Scope

FILLED = "is filled by the front end"
"""How the reason ends of a value that is unknown for being such a setting."""
_HOLDER = "state.fsdp_plugin"
"""Where Accelerate keeps what its config, its flags and the Trainer say of FSDP (state.py, AcceleratorState)."""
_SETTINGS: Mapping[str, str] = {
    "auto_wrap_policy": "sharding.units",
    "backward_prefetch": "sharding.prefetch",
    "cpu_offload": "sharding.offload_parameters",
    "mixed_precision_policy": "precision.compute",
    "reshard_after_forward": "sharding.reshard_after_forward",
    "sharding_strategy": "sharding.stage",
}
"""What the attributes of Accelerate's FullyShardedDataParallelPlugin decide (utils/dataclasses.py)."""

_ARGUMENTS: Mapping[str, str] = {
    "bf16": "precision.compute",
    "fp16": "precision.compute",
    "gradient_accumulation_steps": "batch.accumulation",
    "optim": "optimizer.name",
    "per_device_train_batch_size": "batch.micro",
}
"""What fields of Transformers' TrainingArguments decide; a class that inherits them need not write them again."""


def may_be_inherited(attribute: str) -> bool:
    """Whether an attribute has the name of a field that `inherited` knows."""
    return attribute in _ARGUMENTS


def inherited(node: ast.Attribute, bases: Iterable[str]) -> str:
    """The setting that a field of Transformers' arguments stands for, in an object of a class with such a base; ""
    for any other.
    """
    named = any(base.startswith("transformers.") and base.endswith("TrainingArguments") for base in bases)
    return _ARGUMENTS.get(node.attr, "") if named else ""


def handed_on(scope: Scope, node: ast.AST) -> str:
    """The setting that `accelerator.state.fsdp_plugin.cpu_offload` stands for, also under a name that is given to the
    plugin; "" for any other expression.
    """
    if not isinstance(node, ast.Attribute) or node.attr not in _SETTINGS:
        return ""
    held = [node.value]
    if isinstance(node.value, ast.Name):
        held = [item.node for item in lookup(scope, node.value.id)[1] if isinstance(item.node, ast.expr)]
    return _SETTINGS[node.attr] if held and all(_is_holder(item) for item in held) else ""


def _is_holder(node: ast.expr) -> bool:
    return dotted(node).endswith(f".{_HOLDER}")
