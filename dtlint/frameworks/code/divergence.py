"""Finds loops that some ranks leave, or whose backward pass some skip, by what only they know: `code.divergences`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.agreeing import agreeing_word
from dtlint.frameworks.code.batch_contents import own_batch
from dtlint.frameworks.code.collective_names import OPEN
from dtlint.frameworks.code.counted_loops import makes_up
from dtlint.frameworks.code.judged_losses import judges_loss
from dtlint.frameworks.code.known_by_some import WHY, Missed, missed_by_batch, missed_collectives
from dtlint.frameworks.code.loaders import loaders
from dtlint.frameworks.code.loss_factors import bound, is_handed_over
from dtlint.frameworks.code.mentions import passes
from dtlint.frameworks.code.partial_values import known_in_part
from dtlint.frameworks.code.ranks import asks_for_ranks, is_alone, side_of
from dtlint.frameworks.code.reached import Search
from dtlint.frameworks.code.skipped_batches import gives_nothing, skipped_batches
from dtlint.frameworks.code.torn_groups import torn_down_again
from dtlint.frameworks.code.uneven_loops import Uneven, uneven_loops
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.frameworks.pytorch.step_area import called_function
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import calls
from dtlint.languages.python.instances import instances, with_bases
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.switches import is_off
from dtlint.languages.python.tree import Guard, Module, Scope
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting, Value, written

_EXCHANGING = (*DDP, *FSDP1, *FSDP2, "deepspeed.initialize")
_NOT_FINITE = re.compile(r"\b(isnan|isinf|isfinite)\b")
_LABELS = re.compile(r"\b(labs?|labels?|targets?|y|gts?)\b", re.IGNORECASE)
"""Names of what a sample is to be taken for, most often a number of a class, which is finite."""
_AGREED = re.compile(r"reduce|gather|broadcast|sync|any_rank|all_rank|global(?!_?(?:rank|zero))", re.IGNORECASE)
"""Words of values on which the ranks have agreed."""


_AGREEING = OPEN - {"reduce", "gather", "gather_object", "barrier", "monitored_barrier", "new_group"}
"""Collectives after which all ranks hold the same."""
_SENDING = frozenset(word for word in OPEN if "to_all" in word or "scatter" in word)
"""Collectives that send each rank something else."""
_CLOCKS = frozenset({"time.time", "time.monotonic", "time.perf_counter"})
"""Functions that tell every rank something of its own."""
_LEVELS = 2
"""Names that a value is followed through, to the function that makes it."""
_OF_SOME = frozenset({"rank", "torn", "reduced", "partial", "dealt", "bar", "uneven"})
"""Causes that part ranks which train on the same batches too."""
_BY_BATCH = frozenset({"picked", "collected", "loss"})
"""Causes that a rank's own batch gives it."""
_TEARING = frozenset({"rank", "loss", "picked", "clock"})
"""Causes of exits that hang; one that destroys the group, which the program then does again, ends by an error."""
_OF_ALL = frozenset({"KeyboardInterrupt", "SystemExit", "StopIteration", "GeneratorExit"})
"""Exceptions that come to all ranks, or that end their data and not their batch."""


class _Exit(NamedTuple):
    """A statement that leaves a loop or a turn of it, and the conditions within the loop, outermost first; the loop
    itself where its test does.
    """

    node: ast.Break | ast.Continue | ast.Return | ast.While
    guards: tuple[Guard, ...]


def divergences(program: Program) -> tuple[Member, ...]:
    """Where not all ranks go on with a training loop in the same turn: the `break`, `continue` and `return` on what a
    rank alone knows, and exceptions of a backward pass or of what a batch holds that are caught. `cause` is rank, loss,
    counted (a skipped pass that the rank makes up), clock, exception, reduced (a sum that one rank was given), dealt
    (measured on a share of the samples), bar (counted by a progress bar that some disable), picked (what the batch
    holds), collected (what the batches so far held), torn (of any of these, after which the rank alone destroys the
    process group twice), raised (an exception that the batch raises), uneven (a list as long as the rank's own samples
    make it) or partial (what only some set). `call` names a collective that some ranks do not come to, "" where they
    leave a loop.
    """
    found = []
    for module in program.modules.values():
        if "backward" not in module.called:
            continue
        for scope in module.scopes:
            for loop in _training_loops(scope):
                place = Place(program, module, scope, loop, budget=Budget())
                found += [
                    member for item in _exits(program, loop) if (member := _member(place, loop, item)) is not None
                ]
                found += [_caught(module, loop, node) for node in _catching(place, loop)]
                found += _skipped(place, loop)
    found += _around_steps(program)
    found += _by_values_of_some(program, {(member.place.path, member.place.start) for member in found})
    found += map(_missed, missed_collectives(program))
    found += map(_turns, uneven_loops(program))
    apart = [member for member in found if _is_by_batch(member)]
    if found and all(stands(call.place) is False for call in calls(program, _EXCHANGING)):
        found = [member for member in found if _is_of_some(member)] if _is_handed_over(program) else []
        found += apart
    return tuple(member for member in found if _is_of_some(member) or not _is_the_same_for_all(program))


