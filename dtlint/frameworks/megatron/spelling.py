"""How a user writes a setting on Megatron's command line."""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.frameworks.megatron.known import known_flag
from dtlint.frameworks.megatron.meanings import MEANINGS, PREFERRED, SPELLINGS, Meaning
from dtlint.frameworks.megatron.swift import INTEGERS
from dtlint.frameworks.options import canonical
from dtlint.value import Plain, Value

_LAYERS_OF_CHUNK = "--num-layers-per-virtual-pipeline-stage"
_DEEPSPEED = {
    "parallel.expert": "--moe-expert-parallel-size {}",
    "model.experts_per_token": "--topk {}",
    "model.kv_heads": "--num-key-value-heads {}",
    "sharding.stage": "",
}
_DEEPSPEED_RECOMPUTATION = "--checkpoint-activations --deepspeed-activation-checkpointing"


def spell_as_stated(reading: Reading, setting: str, value: Plain) -> str | None:
    """A setting by the flag that states it in a command line, where that is another than the usual one."""
    claim = next((each for each in reading.claims if each.setting == setting and isinstance(each.value, Value)), None)
    if claim is None:
        return None
    if claim.name == _LAYERS_OF_CHUNK:
        return _chunk(reading, value)
    name = canonical(claim.name)
    meaning = MEANINGS.get(name)
    counted = meaning is not None and meaning.setting == setting and meaning.kind in ("integer", "number")
    return f"{claim.name} {_written(meaning, value)}" if counted or INTEGERS.get(name) == setting else None


def _chunk(reading: Reading, chunks: Plain) -> str | None:
    """The layers of a chunk, where the layers of a stage are known and make so many chunks."""
    known = {each.setting: each.value.value for each in reading.claims if isinstance(each.value, Value)}
    layers, stages = known.get("model.layers"), known.get("parallel.pipeline")
    if not isinstance(layers, int) or not isinstance(stages, int) or not isinstance(chunks, int):
        return None
    whole = stages > 0 and chunks > 0 and layers % (stages * chunks) == 0
    return f"{_LAYERS_OF_CHUNK} {layers // stages // chunks}" if whole else None


def spell(setting: str, value: Plain, framework: str = "megatron") -> str | None:
    """The flags for a setting; None if there is none for the setting or the value.

    `framework` "megatron-deepspeed": only flags that its parser has (its ZeRO stage stands in the DeepSpeed JSON).
    """
    if framework != "megatron-deepspeed":
        return _spell(setting, value)
    if (setting, value) == ("checkpointing.activations", "full"):
        return _DEEPSPEED_RECOMPUTATION
    if setting in _DEEPSPEED:
        return _DEEPSPEED[setting].format(value) or None
    spelled = _spell(setting, value)
    return spelled if spelled is not None and _known_to_deepspeed(spelled) else None


def _spell(setting: str, value: Plain) -> str | None:
    if (setting, value) in SPELLINGS:
        return SPELLINGS[setting, value]
    preferred = PREFERRED.get(setting)
    if preferred == "":
        return "--no-overlap-p2p-communication" if (setting, value) == ("overlap.pipeline", False) else None
    flag = preferred or next((name for name in MEANINGS if _writes(MEANINGS[name], setting, value)), None)
    if flag is None:
        return None
    meaning = MEANINGS.get(flag)
    return f"--{flag}" if meaning is not None and meaning.kind == "fixed" else f"--{flag} {_written(meaning, value)}"


def _known_to_deepspeed(spelled: str) -> bool:
    rows = [known_flag(word) for word in spelled.split() if word.startswith("--")]
    return all(row is not None and row.deepspeed for row in rows)


def _writes(meaning: Meaning, setting: str, value: Plain) -> bool:
    if meaning.setting != setting or (meaning.words and value not in meaning.words):
        return False
    return meaning.kind != "fixed" or meaning.value == value


def _written(meaning: Meaning | None, value: Plain) -> str:
    scaled = value / meaning.scale if meaning is not None and isinstance(value, (int, float)) else value
    return f"{scaled:g}" if isinstance(scaled, float) and scaled != int(scaled) else str(_whole(scaled))


def _whole(value: Plain) -> Plain:
    return int(value) if isinstance(value, float) else value
