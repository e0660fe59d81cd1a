"""Finds forward passes that gather weights from all ranks: of models that FSDP, ZeRO-3 or an Accelerator may shard."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.collective_names import FSDP, SHARDED, STAGE_3
from dtlint.frameworks.code.inside import UNWRAPPING, taken_from
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.objects import is_prepared, kinds, makers
from dtlint.frameworks.code.stages import is_below_stage_3
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.calls import Call, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function, standing
from dtlint.record import NamedTuple
from dtlint.source import Span

_NAMES = re.compile(r"model|net|fsdp|transformer|module|gpt|llm|policy|actor|engine|student|encoder", re.IGNORECASE)
"""Words in the names of models: of other calls nobody asks what they call."""
_METHODS = frozenset(
    {"forward", "generate", "predict_action", "predict_action_chunk", "sample_actions", "select_action"}
)
"""Methods of models that run their forward pass: torch's, Transformers', and those of robots' policies (LeRobot)."""
_GATHERED = re.compile(r"GatheredParameters|summon_full_params|unwrap_model_for_generation|gather_deepspeed3_params")
"""Words of programs that gather the weights before they use the model."""
_CALLBACK = "TrainerCallback"
_OTHER_WRAPPERS = re.compile(rf"deepspeed\.initialize|\bAccelerator\(|\b{_CALLBACK}\b")
"""Words of programs whose models something else than FSDP may shard."""
_LEVELS = 3


class Pass(NamedTuple):
    """A call that runs a model, what the model needs to be sharded (collective_names), and where it is wrapped."""

    place: Place
    needs: str
    wrap: Span


def sharded_passes(program: Program) -> Iterator[Pass]:
    """The calls that run a model which FSDP certainly shards and lays together again for each pass, or one that
    DeepSpeed or an Accelerator has wrapped.
    """
    wraps = standing(program, (*FSDP1, *FSDP2))
    kept = any("reshard_after_forward=False" in wrap.place.module.text(wrap.place.node, 400) for wrap in wraps)
    given = {} if kept else {id(node): wrap.head for wrap in wraps if wrap.name in FSDP2 for node in _made(wrap)}
    others = mentions(program, _OTHER_WRAPPERS) and not mentions(program, _GATHERED)
    if not wraps and not others:
        return
    for module in program.modules.values():
        for site in (site for scope in module.scopes for site in scope.sites):
            model = _model_in(site.node)
            if model is None:
                continue
            place = place_of(program, module, site)
            found = None if kept else _of_fsdp(place.at(model), wraps, given)
            if found is None and others and not is_below_stage_3(place.guards):
                found = _wrapped(place.at(model)._replace(budget=Budget()), _LEVELS)
            if found is not None:
                yield Pass(place, *found)


def _model_in(node: ast.AST) -> ast.expr | None:
    """The model that a call may run: what is called, or what has the method."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return node.func.value
    if isinstance(node.func, ast.Call):
        return node.func if last_word(node.func.func) in UNWRAPPING else None
    return node.func if _NAMES.search(dotted(node.func).rpartition(".")[2]) else None


def _made(wrap: Call) -> Iterator[ast.AST]:
    """What makes the model that fully_shard is given."""
    for item in passed(wrap, "module", 0):
        yield from (way.end.node for way in ways(item.place) if isinstance(way.end, Place))


def _of_fsdp(model: Place, wraps: list[Call], given: dict[int, Span]) -> tuple[str, Span] | None:
    if wraps and kinds(model) == {"fsdp1"}:
        return FSDP, wraps[0].head
    ends = [way.end for way in ways(model._replace(budget=Budget()))] if given else []
    found = [given.get(id(end.node)) if isinstance(end, Place) else None for end in ends]
    return (FSDP, found[0]) if found and found[0] is not None and all(found) else None


def _wrapped(model: Place, levels: int) -> tuple[str, Span] | None:
    """What wraps a model: DeepSpeed's engine, an Accelerator, a Trainer that hands it to a callback; also of the model
    taken out of the wrapper, whose weights stay where they are.
    """
    made = [maker.call for maker in makers(model) if maker.call is not None]
    if made and kinds(model) == {"deepspeed"}:
        return STAGE_3, made[0].module.span(made[0].node)
    if made and is_prepared(model):
        return SHARDED, made[0].module.span(made[0].node)
    if _is_of_callback(model):
        return SHARDED, model.module.span(model.node)
    inside = (_unwrapped(made) or taken_from(model._replace(budget=Budget()))) if levels else None
    return _wrapped(inside._replace(budget=Budget()), levels - 1) if inside is not None else None


def _unwrapped(made: list[Place]) -> Place | None:
    """The model that each of the calls which make one takes out of its wrapper."""
    given = [
        call.node.args for call in made if isinstance(call.node, ast.Call) and last_word(call.node.func) in UNWRAPPING
    ]
    return made[0].at(given[0][0]) if given and len(given) == len(made) and given[0] else None


def _is_of_callback(model: Place) -> bool:
    """Whether a Trainer hands a model to a method of a callback: its parameter `model`."""
    owner, function = enclosing_class(model.scope), enclosing_function(model.scope)
    if dotted(model.node) != "model" or owner is None or function is None:
        return False
    bound = function.bindings.get("model", ())
    node = owner.node
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    named = {last_word(base) for base in bases} | {
        name.rpartition(".")[2] for base in bases for name in qualified(model.module, base, owner.parent or owner)
    }
    asked = function.name.rpartition(".")[2].startswith("on_")
    return asked and _CALLBACK in named and bool(bound) and all(each.kind == "parameter" for each in bound)