def _around_steps(program: Program) -> Iterator[Member]:
    """The handlers in a loop that go on after an exception of a function that goes backward (`train_step(batch)`)."""
    told: set[ast.ExceptHandler] = set()
    for place, site in passes(program):
        loop = site.loops[-1] if site.loops else None
        helper = called_function(place) if not _is_backward(site.node) else None
        if not isinstance(loop, ast.For | ast.While) or helper is None:
            continue
        agrees = _any_collective(helper.module, helper.scope.node)
        for handler in [] if agrees else _catching(place._replace(node=loop), loop, site.node):
            if handler not in told:
                told.add(handler)
                yield _caught(place.module, loop, handler, site.node)


def left_collectives(program: Program) -> tuple[Member, ...]:
    """The calls that lead to a collective under a condition on a rank's own batch, whatever wraps the model: members of
    `code.divergences`.
    """
    found = tuple(map(_missed, missed_by_batch(program)))
    return () if found and _is_the_same_for_all(program) else found


def _by_values_of_some(program: Program, known: set[tuple[str, int]]) -> Iterator[Member]:
    """The exits of loops that go backward, or call what does, under conditions that are others on some ranks: on the
    rank itself, on a sum that one rank was given, on what only some have set.
    """
    for backward, site in passes(program):
        for loop in (loop for loop in site.loops if isinstance(loop, ast.For | ast.While)):
            ends = [_Exit(loop, (Guard(loop.test, False),))] if isinstance(loop, ast.While) else []
            for item in (*ends, *_exits(program, loop)):
                member = None if isinstance(item.node, ast.Continue) else _of_values(backward, loop, item)
                if member is not None and (member.place.path, member.place.start) not in known:
                    known.add((member.place.path, member.place.start))
                    yield member


def _missed(missed: Missed) -> Member:
    """A call that leads to a collective on some ranks only."""
    place, test, reached = missed.place, missed.guard.test, missed.reached
    span = place.module.span(place.node)
    name = reached.collective.name
    call = f"{reached.through}, which leads to {name}" if reached.through else name
    condition = place.module.text(test or place.node, 60)
    fields = fields_of(span, name, missed.partial.cause, condition if missed.guard.holds else f"not ({condition})")
    related = [(place.module.span(test or place.node), "only some ranks pass here")]
    related.append((missed.partial.place, missed.partial.label))
    if reached.through:
        related.append((reached.place.module.span(reached.place.node), "all ranks must reach this"))
    return Member(span, {**fields, "call": written(call, span)}, tuple(related))


def _turns(found: Uneven) -> Member:
    """A loop that turns as often as this rank's own samples decide."""
    span = found.place.module.span(found.loop.iter)
    decided = found.opened.decided
    decides = " ".join(decided.text.split())
    fields = {**fields_of(span, "for", "uneven", span.text), "why": written(decides, decided)}
    own = found.data.module.span(found.data.node)
    related = [(decided, "what is read decides how many there are"), (own, "each rank has its own")]
    return Member(span, fields, tuple(related))


def _of_values(place: Place, loop: ast.For | ast.While, item: _Exit) -> Member | None:
    for guard in item.guards:
        if guard.test is None or _agrees(place.module, loop, guard.test) or _others_leave(loop, guard, item.node):
            continue
        here = place._replace(node=guard.test, guards=(), budget=Budget())
        if side_of(here, guard) and item.node is not loop:
            return _told(place, item, "rank", guard.test)
        partial = known_in_part(here)
        if partial is not None:
            return _told(place, item, partial.cause, guard.test, (partial.place, partial.label))
    return None


