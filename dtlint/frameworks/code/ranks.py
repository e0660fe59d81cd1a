"""Tells which ranks a condition of a training script lets pass: all of them, the first only, or all but the first."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Literal

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.choices import options
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import attribute_bindings, lookup, qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import definition
from dtlint.languages.python.reaching import reaching
from dtlint.languages.python.tree import Binding, Guard, Scope
from dtlint.value import Value

Side = Literal["", "first", "others", "some"]
"""Which ranks pass: "" all or not known, the first, all but the first, or some other part of them."""

_MAX_DEPTH = 6
_RANK_CALLS = frozenset(
    {
        "torch.distributed.get_rank",
        "torch.distributed.get_node_local_rank",
        "torch.distributed.distributed_c10d.get_rank",
        "deepspeed.comm.get_rank",
        "deepspeed.comm.get_local_rank",
    }
)
_RANK_WORDS = re.compile(
    r"((global|local|world|ddp|ddp_local|dist|my|process|proc|gpu|cur|current|this|node)_?)?rank(_id)?"
    r"|(local_)?process_index|slurm_procid",
    re.IGNORECASE,
)
"""Spellings of the number of this rank among all ranks or those of its node."""
_RANK_CALL_WORDS = re.compile(r"(get_)?(global_|local_|world_|dist_)?rank", re.IGNORECASE)
_FIRST_WORDS = re.compile(
    r"_?(is_)?((global|local|world)_)?(main|master|chief|primary|rank_?(0|zero)|global_zero|main_rank)(_?(process|rank|node|worker))?"
    r"|is_(world|local)_process_zero|is_first_rank|is_root",
    re.IGNORECASE,
)
"""Spellings of "this is rank 0"."""
_ROLE = re.compile(r"_?((global|local|world)_)?rank_?(0|zero)", re.IGNORECASE)
"""Spellings that, as a parameter, ask a function to do what rank 0 does (`load(rank0=True)`), whoever calls it."""
_LAUNCHED = r"rank[\"']?\)?\s(is|is\snot)\sNone\b|rank[\"']\s(in|not\sin)\sos\.environ\b"
"""Whether a launcher has numbered this process: `os.environ.get("LOCAL_RANK") is not None`, `"RANK" in os.environ`."""
_ALONE = re.compile(
    r"distributed|is_initialized|is_available|world_?size|\bworld\b|n_?gpus?|num_gpus|num_processes|rank\s*(==|!=|>)\s*-1|use_ddp|is_ddp|\bddp\b|multi_?gpu|"
    + _LAUNCHED,
    re.IGNORECASE,
)
"""Words of conditions that ask whether there are several ranks at all."""
_PROCESSES = re.compile(
    r"distributed|is_initialized|world_?size|num_processes|rank\s*(==|!=|>)\s*-1|use_ddp|is_ddp|\bddp\b|" + _LAUNCHED,
    re.IGNORECASE,
)
"""The words among these that mean processes, and not the GPUs of one."""
_PACKAGE = re.compile(r"(?<![\w.])[\w.]*distributed\.(?=\w)", re.IGNORECASE)
"""The package in front of a function, whose name says nothing."""

_MODELS = re.compile(r"(?:^|_)(?:model|module|net|network)s?$", re.IGNORECASE)
"""Names of models."""


def side_of(place: Place, guard: Guard) -> Side:
    """The ranks that a guard at `place` lets pass."""
    return _side(place, guard.test, guard.holds, 0) if guard.test is not None else ""


def asks_for_ranks(place: Place, guard: Guard) -> bool:
    """Whether a guard asks if there are several ranks at all (`if dist.is_initialized()`), and not what a model is
    (`distributed = any(map(is_sharded, models))`).
    """
    if guard.test is None or not _ALONE.search(_PACKAGE.sub("", place.module.text(guard.test, 200))):
        return False
    return not any(_is_of_models(node) for node in _told_by(place, guard.test))


def _told_by(place: Place, test: ast.expr) -> Iterator[ast.AST]:
    """A condition, and what the names in it that speak of ranks are bound to."""
    yield test
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and _ALONE.search(node.id):
            yield from (binding.node for _, binding in _bound(place, node.id) if binding.node is not None)


def _is_of_models(told: ast.AST) -> bool:
    """Whether a function other than isinstance is asked about a model."""
    calls = (node for node in ast.walk(told) if isinstance(node, ast.Call) and dotted(node.func) != "isinstance")
    arguments = (argument for call in calls for argument in call.args)
    names = (node.id for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name))
    return any(map(_MODELS.search, names))


def is_alone(place: Place, guard: Guard) -> bool:
    """Whether a guard lets pass only a run of one rank: `world_size == 1`, the `else` of `if distributed`."""
    test = guard.test
    if test is None or not asks_for_ranks(place, guard):
        return False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_alone(place, Guard(test.operand, not guard.holds))
    if isinstance(test, ast.BoolOp):
        inner = (is_alone(place, Guard(value, guard.holds)) for value in test.values)
        return any(inner) if isinstance(test.op, ast.And) is guard.holds else all(inner)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        several = isinstance(test.ops[0], ast.Gt | ast.GtE | ast.NotEq | ast.IsNot) or _is_variable_set(test)
        if dotted(test.left).endswith("distributed_type") and not _is_no_type(test.comparators[0]):
            return False
        return several is not guard.holds
    return not guard.holds


def _is_variable_set(test: ast.Compare) -> bool:
    """`"RANK" in os.environ`."""
    return isinstance(test.ops[0], ast.In) and dotted(test.comparators[0]).endswith("environ")


def is_apart(place: Place, guard: Guard) -> bool:
    """Whether a guard lets pass only runs of several processes: `if args.distributed`, the `else` of `rank == -1`."""
    test = guard.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_apart(place, Guard(test.operand, not guard.holds))
    if isinstance(test, ast.BoolOp):
        inner = (is_apart(place, Guard(value, guard.holds)) for value in test.values)
        return any(inner) if isinstance(test.op, ast.And) is guard.holds else all(inner)
    if test is None or not _PROCESSES.search(_PACKAGE.sub("", place.module.text(test, 200))):
        return False
    return asks_for_ranks(place, guard) and not is_alone(place, guard)


def _is_no_type(node: ast.expr) -> bool:
    """`DistributedType.NO`: of Accelerate's types all others are of several ranks."""
    return dotted(node).endswith(".NO") or (isinstance(node, ast.Constant) and node.value == "NO")


