"""Environment variables of NCCL, CUDA and torch that a launch sets for its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.languages.traced import Word, setting_of
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value, assumed, written

LAYER = "environment"
ENVIRONMENT = "launch.environment"
"""The collection of the variables that a launch sets, and of those looked for that it does not."""
PREFIXES = (
    "NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_", "NVTE_", "UCX_", "GLOO_", "FI_", "PET_", "WORLD_SIZE",
)  # fmt: skip
EXPECTED = ("CUDA_DEVICE_MAX_CONNECTIONS", "OMP_NUM_THREADS")
"""Variables whose absence decides how a run communicates or computes."""

DEBUGGING: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "CUDA_LAUNCH_BLOCKING": (("1",), "serializes", "every kernel is waited for before the next is started"),
    "NCCL_BLOCKING_WAIT": (("1",), "waits", "the CPU waits for every collective"),
    "TORCH_NCCL_BLOCKING_WAIT": (("1",), "waits", "the CPU waits for every collective"),
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "compares", "all ranks compare notes before every collective"),
    "NCCL_DEBUG": (("INFO", "TRACE"), "logs", "every rank writes what NCCL sets up"),
}
"""Switches for hunting a fault: the values that turn them on, the kind of their effect, and what they do. On a vendor's
accelerators of their own nothing reads what serializes and waits; one process neither waits for others nor compares.
"""


INSTEAD: Mapping[str, str] = dict.fromkeys(
    ("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 (NCCL_ASYNC_ERROR_HANDLING before torch 2.2; torchrun sets it)",
)
"""What ends a run that hangs as such a switch does, and lets nobody wait."""

DEAD: Mapping[str, str] = {"NCCL_AVOID_RECORD_STREAMS": "torch reads it as TORCH_NCCL_AVOID_RECORD_STREAMS"}
"""Variables that nothing reads, with the reason."""


def read(env: Mapping[str, Word]) -> Reading:
    """What variables say: one claim with all those that decide how processes compute and communicate, as (name, value)
    pairs in order of their names.

    Collections: `launch.environment` (`name`, `value`), `launch.debugging` (`name`, `value`, `effect`, `reason`,
    `instead` where something else does what it is there for),
    `config.inert` (`key`, `section`, `reason`, `matters`).
    """
    members = tuple(_member(name, word) for name, word in sorted(env.items()) if name.startswith(PREFIXES))
    return _reading(members) if members else Reading(LAYER)


def address(env: Mapping[str, Word]) -> Reading:
    """Where ranks meet that no launcher tells it: at MASTER_ADDR."""
    word = env.get("MASTER_ADDR")
    claims = () if word is None else (Claim("launch.rendezvous_host", setting_of(word), "MASTER_ADDR"),)
    return Reading(LAYER, claims=claims)


def complete(readings: Sequence[Reading], place: Span, sourced: str = "") -> Reading:
    """The variables of a launch from those of the command and of what wraps it, outermost first.

    A variable that is looked for and not set stands in `launch.environment` with the value "", at `place`; the shell
    that starts the script may still export it. It is unknown where a file is `sourced` that is not at hand.
    """
    found = {_name(member): member for reading in readings for member in reading.collections.get(ENVIRONMENT, ())}
    absent = tuple(_absent(name, place, sourced) for name in EXPECTED if name not in found)
    return _reading((*(found[name] for name in sorted(found)), *absent))


def without_unset(members: Sequence[Member]) -> tuple[Member, ...]:
    """The variables of a run without those that count as not set by its shell, where a program or a flag of the
    launcher sets them.
    """
    found = {_name(member) for member in members if not _is_unset(member)}
    return tuple(member for member in members if not (_is_unset(member) and _name(member) in found))


def _is_unset(member: Member) -> bool:
    value = member.fields["value"]
    return isinstance(value, Value) and value.value == "" and value.origin.kind == "assumed"


def members_of(variables: Iterable[tuple[str, Setting, Span]]) -> Mapping[str, tuple[Member, ...]]:
    """The collections of variables by name, value and place that something else than a shell sets."""
    members = tuple(Member(place, {"name": written(name, place), "value": value}) for name, value, place in variables)
    return _reading(members).collections


def _reading(members: tuple[Member, ...]) -> Reading:
    known = [member for member in members if _text(member)]
    pairs = tuple((_name(member), _text(member)) for member in known)
    place = known[0].place if known else None
    value = Value(pairs, Origin("written", place)) if place is not None else assumed(pairs, "no variable is set")
    collections = {
        ENVIRONMENT: members,
        "launch.debugging": tuple(_debugging(known)),
        "config.inert": tuple(_dead(known)),
    }
    return Reading(
        LAYER,
        place,
        (Claim("communication.env", value),),
        collections={name: found for name, found in collections.items() if found},
    )


def _member(name: str, word: Word) -> Member:
    place = word.pieces[0].span if word.pieces else word.place
    return Member(place, {"name": written(name, place), "value": setting_of(word)})


def _absent(name: str, place: Span, sourced: str) -> Member:
    if sourced:
        hidden = Unknown(f"{sourced}, which is not at hand, may export it", "--env NAME=VALUE")
        return Member(place, {"name": written(name, place), "value": hidden})
    unset = assumed("", "the shell that starts the script may export it", "--env NAME=VALUE")
    return Member(place, {"name": written(name, place), "value": unset})


def _name(member: Member) -> str:
    return _plain(member.fields["name"])


def _text(member: Member) -> str:
    """The value of a variable, "" for one that is empty, not set or not known."""
    return _plain(member.fields["value"])


def _plain(found: Setting) -> str:
    return found.value if isinstance(found, Value) and isinstance(found.value, str) else ""


def _debugging(members: Sequence[Member]) -> Iterator[Member]:
    for member in members:
        name = _name(member)
        values, effect, reason = DEBUGGING.get(name, ((), "", ""))
        if _text(member).upper() in values:
            words = {"effect": effect, "reason": reason, **({"instead": INSTEAD[name]} if name in INSTEAD else {})}
            yield member._replace(fields={**member.fields, **texts(member.place, **words)})


def _dead(members: Sequence[Member]) -> Iterator[Member]:
    for member in members:
        name = _name(member)
        if name in DEAD:
            words = {"key": name, "section": "environment", "reason": DEAD[name], "matters": "no"}
            yield Member(member.place, {field: written(text, member.place) for field, text in words.items()})
