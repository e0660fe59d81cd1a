"""Finds collectives that only some ranks reach: `code.guarded_collectives`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from types import UnionType

from dtlint.frameworks import Member
from dtlint.frameworks.code.collective_names import ALWAYS, BUFFERS, FSDP, LOADING, PREPARED, SHARDED, STAGE_3
from dtlint.frameworks.code.listeners import is_received
from dtlint.frameworks.code.ranks import Side, asks_for_mesh_rank, asks_for_ranks, bindings_at, is_alone, side_of
from dtlint.frameworks.code.reached import Reached, Search, asks_for_several, first_only, leads_to
from dtlint.frameworks.code.serving import endless, in_branch
from dtlint.frameworks.code.sharded_loads import LOADS
from dtlint.frameworks.code.silent_forwards import follows_silent
from dtlint.frameworks.code.stages import is_below_stage_3
from dtlint.frameworks.code.turns import Turn, turns_in
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.editing import moved_behind, standing
from dtlint.languages.python.names import lookup
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, of_file
from dtlint.languages.python.reach import outermost_function, stands
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import Guard, Module, Site
from dtlint.record import NamedTuple
from dtlint.source import Edit, Span
from dtlint.value import Setting, written

MAX_MEMBERS = 30
_MEETINGS = frozenset(
    (
        "barrier",
        "monitored_barrier",
        "all_reduce",
        "all_gather",
        "broadcast",
        "broadcast_object_list",
        "wait_for_everyone",
        "gather",
        "gather_for_metrics",
    )
)
_BARRIERS = frozenset({"barrier", "monitored_barrier", "wait_for_everyone"})
_OF_STAGE_3 = (SHARDED, STAGE_3, LOADING)
_FORMING = ("torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group")
_ASKING = ("torch.distributed.get_rank", "torch.distributed.distributed_c10d.get_rank")
"""Functions that make the process group, and that ask it for the rank."""
_RANK_TEXT = re.compile(r"rank|main|master|zero|process|chief|primary|root", re.IGNORECASE)


class _Guarded(NamedTuple):
    """A call under a condition that lets some ranks pass; `endless`: in a loop there that has no end of its own."""

    place: Place
    side: Side
    guard: Guard | None
    span: Span
    endless: bool = False


def guarded_collectives(program: Program) -> tuple[Member, ...]:
    """The calls that all ranks must make and only some reach, each with the condition that keeps the others away."""
    found = (member for module in program.modules.values() for member in _of_module(program, module))
    return tuple(islice(found, MAX_MEMBERS))


def _of_module(program: Program, module: Module) -> tuple[Member, ...]:
    key = ("guarded collectives", module.name, module.top)
    return kept(program, key, lambda: tuple(_found(program, module).values()))


def _found(program: Program, module: Module) -> dict[tuple[str, int], Member]:
    search = Search(program)
    found = {(member.place.path, member.place.start): member for member in _in_turns(search, module)}
    for guarded in _guarded_calls(program, module):
        key = guarded.span.path, guarded.span.start
        reached = _missed(search, guarded) if key not in found else None
        if reached is None:
            continue
        needs = _needs(guarded, reached)
        if needs and stands(guarded.place) is not False:
            found[key] = _member(guarded, reached, needs)
        if len(found) >= MAX_MEMBERS:
            break
    return found


def _missed(search: Search, guarded: _Guarded) -> Reached | None:
    """The collective that a call is or leads to, if the ranks that do not pass leave it out."""
    reached = search.reached(guarded.place, 0)
    if reached is None or _fills_groups(guarded, reached) or _names_peer(guarded, reached):
        return None
    if _listens(guarded, reached) or _is_answered(search, guarded, reached) or _is_its_own(guarded, reached):
        return None
    if _makes_group(guarded):
        return None
    if guarded.side == "first" and is_received(search, guarded.place, reached.collective.operation):
        return None
    if reached.collective.needs not in (BUFFERS, PREPARED):
        return reached
    waits = _meets_other(search, guarded) and not follows_silent(search, guarded.place)
    return reached if waits else None


def _in_turns(search: Search, module: Module) -> Iterator[Member]:
    """The collectives in contexts that let the first rank through alone: it waits in them for the others, which wait
    for it in a barrier in front of the context. Barriers there meet that one, so that nobody waits for good.
    """
    for turn in (turn for turn in turns_in(search.program, module) if turn.waits):
        context = module.span(turn.node.items[0].context_expr)
        places = (place_of(search.program, module, site) for site in turn.within())
        for place in (place for place in places if not _is_of_some(place, turn)):
            reached = search.reached(place, 0)
            needs = _needs_at(place, reached) if reached is not None else ""
            if reached is None or reached.collective.operation in _BARRIERS:
                continue
            if needs and stands(place) is not False:
                yield _of_turn(place, reached, needs, context)


def _is_of_some(place: Place, turn: Turn) -> bool:
    """Whether a condition in the context lets some ranks pass, or a run of one rank: that is another question."""
    around = {id(guard.test) for guard in turn.place.guards}
    inner = [guard for guard in place.guards if id(guard.test) not in around]
    return any(side_of(place, guard) or asks_for_ranks(place, guard) for guard in inner)


def _of_turn(place: Place, reached: Reached, needs: str, context: Span) -> Member:
    span = place.module.span(place.node)
    told = {
        "call": _spelled(reached),
        "through": reached.through,
        "needs": needs,
        "condition": context.text,
        "turn": "yes",
        "who": f"that `{context.text}` lets in first",
    }
    fields: dict[str, Setting] = {name: written(text, span) for name, text in told.items()}
    related = [(context, "the first rank passes here alone")]
    if reached.through:
        related.append((reached.place.module.span(reached.place.node), "all ranks must reach this"))
    return Member(span, fields, tuple(related))


def left_out(search: Search, place: Place, guard: Guard) -> Reached | None:
    """The collective that a call is or leads to whatever wraps the model, if ranks on which a condition does not hold
    leave it out.
    """
    guarded = _Guarded(place, "some", guard, place.module.span(guard.test or place.node))
    reached = _missed(search, guarded)
    return reached if reached is not None and _needs(guarded, reached) == ALWAYS else None


def _meets_other(search: Search, guarded: _Guarded) -> bool:
    """Whether the ranks that do not pass come to another collective next, behind the condition. Where they go on to
    DDP's forward pass, that joins the broadcast of the buffers, which is left out once after a pass without gradients.
    """
    test = guarded.guard.test if guarded.guard is not None else None
    outer = frozenset(id(guard.test) for guard in guarded.place.guards if guard.test is not test)
    for site in _behind_in_turn(guarded.place):
        place = place_of(search.program, guarded.place.module, site)
        if not all(id(guard.test) in outer or asks_for_several(place, guard) for guard in site.guards):
            continue
        found = search.operations(place)
        if "forward" in found or _trains(site.node, guarded.place.node):
            return False
        if found & _MEETINGS:
            return True
    return False


def _behind_in_turn(place: Place) -> Iterator[Site]:
    """The calls behind a place in the same turn of the loops around it."""
    loops = next((site.loops for site in place.scope.sites if site.node is place.node), ())
    end = getattr(place.node, "end_lineno", 0)
    sites = (site for site in place.scope.sites if isinstance(site.node, ast.Call) and site.loops == loops)
    return (site for site in sites if getattr(site.node, "lineno", 0) > end)


def _trains(node: ast.AST, evaluation: ast.AST) -> bool:
    """Whether a call goes backward, or is given what an evaluation has, so that it may run the model's forward pass."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
        return True
    names = {part.id for part in ast.walk(evaluation) if isinstance(part, ast.Name)}
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return any(isinstance(part, ast.Name) and part.id in names for part in given)