def _skipped(place: Place, loop: ast.For | ast.While) -> Iterator[Member]:
    """The handlers that skip a batch before its backward pass for an exception that this rank's batch raises."""
    if _any_collective(place.module, loop) or not _is_innermost(place.scope, loop):
        return
    for skip in skipped_batches(place, loop):
        goes_on = isinstance(skip.leaving, ast.Continue) and not _goes_backward_after(loop, skip.leaving)
        if goes_on or not _goes_on(skip.handler) or _stops_several(place, skip.handler):
            continue
        span = place.module.span(skip.handler.type or skip.leaving)
        cause = "counted" if makes_up(place, loop, skip.leaving) else "raised"
        word = type(skip.leaving).__name__.lower()
        fields = fields_of(span, word, cause, f"except {span.text}" if skip.handler.type is not None else "except")
        left = (place.module.span(skip.leaving), "these ranks leave here, the others go backward")
        yield Member(span, fields, (left, (skip.raised, "raised by what the batch holds")))


def _told(place: Place, item: _Exit, cause: str, test: ast.expr, *related: tuple[Span, str]) -> Member:
    span = place.module.span(test)
    again = torn_down_again(place.module, item.node, item.guards) if cause in _TEARING else None
    cause, related = ("torn", (*related, (again, "and destroyed again here"))) if again else (cause, related)
    fields = fields_of(span, type(item.node).__name__.lower(), cause, place.module.text(test, 60))
    left = [] if isinstance(item.node, ast.While) else [place.module.span(item.node)]
    return Member(span, fields, (*((each, "these ranks leave here, the others go on") for each in left), *related))


def _is_handed_over(program: Program) -> bool:
    """Whether the program's backward passes are an Accelerator's or a Fabric's, which exchange where there are several
    ranks.
    """
    sites = [
        place_of(program, module, site)
        for module in program.modules.values()
        for site in module.called.get("backward", ())
    ]
    return bool(sites) and all(is_handed_over(place) for place in sites)


def _is_of_some(member: Member) -> bool:
    """Whether ranks part that train on the same batches too."""
    cause = member.fields["cause"]
    return isinstance(cause, Value) and cause.value in _OF_SOME


def _is_by_batch(member: Member) -> bool:
    """Whether a rank leaves out a collective by what its own batch holds."""
    cause, call = member.fields["cause"], member.fields["call"]
    is_called = isinstance(call, Value) and bool(call.value)
    return is_called and isinstance(cause, Value) and cause.value in _BY_BATCH


def _is_the_same_for_all(program: Program) -> bool:
    """Whether all ranks certainly train on the same batches, so that one's loss is everyone's."""
    kinds = (member.fields["kind"] for member in loaders(program))
    return any(isinstance(kind, Value) and kind.value == "same" for kind in kinds)


def _training_loops(scope: Scope) -> Iterator[ast.For | ast.While]:
    """The loops of a function that go backward, and those around them (epochs)."""
    loops = {id(loop): loop for site in scope.sites for loop in site.loops if _is_backward(site.node)}
    yield from (loop for loop in loops.values() if isinstance(loop, ast.For | ast.While))


def _is_innermost(scope: Scope, loop: ast.For | ast.While) -> bool:
    return any(site.loops and site.loops[-1] is loop for site in scope.sites if _is_backward(site.node))


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _exits(program: Program, loop: ast.For | ast.While) -> Iterator[_Exit]:
    """The exits of a loop itself that may be taken; those of loops and functions within it are not its own."""
    for node, guards in statements(loop):
        if isinstance(node, ast.Break | ast.Continue | ast.Return) and not _is_never_run(program, guards):
            yield _Exit(node, guards)


def _is_never_run(program: Program, guards: tuple[Guard, ...]) -> bool:
    return any(is_off(program, guard) for guard in guards)


def statements(loop: ast.For | ast.While) -> Iterator[tuple[ast.stmt, tuple[Guard, ...]]]:
    """The statements of one turn of a loop, outside loops and functions within it, with their conditions in it."""
    waiting: list[tuple[ast.stmt, tuple[Guard, ...]]] = [(node, ()) for node in loop.body]
    while waiting:
        node, guards = waiting.pop()
        yield node, guards
        if isinstance(node, ast.If):
            waiting += [(inner, (*guards, Guard(node.test, True))) for inner in node.body]
            waiting += [(inner, (*guards, Guard(node.test, False))) for inner in node.orelse]
        elif isinstance(node, ast.With | ast.Try):
            waiting += [(inner, guards) for inner in node.body]


