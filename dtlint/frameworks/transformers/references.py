"""Which model answers for the reference in LLaMA-Factory and ms-swift, by their arguments: a copy beside the one that
trains, or that one without its adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from dtlint.frameworks import Claim
from dtlint.frameworks.flag_list import Flags, switch
from dtlint.frameworks.options import Option, number
from dtlint.frameworks.reference_model import REFERENCE, unknown_reference
from dtlint.frameworks.transformers.adapters import KINDS, MODELS
from dtlint.languages.traced import Word, setting_of

_TRL_SCRIPTS = "trl/scripts/"
"""TRL's own scripts keep the reference model whether it answers beforehand or not (trl/scripts/dpo.py)."""
_WITHOUT_REFERENCE = ("orpo", "simpo")
"""Losses of `pref_loss` that compare with no other model (llamafactory 0.9.1 and 0.9.5 hparams/finetuning_args.py)."""
_BY_ADAPTERS = ("", "lora")
_RLHF: Mapping[str, str] = {
    "dpo": "adapters-off",
    "kto": "adapters-off",
    "grpo": "by-weight",
    "ppo": "further",
    "orpo": "none",
    "simpo": "none",
    "cpo": "none",
    "rm": "none",
}
"""What ms-swift keeps by `rlhf_type`: where the whole model trains it loads `ref_model`, else the model itself, once
more (swift/llm/argument/rlhf_args.py of 3.8.0 and swift/arguments/rlhf_args.py of 4.6.0)."""


def reference_claims(flags: Flags, script: Word, frontend: str) -> Iterator[Claim]:
    """The reference model of the front end, the weight of the distance from it, and whether TRL has it answer before
    training begins.
    """
    found = _of_front_end(flags, script, frontend)
    if found is not None:
        yield found
    weight, beforehand = flags.flags.get("beta"), flags.flags.get("precompute-ref-log-probs")
    if weight is not None:
        yield Claim("model.reference_weight", number(weight.value), weight.spelled)
    if beforehand is not None and not script.shown.startswith(_TRL_SCRIPTS):
        yield Claim("model.reference_precomputed", switch(beforehand), beforehand.spelled)


def _of_front_end(flags: Flags, script: Word, frontend: str) -> Claim | None:
    if frontend == "llama-factory":
        return _llama_factory(flags)
    is_rlhf = PurePosixPath(script.shown).name in ("rlhf", "rlhf.py")
    return _swift(flags, script) if frontend == "ms-swift" and is_rlhf else None


def _llama_factory(flags: Flags) -> Claim | None:
    """By the stage of training (train/dpo, kto and ppo/workflow.py of llamafactory 0.9.1 and 0.9.5)."""
    stage, loss = flags.flags.get("stage"), flags.flags.get("pref-loss")
    if stage is None or stage.value is None:
        return None
    if stage.value.text is None:
        return Claim(REFERENCE, unknown_reference("the stage of training is not known", stage.place), stage.spelled)
    name = stage.value.text
    if name == "dpo" and loss is not None and loss.value is not None:
        if loss.value.text is None:
            return Claim(REFERENCE, unknown_reference("the loss is not known", loss.place), loss.spelled)
        if loss.value.text in _WITHOUT_REFERENCE:
            return Claim(REFERENCE, setting_of(loss.value, "none"), loss.spelled)
    if name == "ppo" and flags.word("reward-model-type") == "full":
        return Claim(REFERENCE, setting_of(stage.value, "further"), stage.spelled)
    return _of_itself(flags, stage) if name in ("dpo", "kto", "ppo") else None


def _of_itself(flags: Flags, saying: Option) -> Claim:
    """create_ref_model of LLaMA-Factory (train/trainer_utils.py): `ref_model`, or but for LoRA the model once more."""
    told, kind = flags.flags.get("ref-model"), flags.first(KINDS)
    if told is not None:
        return _named(flags, told)
    assert saying.value is not None
    text = kind.value.text if kind is not None and kind.value is not None else ""
    kept = "adapters-off" if text is None or text in _BY_ADAPTERS else "copy"
    return Claim(REFERENCE, setting_of(saying.value, kept), saying.spelled)


def _swift(flags: Flags, script: Word) -> Claim | None:
    kind, told = flags.flags.get("rlhf-type"), flags.flags.get("ref-model")
    name = kind.value.text if kind is not None and kind.value is not None else "dpo"
    word = kind.value if kind is not None and kind.value is not None else script
    spelled = kind.spelled if kind is not None else word.shown
    kept = _RLHF.get(name) if name is not None else None
    if kept is None:
        why = f"which models {name or 'it'} keeps beside the one that trains is not known"
        return Claim(REFERENCE, unknown_reference(why, word.place), spelled)
    if told is not None and kept == "adapters-off":
        return _named(flags, told)
    return Claim(REFERENCE, setting_of(word, kept), spelled)


def _named(flags: Flags, told: Option) -> Claim:
    """A reference model by its name: a copy where that is the model's own."""
    own = flags.first(MODELS)
    if told.value is None or own is None or own.value is None or told.value.shown != own.value.shown:
        return Claim(
            REFERENCE,
            unknown_reference("the reference model is another than the one that trains", told.place),
            told.spelled,
        )
    return Claim(REFERENCE, setting_of(told.value, "copy"), told.spelled)
