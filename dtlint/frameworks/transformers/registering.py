"""DeepSpeed configs that a program registers by itself before it loads a model, with nothing filled in yet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

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
_SHARDING = ("deepspeed.zero.Init", "deepspeed.runtime.zero.Init")
_SHARDED_BY = ("config_dict_or_path", "config")
_REPLACED = re.compile(r"\.deepspeed\s{0,4}=[^=]")
_DEEPSPEED = "deepspeed"
"""The Trainer's argument of the config's name."""


def registrations(program: Program) -> tuple[Member, ...]:
    """The collection `code.registrations`: calls that register a config's file as it is, and keep it, ahead of a load
    in the same function, or hand it to DeepSpeed's shards of what is built; `load`, what has the file read then,
    `file`, its name where that is known.
    """
    return (*_registered(program), *_handed(program))


def _registered(program: Program) -> Iterator[Member]:
    for call in calls(program, _REGISTERING):
        load, given = _load_behind(call.place), _positional(call)[:1]
        if load is None or stands(call.place) is False or not _is_kept(call.place):
            continue
        module = call.place.module
        around = ((module.span(load), "loads the model while it counts"),)
        yield from (_member(call, load.func, file)._replace(related=around) for file in _files(program, call, given))


def _handed(program: Program) -> Iterator[Member]:
    """`deepspeed.zero.Init(config_dict_or_path="ds.json")`."""
    for call in calls(program, _SHARDING):
        node = call.place.node
        words = node.keywords if isinstance(node, ast.Call) and stands(call.place) is not False else []
        given = [word.value for word in words if word.arg in _SHARDED_BY]
        yield from (_member(call, getattr(node, "func", node), file) for file in _files(program, call, given))


def _positional(call: Call) -> list[ast.expr]:
    return call.place.node.args if isinstance(call.place.node, ast.Call) else []


def _member(call: Call, load: ast.AST, file: str) -> Member:
    told = {"load": dotted(load), "file": file}
    return Member(call.head, {name: written(text, call.head) for name, text in told.items()})


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


def _files(program: Program, call: Call, given: Sequence[ast.expr]) -> Iterator[str]:
    """The name of the file that a call is given, "" where it is not known: what the Trainer is given as its config. A
    dict is none, which the program may have filled in.
    """
    for node in given:
        known = evaluate(call.place.at(node)._replace(budget=Budget()))
        if isinstance(known, Value) and isinstance(known.value, str):
            yield known.value
        elif _is_the_trainers(program, node):
            yield ""


def _is_the_trainers(program: Program, node: ast.expr) -> bool:
    """Whether an expression is the Trainer's argument (`args.deepspeed`), or what that is given."""
    of_arguments = isinstance(node, ast.Attribute) and node.attr == _DEEPSPEED
    if of_arguments and not _is_replaced(program):
        return True
    return isinstance(node, ast.Subscript | ast.Attribute) and ast.unparse(node) in _configs(program)


def _is_replaced(program: Program) -> bool:
    """Whether a program puts something into the Trainer's arguments in place of the file."""
    return any(_REPLACED.search(module.source.text) for module in program.modules.values())


def _configs(program: Program) -> frozenset[str]:
    """The expressions that a program gives the Trainer as its config, as they are spelled."""
    nodes = (site.node for module in program.modules.values() for scope in module.scopes for site in scope.sites)
    told = (word for node in nodes if tells_arguments(node) and isinstance(node, ast.Call) for word in node.keywords)
    return frozenset(ast.unparse(word.value) for word in told if word.arg == _DEEPSPEED)
