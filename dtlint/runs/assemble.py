"""Makes one run of the readings that belong to it: settles them into a plan, with its collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from dtlint.frameworks import Member, Reading, vendors
from dtlint.frameworks.environment import ENVIRONMENT, without_unset
from dtlint.frameworks.spread_tasks import with_spread_tasks
from dtlint.plan import Plan
from dtlint.record import NamedTuple
from dtlint.runs.beside import ARGUMENTS
from dtlint.runs.called_elsewhere import without_called
from dtlint.runs.changed import as_changed, as_handed_over
from dtlint.runs.dialect import dialect_of
from dtlint.runs.dropped_words import without_dropped
from dtlint.runs.engine_config import with_awaited_config
from dtlint.runs.expect import with_expectations
from dtlint.runs.forks import UNKNOWN, as_of_a_fork, fork_of
from dtlint.runs.hand_over import hand_over
from dtlint.runs.handed_words import refused_words
from dtlint.runs.megatron_programs import with_program
from dtlint.runs.mentioned import versions_described, versions_mentioned
from dtlint.runs.model import OWN_FILES, OWN_PARSER, Launch, Options, Run
from dtlint.runs.only_ones import with_known_ones
from dtlint.runs.own_batch import with_own_batch
from dtlint.runs.own_checks import unchecked_positions
from dtlint.runs.own_fields import own_fields
from dtlint.runs.own_groups import with_own_groups
from dtlint.runs.own_loops import with_own_loops
from dtlint.runs.own_types import with_own_types
from dtlint.runs.own_words import with_own_words
from dtlint.runs.parsers import parser_reading
from dtlint.runs.settle import settle
from dtlint.runs.shown_parts import without_shown
from dtlint.runs.tree import Tree
from dtlint.runs.unaccelerated import without_engine
from dtlint.runs.vendored import vendored_readings
from dtlint.runs.versions import versions_around
from dtlint.source import Source
from dtlint.value import Setting, Value

_WRAPPERS = ("ddp-python", "fsdp-python")
"""The layers of what wraps a model in code."""


class Parts(NamedTuple):
    """What a run is put together from."""

    readings: tuple[Reading, ...]
    sources: tuple[Source, ...]
    assumptions: tuple[str, ...] = ()


def run_of(tree: Tree, options: Options, parts: Parts, launch: Launch | None = None, branch: str | None = None) -> Run:
    """One plan of what was read for it: settled, handed on, with what the files around tell of versions."""
    sources, argv = parts.sources, launch.argv if launch is not None else ()
    launched = without_engine(parts.readings, sources, tree) if launch is not None else parts.readings
    own = _as_the_program_has_it(with_awaited_config(with_program(launched, argv, sources)))
    readings = with_spread_tasks(as_handed_over(with_own_batch(as_changed(own))))
    folders = _folders(tree, sources)
    readings = (*readings, *versions_described(tree, folders, _claimed(readings)))
    around = versions_around(tree, folders, readings)
    readings = (*readings, *(reading for _, reading in around), *parser_reading(tree, folders, readings))
    if not any(reading.layer == vendors.LAYER and reading.claims for reading in readings):
        readings = (*readings, vendors.read_files(sources))
    readings = (*readings, *versions_mentioned(tree, folders, _claimed(readings)))
    readings = (*readings, *vendored_readings(tree, folders, readings), *own_fields(tree, folders, readings))
    readings = (*readings, *unchecked_positions(tree, folders, readings))
    sources = tuple(dict.fromkeys((*sources, *(source for source, _ in around))))
    settled = settle(readings, options.at(sources[0].file if sources else None))
    handed = hand_over(readings, settled.settings)
    refused = refused_words(readings, handed.settings)
    found = _collections([*readings, Reading("hand-over", collections=handed.collections), refused])
    known = with_known_ones(with_own_words(found, readings, tree), tree)
    collections = without_called(known, tree)
    conflicts = tuple(each for each in settled.conflicts if _text(each.fields["setting"]) not in handed.decided)
    if conflicts:
        collections["config.conflicts"] = (*collections.get("config.conflicts", ()), *conflicts)
    fork = fork_of(readings, tree, argv, sources)
    if launch is not None and UNKNOWN in collections:
        collections[UNKNOWN] = tuple(as_of_a_fork(collections[UNKNOWN], fork, argv, sources))
    if launch is None and _by_file_alone(readings):
        collections = _without_trainer(collections)
    open_reason = next((reading.open for reading in readings if reading.open), "")
    unread = next((reading.unread for reading in readings if reading.unread), "")
    dialect = dialect_of(readings, settled.framework)._replace(fork=fork)
    plan = Plan(handed.settings, collections, dialect, open_reason, unread)
    plan = with_expectations(plan, options.expected, launch.place if launch else sources[0].span(0, 0))
    supposed = tuple(dict.fromkeys(reading.supposed for reading in readings if reading.supposed))
    return Run(launch, "train", branch, sources, readings, plan, (*parts.assumptions, *supposed))


def _as_the_program_has_it(read: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """The readings with what the program's own parser, loop, groups and wrappers make of them."""
    parsed = _under_own_loop(_under_own_parser(read))
    own = with_own_loops(with_own_groups(_without_inner_wrapper(parsed)))
    return without_shown(without_dropped(own))


