"""Finds accumulation loops whose exchange of gradients is on at the wrong time: `code.wrong_microsteps`,
`code.unskipped_exchanges`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.code.accumulated import accumulation_of, decides, modulus
from dtlint.frameworks.code.counting import Turn
from dtlint.frameworks.code.loss_factors import is_handed_over
from dtlint.frameworks.code.microsteps import (
    FLAG,
    SAMPLED,
    SETTER,
    SILENCERS,
    Switch,
    conditions_in,
    holds_on,
    open_accumulation,
    optimizer_steps,
    outermost,
    steps_of,
    switches,
    turns,
)
from dtlint.frameworks.code.objects import makers, wrapped_kinds
from dtlint.frameworks.code.silenced_passes import Silenced, silenced_passes
from dtlint.frameworks.code.tails import Tail, tail_of
from dtlint.frameworks.code.told_steps import told_steps
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard, Module, Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting, Unknown, written

_EXCHANGING = frozenset({"ddp", "fsdp1", "accelerator", "fabric"})


class _Pattern(NamedTuple):
    """What a loop does on its turns: those before the first step that exchange, the first step, those that do not."""

    synced: tuple[int, ...]
    step: int
    skipped: int


def wrong_microsteps(program: Program) -> tuple[Member, ...]:
    """Switches of the exchange that leave it off in the very batch before the optimizer's step, on every step."""
    found: dict[tuple[str, int], Member] = {}
    for switch in switches(program):
        if not _exchanges(switch) or stands(outermost(switch.place)) is False:
            continue
        member = _wrong(switch)
        if member is not None:
            found.setdefault((member.place.path, member.place.start), member)
    for silenced in silenced_passes(program):
        member = _never_member(silenced)
        found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def _never_member(silenced: Silenced) -> Member:
    """A no_sync around every forward pass."""
    span, step_span = silenced.entry.module.span(silenced.entry.node), decides(silenced.step)
    forward = silenced.forward.module.span(silenced.forward.node)
    none = Unknown("no batch is exchanged")
    fields: dict[str, Setting] = {
        **dict.fromkeys(("synced_index", "step_index", "unsynced_micro_steps", "length"), none),
        "tail": written(False, span),
        "never": written(True, span),
    }
    related = ((forward, "the forward pass, in which DDP decides"), (step_span, "the optimizer steps here"))
    return Member(span, fields, related)


def _exchanges(switch: Switch) -> bool:
    """Whether what is switched exchanges gradients; FSDP2 turns models of any class into its own."""
    function = switch.place.node.func if isinstance(switch.place.node, ast.Call) else None
    own = isinstance(function, ast.Attribute) and function.attr == SETTER
    return own or wrapped_kinds(switch.model) <= _EXCHANGING


def _wrong(switch: Switch) -> Member | None:
    here = outermost(switch.place)
    steps = steps_of(here, switch.loop)
    if len({_guard_key(step) for step in steps}) != 1 or _is_overruled(switch):
        return None
    step, after = steps[0], switch.loop not in _loops(steps[0])
    off, on = conditions_in(switch.place, switch.loop), conditions_in(step, switch.loop)
    flag = switch.value.node if switch.value is not None else None
    tested = [(switch.place, Guard(flag, switch.off))] if isinstance(flag, ast.expr) else []
    unknowns = open_accumulation(here, switch.loop, [*off, *tested, *on])
    if len(unknowns) > 1:
        return None
    tail = None if after else tail_of(switch, [*off, *tested], on, unknowns)
    if tail is not None:
        return _tail_member(switch, step, tail)
    patterns = []
    for accumulation in SAMPLED if unknowns else SAMPLED[:1]:
        pattern = _pattern(here, switch.loop, ([*off, *tested], None if after else on), (unknowns, accumulation))
        if pattern is None:
            return None
        patterns.append(pattern)
    return _wrong_member(switch, step, patterns[-1], bool(unknowns))


def _guard_key(place: Place) -> tuple[int, ...]:
    return tuple(id(guard.test) for guard in place.guards)


def _loops(place: Place) -> tuple[ast.AST, ...]:
    return next((site.loops for site in place.scope.sites if site.node is place.node), ())


def _is_overruled(switch: Switch) -> bool:
    """Whether several places of a loop set the flag, so that one alone does not tell."""
    flags = [
        node
        for node in ast.walk(switch.loop)
        if isinstance(node, ast.Attribute)
        and node.attr in (FLAG, SETTER, *SILENCERS)
        and isinstance(node.ctx, ast.Store if node.attr == FLAG else ast.Load)
    ]
    return len(flags) > 1


def _pattern(
    place: Place,
    loop: ast.For,
    conditions: tuple[list[tuple[Place, Guard]], list[tuple[Place, Guard]] | None],
    accumulation: tuple[frozenset[str], int],
) -> _Pattern | None:
    """The turns of a loop; None unless every step certainly follows a batch that is not exchanged."""
    off, on = conditions
    tried: list[Turn] = list(turns(place, loop, *accumulation))
    steps = [index for index, turn in enumerate(tried) if _steps(on, turn, index == len(tried) - 1)]
    skipped = [holds_on(off, turn) for turn in tried]
    if not steps or not all(skipped[index] for index in steps) or not any(item is False for item in skipped):
        return None
    first = steps[0]
    synced = tuple(index for index, item in enumerate(skipped[: first + 1]) if item is False)
    return _Pattern(synced, first, sum(bool(item) for item in skipped[: first + 1]))


def _steps(conditions: list[tuple[Place, Guard]] | None, turn: Turn, last: bool) -> bool:
    """Whether the optimizer steps on a turn: after the loop, or under conditions that certainly hold."""
    return last if conditions is None else holds_on(conditions, turn) is True


