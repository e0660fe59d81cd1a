"""Programs that are passed Megatron's arguments: what a program of one's own does with them is not known, and without
--deepspeed those of Megatron-DeepSpeed start no engine, whatever config they are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.megatron.given import SWITCHED_OFF
from dtlint.languages.traced import Word
from dtlint.runs.changed import CONFIG
from dtlint.source import Source
from dtlint.value import Unknown, Value, default

PROGRAMS = frozenset(
    f"{name}.py"
    for name in (
        "finetune_llama", "pretrain_bert", "pretrain_gpt", "pretrain_gpt2", "pretrain_gpt_core", "pretrain_hybrid",
        "pretrain_ict", "pretrain_mamba", "pretrain_retro", "pretrain_t5", "pretrain_vision_classify",
        "pretrain_vision_dino", "pretrain_vision_inpaint", "pretrain_vit", "pretrain_vlm", "train_rl",
    )
)  # fmt: skip
"""The training scripts of Megatron-LM v1.1.5 to core_v0.19 and of Megatron-DeepSpeed."""

_SWITCH = re.compile(r"\bargs\.deepspeed\b")
_ARGUMENTS = "megatron-arguments"
_ENGINE = "parallel.pipeline_engine"
_STAGE = "sharding.stage"
_NEEDED = "config.needed"
_INERT = "config.inert"
_WHOLE = 3


def with_program(readings: tuple[Reading, ...], argv: Sequence[Word], sources: Sequence[Source]) -> tuple[Reading, ...]:
    """The readings of a launch, with what is known of the program that it starts."""
    own = next((each for each in readings if each.layer == _ARGUMENTS and not each.frontend), None)
    if own is None:
        return readings
    name = _program(argv)
    modules = [source for source in sources if source.path.endswith(".py")]
    if SWITCHED_OFF in own.collections and name in PROGRAMS and _asks(name, modules):
        return tuple(_without_engine(each) for each in readings)
    if name and name not in PROGRAMS and not modules:
        told = own._replace(collections={key: each for key, each in own.collections.items() if key != _NEEDED})
        return tuple(_of_unknown(told, name) if each is own else each for each in readings)
    return readings if SWITCHED_OFF not in own.collections else (*readings, _unknown_engine(name))


def _program(argv: Sequence[Word]) -> str:
    """The name of the Python file that the words start, "" where it is not known."""
    path = next((word.text for word in argv if word.text is not None and word.text.endswith(".py")), "")
    return PurePosixPath(path).name


def _asks(name: str, modules: Sequence[Source]) -> bool:
    """Whether a program asks for the switch before it uses the engine; one that is not here is as it was released."""
    here = [source for source in modules if PurePosixPath(source.path).name == name]
    return not modules or any(_SWITCH.search(source.text) for source in here)


def _of_unknown(reading: Reading, name: str) -> Reading:
    """The arguments of a program that is not here and none of Megatron's: how it builds the model of one stage, it
    knows alone.
    """
    claimed = {claim.setting: claim.value for claim in reading.claims}
    stages = claimed.get("parallel.pipeline")
    if reading.framework != "megatron-deepspeed" or _ENGINE in claimed or not _is(stages, 1):
        return reading
    return reading._replace(claims=(*reading.claims, *_unknown_engine(name).claims))


def _unknown_engine(name: str) -> Reading:
    reason = f"whether {name or 'the program'} builds a pipeline of one stage is not known"
    return Reading("program", claims=(Claim(_ENGINE, Unknown(reason, f"--set {_ENGINE}=...")),))


def _without_engine(reading: Reading) -> Reading:
    """A reading without what only DeepSpeed's engine would do."""
    if reading.layer == CONFIG:
        return Reading("program", open=reading.open)
    if reading.layer != _ARGUMENTS:
        return reading
    stage = next((claim for claim in reading.claims if claim.setting == _STAGE), None)
    kept = (claim for claim in reading.claims if claim.setting not in (_STAGE, _ENGINE))
    engine = Claim(_ENGINE, default(False, "Megatron-DeepSpeed without --deepspeed"))
    inert = () if stage is not None and not _is_below_3(stage) else tuple(_inert(reading))
    collections = {**reading.collections, _INERT: (*reading.collections.get(_INERT, ()), *inert)}
    return reading._replace(claims=(*kept, engine), collections=collections)


def _inert(reading: Reading) -> Iterator[Member]:
    """The config that nothing reads; under --zero-stage 3 the model is built by it all the same."""
    reason = "Megatron-DeepSpeed starts DeepSpeed's engine only beside --deepspeed"
    for member in reading.collections[SWITCHED_OFF]:
        fields = texts(member.place, section="Megatron-DeepSpeed", setting="", reason=reason, matters="yes")
        yield member._replace(fields={**member.fields, **fields})


def _is_below_3(stage: Claim) -> bool:
    return isinstance(stage.value, Value) and isinstance(stage.value.value, int) and stage.value.value < _WHOLE


def _is(setting: object, wanted: object) -> bool:
    return isinstance(setting, Value) and setting.value == wanted
