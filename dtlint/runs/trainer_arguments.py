"""Arguments that a Trainer's program refuses: what its parser does not know, once the program's own are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.value import Setting, Value

_TYPED = "transformers-arguments"
"""The layer of the command line, whose values the parser converts; those of a file are taken as they are."""


def refused_arguments(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> Mapping[str, tuple[Member, ...]]:
    """Members of config.unknown, config.invalid and config.inert that hang on the program, on the launcher, or on the
    DeepSpeed config beside the arguments.
    """
    found = {
        "config.unknown": tuple(_unknown(readings)),
        "config.invalid": (*_invalid(readings), *_not_at_stage_3(readings, settings)),
        "config.inert": tuple(_unsharded(readings, settings)),
    }
    return {name: members for name, members in found.items() if members}


def _unknown(readings: Sequence[Reading]) -> Iterator[Member]:
    """All that no dataclass has, where the program shows them all; else what is a slip of the pen."""
    parser = next(_members(readings, "trainer.parser"), None)
    if parser is None:
        return
    own, closed = _own(parser), _text(parser, "closed") == "yes"
    read = readings if _text(parser, "line") != "no" else [each for each in readings if each.layer != _TYPED]
    for member in _members(read, "trainer.strange"):
        name = _text(member, "name").replace("-", "_")
        declared = any(each.startswith(name) or name == f"no_{each}" for each in own)
        if not declared and (closed or _text(member, "suggestion")):
            yield member


def _invalid(readings: Sequence[Reading]) -> Iterator[Member]:
    parser = next(_members(readings, "trainer.parser"), None)
    if parser is None:
        return
    own = _own(parser)
    typed = [reading for reading in readings if reading.layer == _TYPED]
    yield from (each for each in _members(typed, "trainer.invalid") if _text(each, "name").replace("-", "_") not in own)


def _not_at_stage_3(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> Iterator[Member]:
    """What the Trainer or the program does not do under ZeRO-3: a batch that is lowered until it fits, bf16 alone."""
    stage, framework = settings.get("sharding.stage"), settings.get("framework")
    if _is(stage, 3) and _is(framework, "deepspeed"):
        yield from _members(readings, "trainer.not_at_stage_3")


def _unsharded(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> Iterator[Member]:
    """How to shard, where no launcher and no program asks for it; Accelerate's config may stand in a home folder."""
    framework, launcher = settings.get("framework"), settings.get("launch.launcher")
    replicated = _is(framework, "ddp") or (framework is None and not _is(launcher, "accelerate"))
    if replicated and not any(reading.open for reading in readings):
        yield from _members(readings, "trainer.unsharded")


def _members(readings: Sequence[Reading], name: str) -> Iterator[Member]:
    found = (member for reading in readings for member in reading.collections.get(name, ()))
    return iter({(member.place, _text(member, "key")): member for member in found}.values())


def _own(parser: Member) -> tuple[str, ...]:
    names = parser.fields["names"]
    return tuple(map(str, names.value)) if isinstance(names, Value) and isinstance(names.value, tuple) else ()


def _text(member: Member, field: str) -> str:
    value = member.fields.get(field)
    return str(value.value) if isinstance(value, Value) else ""


def _is(setting: Setting | None, wanted: object) -> bool:
    return isinstance(setting, Value) and setting.value == wanted
