"""Finds losses that are divided by the accumulation before a backward pass that divides by it too, as conflicts of
`batch.accumulation`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.loss_factors import Factor, factors, loss_of
from dtlint.frameworks.code.objects import kinds, makers
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program, declared_argument, given_argument
from dtlint.languages.python.reach import stands
from dtlint.value import Value

_ACCUMULATION = "gradient_accumulation_steps"
"""The engine's method and the Accelerator's argument and attribute."""
_PLUGIN = "GradientAccumulationPlugin"
_NAMED = re.compile(
    r"(?:num_|n_)?(?:grads?_|gradients?_)?accum(?:ulat(?:e|ion))?(?:_grads?|_gradients?)?(?:_?batches)?"
    r"(?:_?(?:steps?|iters?|iterations?|freq|num|factor|count))?"
    r"|(?:grads?|gradients?)_acc(?:_?(?:steps?|iters?))?|acc_(?:steps?|iters?)|gas|update_freq|iter_size",
    re.IGNORECASE,
)
"""What programs call the number of batches that go into one step."""
_UNSCALED = "scale_wrt_gas"
"""The engine's argument that keeps it from dividing (DeepSpeed 0.19.6 engine.py, backward)."""


def rescaled_losses(program: Program) -> tuple[Member, ...]:
    """Conflicts of losses divided by what divides them again: the accumulation of the run, by which DeepSpeed's engine
    divides (`effect` engine; engine.py, backward, unless scale_wrt_gas is False), or the number that Accelerate's
    Accelerator is made with (`effect` twice; accelerator.py, backward). A divisor that is called so alone (`effect`
    named) is one where the run's config tells the engine to accumulate. `ones` says whether that number is 1: yes, no,
    or perhaps where the program does not tell, or may be told another one; `key` is how the files would spell it.
    """
    found: dict[tuple[str, int], Member] = {}
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            for member in _members(place) if stands(place) is not False else ():
                found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def _members(backward: Place) -> Iterator[Member]:
    loss, owner = loss_of(backward), _owner(backward)
    if loss is None or owner is None or _is_unscaled(backward.node):
        return
    for factor in factors(loss):
        effect = _effect(factor, owner) if factor.divides else ""
        if effect:
            span = factor.whole.module.span(factor.whole.node)
            divisor = factor.place.module.text(factor.place.node, 60)
            told = {"name": divisor, "value": divisor, "winner": divisor, "effect": effect, **_size(factor.place)}
            fields = texts(span, setting="batch.accumulation", winner_name=f"{dotted(owner.node)}.backward", **told)
            related = ((backward.module.span(backward.node), "divides by the accumulation itself"),)
            yield Member(span, fields, related)


def _effect(factor: Factor, owner: Place) -> str:
    """How a divisor is the accumulation by which the owner divides too, "" for another one."""
    if _is_accumulation(factor, owner):
        return "engine" if kinds(owner) == {"deepspeed"} else "twice"
    name = _last_name(factor.place.node)
    return "named" if _NAMED.fullmatch(name) and not _made_with(owner) else ""


def _is_unscaled(call: ast.AST) -> bool:
    """Whether a backward pass is told not to divide, or told what cannot be seen."""
    words = call.keywords if isinstance(call, ast.Call) else []
    return any(word.arg in (None, _UNSCALED) for word in words)


def _made_with(owner: Place) -> bool:
    """Whether an Accelerator is made with a number of its own, which is compared as such."""
    return any(True for _ in _told(owner))


def _size(divisor: Place) -> dict[str, str]:
    """Whether a divisor is 1, and its last name, by which files may set it: what an object of the program holds, a
    config may change, or the command line where its words are not all known.
    """
    found, node = evaluate(divisor._replace(budget=Budget())), divisor.node
    key = _last_name(node)
    number = found.value if isinstance(found, Value) and isinstance(found.value, int) else None
    if number is None or (number == 1 and isinstance(node, ast.Attribute) and not _is_left_out(divisor.program, key)):
        return {"ones": "perhaps", "key": key}
    return {"ones": "yes" if number == 1 else "no", "key": key}


def _is_left_out(program: Program, name: str) -> bool:
    """Whether the program declares an argument that the launch, whose words are all known, leaves as it is."""
    given, known = given_argument(program, name)
    return known and given is None and declared_argument(program, name) is not None


def _last_name(node: ast.AST) -> str:
    """`accum` of `args.accum`, `config["accum"]`, `config.get("accum", 1)` and `engine.accum()`."""
    if isinstance(node, ast.Subscript):
        return _text_of(node.slice)
    if isinstance(node, ast.Call):
        return _text_of(node.args[0]) if last_word(node.func) == "get" and node.args else last_word(node.func)
    return last_word(node) if dotted(node) else ""


def _text_of(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _owner(backward: Place) -> Place | None:
    """The engine or Accelerator whose method goes backward."""
    function = backward.node.func if isinstance(backward.node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or not dotted(function.value):
        return None
    owner = backward.at(function.value)
    return owner if kinds(owner) in ({"deepspeed"}, {"accelerator"}) else None


def _is_accumulation(factor: Factor, owner: Place) -> bool:
    """Whether a divisor is the owner's accumulation: its attribute or method, or what the Accelerator is made with."""
    node = factor.place.node
    asked = node.func if isinstance(node, ast.Call) else node
    given = list(_told(owner))
    if dotted(asked) == f"{dotted(owner.node)}.{_ACCUMULATION}":
        return not any(_is_one(each) for each in given)
    return any(_is_the_same(factor.place, each) for each in given)


def _is_one(told: Place) -> bool:
    found = evaluate(told._replace(budget=Budget()))
    return isinstance(found, Value) and found.value == 1


def _told(owner: Place) -> Iterator[Place]:
    """The accumulation that an Accelerator is made with, be it in a plugin."""
    for maker in makers(owner._replace(budget=Budget())):
        call = maker.call.node if maker.call is not None and maker.kind == "accelerator" else None
        if maker.call is not None and isinstance(call, ast.Call):
            for word in call.keywords:
                if word.arg == _ACCUMULATION:
                    yield maker.call.at(word.value)
                elif word.arg == "gradient_accumulation_plugin":
                    yield from _of_plugin(maker.call.at(word.value))


def _of_plugin(plugin: Place) -> Iterator[Place]:
    """The number of steps that a GradientAccumulationPlugin is made with."""
    for way in ways(plugin):
        node = way.end.node if isinstance(way.end, Place) else None
        if isinstance(way.end, Place) and isinstance(node, ast.Call) and last_word(node.func) == _PLUGIN:
            told = [word.value for word in node.keywords if word.arg == "num_steps"] or node.args[:1]
            yield from (way.end.inner(each) for each in told)


def _is_the_same(divisor: Place, told: Place) -> bool:
    """Whether two expressions are one number: both by name, or by values that are known and more than 1."""
    if dotted(divisor.node) and dotted(divisor.node) == dotted(told.node):
        return True
    one, other = (evaluate(place._replace(budget=Budget())) for place in (divisor, told))
    return (
        isinstance(one, Value)
        and isinstance(other, Value)
        and one.value == other.value
        and isinstance(one.value, int)
        and one.value > 1
    )