def among_ranks(place: Place) -> Place:
    """A place as a run of several ranks reaches it: a switch of the options that asks for them (`if
    config.distributed`) is on, whatever its default.
    """
    guards = (guard for guard in place.guards if not (guard.holds and _is_switch(place, guard)))
    return place._replace(guards=tuple(guards))


def _is_switch(place: Place, guard: Guard) -> bool:
    return isinstance(guard.test, ast.Attribute) and asks_for_ranks(place, guard)


def asks_for_mesh_rank(place: Place, guard: Guard) -> bool:
    """Whether a guard looks at the rank along one dimension of a device mesh (`dp_mesh.get_local_rank() == 0`): the
    ranks that pass fill whole groups of the other dimensions.
    """
    names = [node for node in ast.walk(guard.test) if isinstance(node, ast.expr)] if guard.test is not None else []
    bound = (binding.node for node in names if dotted(node) for _, binding in _bound(place, dotted(node)))
    return any(_is_mesh_rank(place, node) for node in (*names, *bound))


def _is_mesh_rank(place: Place, node: ast.AST | None) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in ("get_local_rank", "get_rank") and "mesh" in place.module.text(node.func.value).lower()


def _opposite(side: Side) -> Side:
    swapped: dict[Side, Side] = {"first": "others", "others": "first"}
    return swapped.get(side, side)


