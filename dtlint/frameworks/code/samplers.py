"""Finds samplers that shuffle in the same order in every epoch: `code.samplers`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import MAX_MODULES, Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Scope
from dtlint.source import Span
from dtlint.value import Choice, Option, Origin, Setting, Unknown, Value, written

SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
_CALLS_IT_ITSELF = frozenset(
    {
        "Trainer",
        "Seq2SeqTrainer",
        "SFTTrainer",
        "DPOTrainer",
        "RewardTrainer",
        "PPOTrainer",
        "Accelerator",
        "Fabric",
        "Runner",
        "auto_dataloader",
        "prepare_data_loader",
        "Learner",
        "set_epoch",
        "_set_epoch",
    }
)
"""Words of what calls set_epoch for the user, and of the call itself."""
_FRONT_ENDS = frozenset({"lightning", "pytorch_lightning", "ignite", "fastai", "mmengine", "mmcv", "composer"})
_FOR_EVALUATION = re.compile(
    r"val(id(ation)?)?(?![a-z])|test|eval|dev(?![a-z])|infer|pred|query|gallery|bench", re.IGNORECASE
)
_LOADER = re.compile(r"loader|\bdl\b|_dl\b", re.IGNORECASE)


def samplers(program: Program) -> tuple[Member, ...]:
    """The distributed samplers of a program that trains over epochs and never tells them the epoch."""
    if not any("DistributedSampler" in module.called for module in program.modules.values()):
        return ()
    if is_left_to_front_end(program) or len(program.modules) >= MAX_MODULES:
        return ()
    loops = list(_epoch_loops(program))
    if not loops or not any("backward" in module.called for module in program.modules.values()):
        return ()
    found = (call for call in calls(program, SAMPLERS) if not is_for_evaluation(call))
    return tuple(_member(call, loops[0]) for call in found if stands(call.place) is not False)


def is_left_to_front_end(program: Program) -> bool:
    """Whether the program calls set_epoch, or leaves its loop to a front end that does."""
    words = _CALLS_IT_ITSELF - _own_classes(program)
    for module in program.modules.values():
        if not words.isdisjoint(module.called):
            return True
        if any(name.partition(".")[0] in _FRONT_ENDS for name in module.imports):
            return True
    return False


def _own_classes(program: Program) -> set[str]:
    """The classes of the program that stand on no other: a `Trainer` of its own deals no samples by itself."""
    return {
        scope.name
        for module in program.modules.values()
        for scope in module.definitions.values()
        if isinstance(scope.node, ast.ClassDef) and all(dotted(base) == "object" for base in scope.node.bases)
    }


def is_for_evaluation(call: Call) -> bool:
    """Whether what the sampler draws from, or what it is called, speaks of evaluation."""
    scope: Scope = call.place.scope
    names = [
        dotted(binding.place) for item in scope.bindings.values() for binding in item if binding.node is call.place.node
    ]
    texts = [item.place.module.text(item.place.node) for item in passed(call, "dataset", 0)]
    conditions = [call.place.module.text(guard.test) for guard in call.place.guards if guard.test is not None]
    return any(_FOR_EVALUATION.search(text) for text in (*names, *texts, *conditions, scope.name))


def _member(call: Call, loop: tuple[Span, Setting]) -> Member:
    place, epochs = loop
    fields: dict[str, Setting] = {"shuffles": _shuffles(call), "epochs": epochs}
    return Member(call.head, fields, ((place, "the epochs"),))


def _shuffles(call: Call) -> Setting:
    value = argument(call, "shuffle", 3)
    if value is None:
        return Value(True, Origin("default", call.head, (), "DistributedSampler"))
    if isinstance(value, Value):
        return value._replace(value=bool(value.value))
    if any(_says_training(item.place) for item in passed(call, "shuffle", 3)):
        return written(True, call.head)
    return value if isinstance(value, Unknown) else Unknown("shuffle depends on a condition")


def _says_training(place: Place) -> bool:
    """`shuffle=mode == "train"`, `shuffle=training`: shuffled where it matters."""
    negated = isinstance(place.node, ast.UnaryOp) or (
        isinstance(place.node, ast.Compare) and isinstance(place.node.ops[0], ast.NotEq | ast.IsNot)
    )
    return "train" in place.module.text(place.node) and not negated


def _epoch_loops(program: Program) -> Iterator[tuple[Span, Setting]]:
    """The loops over epochs, each with the number of its turns."""
    for module in program.modules.values():
        for scope in module.scopes:
            for iterable in (*_named_epochs(scope), *_around_loaders(module, scope)):
                yield from _counted(program, module, scope, iterable)


def _named_epochs(scope: Scope) -> Iterator[ast.Call]:
    """What loops turn over whose counter is called an epoch."""
    for name, bindings in scope.bindings.items():
        if "epoch" in name.lower() or name == "ep":
            for binding in bindings:
                if binding.kind == "loop" and isinstance(binding.node, ast.Call):
                    yield binding.node


def _around_loaders(module: Module, scope: Scope) -> Iterator[ast.Call]:
    """What loops turn over that hold a loop over a loader which goes backward."""
    for site in scope.sites:
        if not _is_backward(site.node) or len(site.loops) < 2:
            continue
        outer, inner = site.loops[-2:]
        over_loader = isinstance(inner, ast.For) and bool(_LOADER.search(module.text(inner.iter)))
        if over_loader and isinstance(outer, ast.For) and isinstance(outer.iter, ast.Call):
            yield outer.iter


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _counted(program: Program, module: Module, scope: Scope, iterable: ast.Call) -> Iterator[tuple[Span, Setting]]:
    place = Place(program, module, scope, iterable, budget=Budget())
    counted = _range_of(place, iterable)
    if counted is not None:
        yield module.span(iterable), _turns(place, counted)


def _range_of(place: Place, node: ast.Call) -> ast.Call | None:
    """`range(...)`, also within tqdm, trange itself."""
    last = dotted(node.func).rpartition(".")[2]
    if qualified(place.module, node.func, place.scope) == ("range",) or last == "trange":
        return node
    inner = node.args[0] if node.args and isinstance(node.args[0], ast.Call) else None
    return _range_of(place, inner) if inner is not None and "tqdm" in dotted(node.func) else None


def _turns(place: Place, counted: ast.Call) -> Setting:
    """How often `range(start, stop)` turns; a start that is not known counts as 0 (a run that is taken up again)."""
    if len(counted.args) not in (1, 2):
        return Unknown("the number of epochs is not written as a range")
    stop = evaluate(place.inner(counted.args[-1]))
    start = evaluate(place.inner(counted.args[0])) if len(counted.args) == 2 else Value(0, Origin("derived"))
    first = start.value if isinstance(start, Value) and isinstance(start.value, int) else 0
    if isinstance(stop, Value) and isinstance(stop.value, int | float):
        return stop._replace(value=stop.value - first)
    return stop if isinstance(stop, Unknown) else _most(stop)


def _most(value: Setting) -> Setting:
    options: tuple[Option, ...] = value.options if isinstance(value, Choice) else ()
    known = [option.value for option in options if isinstance(option.value, Value)]
    numbers = [item for item in known if isinstance(item.value, int | float)]
    if numbers and len(numbers) == len(options):
        return max(numbers, key=lambda item: float(str(item.value)))
    return Unknown("the number of epochs depends on a condition")
