"""Arguments that LLaMA-Factory refuses: names that it does not have, and ways of tuning that exclude each other.

llamafactory 0.9.5 hparams/parser.py and finetuning_args.py; a file is refused for a name that no dataclass has, as a
command line is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.catalog.llama_factory_arguments import llama_factory_arguments
from dtlint.catalog.training_arguments import TrainingArgument, training_arguments
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import meant, texts
from dtlint.frameworks.flag_list import Flags
from dtlint.frameworks.options import Option
from dtlint.frameworks.transformers.faults import expected_of
from dtlint.languages.traced import setting_of
from dtlint.value import written

_KINDS = ("lora", "oft", "freeze", "full")
_OF_LORA = ("use-dora", "use-rslora", "pissa-init")
"""Switches that only adapters have."""
_OPTIMIZERS = ("use-galore", "use-apollo", "use-badam")
"""Switches of optimizers that project the gradients of whole weights; one at a time."""
_NOT_AT_STAGE_3 = ("pure-bf16", "pissa-init", "use-unsloth")

Members = tuple[Member, ...]


def faults(flags: Flags) -> Mapping[str, Members]:
    """Members of `config.unknown`, `config.invalid`, `config.refused`, and `trainer.not_at_stage_3`: switches that are
    refused under ZeRO-3.
    """
    return {
        "config.unknown": tuple(_misspelt(flags)),
        "config.invalid": tuple(_kind(flags)),
        "config.refused": (*_of_adapters(flags), *_whole_weights(flags), *_streaming(flags)),
        "trainer.not_at_stage_3": tuple(_whole_models(flags)),
    }


def typed(flags: Flags) -> Iterator[Member]:
    """Members of `config.invalid` for values of a command line, which its parser converts; those of a file are taken as
    they are.
    """
    for name, option in flags.flags.items():
        field = training_arguments().get(name.replace("-", "_")) or _own(name)
        text = option.value.text if option.value is not None else None
        wanted = expected_of(field, text) if field is not None and text is not None else ""
        if wanted and name != "finetuning-type":
            yield _invalid(option, wanted)


def _own(name: str) -> TrainingArgument | None:
    takes = llama_factory_arguments().get(name.replace("-", "_"))
    if takes is None:
        return None
    words = tuple(takes.split("|")) if "|" in takes else ()
    return TrainingArgument(name, "" if words else takes, words, "")


def _misspelt(flags: Flags) -> Iterator[Member]:
    """A name that differs by a letter or two from one that it has; other releases and forks have others."""
    names = [name.replace("_", "-") for name in (*training_arguments(), *llama_factory_arguments())]
    for name, option in flags.flags.items():
        if name in names or name.removeprefix("no-") in names:
            continue
        near = meant(name, names)
        if near is not None:
            told = {"key": option.spelled, "section": "LLaMA-Factory", "suggestion": near.replace("-", "_")}
            yield Member(option.place, texts(option.place, **told, effect="refused", belongs="", since="0"))


def _kind(flags: Flags) -> Iterator[Member]:
    option = flags.flags.get("finetuning-type")
    text = option.value.text if option is not None and option.value is not None else None
    if option is not None and text is not None and text not in _KINDS:
        yield _invalid(option, "one of " + ", ".join(_KINDS))


def _tuned(flags: Flags) -> str:
    """How the model is tuned, by adapters where nothing is said; "" where it is not known."""
    word = flags.word("finetuning-type") if "finetuning-type" in flags.flags else "lora"
    return word if word in _KINDS else ""


def _of_adapters(flags: Flags) -> Iterator[Member]:
    """What only adapters have, in a run that trains weights of the model."""
    kind = flags.flags.get("finetuning-type")
    tuned = _tuned(flags)
    bits, ratio = flags.flags.get("quantization-bit"), flags.flags.get("loraplus-lr-ratio")
    if kind is not None and tuned in ("full", "freeze", "oft"):
        partner = f"{kind.spelled} {tuned}"
        for name in _OF_LORA:
            if flags.on(name):
                yield _beside(flags.flags[name], partner, kind, "only LoRA has it")
        if ratio is not None:
            yield _beside(ratio, partner, kind, "only LoRA has it")
        if bits is not None and tuned != "oft":
            yield _beside(bits, partner, kind, "quantized weights do not train, adapters on them do")
    if bits is not None and flags.on("pissa-init"):
        yield _beside(flags.flags["pissa-init"], bits.spelled, bits, "PiSSA starts from the weights as they are")


def _whole_weights(flags: Flags) -> Iterator[Member]:
    """Optimizers on projected gradients: beside adapters, DeepSpeed, and each other."""
    given = [flags.flags[name] for name in _OPTIMIZERS if flags.on(name)]
    deepspeed = flags.flags.get("deepspeed")
    for option in given:
        if _tuned(flags) == "lora":
            kind = flags.flags.get("finetuning-type", option)
            yield _beside(option, "LoRA", kind, "it projects the gradients of whole weights")
        elif option is not given[0]:
            yield _beside(option, given[0].spelled, given[0], "one optimizer trains the model")
        elif deepspeed is not None and deepspeed.value is not None and option.name != "use-badam":
            yield _beside(option, deepspeed.spelled, deepspeed, "DeepSpeed hands it slices of the gradients")


def _streaming(flags: Flags) -> Iterator[Member]:
    steps = flags.flags.get("max-steps")
    if flags.on("streaming") and flags.on("do-train") and (steps is None or flags.word("max-steps") == "-1"):
        option = flags.flags["streaming"]
        reason = "a stream does not tell how many steps there are"
        told = {"key": option.spelled, "relation": "needs", "partner": "max_steps", "reason": reason, "since": ""}
        yield Member(option.place, texts(option.place, **told))


def _whole_models(flags: Flags) -> Iterator[Member]:
    for name in _NOT_AT_STAGE_3:
        if flags.on(name):
            yield _invalid(flags.flags[name], "false under ZeRO-3")


def _invalid(option: Option, expected: str) -> Member:
    fields = texts(option.place, key=option.spelled, section="LLaMA-Factory", expected=expected, effect="refused")
    told = setting_of(option.value) if option.value is not None else written(True, option.place)
    return Member(option.place, {**fields, "value": told})


def _beside(option: Option, partner: str, other: Option, reason: str) -> Member:
    fields = texts(option.place, key=option.spelled, relation="excludes", partner=partner, reason=reason, since="")
    return Member(option.place, fields, ((other.place, "given here"),))
