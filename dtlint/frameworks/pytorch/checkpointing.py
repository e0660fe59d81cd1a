"""Reads activation checkpointing out of Python: wrappers, `torch.utils.checkpoint`, Hugging Face models' switch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.pytorch.names import CHECKPOINT_WRAPPERS, CHECKPOINTS, SELECTIVE_POLICIES
from dtlint.languages.python.calls import Call, argument, call_at, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.dicts import unpacked_dict
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, place_of, unknown
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import reach, stands
from dtlint.source import Span
from dtlint.value import Choice, Option, Origin, Setting, Unknown, Value

_SWITCHES = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
"""A Hugging Face model's method; from Transformers 5 on it has the second name too."""
_OPTIONS = ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs")


def checkpointing_claims(program: Program) -> tuple[Claim, ...]:
    """`checkpointing.activations` where the program turns it on; an open condition makes a choice with "none"."""
    possible = [(place, span) for place, span in _places(program) if stands(place) is not False]
    if not possible:
        return ()
    certain = next(((place, span) for place, span in possible if stands(place)), None)
    place, span = certain or possible[0]
    turned_on = _extent(program, span)
    if certain is not None:
        return (Claim("checkpointing.activations", turned_on, span.text),)
    condition = reach(place).condition
    off = Value("none", Origin("written", span))
    value = Choice((Option(condition, turned_on), Option(f"not ({condition})", off)))
    return (Claim("checkpointing.activations", value, span.text),)


def variant_claims(program: Program) -> tuple[Claim, ...]:
    """`checkpointing.reentrant` where a call that turns recomputation on says it, or the model's own code does."""
    for module in program.modules.values():
        for site in (site for name in _SWITCHES for site in module.called.get(name, ())):
            place = place_of(program, module, site)
            found = variant(call_at(place, module.text(site.node)), 0)
            if found is not None and stands(place) is not False:
                return (Claim("checkpointing.reentrant", found, "use_reentrant"),)
    return _of_own_code(program)


def _of_own_code(program: Program) -> tuple[Claim, ...]:
    """What the calls of torch's checkpoint say, if one of them is not reentrant; without one the program may as well
    train a model of a library.
    """
    told = [argument(call, "use_reentrant") for call in _recomputing(program) if stands(call.place) is not False]
    off = [value for value in told if isinstance(value, Value) and value.value is False]
    if not off:
        return ()
    mixed = Unknown("some calls of checkpoint are reentrant and some are not", "", off[0].origin)
    return (Claim("checkpointing.reentrant", off[0] if len(off) == len(told) else mixed, "use_reentrant"),)


def _recomputing(program: Program) -> Iterator[Call]:
    """The calls of torch's checkpoint, and those that bind arguments of it (`partial(checkpoint, ...)`)."""
    yield from calls(program, CHECKPOINTS[:2])
    for call in calls(program, ("functools.partial",)):
        first = call.positional[0].place if call.positional else None
        names = () if first is None else qualified(first.module, first.node, first.scope)
        if not set(names).isdisjoint(CHECKPOINTS[:2]):
            yield call


def variant(call: Call, position: int | None = None) -> Setting | None:
    """What `gradient_checkpointing_kwargs={"use_reentrant": ...}` of a call says, None if nothing."""
    told = (variant_in(item.place) for name in _OPTIONS for item in passed(call, name, position))
    return next((each for each in told if each is not None), None)


def variant_in(place: Place) -> Setting | None:
    """What a dict of such options says (`{"use_reentrant": ...}`), None if nothing."""
    options = unpacked_dict(place)
    found = (options or {}).get("use_reentrant", ())
    if options is None or len(found) > 1:
        return unknown(place, "the options of recomputation are not known")
    return evaluate(found[0].place) if found else None


def _places(program: Program) -> Iterator[tuple[Place, Span]]:
    for call in calls(program, (*CHECKPOINT_WRAPPERS, *CHECKPOINTS)):
        yield call.place, call.head
    for module in program.modules.values():
        for site in (site for name in _SWITCHES for site in module.called.get(name, ())):
            if isinstance(site.node, ast.Call) and isinstance(site.node.func, ast.Attribute):
                yield place_of(program, module, site), module.span(site.node.func)


def _extent(program: Program, span: Span) -> Value | Unknown:
    """All activations are dropped and computed again ("full"), unless a policy picks what is kept ("selective")."""
    policies = [stands(call.place) for call in calls(program, SELECTIVE_POLICIES)]
    if any(policies):
        return Value("selective", Origin("written", span))
    if None in policies:
        return Unknown("a condition decides between full and selective checkpointing", "", Origin("written", span))
    return Value("full", Origin("written", span))
