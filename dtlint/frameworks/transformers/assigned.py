"""Arguments of the Trainer that a program sets anew after it has parsed them (`training_args.gradient_checkpointing =
True`): what the command line says of them does not count. What the Trainer reads only when it trains is what it is set
to; the others a DeepSpeed config may have taken over before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.argument_classes import comes_down, is_made
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.pytorch.checkpointing import variant_in
from dtlint.frameworks.transformers.arguments import REPEATED
from dtlint.frameworks.transformers.declared import BASES
from dtlint.frameworks.transformers.program import ARGUMENTS, SETTINGS
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value

LAYER, FILLED = "assigned-arguments", "filled-arguments"
_ARGUMENTS = re.compile(r"(^|_)args$|^training_(config|arguments)$", re.IGNORECASE)
_OF_TRAINER = re.compile(r"(?:(?:hf_?)?(?:train|trainer|training|sft|dpo)_?)?args|training_(?:config|arguments)", re.I)
"""Names of what holds the Trainer's own arguments, and not those of the model or the data beside them."""
_SWITCH, _OPTIONS = "gradient_checkpointing", "gradient_checkpointing_kwargs"
_MARK = re.compile(r"TrainingArguments|(?:SFT|DPO|GRPO|KTO|Reward)Config")
"""What a program says that has arguments of the Trainer."""
_MARKS = ("args.", "training_", "__post_init__")
"""What a file says that may set one of them."""
_OWN, _MAKING = "self", ("__post_init__", "__init__")
"""An object in its own methods, and those that run when it is made."""
_OTHERS = {
    _SWITCH: "checkpointing.activations",
    _OPTIONS: "checkpointing.reentrant",
    "bf16": "precision.compute",
    "fp16": "precision.compute",
}


def _as_flag(place: Place) -> Setting | None:
    value = evaluate(place)
    return value if isinstance(value, Value) and isinstance(value.value, bool) else None


def _extent(place: Place) -> Setting | None:
    value = _as_flag(place)
    return value._replace(value="full" if value.value else "none") if isinstance(value, Value) else None


_READ_LATE: Mapping[str, Callable[[Place], Setting | None]] = {
    _SWITCH: _extent,
    _OPTIONS: variant_in,
    "ddp_find_unused_parameters": _as_flag,
}
"""Arguments that the Trainer reads when it starts to train and wraps the model (transformers 4.57.1 trainer.py,
_inner_training_loop and create_accelerator_and_postprocess, _wrap_model), and what they are set to."""


class _Assigned(NamedTuple):
    """An argument that is set anew: its setting and spelling, where, and to what (None: not known). `fills`: only
    where nothing has set it before.
    """

    setting: str
    name: str
    place: Span
    value: Value | None
    fills: bool = False


def read(program: Program) -> tuple[Reading, Reading]:
    """What the program sets, a claim for each setting, and what it fills in where an argument is not given
    (`if args.x is None: args.x = ...`); nothing of a program that has no Trainer's arguments.
    """
    every = tuple(_assigned(program))
    filled = tuple(each for each in every if each.fills)
    others = tuple(each for each in every if not each.fills)
    numbers = tuple(_own_numbers(program))
    told = Reading(LAYER, claims=tuple(_claims(others)), collections={ARGUMENTS: numbers} if numbers else {})
    return Reading(FILLED, claims=tuple(_claims(filled))), told


def _own_numbers(program: Program) -> Iterator[Member]:
    """The numbers that a class of arguments sets itself when it is made, as members of `config.arguments` that are not
    known: a DeepSpeed config is compared with what they are then.
    """
    names = {flag.replace("-", "_"): flag for flag in REPEATED}
    for module in program.modules.values():
        for site in sites(module) if "__post_init__" in module.source.text else ():
            for target, _ in _pairs(site.node):
                place = place_of(program, module, site)
                if target.attr in names and _is_own(place, dotted(target.value)) and stands(place) is not False:
                    span = module.span(site.node)
                    unknown = Unknown(f"the program sets {target.attr} itself", "", Origin("written", span))
                    yield Member(span, {**texts(span, name=names[target.attr]), "value": unknown})


def _claims(every: Sequence[_Assigned]) -> Iterator[Claim]:
    found: dict[str, list[_Assigned]] = {}
    for each in every:
        found.setdefault(each.setting, []).append(each)
    yield from map(_claim, found.values())


def _claim(every: Sequence[_Assigned]) -> Claim:
    """What all assignments to an argument agree on, else that it is not known any more."""
    last = every[-1]
    values = {each.value.value if each.value is not None else None for each in every}
    if last.value is not None and len(values) == 1:
        return Claim(last.setting, last.value, last.name)
    why, how = f"the program sets {last.name} itself", f"--set {last.setting}=..."
    return Claim(last.setting, Unknown(why, how, Origin("written", last.place)), last.name)