def _fills_groups(guarded: _Guarded, reached: Reached) -> bool:
    """Whether the ranks that pass may be all of the tensor's mesh: the condition is about another dimension."""
    guard = guarded.guard
    return reached.collective.of_mesh and guard is not None and asks_for_mesh_rank(guarded.place, guard)


def _is_its_own(guarded: _Guarded, reached: Reached) -> bool:
    """Whether the call is made of an object that the ranks that pass have made behind the same condition, for
    themselves: `if rank == 0: trainer = Trainer(devices=1); trainer.test()`. What is made of a tensor over a mesh
    stays a part of it.
    """
    node = guarded.place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or guarded.guard is None:
        return False
    if reached.collective.of_mesh:
        return False
    made = bindings_at(guarded.place, node.func.value.id) if isinstance(node.func.value, ast.Name) else []
    behind = (any(guard.test is guarded.guard.test for guard in binding.guards) for binding in made)
    return bool(made) and all(isinstance(binding.node, ast.Call) for binding in made) and all(behind)


def _makes_group(guarded: _Guarded) -> bool:
    """Whether the call forms the process group, and the condition asks that group for the rank: there is none yet, and
    each process passes (`if is_main_process(): setup()` in the one that spawned the others).
    """
    test = guarded.guard.test if guarded.guard is not None else None
    if test is None or not leads_to(guarded.place, _FORMING):
        return False
    names = (node.id for node in ast.walk(test) if isinstance(node, ast.Name))
    told = (binding.node for name in names for binding in bindings_at(guarded.place, name))
    asked = (call for node in (test, *told) if node is not None for call in ast.walk(node))
    return any(leads_to(guarded.place.at(call), _ASKING) for call in asked if isinstance(call, ast.Call))