def _side(place: Place, test: ast.expr, holds: bool, depth: int) -> Side:
    if depth > _MAX_DEPTH or not place.budget.spend():
        return ""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _side(place, test.operand, not holds, depth + 1)
    if isinstance(test, ast.BoolOp):
        return _of_several(place, test, holds, depth)
    if isinstance(test, ast.Compare):
        return _of_comparison(place, test, holds) or _of_presence(place, test, holds, depth)
    if isinstance(test, ast.IfExp):
        return _of_choice(place, test, holds, depth, _is_false)
    if is_rank(place.at(test), depth):
        return "others" if holds else "first"
    return _of_flag(place, test, holds, depth)


def _of_several(place: Place, test: ast.BoolOp, holds: bool, depth: int) -> Side:
    """`a and b` is one-sided if a part is; `a or b` only if every part is that does not ask for ranks at all, and is
    not certain to leave it to the others (`if rank0_only and rank != 0: return`, called with rank0_only=True).
    """
    joint = isinstance(test.op, ast.And) is holds
    sides = [_side(place, value, holds, depth + 1) for value in test.values]
    if joint or not any(sides):
        return next((side for side in sides if side), "")
    asked = [
        side
        for value, side in zip(test.values, sides, strict=True)
        if side or not (is_alone(place, Guard(value, holds)) or _may_be(place, value, holds=not holds))
    ]
    return asked[0] if asked and all(asked) and len(set(asked)) == 1 else ""


def _may_be(place: Place, switch: ast.expr, *, holds: bool) -> bool:
    """Whether a switch is on (or off) by what the program itself says, for one of its calls at least."""
    if isinstance(switch, ast.UnaryOp) and isinstance(switch.op, ast.Not):
        return _may_be(place, switch.operand, holds=not holds)
    if not isinstance(switch, ast.Name | ast.Attribute) or _asked_again(place, switch):
        return False
    told = (option.value for option in options(evaluate(place._replace(node=switch, guards=(), budget=Budget()))))
    plain = (each.value for each in told if isinstance(each, Value) and each.origin.kind == "written")
    return any(isinstance(value, bool) and value is holds for value in plain)


def _asked_again(place: Place, switch: ast.Name | ast.Attribute) -> bool:
    """Whether another condition around a place asks for the same switch, so that it may not be reached with it."""
    asked = [list(ast.walk(guard.test)) for guard in place.guards if guard.test is not None]
    others = (node for nodes in asked if switch not in nodes for node in nodes)
    return any(isinstance(node, ast.Name | ast.Attribute) and dotted(node) == dotted(switch) for node in others)


def _of_comparison(place: Place, test: ast.Compare, holds: bool) -> Side:
    """`rank == 0`, `0 != rank`, `local_rank in (-1, 0)`, `rank % 8 == 0`, `rank > 0`."""
    if len(test.ops) != 1:
        return ""
    left, right, operation = test.left, test.comparators[0], test.ops[0]
    if isinstance(left, ast.Constant):
        left, right = right, left
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
        left = left.left
    if not is_rank(place.at(left), 0):
        return ""
    return _of_numbers(operation, right, holds)


def _of_presence(place: Place, test: ast.Compare, holds: bool, depth: int) -> Side:
    """`bar is not None`, where the bar is one on some ranks only (`bar = tqdm() if rank == 0 else None`)."""
    operation = test.ops[0]
    if not (isinstance(operation, ast.Is | ast.IsNot) and len(test.ops) == 1 and _is_none(test.comparators[0])):
        return ""
    bound = _bound(place, dotted(test.left)) if dotted(test.left) else []
    given = [(scope, item) for scope, item in bound if not (item.kind == "value" and _is_none(item.node))]
    choices = [(scope, item.node) for scope, item in given if isinstance(item.node, ast.IfExp) and not item.path]
    if not choices or len(choices) < len(given):
        return ""
    is_there = isinstance(operation, ast.IsNot) is holds
    sides = {_of_choice(place._replace(scope=scope), node, is_there, depth + 1, _is_none) for scope, node in choices}
    return sides.pop() if len(sides) == 1 else ""