def _assigned(program: Program) -> Iterator[_Assigned]:
    if not any(_MARK.search(module.source.text) for module in program.modules.values()):
        return
    for module in program.modules.values():
        if not any(mark in module.source.text for mark in _MARKS):
            continue
        for site in sites(module):
            for target, value in _pairs(site.node):
                place = place_of(program, module, site)
                setting = _setting(place.at(target))
                if setting:
                    yield from _set_anew(target, place, value, setting)


def _pairs(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """The attributes that a statement sets, and to what: `args.x = v`, `setattr(args, "x", v)`; of
    `args.x["use_reentrant"] = v` the options, which hold that one.
    """
    if isinstance(node, ast.Assign):
        found = (_pair(target, node.value) for target in node.targets)
        yield from (pair for pair in found if pair is not None)
    elif isinstance(node, ast.Call) and dotted(node.func) == "setattr" and len(node.args) == 3:
        name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
        if isinstance(name, str):
            yield ast.copy_location(ast.Attribute(node.args[0], name, ast.Store()), node), node.args[2]


def _pair(target: ast.expr, value: ast.expr) -> tuple[ast.Attribute, ast.expr] | None:
    if isinstance(target, ast.Attribute):
        return target, value
    options = target.value if isinstance(target, ast.Subscript) else None
    if isinstance(target, ast.Subscript) and isinstance(options, ast.Attribute) and options.attr == _OPTIONS:
        return options, ast.copy_location(ast.Dict([target.slice], [value]), value)
    return None


def _set_anew(target: ast.Attribute, place: Place, value: ast.expr, setting: str) -> Iterator[_Assigned]:
    given = _where_left_out(target, value)
    here = _where_it_counts(target, place)
    fills = given is not value or any(_asks_whether_left_out(target, part) for part in _parts(place))
    if stands(here) is not False:
        span = place.module.span(place.node)
        yield _Assigned(setting, dotted(target), span, _set_to(target, here, given), fills)


def _where_left_out(target: ast.Attribute, value: ast.expr) -> ast.expr:
    """What fills an argument in: `v` of `args.x = args.x or v`, any other value as it is."""
    filling = isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) and len(value.values) == 2
    if filling and isinstance(value, ast.BoolOp) and dotted(value.values[0]) == dotted(target):
        return value.values[1]
    return value


def _where_it_counts(target: ast.Attribute, place: Place) -> Place:
    """A place without the questions whether the argument is left out, and whether recomputation is on, if what is set
    there says how it runs.
    """
    of_options = target.attr == _OPTIONS
    left = [
        part
        for part in _parts(place)
        if not (_asks_whether_left_out(target, part) or (of_options and _asks_for_recomputation(part)))
    ]
    return place._replace(guards=tuple(left))


def _parts(place: Place) -> Iterator[Guard]:
    """The conditions of a place, each of those that must hold together by itself."""
    for guard in place.guards:
        together = guard.holds and isinstance(guard.test, ast.BoolOp) and isinstance(guard.test.op, ast.And)
        if together and isinstance(guard.test, ast.BoolOp):
            yield from (guard._replace(test=test) for test in guard.test.values)
        else:
            yield guard


def _asks_for_recomputation(guard: Guard) -> bool:
    return guard.holds and isinstance(guard.test, ast.Attribute) and guard.test.attr == _SWITCH


def _asks_whether_left_out(target: ast.Attribute, guard: Guard) -> bool:
    """`args.x is None`; of options, which are None or a dict, `not args.x`."""
    test = guard.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and target.attr == _OPTIONS:
        return guard.holds and dotted(test.operand) == dotted(target)
    if not isinstance(test, ast.Compare) or dotted(test.left) != dotted(target) or len(test.ops) != 1:
        return False
    other = test.comparators[0]
    of_none = isinstance(other, ast.Constant) and other.value is None
    return guard.holds and of_none and isinstance(test.ops[0], ast.Is | ast.Eq)


def _set_to(target: ast.Attribute, place: Place, value: ast.expr) -> Value | None:
    """What an argument that is read late is certainly set to."""
    if target.attr not in _READ_LATE or not stands(place):
        return None
    holder = dotted(target.value).rpartition(".")[2]
    certain = holder == _OWN or _OF_TRAINER.fullmatch(holder)
    found = _READ_LATE[target.attr](place.at(value)) if certain else None
    return found if isinstance(found, Value) else None


def _setting(place: Place) -> str:
    """The setting that an assignment to an attribute decides on, "" for any other."""
    target = place.node
    assert isinstance(target, ast.Attribute)
    setting = SETTINGS.get(target.attr, "") or _OTHERS.get(target.attr, "")
    holder = dotted(target.value).rpartition(".")[2]
    return setting if setting and (_ARGUMENTS.search(holder) or _is_own(place, dotted(target.value))) else ""


def _is_own(place: Place, holder: str) -> bool:
    """Whether it is an object of a class of the Trainer's arguments that sets them itself when it is made."""
    owner = enclosing_class(place.scope)
    if holder != _OWN or owner is None or place.scope.name.rpartition(".")[2] not in _MAKING:
        return False
    name = owner.name.rpartition(".")[2]
    return comes_down(place.program, name, BASES) and is_made(place.program, name)