def _listens(guarded: _Guarded, reached: Reached) -> bool:
    """Whether the ranks that pass wait in a loop without an end for what the first one sends them: it serves, and
    calls the same collectives where it answers a request.
    """
    return guarded.side != "first" and (guarded.endless or reached.endless)


def _names_peer(guarded: _Guarded, reached: Reached) -> bool:
    """Whether the condition is about the rank that the collective starts from (`if owner: broadcast(x, src=owner)`),
    which is the same for all ranks.
    """
    node = reached.place.node
    test = guarded.guard.test if guarded.guard is not None else None
    if not isinstance(node, ast.Call) or test is None or not dotted(test):
        return False
    given = [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg in ("src", "dst"))]
    return any(dotted(item) == dotted(test) for item in given)


def _needs(guarded: _Guarded, reached: Reached) -> str:
    """What the call needs to hold a collective where it stands; "" where it holds none: below ZeRO-3 DeepSpeed gathers
    no weights.
    """
    return _needs_at(guarded.place, reached)


def _needs_at(place: Place, reached: Reached) -> str:
    needs = reached.collective.needs
    if needs not in _OF_STAGE_3 or not is_below_stage_3((*place.guards, *reached.place.guards)):
        return needs
    return FSDP if needs == SHARDED else ""


def _member(guarded: _Guarded, reached: Reached, needs: str) -> Member:
    span = guarded.place.module.span(guarded.place.node)
    fields: dict[str, Setting] = {
        "call": written(_spelled(reached), span),
        "through": written(reached.through, span),
        "needs": written(needs, span),
        "condition": written(_condition(guarded), guarded.span),
        "turn": written("", span),
        "who": written(f"with `{_condition(guarded)}`", span),
    }
    related = [(guarded.span, "only some ranks pass here")]
    if reached.through:
        related.append((reached.place.module.span(reached.place.node), "all ranks must reach this"))
    return Member(span, fields, tuple(related), {"move": _behind(guarded, reached)})


def _spelled(reached: Reached) -> str:
    """What people call a collective; with its object, where the function that leads to it has the same name."""
    node = reached.place.node
    same = reached.through == reached.collective.name and isinstance(node, ast.Call)
    return dotted(node.func) or reached.through if same and isinstance(node, ast.Call) else reached.collective.name


def _behind(guarded: _Guarded, reached: Reached) -> tuple[Edit, ...]:
    """The edit that moves a barrier at the end of the branch behind it, where all ranks come by."""
    if reached.collective.operation not in ("barrier", "wait_for_everyone") or reached.through:
        return ()
    found = standing(guarded.place.module, guarded.place.node)
    branch = found.owner if found is not None else None
    if (
        found is None
        or guarded.guard is None
        or not isinstance(branch, ast.If)
        or branch.test is not guarded.guard.test
    ):
        return ()
    edit = moved_behind(guarded.place.module, found)
    return (edit,) if edit is not None else ()


def _condition(guarded: _Guarded) -> str:
    if guarded.guard is None or guarded.guard.test is None:
        return guarded.span.text
    return _worded(guarded.place.module, guarded.guard.test, guarded.guard.holds)


