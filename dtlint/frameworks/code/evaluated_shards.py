"""Finds evaluations of sharded models over shards of the data that differ in length: members of `code.shards`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.divergence import statements
from dtlint.frameworks.code.mentions import leading_to
from dtlint.frameworks.code.own_parts import Loop, Part, loops_around, parts_around
from dtlint.frameworks.code.serving import endless
from dtlint.frameworks.code.sharded_passes import Pass, sharded_passes
from dtlint.frameworks.code.shards import Shard, is_shard, shard_member
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Budget, Frame, Place
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
_FILLED = re.compile(
    r"(?<!1\) )//\s*(\w+\.)*((get_)?world|num_processes)|%\s*(\w+\.)*((get_)?world|num_processes)"
    r"|ReduceOp\.M(IN|AX)|\bmin\(len|apply_padding|broadcast"
)
"""Words of what a part is cut from that may make the parts equal, where it is worked out before."""
_MAX_LEVELS = 2


def evaluated_shards(program: Program) -> tuple[Member, ...]:
    """Parts that a loop turns over to their end which runs a sharded model's forward pass, a gather of weights from all
    ranks in evaluation too, and goes backward nowhere. The place is what the loop turns over.
    """
    found: dict[tuple[str, int], Member] = {}
    for forward in sharded_passes(program):
        site = _site_of(forward.place)
        for place, around in leading_to(program, forward.place.module, site, _MAX_LEVELS):
            for member in _members(place, around, forward):
                found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def _members(place: Place, site: Site, forward: Pass) -> Iterator[Member]:
    loops = loops_around(site)
    if not loops or stands(place) is False or any(_goes_backward(loop) for loop in loops):
        return
    if any(isinstance(loop, ast.For) and _may_end_early(place, loop) for loop in loops):
        return
    for part in parts_around(place, site):
        if not _equalises(part):
            yield _member(part, forward)


def _member(part: Part, forward: Pass) -> Member:
    found = shard_member(part.shard.place, forward.wrap, joinable=False)
    span = part.place.module.span(part.place.node)
    runs = forward.place.module.span(forward.place.node)
    related = ((found.place, "each rank takes its own part here"), (runs, "gathers weights"), *found.related)
    told = {"evaluates": written(True, span), "needs": written(forward.needs, span)}
    counted = {"count": written(part.shared, span)} if part.shared is not None else {}
    return found._replace(place=span, fields={**found.fields, **told, **counted}, related=related)


def _site_of(place: Place) -> Site:
    return next(site for site in place.scope.sites if site.node is place.node)


# The loop


def _goes_backward(loop: Loop) -> bool:
    """Whether a turn of a loop trains: `loss.backward()`, `optimizer.step()`, and not the step of an environment."""
    called = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(last_word(call.func) == "backward" or _is_update(call) for call in called)


def _is_update(call: ast.Call) -> bool:
    return last_word(call.func) == "step" and not call.args


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


def _equalises(part: Part) -> bool:
    """Whether what lies between a loop and a part may make the ranks' parts equal, or has no end."""
    shard = part.shard
    turns = not shard.through and not is_shard(shard.place)
    if any(_FILLED.search(text) or (turns and "ceil" in text) for text in _origins(shard.place, _MAX_LEVELS)):
        return True
    return not turns and (
        any(_EQUALISED.search(text) for text in _texts(shard)) or any(map(_is_endless, _datasets(shard)))
    )


def _origins(place: Place, levels: int) -> Iterator[str]:
    """What the names in something that ranks take are bound to, in words."""
    names = {dotted(node) for node in ast.walk(place.node) if isinstance(node, ast.Name | ast.Attribute)} - {""}
    for name in names if levels else ():
        holder, bindings = lookup(place.scope, name)
        for binding in bindings if holder is not None else ():
            if binding.node is not None and binding.kind == "value" and binding.node is not place.node:
                yield place.module.text(binding.node, 400)
                yield from _origins(place._replace(scope=holder or place.scope, node=binding.node), levels - 1)


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