def _catching(place: Place, loop: ast.For | ast.While, leading: ast.AST | None = None) -> Iterator[ast.ExceptHandler]:
    """The handlers that go on with the loop after an exception of a backward pass, or of a call `leading` to one, each
    rank for itself.
    """
    if _any_collective(place.module, loop):
        return
    for node, _ in statements(loop):
        if isinstance(node, ast.Try) and any(part is leading or _is_backward(part) for part in _inside(node.body)):
            yield from (each for each in node.handlers if _goes_on(each) and not _stops_several(place, each))


def _stops_several(place: Place, handler: ast.ExceptHandler) -> bool:
    """Whether a handler lets the exception through where there are several ranks: `if dist.is_initialized(): raise`."""
    tests = [node for node in ast.walk(handler) if isinstance(node, ast.If)]
    raising = (node.test for node in tests if any(isinstance(part, ast.Raise) for part in node.body))
    return any(asks_for_ranks(place.at(test), Guard(test, True)) for test in raising)


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What statements hold, outside loops within them, whose handlers are their own."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [] if isinstance(node, ast.For | ast.While) else ast.iter_child_nodes(node)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes an exception that may be one rank's alone, and lets none but some of them through."""
    parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {dotted(part).rpartition(".")[2] for part in parts if part is not None}
    if names and names <= _OF_ALL:
        return False
    return not any(isinstance(node, ast.Raise) or _ends_process(node) for node in handler.body)


