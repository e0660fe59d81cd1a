"""DeepSpeed configs that a program registers by itself before it loads a model, with nothing filled in yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch.model_loading import tells_arguments
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Value, written

_REGISTERING = tuple(
    f"transformers.{module}HfDeepSpeedConfig"
    for module in ("", "deepspeed.", "integrations.", "integrations.deepspeed.")
)
"""The class whose objects the loading of a model looks for, which fills nothing (transformers 4.57.1
integrations/deepspeed.py, HfDeepSpeedConfig; HfTrainerDeepSpeedConfig is the one that does)."""
_LOADS = frozenset(("from_pretrained", "from_config"))
_MODEL = re.compile(r"Model|For[A-Z]")
"""What the name of a model's class has in it, beside those of tokenizers and configs."""
_IN_FEW_BITS = re.compile(r"quantization_config|load_in_")
"""A load that ZeRO-3 does not shard while it builds the model."""
_DEEPSPEED = "deepspeed"
"""The Trainer's argument of the config's name."""


def registrations(program: Program) -> tuple[Member, ...]:
    """The collection `code.registrations`: calls that register a config's file as it is, and keep it, ahead of a load
    in the same function; `load`, what is loaded then.
    """
    return tuple(_members(program))


def _members(program: Program) -> Iterator[Member]:
    for call in calls(program, _REGISTERING):
        load = _load_behind(call.place)
        if load is not None and stands(call.place) is not False and _is_kept(call.place) and _is_file(program, call):
            module = call.place.module
            told = written(dotted(load.func), module.span(load.func))
            yield Member(call.head, {"load": told}, ((module.span(load), "loads the model while it counts"),))


def _load_behind(place: Place) -> ast.Call | None:
    """The first load below a place in its function, unless arguments of the Trainer are made in between."""
    line = getattr(place.node, "lineno", 0)
    below = [each.node for each in place.scope.sites if getattr(each.node, "lineno", 0) > line]
    for node in sorted(below, key=lambda each: getattr(each, "lineno", 0)):
        if tells_arguments(node):
            return None
        if isinstance(node, ast.Call) and _loads_model(node):
            return node if not _IN_FEW_BITS.search(place.module.text(node)) else None
    return None


def _loads_model(call: ast.Call) -> bool:
    owner, _, method = dotted(call.func).rpartition(".")
    return method in _LOADS and _MODEL.search(owner.rpartition(".")[2]) is not None


def _is_kept(place: Place) -> bool:
    """Whether the object is given a name, without which it is gone before the load."""
    assigned = (ast.Assign, ast.AnnAssign, ast.NamedExpr)
    return any(isinstance(each, assigned) and each.value is place.node for each in ast.walk(place.module.top.node))


def _is_file(program: Program, call: Call) -> bool:
    """Whether what is registered is the file, not a dict that the program may have filled in: a name that is known, or
    what the Trainer is given as its config.
    """
    node = call.place.node.args[0] if isinstance(call.place.node, ast.Call) and call.place.node.args else None
    if node is None:
        return False
    if isinstance(node, ast.Attribute) and node.attr == _DEEPSPEED:
        return True
    known = evaluate(call.place.at(node)._replace(budget=Budget()))
    text = ast.unparse(node)
    return (isinstance(known, Value) and isinstance(known.value, str)) or (
        isinstance(node, ast.Subscript | ast.Attribute) and text in _configs(program)
    )


def _configs(program: Program) -> frozenset[str]:
    """The expressions that a program gives the Trainer as its config, as they are spelled."""
    nodes = (site.node for module in program.modules.values() for scope in module.scopes for site in scope.sites)
    told = (word for node in nodes if tells_arguments(node) and isinstance(node, ast.Call) for word in node.keywords)
    return frozenset(ast.unparse(word.value) for word in told if word.arg == _DEEPSPEED)
