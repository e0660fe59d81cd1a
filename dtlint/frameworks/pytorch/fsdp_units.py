"""Tells whether FSDP gathers the model block by block or as one unit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks.pytorch.names import FSDP1, FSDP2, WRAP_BY_HAND
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.constants import live_ways
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function
from dtlint.value import Choice, Option, Origin, Setting, Unknown, Value

WRAPPED, WHOLE = "wrapped", "none"
_APPLIES = ("map", "apply")
"""Functions, and a method of modules, that call what they are handed for each part."""
_FORMER = "fsdp_auto_wrap_policy"
"""The policy's name in torch 1.11 (distributed/fsdp/fully_sharded_data_parallel.py), renamed in 1.12."""


def units_of_policy(program: Program, root: Call, found: list[Call]) -> Setting:
    """FSDP1: "wrapped" by a policy or by hand; "none" without a policy (a written None is none) and with nothing inside
    wrapped.
    """
    written = passed(root, "auto_wrap_policy", 4) or passed(root, _FORMER)
    if written:
        by_hand = _is_by_hand(program, root, found) and not _are_models(found)
        options = [
            _with_hand(option, root) if by_hand else option for item in written for option in policies(item.place)
        ]
        return options[0].value if len(options) == 1 else Choice(tuple(options))
    if root.open:
        return Unknown(f"auto_wrap_policy may be passed by {root.open}", "", Origin("written", root.span))
    if _is_by_hand(program, root, found):
        return Value(WRAPPED, Origin("written", root.head))
    return _whole(root, "FullyShardedDataParallel without auto_wrap_policy")


def _is_by_hand(program: Program, root: Call, found: list[Call]) -> bool:
    """Whether the program wraps parts of its model itself."""
    if len(_modules(found)) > 1 or root.loops or any(True for _ in calls(program, WRAP_BY_HAND)):
        return True
    return any(_repeats(program, call) for call in found) or _is_handed(program, FSDP1)


def _with_hand(option: Option, root: Call) -> Option:
    """What a policy amounts to in a model whose parts are wrapped by hand: without one they are the units."""
    whole = isinstance(option.value, Value) and option.value.value == WHOLE
    return option._replace(value=Value(WRAPPED, Origin("written", root.head))) if whole else option


def policies(place: Place) -> Iterator[Option]:
    """What a policy argument amounts to on each way: a written None is one unit, anything built is a policy."""
    for way, condition in live_ways(place):
        if isinstance(way.end, Unknown):
            yield Option(condition, way.end)
        elif isinstance(way.end.node, ast.Constant) and way.end.node.value is None:
            yield Option(condition, Value(WHOLE, Origin("written", way.end.module.span(way.end.node))))
        elif isinstance(way.end.node, ast.Attribute) and not qualified(way.end.module, way.end.node, way.end.scope):
            yield Option(condition, Unknown("the policy is not written out in the files read"))
        else:
            yield Option(condition, Value(WRAPPED, Origin("written", way.end.module.span(way.end.node))))


def units_of_calls(program: Program, found: list[Call]) -> Setting:
    """FSDP2: the units are the modules that fully_shard is called on; one call on the model built here is one unit."""
    repeated = any(_repeats(program, call) for call in found) or _is_handed(program, FSDP2)
    if repeated or (len(_modules(found)) > 1 and not all(_is_model(call) for call in found)):
        return Value(WRAPPED, Origin("written", found[0].head))
    return _whole(found[-1], "fully_shard on the root module only")


def _modules(found: list[Call]) -> set[str]:
    """The modules that calls are given, as they are written: two branches may wrap the same one."""
    places = (item.place for call in found for item in passed(call, "module", 0))
    return {place.module.text(place.node) for place in places}


def _is_model(call: Call) -> bool:
    """Whether a call is given a whole model by its name (actor, critic), not a part of one."""
    module = passed(call, "module", 0)
    return bool(module) and isinstance(module[0].place.node, ast.Name) and _is_all_built(module[0].place)


def _are_models(found: list[Call]) -> bool:
    """Whether each call wraps a whole model by its name, and none is built of another that is wrapped."""
    wraps = {id(call.place.node) for call in found}
    return all(map(_is_model, found)) and not any(call.loops or _holds(call, wraps) for call in found)


def _holds(call: Call, wraps: set[int]) -> bool:
    """Whether a wrapped model is built of what is wrapped: `Net(encoder, decoder)`."""
    built = [way.end for item in passed(call, "module", 0) for way in ways(item.place)]
    parts = [end.at(part) for end in built if isinstance(end, Place) for part in _arguments(end.node)]
    return any(isinstance(way.end, Place) and id(way.end.node) in wraps for part in parts for way in ways(part))


def _arguments(node: ast.AST) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []


def _is_all_built(place: Place) -> bool:
    return all(_is_built(way.end) for way in ways(place))


def _whole(root: Call, note: str) -> Setting:
    """One unit for the whole model, said only of a model that the program builds in sight, by a call that is not in a
    function that others are handed to call it.
    """
    module = passed(root, "module", 0)
    if _is_handed_over(root.place):
        return Unknown(
            "the function that wraps is handed over, and wraps what it is called on", "", Origin("written", root.span)
        )
    if not module or not _is_all_built(module[0].place):
        return Unknown("which modules are wrapped is decided elsewhere", "", Origin("written", root.span))
    return Value(WHOLE, Origin("default", root.head, (), note))


def _is_built(end: Place | Unknown) -> bool:
    """A constructor or factory call; a module that is passed in from outside is not the whole model for certain."""
    return not isinstance(end, Unknown) and isinstance(end.node, ast.Call)


def _is_handed_over(place: Place) -> bool:
    """Whether the function around a call is an argument of another call (`apply(model, wrap)`)."""
    function = enclosing_function(place.scope)
    wanted = "" if function is None else function.name.rpartition(".")[2]
    inside = (site.node for scope in place.module.scopes for site in scope.sites) if wanted else ()
    return any(isinstance(node, ast.Call) and _passes(node, wanted) for node in inside)


def _passes(node: ast.Call, name: str) -> bool:
    given = (*node.args, *(keyword.value for keyword in node.keywords))
    return any(dotted(item).rpartition(".")[2] == name for item in given)


def _is_handed(program: Program, names: tuple[str, ...]) -> bool:
    """Whether the function that wraps is handed to what calls it for each part (`map(FSDP, blocks)`)."""
    applied = (
        place_of(program, module, site).at(node)
        for module in program.modules.values()
        for word in _APPLIES
        for site in module.called.get(word, ())
        for node in (site.node.args if isinstance(site.node, ast.Call) else ())
    )
    return any(not set(names).isdisjoint(qualified(at.module, at.node, at.scope)) for at in applied)


def _repeats(program: Program, call: Call) -> bool:
    """Whether a call runs for several modules: in a loop, on a list, in a function called in a loop or by itself."""
    module = passed(call, "module", 0)
    listed = any(isinstance(item.place.node, ast.List | ast.ListComp | ast.Tuple) for item in module)
    return bool(call.loops) or listed or _called_repeatedly(program, call.place)


def _called_repeatedly(program: Program, place: Place) -> bool:
    function = enclosing_function(place.scope)
    if function is None:
        return False
    wanted = Definition(place.module, function)
    return any(site.loops or enclosing_function(site.scope) is function for _, site in callers(program, wanted))
