"""Where a program asks a model that FSDP1 shards for its state without a word on where that is gathered: by torch's
default the whole state is, on the GPU of every rank.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.pytorch.fsdp_saving import CONFIGS, TYPES, may_write
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Scope
from dtlint.value import default

LAYER = "states-python"
_MODELS = ("model", "model_wrapped")
"""What a Trainer calls the model that it has wrapped (transformers 4.30.0 and 4.46.3 trainer.py)."""


def read(program: Program) -> Reading:
    """The collection `code.full_states`, with `by` (trainer, own): who wraps the model. Nothing in a program that says
    of any model how its state is gathered.
    """
    told = any(stands(call.place) is not False for call in calls(program, (*CONFIGS, *TYPES)))
    if told or any("summon_full_params" in module.called for module in program.modules.values()):
        return Reading(LAYER)
    found = tuple(_states(program))
    return Reading(LAYER, collections={"code.full_states": found} if found else {})


def _states(program: Program) -> Iterator[Member]:
    off = default(False, "PyTorch")
    for module in program.modules.values():
        for site in module.called.get("state_dict", ()):
            place = place_of(program, module, site)
            by = _wrapper(place) if stands(place) is not False else ""
            if by and may_write(place):
                head = module.span(site.node)
                yield Member(head, {**texts(head, by=by), "offloads": off, "rank0_only": off})


def _wrapper(place: Place) -> str:
    """Who wraps the model whose state a call asks for: a Trainer, or the program; "" for any other object."""
    node = place.node
    if not isinstance(node, ast.Call) or node.args or node.keywords or not isinstance(node.func, ast.Attribute):
        return ""
    model = node.func.value
    if kinds(place.inner(model)) == {"fsdp1"}:
        return "own"
    if not isinstance(model, ast.Attribute) or model.attr not in _MODELS:
        return ""
    holder = model.value
    own = dotted(holder) == "self" and _is_in_trainer(place.scope)
    return "trainer" if own or kinds(place.inner(holder)) == {"trainer"} else ""


def _is_in_trainer(scope: Scope | None) -> bool:
    """Whether a scope lies in a class that is derived from a Trainer."""
    while scope is not None and not isinstance(scope.node, ast.ClassDef):
        scope = scope.parent
    bases = scope.node.bases if scope is not None and isinstance(scope.node, ast.ClassDef) else []
    return any(dotted(base).endswith("Trainer") for base in bases)
