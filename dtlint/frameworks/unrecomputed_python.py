"""Training loops around a model of Transformers that certainly recompute no activations: no file says a word of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.code.objects import kinds, makers
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import called, calls, passed
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import HERE
from dtlint.value import default

LAYER = "unrecomputed-python"
"""In no table of precedence: whatever else speaks of recomputation is stronger."""

_MARKS = (
    "gradient_checkpoint",
    "activation_checkpoint",
    "checkpoint_wrapper",
    "utils.checkpoint",
    "import checkpoint",
    "deepspeed.checkpointing",
    "prepare_model_for_",
    "recompute",
    "unsloth",
    "TrainingArguments",
    "Trainer(",
)
"""What a program says that may recompute, of itself or where a library reads it; a Trainer is told elsewhere."""
_LOADS = (".from_pretrained", ".from_config")
_LIBRARIES = frozenset(
    ("torch", "transformers", "accelerate", "peft", "deepspeed", "datasets", "bitsandbytes", "wandb", "math", "copy")
)
"""Packages that turn recomputation on only where they are asked in words of `_MARKS`."""
_WRAPPED = ("peft.get_peft_model",)
"""Functions that return the model that they are given, with something beside it."""
_METHODS = frozenset(
    ("prepare", "prepare_model", "unwrap_model", "accumulate", "no_sync", "clip_grad_norm_", "get_state_dict", "watch")
)
"""Methods that take a model and leave its recomputation as it is."""


def read(program: Program) -> Reading:
    """`checkpointing.activations` as none, where the model that Accelerate or DeepSpeed is handed is a library's own.

    A model of Transformers keeps all activations until `gradient_checkpointing_enable()` is called (modeling_utils.py).
    """
    texts = [module.source.text for module in program.modules.values()]
    if not any("backward(" in text for text in texts) or any(mark in text for text in texts for mark in _MARKS):
        return Reading(LAYER)
    handed = [given for given in _handed_over(program) if given]
    if not handed or not all(_is_plain(given) for given in handed):
        return Reading(LAYER)
    return Reading(LAYER, claims=(Claim("checkpointing.activations", default("none", "Transformers"), ""),))


def _handed_over(program: Program) -> Iterator[list[Place]]:
    """What each call is handed that prepares a model for training."""
    for call in calls(program, ("deepspeed.initialize",)):
        if stands(call.place) is not False:
            yield [item.place for item in passed(call, "model", 1)]
    for module in program.modules.values():
        for site in module.called.get("prepare", ()):
            place, node = place_of(program, module, site), site.node
            function = node.func if isinstance(node, ast.Call) else None
            if isinstance(function, ast.Attribute) and kinds(place.at(function.value)) == {"accelerator"}:
                yield [place.at(item) for item in node.args] if isinstance(node, ast.Call) else []


def _is_plain(handed: list[Place]) -> bool:
    """Whether one of the things is a loaded model that nothing out of sight touches, and the others are in sight."""
    loads = [(place, load) for place in handed for load in _loads(place, 0)]
    return bool(loads) and all(map(_is_in_sight, handed)) and all(_is_untouched(*each) for each in loads)


def _loads(place: Place, depth: int) -> Iterator[Place]:
    """The calls that load a model of Transformers, if that is what a thing is made of."""
    for maker in makers(place._replace(budget=place.budget.anew())):
        node = maker.call.node if maker.call is not None else None
        if maker.call is None or not isinstance(node, ast.Call):
            continue
        name = called(maker.call)
        if name.startswith("transformers.") and name.endswith(_LOADS):
            yield maker.call
        elif name in _WRAPPED and node.args and depth < 2:
            yield from _loads(maker.call.at(node.args[0]), depth + 1)


def _is_in_sight(place: Place) -> bool:
    found = list(makers(place._replace(budget=place.budget.anew())))
    return bool(found) and all(maker.call is not None and _is_harmless(maker.call) for maker in found)


def _is_untouched(handed: Place, load: Place) -> bool:
    """Whether all calls that are given the model, where it is loaded and where it is handed over, are in sight."""
    for place in (handed, load):
        names = {dotted(handed.node), *_names_of(load)} - {""}
        takers = (site for site in place.scope.sites if any(dotted(item) in names for item in _given(site.node)))
        if not all(_is_harmless(place_of(place.program, place.module, site)) for site in takers):
            return False
    return True


def _names_of(load: Place) -> Iterator[str]:
    for name, bindings in load.scope.bindings.items():
        if any(binding.node is load.node for binding in bindings):
            yield name


def _given(node: ast.AST) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []


def _is_harmless(place: Place) -> bool:
    """Whether a call is of the program itself, of a builtin or of a library that recomputes only when asked."""
    node = place.node
    name = called(place)
    if not name:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
    head = name.partition(".")[0]
    own = head == HERE or definition(place.program, place.module, name) is not None
    return own or head in _LIBRARIES or "." not in name
