"""Adapters that a Python program adds to its model: whether its command line asks for them, their rank and layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from dtlint.frameworks import Claim
from dtlint.frameworks.adapter_layers import targets_of
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import reach, standing, stands
from dtlint.value import Origin, Setting, Unknown, Value, default

_CONFIG, _WRAP = "peft.LoraConfig", "peft.get_peft_model"
_LORA = (_CONFIG, _WRAP, "peft.prepare_model_for_kbit_training")
_TAKING = tuple(f"trl.{name}Trainer" for name in ("SFT", "DPO", "GRPO", "Reward", "KTO", "ORPO", "CPO", "RLOO"))
"""Trainers that wrap the model themselves, if they are given a config of adapters."""
_ASKING = re.compile(r"lora|peft|adapter|bits", re.IGNORECASE)
"""What names of arguments hold that ask for adapters or for weights of few bits."""
_NAMES = re.compile(r"[A-Za-z_]\w*")
_OF_ARGUMENTS = re.compile(r"arg\w{0,40}\.(\w+)", re.IGNORECASE)
"""A field of what holds arguments, which a class of a library may declare (`model_args.use_peft`)."""
_OFF = frozenset(("false", "none", "no", "", "0", "16", "32"))
"""Values that switch nothing on; the last two are bits of weights that are trained as they are."""
_RANK = 8
"""The rank of a LoraConfig that is told none (peft tuners/lora/config.py)."""


def adapter_claims(program: Program) -> Iterator[Claim]:
    """The rank of the adapters and the layers that have them, where the program certainly adds one kind; what is
    trained stays open where it may add some.
    """
    found = added(program)
    if not found:
        return
    built = [call for call in found if call.name == _CONFIG]
    if len(built) != 1 or certainly_added(program) is None:
        unknown = Unknown("the program may train adapters", "", Origin("written", found[0].head))
        yield Claim("model.lora_rank", unknown, found[0].name)
        return
    rank = argument(built[0], "r")
    yield Claim("model.lora_rank", default(_RANK, "peft") if rank is None else _whole(built[0], rank), "r")
    targets = targets_of(argument(built[0], "target_modules"))
    if targets is not None:
        yield Claim("model.lora_targets", targets, "target_modules")
    yield from _saved(built[0])


def certainly_added(program: Program) -> Call | None:
    """The call that certainly puts adapters into the model: get_peft_model, or a trainer of TRL that is given their
    config.
    """
    wraps = (call for call in calls(program, (_WRAP,)) if stands(call.place))
    taking = (call for call in calls(program, _TAKING) if stands(call.place) and _is_given_config(call))
    return next(chain(wraps, taking), None)


def _is_given_config(call: Call) -> bool:
    """`SFTTrainer(..., peft_config=LoraConfig(r=8))`, where that is all that it can be."""
    ends = [way.end for item in passed(call, "peft_config") for way in ways(item.place)]
    return bool(ends) and all(isinstance(end, Place) and called(end) == _CONFIG for end in ends)


def _whole(call: Call, rank: Setting) -> Setting:
    if isinstance(rank, Value) and isinstance(rank.value, int):
        return rank
    return Unknown("the rank of the adapters is not known", "--set model.lora_rank=N", Origin("written", call.head))


def _saved(call: Call) -> Iterator[Claim]:
    """Layers that train as a whole beside the adapters."""
    told = argument(call, "modules_to_save")
    if told is None or (isinstance(told, Value) and not told.value):
        return
    place = passed(call, "modules_to_save")
    span = place[0].place.module.span(place[0].place.node) if place else call.head
    reason = "modules_to_save names layers that train whole"
    unknown = Unknown(reason, "--set model.trainable_parameters=N", Origin("written", span))
    yield Claim("model.trainable_parameters", unknown, "modules_to_save")


def added(program: Program) -> Sequence[Call]:
    """The calls that may add adapters; none where each waits for an argument that the launch does not pass."""
    found = standing(program, _LORA)
    return [] if all(map(_waits, found)) and not _asks(program) else found


def _waits(call: Call) -> bool:
    """Whether only an argument that asks for adapters leads to a call; what else a condition reads (a file, the
    environment) may as well hold.
    """
    condition = reach(call.place).condition
    named = frozenset(_NAMES.findall(condition)) & call.place.program.arguments.keys()
    return any(map(_ASKING.search, (*named, *_OF_ARGUMENTS.findall(condition))))


def _asks(program: Program) -> bool:
    """Whether an argument asks for adapters: one that is on by default or that the launch passes. Of a program without
    a launch nobody knows; what an open command line (`$MORE_ARGS`) lacks has its default.
    """
    if program.given is None:
        return True
    told = {name: each.default for name, each in program.arguments.items()} | dict(program.given)
    return any(_ASKING.search(name) and _is_on(value, name in program.given) for name, value in told.items())


def _is_on(value: Setting, given: bool) -> bool:
    """Whether an argument asks for something by its value; a default that is a number or a name waits for a switch."""
    if not isinstance(value, Value):
        return given
    return value.value is True or (given and str(value.value).lower() not in _OFF)