def _of_choice(place: Place, node: ast.IfExp, holds: bool, depth: int, lacks: Callable[[ast.AST], bool]) -> Side:
    """The ranks on which `value if rank == 0 else None` is a value, and not what it is told to be where it `lacks`."""
    if lacks(node.body) is lacks(node.orelse):
        return ""
    return _side(place, node.test, holds is lacks(node.orelse), depth + 1)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _of_numbers(operation: ast.cmpop, right: ast.expr, holds: bool) -> Side:
    numbers = _integers(right)
    if not numbers or any(number < -1 for number in numbers):
        return ""
    side: Side = "first" if 0 in numbers else "some"
    if isinstance(operation, ast.Eq | ast.NotEq | ast.In | ast.NotIn | ast.Is | ast.IsNot):
        if numbers == [-1]:
            return ""
        equal = isinstance(operation, ast.Eq | ast.In | ast.Is)
        return side if equal is holds else _opposite(side)
    if isinstance(operation, ast.Gt) and numbers == [0]:
        return "others" if holds else "first"
    if isinstance(operation, ast.Lt) and numbers == [1]:
        return "first" if holds else "others"
    return ""


def _integers(node: ast.expr) -> list[int]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        found = [_integers(item) for item in node.elts]
        return [number for numbers in found for number in numbers] if all(found) else []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [-number for number in _integers(node.operand)]
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return [node.value]
    return []


def is_rank(place: Place, depth: int) -> bool:
    """Whether an expression is the number of this rank: what it is bound to decides, else its spelling."""
    node = place.node
    if depth > _MAX_DEPTH or not place.budget.spend():
        return False
    if isinstance(node, ast.Call):
        return _is_rank_call(place, node, depth)
    if isinstance(node, ast.Subscript):
        return _is_environment_rank(place, node.value, node.slice)
    name = dotted(node)
    if not name:
        return False
    known = [(scope, binding) for scope, binding in _bound(place, name) if binding.kind != "parameter"]
    telling = [(scope, binding) for scope, binding in known if not _is_of_one_rank(binding)]
    if telling:
        return all(_binds(place, scope, binding, depth) for scope, binding in telling)
    return bool(_RANK_WORDS.fullmatch(name.rpartition(".")[2])) or is_told_to_group(place, "rank")


def is_rank_word(text: str) -> bool:
    """Whether a word is a spelling of the number of this rank."""
    return _RANK_WORDS.fullmatch(text) is not None


def is_told_to_group(place: Place, parameter: str) -> bool:
    """Whether the function around a name starts the process group with it: `init_process_group(rank=worker)` says what
    the name is, however it is spelled.
    """
    starts = (site.node for site in place.module.called.get("init_process_group", ()) if site.scope is place.scope)
    given = (each for start in starts if isinstance(start, ast.Call) for each in start.keywords)
    return any(each.arg == parameter and dotted(each.value) == dotted(place.node) for each in given)


def _is_of_one_rank(binding: Binding) -> bool:
    """Whether a binding gives what the rank is where there is one (`rank = 0`); anything else may start so too."""
    constant = binding.node if binding.kind == "value" and not binding.path else None
    if not isinstance(constant, ast.Constant) or isinstance(constant.value, bool):
        return False
    return constant.value in (0, -1, None)


def _binds(place: Place, scope: Scope, binding: Binding, depth: int) -> bool:
    """Whether a binding gives a rank; one that is hidden (an unpacked call, a global) is judged by its spelling."""
    if binding.kind == "loop":
        return False
    if binding.kind == "value" and isinstance(binding.node, ast.expr) and not binding.path:
        return is_rank(place._replace(scope=scope, node=binding.node), depth + 1)
    if binding.kind == "value" and isinstance(binding.node, ast.Tuple) and len(binding.path) == 1:
        inner = binding.node.elts[binding.path[0]] if 0 <= binding.path[0] < len(binding.node.elts) else None
        return inner is not None and is_rank(place._replace(scope=scope, node=inner), depth + 1)
    return bool(_RANK_WORDS.fullmatch(dotted(binding.place).rpartition(".")[2]))