def _by_file_alone(readings: Sequence[Reading]) -> bool:
    """Whether a file of arguments is all that speaks for the Trainer: another trainer may take arguments of these
    names, and compares nothing.
    """
    speaking = [reading for reading in readings if reading.frontend]
    return bool(speaking) and all((each.layer, each.frontend) == (ARGUMENTS, "transformers") for each in speaking)


def _without_trainer(collections: Mapping[str, tuple[Member, ...]]) -> dict[str, tuple[Member, ...]]:
    """The collections without what the Trainer would refuse or leave out."""
    kept = (each for each in collections.get("config.conflicts", ()) if _text(each.fields.get("effect")) != "refused")
    return {**collections, "config.conflicts": tuple(kept), "config.left_out": ()}


def _claimed(readings: Sequence[Reading]) -> frozenset[str]:
    return frozenset(claim.setting for reading in readings for claim in reading.claims)


def _folders(tree: Tree, sources: Sequence[Source]) -> list[Path]:
    """Where the run's script lies, or the text that stands for it, and its program."""
    program = next((source for source in sources if source.path.endswith(".py")), None)
    kept = [source for source in (program, *sources[:1]) if source is not None]
    return [source.file.parent if source.file is not None else tree.current for source in kept]


def _collections(readings: Sequence[Reading]) -> dict[str, tuple[Member, ...]]:
    found: dict[str, tuple[Member, ...]] = {}
    for reading in readings:
        for name, members in reading.collections.items():
            known = {member.place for member in found.get(name, ())}
            found[name] = (*found.get(name, ()), *(member for member in members if member.place not in known))
    if ENVIRONMENT in found:
        found[ENVIRONMENT] = without_unset(found[ENVIRONMENT])
    declared = _without_declared(found, frozenset(flag for reading in readings for flag in reading.declares))
    return with_own_types(declared, readings)


def _under_own_parser(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """Megatron's flags of a program that declares them all itself and imports no Megatron: they mean what Megatron's
    mean, and Megatron's defaults, spellings and other flags are not the program's.
    """
    own = next((reading for reading in readings if reading.layer == OWN_PARSER), None)
    if own is None:
        return readings
    return tuple(
        reading._replace(layer="arguments", framework="", collections={}) if _is_declared(reading, own) else reading
        for reading in readings
    )


def _under_own_loop(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """A file of settings of a program that loads it itself and wraps its model itself: its keys mean what the Trainer's
    mean, whose names they have, and the Trainer's defaults and refusals are not the program's.
    """
    by_itself = any(reading.layer == OWN_FILES for reading in readings)
    wraps = any(reading.layer in _WRAPPERS and reading.framework for reading in readings)
    front = any(reading.frontend and reading.layer != ARGUMENTS for reading in readings)
    if not by_itself or not wraps or front:
        return readings
    return tuple(
        reading._replace(layer="arguments", framework="", frontend="", collections={})
        if (reading.layer, reading.frontend) == (ARGUMENTS, "transformers")
        else reading
        for reading in readings
    )


def _without_inner_wrapper(readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """What wraps the model in Megatron's own code, of which the tree has a copy, is what its arguments choose: they say
    it, and where they leave it out their defaults.
    """
    if not any(reading.layer == "megatron-arguments" for reading in readings):
        return readings
    return tuple(reading for reading in readings if not _is_inner_wrapper(reading))


def _is_inner_wrapper(reading: Reading) -> bool:
    inside = reading.place is not None and "megatron" in PurePosixPath(reading.place.path).parts[:-1]
    return inside and reading.layer in _WRAPPERS


def _is_declared(reading: Reading, own: Reading) -> bool:
    if reading.layer != "megatron-arguments":
        return False
    flags = {claim.name for claim in reading.claims if claim.name.startswith("--")}
    return bool(flags) and flags <= own.declares


def _without_declared(found: dict[str, tuple[Member, ...]], flags: frozenset[str]) -> dict[str, tuple[Member, ...]]:
    """The collections without the flags that the program declares itself: unknown ones, and those of its launcher's
    names, which stand behind it for itself.
    """
    own = {name: tuple(member for member in found.get(name, ()) if not _is_own(member, flags)) for name in _OF_FLAGS}
    return {**found, **{name: kept for name, kept in own.items() if len(kept) < len(found.get(name, ()))}}


_OF_FLAGS = ("config.unknown", "launch.lost")


def _is_own(member: Member, flags: frozenset[str]) -> bool:
    """Whether a member speaks of flags that are the program's own; what a broken line cuts off is lost all the same."""
    behind = _text(member.fields.get("words")).split(" and ") if _text(member.fields.get("cause")) == "script" else []
    named = (_text(member.fields.get("key")), *behind)
    return flags.issuperset(filter(None, named)) and any(named)


def _text(setting: Setting | None) -> str:
    return str(setting.value) if isinstance(setting, Value) else ""