def _wrong_member(switch: Switch, step: Place, pattern: _Pattern, is_open: bool) -> Member:
    span = switch.place.module.span(switch.place.node)
    step_span = decides(step)
    numbers: dict[str, Setting] = {
        "synced_index": written(pattern.synced[0], span) if pattern.synced else Unknown("no batch is exchanged"),
        "step_index": written(pattern.step, step_span),
        "unsynced_micro_steps": written(pattern.skipped, span),
    }
    if is_open:
        numbers = dict.fromkeys(numbers, Unknown("the number of accumulated batches is not told"))
    whole: dict[str, Setting] = {
        "tail": written(False, span),
        "never": written(False, span),
        "length": Unknown("it is no matter of the last batch"),
    }
    return Member(span, {**numbers, **whole}, ((step_span, "the optimizer steps here"),))


def _tail_member(switch: Switch, step: Place, tail: Tail) -> Member:
    """An exchange that is off in the last batch of an epoch, on which the optimizer steps in any case."""
    span, step_span = switch.place.module.span(switch.place.node), decides(step)
    told = tail.length is not None and tail.accumulation is not None
    rest = tail.length % tail.accumulation if tail.length is not None and tail.accumulation else 0
    none = Unknown("the number of batches is not told")
    fields: dict[str, Setting] = {
        "tail": written(True, span),
        "never": written(False, span),
        "length": written(tail.length, step_span) if told else none,
        "accumulation": written(tail.accumulation, step_span) if tail.accumulation else none,
        "unsynced_micro_steps": written(rest, span) if told else none,
        **dict.fromkeys(("synced_index", "step_index"), none),
    }
    return Member(span, fields, ((step_span, "the optimizer steps here"),))


def unskipped_exchanges(program: Program) -> tuple[Member, ...]:
    """Loops that accumulate under DDP and exchange the gradients of every batch."""
    texts = [module.source.text for module in program.modules.values()]
    if any(
        word in text for text in texts for word in (*SILENCERS, FLAG, "accumulate(", "set_sync", "block_backward_sync")
    ):
        return ()
    sharded = any(True for _ in calls(program, (*FSDP1, *FSDP2)))
    if sharded or "deepspeed" in " ".join(name for m in program.modules.values() for name in m.imports):
        return ()
    wraps = [call.head for call in calls(program, DDP) if stands(call.place) is not False]
    found = [*_by_hand(program)]
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            wrap = wraps[0] if wraps else _wrapped_by(place_of(program, module, site))
            member = _accumulating(program, module, site, wrap) if wrap is not None else None
            found += [member] if member is not None else []
            found += _told(program, place_of(program, module, site), wrap) if wrap is not None else ()
    return tuple(found)


def _by_hand(program: Program) -> Iterator[Member]:
    """LightningModules that step in some batches only of those in which they go backward (`manual_backward`): of
    manual optimization the Trainer leaves no exchange out.
    """
    for module in program.modules.values():
        for site in module.called.get("manual_backward", ()):
            backward = place_of(program, module, site)
            steps = [step for step in optimizer_steps(backward) if not set(backward.guards) > set(step.guards)]
            tests = {id(guard.test) for step in steps for guard in step.guards if guard not in site.guards}
            if site.loops or len(tests) != 1 or any(step.guards == site.guards for step in steps):
                continue
            own = ((steps[0], guard) for guard in steps[0].guards if guard not in site.guards)
            accumulation = modulus(own)
            if accumulation is not None and stands(backward) is not False:
                related = ((decides(steps[0]), "the optimizer steps here"),)
                span = module.span(site.node)
                yield Member(span, {"accumulation": accumulation, "by_hand": written(True, span)}, related)


def _wrapped_by(backward: Place) -> Span | None:
    """The call that makes the Accelerator or Fabric whose method goes backward, which wraps the model in DDP unless it
    is told otherwise.
    """
    if not is_handed_over(backward):
        return None
    function = backward.node.func if isinstance(backward.node, ast.Call) else None
    assert isinstance(function, ast.Attribute)
    made = [maker.call for maker in makers(backward.at(function.value)) if maker.call is not None]
    return made[0].module.span(made[0].node) if len(made) == 1 and not _accumulates_itself(made[0]) else None


def _accumulates_itself(maker: Place) -> bool:
    """Whether an Accelerator is told to accumulate: its `accumulate` may be entered out of sight."""
    keywords = maker.node.keywords if isinstance(maker.node, ast.Call) else []
    return any(
        keyword.arg in (None, "gradient_accumulation_steps", "gradient_accumulation_plugin") for keyword in keywords
    )


def _accumulating(program: Program, module: Module, site: Site, wrap: Span) -> Member | None:
    found = accumulation_of(program, module, site)
    if found is None:
        return None
    span = module.span(site.node)
    related = ((decides(found.step), "the optimizer steps here"), (wrap, "DDP exchanges in every backward pass"))
    return Member(span, {"accumulation": found.batches, "by_hand": written(False, span)}, related)


def _told(program: Program, backward: Place, wrap: Span) -> Iterator[Member]:
    """Calls in a loop that go backward in each turn and are told to step in some."""
    for step in told_steps(program, backward):
        condition = step.told.node
        accumulation = modulus([(step.told, Guard(condition, True))]) if isinstance(condition, ast.expr) else None
        if accumulation is not None and stands(step.place) is not False:
            span = step.place.module.span(step.place.node)
            related = (
                (step.told.module.span(condition), "the optimizer steps then"),
                (wrap, "DDP exchanges in every backward pass"),
            )
            yield Member(span, {"accumulation": accumulation, "by_hand": written(False, span)}, related)