def _is_rank_call(place: Place, node: ast.Call, depth: int) -> bool:
    names = qualified(place.module, node.func, place.scope)
    name = names[0] if len(names) == 1 else ""
    if name in _RANK_CALLS:
        return not node.args and not node.keywords
    if name == "int" and len(node.args) == 1:
        return is_rank(place.at(node.args[0]), depth + 1)
    if name in ("os.environ.get", "os.getenv") and node.args:
        return _is_environment_rank(place, None, node.args[0])
    if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        return bool(_RANK_WORDS.fullmatch(str(node.args[1].value)))
    if node.args or node.keywords:
        return False
    last = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    return bool(_RANK_CALL_WORDS.fullmatch(last))


def _is_environment_rank(place: Place, holder: ast.expr | None, key: ast.expr) -> bool:
    if holder is not None and qualified(place.module, holder, place.scope) != ("os.environ",):
        return False
    return isinstance(key, ast.Constant) and bool(_RANK_WORDS.fullmatch(str(key.value)))


def _of_flag(place: Place, test: ast.expr, holds: bool, depth: int) -> Side:
    """A flag or function that says "this is rank 0": by what it is made of where that is in sight, else by its name."""
    function = test.func if isinstance(test, ast.Call) else test
    spelled = function.attr if isinstance(function, ast.Attribute) else dotted(function)
    if isinstance(test, ast.Call) and (helper := _helper_side(place, test, depth)) is not None:
        return helper if holds else _opposite(helper)
    if not isinstance(test, ast.Call) and dotted(test):
        values = [(scope, item) for scope, item in _bound(place, dotted(test)) if item.kind == "value"]
        found = {
            _side(place._replace(scope=scope), item.node, True, depth + 1)
            for scope, item in values
            if isinstance(item.node, ast.expr) and not item.path and not isinstance(item.node, ast.Constant)
        }
        if found:
            side = next(iter(found)) if len(found) == 1 else ""
            return side if holds else _opposite(side)
    if isinstance(test, ast.Name) and _ROLE.fullmatch(spelled) and _is_parameter(place, spelled):
        return ""
    if not _FIRST_WORDS.fullmatch(spelled) or (isinstance(test, ast.Call) and len(test.args) > 1):
        return ""
    return "first" if holds else "others"


def _is_parameter(place: Place, name: str) -> bool:
    """Whether a name is what the caller passes, and nothing else."""
    return {binding.kind for _, binding in _bound(place, name)} == {"parameter"}


def _helper_side(place: Place, test: ast.Call, depth: int) -> Side | None:
    """What a function of the program returns; None for any other function, or one whose returns do not tell."""
    names = qualified(place.module, test.func, place.scope)
    helper = definition(place.program, place.module, names[0]) if len(names) == 1 else None
    if helper is None or not isinstance(helper.scope.node, ast.FunctionDef):
        return None
    inside = place._replace(module=helper.module, scope=helper.scope)
    returned = [site.node.value for site in helper.scope.sites if isinstance(site.node, ast.Return)]
    sides = {
        _side(inside, value, True, depth + 1)
        for value in returned
        if value is not None and not isinstance(value, ast.Constant)
    }
    return next(iter(sides)) if len(sides) == 1 else None


def bindings_at(place: Place, name: str) -> list[Binding]:
    """What gives a name its value at a place."""
    return [binding for _, binding in _bound(place, name)]


def _bound(place: Place, name: str) -> list[tuple[Scope, Binding]]:
    holder, bindings = lookup(place.scope, name)
    if holder is not None:
        return [(holder, binding) for binding, _ in reaching(place, holder, bindings)]
    return attribute_bindings(place.module, place.scope, name)
