"""Finds evaluations of sharded models over shards of the data that differ in length: members of `code.shards`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.divergence import statements
from dtlint.frameworks.code.mentions import leading_to, turned_over
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.code.serving import endless
from dtlint.frameworks.code.shards import Shard, shard_member, shards_in
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.calls import Call, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Frame, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Scope, Site
from dtlint.value import Value, written

_EQUALISED = re.compile(
    r"drop_last(?!\s?=\s?False)|\bJoin\b|cycle|\.repeat\(|itertools\.repeat|StopIteration|pad(ded|ding)?_?\("
    r"|even_batches|with_epoch|resampled\s*=\s*True|ddp_equalize|ResampledShards|ReduceOp\.M(IN|AX)|all_gather|broadcast"
    r"|%\s*(\w+\.)*(get_)?world|(?<!1\) )//\s*(\w+\.)*(get_)?world|[Mm]in\(len|islice\([^()]{0,60}(steps|batches)"
)
"""Words of a loader and its dataset that may make the shards equal, or have the ranks agree on the end."""
_NAMES = re.compile(r"model|net|fsdp|transformer|module|gpt|llm", re.IGNORECASE)
"""Words in the names of models: of other calls nobody asks what they call."""
_MAX_LEVELS = 1


def evaluated_shards(program: Program) -> tuple[Member, ...]:
    """Shards that a loop turns over to their end which runs an FSDP model's forward pass, a gather of weights from all
    ranks in evaluation too, and goes backward nowhere. The place is what the loop turns over.
    """
    wraps = [call for call in calls(program, (*FSDP1, *FSDP2)) if stands(call.place) is not False]
    found: dict[tuple[str, int], Member] = {}
    for forward in _forwards(program, wraps) if wraps else ():
        for place, site in leading_to(program, forward.module, _site_of(forward), _MAX_LEVELS):
            for member in _members(place, site, wraps[0]):
                found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def _members(place: Place, site: Site, wrap: Call) -> Iterator[Member]:
    loops = [loop for loop in site.loops if isinstance(loop, ast.For)]
    if not loops or stands(place) is False or any(_goes_backward(loop) for loop in loops):
        return
    if any(_may_end_early(place, loop) for loop in loops):
        return
    for iterable in turned_over(site):
        here = place._replace(node=iterable, guards=(), budget=Budget())
        for shard in shards_in(here):
            if not _equalises(shard):
                yield _member(here, shard, wrap)


def _member(here: Place, shard: Shard, wrap: Call) -> Member:
    found = shard_member(shard.place, wrap)
    span = here.module.span(here.node)
    related = ((found.place, "each rank takes its own part here"), *found.related)
    return found._replace(place=span, fields={**found.fields, "evaluates": written(True, span)}, related=related)


def _site_of(place: Place) -> Site:
    return next(site for site in place.scope.sites if site.node is place.node)


# The model


def _forwards(program: Program, wraps: list[Call]) -> Iterator[Place]:
    """The calls of a model that FSDP certainly shards, and that it lays together again for each pass."""
    if any("reshard_after_forward=False" in wrap.place.module.text(wrap.place.node, 400) for wrap in wraps):
        return
    sharded = {id(node) for wrap in wraps if wrap.name in FSDP2 for node in _made(wrap)}
    for module in program.modules.values():
        for site in (site for scope in module.scopes for site in scope.sites):
            function = site.node.func if isinstance(site.node, ast.Call) else None
            if function is not None and _NAMES.search(dotted(function).rpartition(".")[2]):
                place = place_of(program, module, site)
                if _is_sharded(place.at(function), sharded):
                    yield place


def _made(wrap: Call) -> Iterator[ast.AST]:
    """What makes the model that fully_shard is given."""
    for item in passed(wrap, "module", 0):
        yield from (way.end.node for way in ways(item.place) if isinstance(way.end, Place))


def _is_sharded(function: Place, sharded: set[int]) -> bool:
    if kinds(function) == {"fsdp1"}:
        return True
    ends = [way.end for way in ways(function._replace(budget=Budget()))] if sharded else []
    return bool(ends) and all(isinstance(end, Place) and id(end.node) in sharded for end in ends)


# The loop


def _goes_backward(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in ("backward", "step") for node in ast.walk(loop))


def _may_end_early(place: Place, loop: ast.For) -> bool:
    """Whether something in a turn of a loop may leave it: a `break` whose conditions are not certain to fail."""
    own = [(node, guards) for node, guards in statements(loop) if isinstance(node, ast.Break | ast.Return)]
    hidden = sum(isinstance(node, ast.Return) for node in ast.walk(loop))
    seen = sum(isinstance(node, ast.Return) for node, _ in own)
    here = place._replace(guards=(), budget=Budget())
    return hidden > seen or not all(any(_holds(here, guard) is False for guard in guards) for _, guards in own)


def _holds(place: Place, guard: Guard) -> bool | None:
    """Whether a condition holds as far as the files say."""
    value = evaluate(place._replace(node=guard.test)) if guard.test is not None else None
    certain = isinstance(value, Value) and value.origin.kind in ("written", "given")
    return bool(value.value) is guard.holds if certain and isinstance(value, Value) else None


# The data


def _equalises(shard: Shard) -> bool:
    """Whether what lies between a loop and a shard may make the ranks' parts equal, or has no end."""
    return any(_EQUALISED.search(text) for text in _texts(shard)) or any(map(_is_endless, _datasets(shard)))


def _texts(shard: Shard) -> Iterator[str]:
    for place in (*shard.through, shard.place):
        yield place.module.text(place.node, 2000)
        function = enclosing_function(place.scope) if place.frames else None
        if function is not None:
            yield place.module.text(function.node, 4000)
    owner = enclosing_class(shard.place.scope)
    if owner is not None:
        yield shard.place.module.text(owner.node, 8000)


def _datasets(shard: Shard) -> tuple[tuple[Place, Scope, Place], ...]:
    """The class that cuts a shard, and the call that makes it."""
    owner = enclosing_class(shard.place.scope)
    return ((shard.through[-1], owner, shard.place),) if owner is not None and shard.through else ()


def _is_endless(dataset: tuple[Place, Scope, Place]) -> bool:
    """Whether a dataset goes round for ever: a loop without an end, unless what the class is given certainly ends it
    (`if not self.infinite: return`).
    """
    made, owner, place = dataset
    methods = {scope.name.rpartition(".")[2]: scope for scope in owner.inner}
    first = methods.get("__init__")
    frames = (*made.frames, Frame(first, made)) if first is not None else made.frames
    for method in methods.values():
        here = place._replace(scope=method, guards=(), frames=frames, budget=Budget())
        loops = (node for node in ast.walk(method.node) if isinstance(node, ast.While) and endless(node))
        if any(not _is_ended(here, loop) for loop in loops):
            return True
    return False


def _is_ended(place: Place, loop: ast.While) -> bool:
    exits = (guards for node, guards in statements(loop) if isinstance(node, ast.Break | ast.Return))
    return any(guards and all(_holds(place, guard) is True for guard in guards) for guards in exits)