def _ends_process(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and _last(call) in ("exit", "_exit", "quit", "abort", "kill")


def _caught(
    module: Module, loop: ast.For | ast.While, handler: ast.ExceptHandler, leading: ast.AST | None = None
) -> Member:
    span = module.span(handler.type or handler.body[0])
    backward = next(node for node in ast.walk(loop) if node is leading or (leading is None and _is_backward(node)))
    fields = fields_of(span, "except", "exception", f"except {span.text}" if handler.type is not None else "except")
    return Member(span, fields, ((module.span(backward), "the others wait in this one's gradient exchange"),))


def fields_of(span: Span, word: str, cause: str, condition: str) -> dict[str, Setting]:
    """The fields of a member of `code.divergences`."""
    told = {"word": word, "cause": cause, "condition": condition, "call": "", "why": WHY.get(cause, "")}
    return {**{name: written(text, span) for name, text in told.items()}, "by_rank": written(cause == "rank", span)}


def _member(place: Place, loop: ast.For | ast.While, item: _Exit) -> Member | None:
    if isinstance(item.node, ast.Continue) and not _leaves_backward_out(loop, item.node):
        return None
    cause = _cause(place, loop, item)
    if cause is None:
        return None
    why, guard = cause
    if why in _BY_BATCH and makes_up(place, loop, item.node):
        why = "counted"
    return _told(place, item, why, guard.test) if guard.test is not None else None


def _cause(place: Place, loop: ast.For | ast.While, item: _Exit) -> tuple[str, Guard] | None:
    for guard in item.guards:
        if guard.test is None or _agrees(place.module, loop, guard.test) or is_alone(place, guard):
            continue
        here = place._replace(node=guard.test, budget=Budget())
        if side_of(here, guard) and not _others_leave(loop, guard, item.node):
            return "rank", guard
        word = "" if _any_collective(place.module, loop) else _own(here, guard.test, loop)
        if word:
            return word, guard
    return None


def _own(place: Place, test: ast.expr, loop: ast.For | ast.While) -> str:
    """What of a rank's own a condition asks for: the loss of this turn, what its batch holds, the clock; "" for
    anything else.
    """
    asks_finite = _NOT_FINITE.search(place.module.text(test, 200)) is not None
    if asks_finite and isinstance(loop, ast.For) and _asks_sample(place, test, loop):
        return "" if _LABELS.search(place.module.text(test, 200)) else "picked"
    if _is_innermost(place.scope, loop) and (asks_finite or judges_loss(place, test, loop)):
        return "" if _is_made_together(place, _LEVELS) else "loss"
    if _is_innermost(place.scope, loop) and (own_batch(place) is not None or gives_nothing(place, test, loop)):
        return "picked"
    return "clock" if asks_clock(place, test) else ""


def _asks_sample(place: Place, test: ast.expr, loop: ast.For) -> bool:
    """Whether a condition rests on nothing but what a loop takes from the loader."""
    asked = {node.id for node in ast.walk(test) if isinstance(node, ast.Name) and node.id in place.scope.bindings}
    taken = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return bool(asked) and asked <= taken


def _is_made_together(place: Place, levels: int) -> bool:
    """Whether a function of the program makes a value in an expression and has the ranks exchange it:
    `loss = forward(batch)`, where `forward` hands out what it has broadcast.
    """
    for node in ast.walk(place.node):
        if isinstance(node, ast.Call) and _exchanged_in(place.at(node), node) & _AGREEING:
            return True
        told = bound(place, node.id) if isinstance(node, ast.Name) and levels else ()
        if any(_is_made_together(inner, levels - 1) for inner, binding in told if binding.kind == "value"):
            return True
    return False


def _exchanged_in(place: Place, node: ast.Call) -> set[str]:
    """The operations that a call may lead to, by a function or the forward pass of a criterion of the program; in that
    of a model it is no loss that the ranks exchange, but what experts are sent.
    """
    search = Search(place.program)
    found = search.operations(place)
    for owner in instances(place.at(node.func)):
        for each in with_bases(place, owner.definition):
            forward = each.module.definitions.get(f"{each.scope.name}.forward")
            called_in = forward.sites if forward is not None else ()
            inner = (place_of(place.program, each.module, site) for site in called_in)
            found |= set().union(*(search.operations(item) for item in inner)) - _SENDING
    return found


def asks_clock(place: Place, test: ast.expr) -> bool:
    """Whether a condition compares the time: asked in it, or in what a name of it is bound to."""
    names = [node for node in ast.walk(test) if isinstance(node, ast.Name)]
    told = [binding.node for name in names for _, binding in bound(place, name.id) if binding.node is not None]
    asked = [node for part in (test, *told) for node in ast.walk(part) if isinstance(node, ast.Call)]
    limits = any(isinstance(node, ast.Gt | ast.GtE | ast.Lt | ast.LtE) for node in ast.walk(test))
    return limits and any(set(qualified(place.module, node.func, place.scope)) & _CLOCKS for node in asked)


def _agrees(module: Module, loop: ast.AST, test: ast.expr) -> bool:
    """Whether a condition speaks of something that the ranks have agreed on: by its name, or by a collective on it."""
    if _AGREED.search(module.text(test, 200)):
        return True
    names = {dotted(node) for node in ast.walk(test) if isinstance(node, ast.Name)}
    reduced = {
        dotted(part)
        for node in ast.walk(loop)
        if isinstance(node, ast.Call) and _last(node) in _AGREEING
        for argument in node.args
        for part in ast.walk(argument)
    }
    return bool(names & (reduced - {""}))


def _any_collective(module: Module, loop: ast.AST) -> bool:
    """Whether the loop holds anything that may let the ranks agree before the condition."""
    calls_in = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(_AGREED.search(agreeing_word(module, module.top, node)) for node in calls_in)


def _last(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func).rpartition(".")[2]


def _others_leave(loop: ast.AST, guard: Guard, leaving: ast.stmt) -> bool:
    """Whether the other branch of the condition leaves the loop too."""
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and node.test is guard.test:
            other = node.orelse if guard.holds else node.body
            return any(
                isinstance(part, type(leaving) | ast.Return | ast.Raise) for step in other for part in ast.walk(step)
            )
    return False


def _leaves_backward_out(loop: ast.AST, leaving: ast.stmt) -> bool:
    """Whether a turn that ends there misses the backward pass below it, and has none in its place:
    `(loss * 0).backward(); continue`.
    """
    blocks = [block for node in ast.walk(loop) if isinstance(node, ast.If) for block in (node.body, node.orelse)]
    before = next((block for block in blocks if leaving in block), [])
    in_place = any(map(_is_backward, _inside(before)))
    return not in_place and _goes_backward_after(loop, leaving)


def _goes_backward_after(loop: ast.AST, leaving: ast.stmt) -> bool:
    return any(_is_backward(node) and getattr(node, "lineno", 0) > leaving.lineno for node in ast.walk(loop))
