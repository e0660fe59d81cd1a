"""Tells which of several wrapped models a program trains: the one whose parameters go to an optimizer, and not a
reference, a teacher or an average of weights beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.code.objects import makers
from dtlint.frameworks.pytorch.step_area import values_of
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, passed
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.value import Choice, Origin, Plain, Setting, Unknown, Value

_OPTIMIZERS = re.compile(
    r"(?:^|_)opt(?:im\w*|s)?(?:_|$)|optimi[sz]er|adam|adafactor|\bsgd\b|rmsprop|\bmuon\b|\blion\b", re.IGNORECASE
)
"""Names of optimizers, and of what makes them."""
_MOST_NAMES = 60


def trained(program: Program, found: Sequence[Call]) -> list[list[Call]]:
    """The wraps of each model that may be the trained one, all of one model together: those whose parameters go to an
    optimizer; where that is seen of none, of each model.
    """
    models = _models(found)
    if len(models) < 2:
        return [list(found)]
    wraps = [wrap for model in models for wrap in model]
    made = _optimized(program, wraps)
    return [model for model in models if any(id(wrap.place.node) in made for wrap in model)] or models


def agreed(readings: Sequence[Reading]) -> Reading:
    """One reading of several models that may be the trained one, which stands where the last does: what they differ in
    is not known.
    """
    *others, last = readings
    if not others:
        return last
    names = dict.fromkeys(claim.setting for reading in readings for claim in reading.claims)
    hidden = next((reading.open for reading in reversed(readings) if reading.open), "")
    return last._replace(claims=tuple(_agreed(name, readings) for name in names), open=hidden)


def _agreed(setting: str, readings: Sequence[Reading]) -> Claim:
    told = [next((each for each in reading.claims if each.setting == setting), None) for reading in readings]
    first = next(each for each in reversed(told) if each is not None)
    if all(each is not None and _said(each.value) == _said(first.value) for each in told):
        return first
    reason = f"the program wraps several models, whose {first.name or setting} differ"
    return first._replace(value=Unknown(reason, f"--set {setting}=...", _origin(first.value)))


def _said(value: Setting) -> Plain:
    """What a value says, wherever it is written."""
    if isinstance(value, Choice):
        return tuple((option.guard, _said(option.value)) for option in value.options)
    return value.value if isinstance(value, Value) else ("unknown", value.reason)


def _origin(value: Setting) -> Origin | None:
    return None if isinstance(value, Choice) else value.origin


def _models(found: Sequence[Call]) -> list[list[Call]]:
    """The wraps outside loops, those together that bind one name or take one module: branches, or a model that is
    wrapped anew. A part of a model (`model.head`, a list of layers) belongs to no other one.
    """
    groups: list[tuple[set[str], list[Call]]] = []
    for call in found:
        names = _names(call)
        if call.loops or not names:
            continue
        same = [group for group in groups if group[0] & names]
        merged = set(names).union(*(group[0] for group in same)), [*(each for group in same for each in group[1]), call]
        groups = [*(group for group in groups if group not in same), merged]
    return [wraps for names, wraps in groups if not _is_part(names, groups)]


def _is_part(names: set[str], groups: list[tuple[set[str], list[Call]]]) -> bool:
    others = {each for group in groups for each in group[0] - names}
    return any(name.startswith(f"{other}.") for name in names for other in others if other not in ("self", "cls"))


def _names(call: Call) -> set[str]:
    """What a wrapped model is called: the name that it is bound to, and that of the module where it is one."""
    given = passed(call, "module", 0)
    module = dotted(given[0].place.node) if given else ""
    return {name for name in (_bound(call), module) if name}


def _bound(call: Call) -> str:
    node = call.place.node
    for site in call.place.scope.sites:
        if isinstance(site.node, ast.Assign) and any(each is node for each in ast.walk(site.node.value)):
            return dotted(site.node.targets[0])
    return ""


def _optimized(program: Program, wraps: Sequence[Call]) -> set[int]:
    """The wraps whose models optimizers are given; by their names where it is not seen that they are the same."""
    wanted = {id(wrap.place.node) for wrap in wraps}
    given = list(_given(program))
    made = {id(maker.call.node) for place in given for maker in makers(place) if maker.call is not None}
    if made & wanted:
        return made & wanted
    texts = {dotted(place.node).removesuffix(".module") for place in given}
    return {id(wrap.place.node) for wrap in wraps if _names(wrap) & texts}


def _given(program: Program) -> Iterator[Place]:
    """The names in what optimizers are made of, and in what these are bound to."""
    for place in _made(program):
        waiting: list[tuple[Place, int]] = [(place, 0)]
        seen: set[str] = set()
        while waiting and len(seen) < _MOST_NAMES:
            here, depth = waiting.pop()
            for node in _outermost_names(here.node):
                if dotted(node) in seen:
                    continue
                seen.add(dotted(node))
                named = here.at(node)
                yield named
                if depth < 2 and isinstance(node, ast.Name):
                    waiting.extend(
                        (here._replace(scope=scope, node=value), depth + 1) for scope, value in values_of(named, node)
                    )


def _outermost_names(expression: ast.AST) -> Iterator[ast.expr]:
    """`self.policy` of `self.policy.parameters()`, and other names that stand by themselves."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            waiting += [*node.args, *(keyword.value for keyword in node.keywords)]
            function = node.func
            waiting += (
                [function.value]
                if isinstance(function, ast.Attribute)
                else []
                if isinstance(function, ast.Name)
                else [function]
            )
        elif isinstance(node, ast.Name | ast.Attribute) and dotted(node):
            yield node
        else:
            waiting += ast.iter_child_nodes(node)


def _made(program: Program) -> Iterator[Place]:
    """The calls that make an optimizer, by their name or by the name that is given to what they return."""
    for module in program.modules.values():
        for site in sites(module):
            call = _maker(site.node)
            if call is not None:
                yield place_of(program, module, site).at(call)


def _maker(node: ast.AST) -> ast.Call | None:
    """`AdamW(...)`, and the call of `optimizer = build(...)` and of `return make_optimizer(...)`."""
    if isinstance(node, ast.Call):
        last = _last(node)
        return node if last[:1].isupper() and _OPTIMIZERS.search(last) else None
    value = node.value if isinstance(node, ast.Assign | ast.Return) else None
    if not isinstance(value, ast.Call):
        return None
    name = dotted(node.targets[0]).rpartition(".")[2] if isinstance(node, ast.Assign) else _last(value)
    return value if _OPTIMIZERS.search(name) else None


def _last(call: ast.Call) -> str:
    """The word that a call's function ends in."""
    return dotted(call.func).rpartition(".")[2]