def _worded(module: Module, test: ast.expr, holds: bool) -> str:
    """A condition, or its opposite in the fewest words."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _worded(module, test.operand, not holds)
    if not holds and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq) and len(test.ops) == 1:
        return f"{module.text(test.left, 60)} == {module.text(test.comparators[0], 60)}"
    text = module.text(test, 60)
    return text if holds else f"not ({text})"


def _guarded_calls(program: Program, module: Module) -> Iterator[_Guarded]:
    """The calls of a module that only some ranks reach, by a condition around them or a decorator of their function."""
    sides: dict[tuple[int, bool], Side] = {}
    alone: dict[tuple[int, bool], bool] = {}
    for scope in module.scopes:
        decorator = first_only(scope)
        for site in scope.sites:
            if not isinstance(site.node, ast.Call) or not (site.guards or decorator is not None):
                continue
            place = place_of(program, module, site)
            guard, side = _one_sided(place, sides)
            if guard is None and decorator is None:
                continue
            if any(_is_alone(place, other, alone) for other in site.guards):
                continue
            if guard is not None and guard.test is not None:
                waits = any(endless(loop) and in_branch(loop, guard) for loop in site.loops)
                yield _Guarded(place, side, guard, module.span(guard.test), waits)
            elif decorator is not None:
                yield _Guarded(place, "first", None, module.span(decorator))


def _is_alone(place: Place, guard: Guard, known: dict[tuple[int, bool], bool]) -> bool:
    key = id(guard.test), guard.holds
    if key not in known:
        known[key] = is_alone(place, guard)
    return known[key]


def _one_sided(place: Place, sides: dict[tuple[int, bool], Side]) -> tuple[Guard | None, Side]:
    for guard in reversed(place.guards):
        key = id(guard.test), guard.holds
        if key not in sides:
            told = guard.test is not None and _rests_on_ranks(place, guard.test)
            sides[key] = side_of(place, guard) if told else ""
        if sides[key]:
            return guard, sides[key]
    return None, ""


def _rests_on_ranks(place: Place, test: ast.expr) -> bool:
    """Whether a condition speaks of ranks, or a name in it is bound to what does."""
    if _speaks_of_ranks(place.program, test):
        return True
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    bound = (binding.node for name in names for binding in lookup(place.scope, name)[1])
    return any(isinstance(node, ast.expr) and _speaks_of_ranks(place.program, node) for node in bound)


def _speaks_of_ranks(program: Program, test: ast.expr) -> bool:
    """Whether a condition holds a word of _RANK_TEXT."""
    words = (word for node in ast.walk(test) for word in _words(node))
    return of_file(program, "speaks of ranks", test, lambda: any(map(_RANK_TEXT.search, words)))


def _words(node: ast.AST) -> Iterator[str]:
    values = (getattr(node, name, None) for name in ("id", "attr", "arg", "value"))
    return (value for value in values if isinstance(value, str))


def _is_answered(search: Search, guarded: _Guarded, reached: Reached) -> bool:
    """Whether the ranks that do not pass make a call that answers: in the other branch, or under the opposite
    condition; or end the job with an exception, so that nobody waits for them for long.
    """
    passing, others = _branches(guarded)
    if _ends_with(others, ast.Raise):
        return True
    leaves = _ends_with(passing, ast.Return | ast.Raise | ast.Continue | ast.Break)
    return any(
        _answers(search, guarded, reached, place_of(search.program, guarded.place.module, site), leaves)
        for site in _candidates(guarded)
    )


def _ends_with(block: list[ast.stmt], kinds: type[ast.stmt] | UnionType) -> bool:
    return bool(block) and isinstance(block[-1], kinds)


def _candidates(guarded: _Guarded) -> Iterator[Site]:
    """The calls of the outermost function around, those in its inner functions too (for a barrier, of the file)."""
    function = outermost_function(guarded.place.scope)
    for scope in guarded.place.module.scopes:
        if outermost_function(scope) is function or _is_barrier(guarded.place):
            yield from (site for site in scope.sites if isinstance(site.node, ast.Call))


def _is_barrier(place: Place) -> bool:
    return isinstance(place.node, ast.Call) and "barrier" in place.module.text(place.node.func)


def _answers(search: Search, guarded: _Guarded, reached: Reached, other: Place, leaves: bool) -> bool:
    """Whether a call answers; `leaves`: the branch of the guarded one ends the function, so that what follows is for
    the other ranks.
    """
    if other.node is guarded.place.node or guarded.guard is None:
        return False
    test = guarded.guard.test
    if any(guard.test is test and guard.holds is not guarded.guard.holds for guard in other.guards):
        found = search.operations(other)
        return bool(found.difference(LOADS)) or reached.collective.operation in found
    after = leaves and not any(guard.test is test for guard in other.guards) and _follows(other, guarded)
    if not after and not {search.side(other, guard) for guard in other.guards} - {"", guarded.side}:
        return False
    return reached.collective.operation in search.operations(other)


def _branches(guarded: _Guarded) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The branches of the condition around a call: that of the ranks that pass, and that of the others."""
    for node in ast.walk(guarded.place.scope.node):
        if isinstance(node, ast.If) and guarded.guard is not None and node.test is guarded.guard.test:
            return (node.body, node.orelse) if guarded.guard.holds else (node.orelse, node.body)
    return [], []


def _follows(other: Place, guarded: _Guarded) -> bool:
    return getattr(other.node, "lineno", 0) > getattr(guarded.place.node, "end_lineno", 0)
