"""Finds samplers that shuffle in the same order in every epoch: `code.samplers`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from dtlint.frameworks import Member
from dtlint.frameworks.code.epoch_edits import told
from dtlint.frameworks.code.lone_runs import is_for_one_rank
from dtlint.frameworks.code.made_up import is_made_up
from dtlint.frameworks.code.ranks import among_ranks
from dtlint.frameworks.code.renewing import is_renewed, mixes_between, tells_by_hand
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.imported import MAX_MODULES
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program, of_file
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard, Module, Scope
from dtlint.record import NamedTuple
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
    }
)
"""Words of what calls set_epoch for the user."""
_TELLS = frozenset({"set_epoch", "_set_epoch"})
_FRONT_ENDS = frozenset({"lightning", "pytorch_lightning", "ignite", "fastai", "mmengine", "mmcv", "composer"})
_FOR_EVALUATION = re.compile(
    r"val(id(ation)?)?(?![a-z])|val(set|sampler|loader|data|ds|dl)|test|eval|dev(?![a-z])|infer|pred|query|gallery|bench",
    re.IGNORECASE,
)
_FOR_MEASURING = re.compile(r"(?<![a-z])(bench(mark)?(s|ing)?|profil(e|er|ing))(?![a-z])", re.IGNORECASE)
"""Words of files that measure how fast training is; in what order it sees the data is no matter there."""
_LOADER = re.compile(r"loader|\bdl\b|_dl\b", re.IGNORECASE)


class _Epochs(NamedTuple):
    """A loop over epochs: what it turns over (or the loop, where it counts nothing), and how often."""

    node: ast.AST
    place: Span
    turns: Setting


def samplers(program: Program) -> tuple[Member, ...]:
    """The distributed samplers of a program that trains over epochs and never tells them the epoch. Edit: `tell`."""
    if not any("DistributedSampler" in module.called for module in program.modules.values()):
        return ()
    told = _told(program)
    if told is None or _calls_one_of(program, _CALLS_IT_ITSELF) or len(program.modules) >= MAX_MODULES:
        return ()
    untold = _untold(calls(program, SAMPLERS), told)
    found = [call for call in untold if not (is_for_evaluation(call) or _is_for_measuring(call))]
    if not found or not any("backward" in module.called for module in program.modules.values()):
        return ()
    loops = [*_epoch_loops(program), *_rounds(program)]
    if not loops:
        return ()
    epochs = frozenset(id(item.node) for item in loops)
    if tells_by_hand(program) or mixes_between(program, epochs):
        return ()
    once = (call for call in found if not is_renewed(call, epochs) and not is_for_one_rank(call.place))
    ordered = (call for call in once if stands(among_ranks(call.place)) is not False and not is_made_up(call))
    return tuple(_member(call, loops, found) for call in ordered)


def _untold(made: Iterable[Call], told: frozenset[int]) -> list[Call]:
    """The samplers that nothing tells the epoch; of functions of one name, of which a run takes either (`from cifar
    import loaders` and `from imagenet import loaders`), what is done with one's samplers is done with the other's.
    """
    found = list(made)
    makers = [call.place.scope for call in found if id(call.place.node) in told]
    rest = (call for call in found if id(call.place.node) not in told)
    return [call for call in rest if not any(_stands_for(maker, call.place.scope) for maker in makers)]


def _stands_for(maker: Scope, other: Scope) -> bool:
    """Whether two are functions of one name in different places."""
    named = isinstance(maker.node, ast.FunctionDef) and isinstance(other.node, ast.FunctionDef)
    return named and maker is not other and maker.name == other.name


def _told(program: Program) -> frozenset[int] | None:
    """The calls that make the samplers which the program tells the epoch; None where it may be any."""
    made: set[int] = set()
    for module in program.modules.values():
        if "_set_epoch" in module.called:
            return None
        for site in module.called.get("set_epoch", ()):
            sampler = _made_by(place_of(program, module, site))
            if sampler is None:
                return None
            made.add(id(sampler.node))
    return frozenset(made)


def _made_by(place: Place) -> Place | None:
    """The call of DistributedSampler that certainly makes what a method is called on."""
    function = place.node.func if isinstance(place.node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return None
    ends = [way.end for way in ways(place.at(function.value))]
    end = ends[0] if len(ends) == 1 else None
    return end if isinstance(end, Place) and called(end) in SAMPLERS else None


def is_left_to_front_end(program: Program) -> bool:
    """Whether the program calls set_epoch, or leaves its loop to a front end that does."""
    return _calls_one_of(program, _CALLS_IT_ITSELF | _TELLS)


def _calls_one_of(program: Program, spelled: frozenset[str]) -> bool:
    """Whether the program calls a function of these names that is none of its own, or imports a front end."""
    words = spelled - _own_classes(program)
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
    conditions = [call.place.module.text(test) for test in map(_met, call.place.guards) if test is not None]
    return any(_FOR_EVALUATION.search(text) for text in (*names, *texts, *conditions, scope.name))


def _is_for_measuring(call: Call) -> bool:
    return bool(_FOR_MEASURING.search(call.place.module.source.path))


def _met(guard: Guard) -> ast.expr | None:
    """The condition of a guard that passes what it names; None for one that excludes it (`if not args.only_eval`)."""
    negated = isinstance(guard.test, ast.UnaryOp) and isinstance(guard.test.op, ast.Not)
    return guard.test if guard.holds is not negated else None


def _member(call: Call, loops: Sequence[_Epochs], samplers: Sequence[Call]) -> Member:
    fields: dict[str, Setting] = {"shuffles": _shuffles(call), "epochs": _turns(call, loops[0].turns, samplers)}
    edits = {"tell": told(call, [loop.node for loop in loops])}
    return Member(call.head, fields, ((loops[0].place, "the epochs"),), edits)


def _turns(call: Call, turns: Setting, samplers: Sequence[Call]) -> Setting:
    """The number of epochs in which a sampler deals; not known where another branch makes another one: which of them a
    run takes that has so many is not known.
    """
    other = any(_excludes(call.place.guards, each.place.guards) for each in samplers)
    return Unknown("which of the samplers this run takes is not known") if other and _is_more_than_one(turns) else turns


def _excludes(some: Sequence[Guard], others: Sequence[Guard]) -> bool:
    """Whether two places stand in branches of one condition."""
    return any(one.test is other.test is not None and one.holds is not other.holds for one in some for other in others)


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


def _epoch_loops(program: Program) -> Iterator[_Epochs]:
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


def _rounds(program: Program) -> Iterator[_Epochs]:
    """Where a program goes through a loader again and again without counting: `while True: yield from loader`, or
    `except StopIteration: batches = iter(loader)`.
    """
    for module in program.modules.values():
        yield from of_file(program, "rounds", module.top, partial(_rounds_in, module))


def _rounds_in(module: Module) -> tuple[_Epochs, ...]:
    again = Unknown("the loader is gone through again and again")
    found = []
    for node in ast.walk(module.top.node):
        if isinstance(node, ast.While) and _goes_through(module, node):
            found.append(_Epochs(node, module.span(node.test), again))
        elif isinstance(node, ast.ExceptHandler) and (restart := _restart(module, node)) is not None:
            found.append(_Epochs(node, module.span(restart), again))
    return tuple(found)


def _goes_through(module: Module, loop: ast.While) -> bool:
    """Whether each turn of a loop hands out, or trains on, all that a loader has."""
    return any(
        _LOADER.search(module.text(iterable)) and any(map(_uses_up, ast.walk(inner)))
        for inner in loop.body
        if (iterable := _turned_over(inner)) is not None
    )


def _restart(module: Module, handler: ast.ExceptHandler) -> ast.Call | None:
    """`batches = iter(loader)`, where the batches have come to their end."""
    for node in ast.walk(handler):
        begins = isinstance(node, ast.Call) and dotted(node.func) == "iter" and len(node.args) == 1
        if isinstance(node, ast.Call) and begins and _LOADER.search(module.text(node.args[0])):
            return node if _has_meaning(module, node.args[0]) else None
    return None


def _has_meaning(module: Module, node: ast.expr) -> bool:
    """Whether a name may be bound where it is read: at one that is not the program stops, and no epoch follows."""
    if not isinstance(node, ast.Name) or module.stars:
        return True
    around = (scope for scope in module.scopes if _spans(scope.node, node))
    return any(node.id in scope.bindings for scope in around)


def _spans(outer: ast.AST, node: ast.expr) -> bool:
    first, last = getattr(outer, "lineno", 0), getattr(outer, "end_lineno", None)
    return first <= node.lineno <= (node.lineno if last is None else last)


def _turned_over(statement: ast.stmt) -> ast.expr | None:
    """What `for x in ITERABLE` and `yield from ITERABLE` go through."""
    if isinstance(statement, ast.For):
        return statement.iter
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.YieldFrom) else None


def _uses_up(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom) or _is_backward(node)


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _counted(program: Program, module: Module, scope: Scope, iterable: ast.Call) -> Iterator[_Epochs]:
    place = Place(program, module, scope, iterable, budget=Budget())
    counted = range_of(place, iterable)
    if counted is not None:
        turns = turns_of_range(place, counted)
        early = _is_more_than_one(turns) and _may_return(scope, iterable)
        yield _Epochs(iterable, module.span(iterable), Unknown("the loop may end in any epoch") if early else turns)


def _is_more_than_one(turns: Setting) -> bool:
    return isinstance(turns, Value) and isinstance(turns.value, int | float) and turns.value > 1


def _may_return(scope: Scope, iterable: ast.Call) -> bool:
    """Whether a loop is left by a `return`, after so many steps."""
    loops = (node for node in ast.walk(scope.node) if isinstance(node, ast.For) and node.iter is iterable)
    return any(isinstance(node, ast.Return) for loop in loops for node in ast.walk(loop))


def range_of(place: Place, node: ast.Call) -> ast.Call | None:
    """`range(...)`, also within tqdm, trange itself."""
    last = dotted(node.func).rpartition(".")[2]
    if qualified(place.module, node.func, place.scope) == ("range",) or last == "trange":
        return node
    inner = node.args[0] if node.args and isinstance(node.args[0], ast.Call) else None
    return range_of(place, inner) if inner is not None and "tqdm" in dotted(node.func) else None


def turns_of_range(place: Place, counted: ast.Call) -> Setting:
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
