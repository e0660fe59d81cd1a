"""Hugging Face's Trainer and the programs on top of it: what their command line says about the plan.

TrainingArguments (transformers 4.x and 5.24), and the arguments that TRL, LLaMA-Factory and ms-swift add to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.answering import of_flags
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.flag_list import Flags, names_of, read_flags, switch
from dtlint.frameworks.llama_factory import faults as llama_factory_faults
from dtlint.frameworks.options import Option, bound, integer, number, text_of
from dtlint.frameworks.transformers.adapters import QUANTIZERS, SWITCHES, adapter_claims
from dtlint.frameworks.transformers.checkpointing import caches, checkpointing_claims
from dtlint.frameworks.transformers.faults import faults, full_names, without_beginnings
from dtlint.frameworks.transformers.fsdp import fsdp_claims, is_fsdp
from dtlint.frameworks.transformers.references import reference_claims
from dtlint.frameworks.transformers.spelling import spell
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Plain, Setting, Unknown, Value

__all__ = ["frontend_of", "read_arguments", "recognise", "spell"]

LAYER = "transformers-arguments"

_TELLING = frozenset(
    (
        "bf16", "fp16", "tf32", "do-train", "fsdp", "fsdp-config", "optim", "save-strategy", "save-total-limit",
        "eval-strategy", "evaluation-strategy", "logging-strategy", "report-to", "warmup-ratio", "max-grad-norm",
        "ddp-timeout", "ddp-find-unused-parameters", "ddp-bucket-cap-mb", "overwrite-output-dir", "finetuning-type",
        "dataloader-num-workers", "logging-steps", "remove-unused-columns", "group-by-length", "bf16-full-eval",
        "tuner-type", "train-type", "sft-type",
    )
)  # fmt: skip
"""Arguments that the Trainer has and programs with a loop of their own rarely name so."""
_USUAL = frozenset(
    (
        "per-device-train-batch-size", "per-gpu-train-batch-size", "output-dir", "num-train-epochs", "learning-rate",
        "gradient-accumulation-steps", "model-name-or-path", "gradient-checkpointing", "deepspeed", "max-steps",
        "lr-scheduler-type", "per-device-eval-batch-size", "weight-decay", "save-steps", "eval-steps", "run-name",
    )
)  # fmt: skip
_OTHERS = frozenset(
    (
        "zero-stage", "deepspeed-config", "micro-batch-size", "tensor-model-parallel-size", "with-tracking",
        "mixed-precision",
    )
)  # fmt: skip
"""Arguments of programs with a loop of their own: the names of DeepSpeed-Chat, Accelerate's examples and Megatron."""
_OWN_BATCHES = frozenset(("batch-size", "train-batch-size"))
"""Names of the batch in programs with a loop of their own; beside the Trainer's name they may be something else."""
_BATCHES = frozenset(("per-device-train-batch-size", "per-gpu-train-batch-size"))

_SWITCHES = frozenset(
    (
        "bf16", "fp16", "tf32", "do-train", "do-eval", "do-predict", "gradient-checkpointing", "pure-bf16",
        "activation-checkpointing", "overwrite-output-dir", "overwrite-cache", "disable-gradient-checkpointing",
        "auto-find-batch-size", "dataloader-drop-last", "use-reentrant-gc", "use-liger-kernel", "use-liger",
        "enable-liger-kernel", "use-vllm", "precompute-ref-log-probs",
        *SWITCHES, *QUANTIZERS,
    )
)  # fmt: skip

_SETTINGS: Mapping[str, tuple[str, Callable[[Option], Setting]]] = {
    "per-device-train-batch-size": ("batch.micro", lambda option: integer(option.value)),
    "per-gpu-train-batch-size": ("batch.micro", lambda option: integer(option.value)),
    "gradient-accumulation-steps": ("batch.accumulation", lambda option: integer(option.value)),
    "max-grad-norm": ("optimizer.clip", lambda option: number(option.value)),
    "optim": ("optimizer.name", lambda option: text_of(option.value)),
    "ddp-timeout": ("launch.timeout_seconds", lambda option: number(option.value)),
    "ddp-find-unused-parameters": ("communication.find_unused", switch),
    "dataloader-drop-last": ("data.drop_last", switch),
    "use-liger-kernel": ("model.fused_loss", switch),
    "use-liger": ("model.fused_loss", switch),
    "enable-liger-kernel": ("model.fused_loss", switch),
    "sequence-parallel-size": ("parallel.ulysses", lambda option: integer(option.value)),
}
_LENGTHS = ("model-max-length", "cutoff-len", "max-seq-length", "max-seq-len", "max-length", "block-size", "seq-length")
"""Arguments for the longest sample, of which programs have one or the other."""
_IMAGES = re.compile(r"(^|-)(vision|image|images|video|audio|mm|dynamic-image-size|force-image-size)(-|$)")
"""Arguments of programs that train on more than text."""
_OPTIMIZERS = {f"use-{name}": name for name in ("galore", "apollo", "badam", "muon", "adam-mini")}
REPEATED = (
    "learning-rate", "weight-decay", "adam-epsilon", "adam-beta1", "adam-beta2", "warmup-steps", "warmup-ratio",
    "max-steps",
)  # fmt: skip
"""Arguments of numbers that no setting of the plan holds whole and a DeepSpeed config may repeat."""
FORMATS = ("bf16", "fp16", "bf16-full-eval", "fp16-full-eval")
"""Switches of the formats that a DeepSpeed config turns on too."""
_MIB = 1 << 20

_DTYPES: Mapping[str, Plain] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_TASKS = ("pt", "sft", "rlhf")
_LORA_RANKS = {"llama-factory": 8, "ms-swift": 8}
"""The rank where none is given: lora_rank of llamafactory 0.9.5 hparams and of swift/arguments."""


def recognise(program: Sequence[Word]) -> bool:
    """Whether a program (its script and arguments) reads TrainingArguments from its command line."""
    names = set(names_of(program[1:]))
    others = names & _OTHERS or (names & _OWN_BATCHES and not names & _BATCHES)
    return bool(program) and not others and tells(program)


def tells(program: Sequence[Word]) -> bool:
    """Whether the arguments are those of the Trainer, be it beside others; a config for DeepSpeed alone goes to other
    loops too.
    """
    names = set(names_of(program[1:]))
    file = _names_file(program, "--deepspeed")
    telling = len(names & _TELLING) + file
    return telling >= 1 and telling + len(names & _USUAL) - file >= 2


def read_arguments(program: Sequence[Word]) -> Reading:
    """What the arguments of a Trainer's program claim. Of a flag that is given twice the last counts, and the beginning
    of a name stands for it.
    """
    flags = full_names(read_flags(program[1:], _SWITCHES))
    found = _reading(program, flags)
    typed = tuple(llama_factory_faults.typed(flags)) if found.frontend == "llama-factory" else ()
    invalid = {"config.invalid": (*found.collections.get("config.invalid", ()), *typed)} if typed else {}
    return found._replace(collections={**without_beginnings(found.collections), **invalid})


def read_entries(program: Sequence[Word]) -> Reading:
    """What a file of arguments claims, its entries as the words of a command line."""
    return _reading(program, read_flags(program[1:], _SWITCHES))


def _reading(program: Sequence[Word], flags: Flags) -> Reading:
    words, place = program[1:], program[0].place
    frontend = frontend_of(program[0], flags)
    claims = [
        *_plain_claims(flags),
        *_batch(flags),
        *_group(flags, frontend),
        *_engine(flags),
        *_precision(flags),
        *checkpointing_claims(flags),
        *_optimizer(flags),
        *_buckets(flags),
        *fsdp_claims(flags),
        *adapter_claims(flags, program[0], _LORA_RANKS.get(frontend, 0)),
        *reference_claims(flags, program[0], frontend),
    ]
    return Reading(
        LAYER,
        stretch(words, place),
        tuple({claim.setting: claim for claim in claims}.values()),
        files=tuple(_files(flags)),
        framework=_framework(flags),
        frontend=frontend,
        open=flags.open or _elsewhere(flags),
        role="other" if flags.on("do-predict") and flags.on("do-train") is False else "",
        collections={**_numbers(flags), **caches(flags), **of_flags(flags), **_faults(flags, frontend)},
    )


def _elsewhere(flags: Flags) -> str:
    """Why arguments are hidden where DeepSpeed's config is the only one: no Trainer runs without an output folder."""
    alone = bool(flags.flags) and flags.flags.keys() <= {"deepspeed", "local-rank"}
    return "the program takes its other arguments from elsewhere" if alone else ""


def _faults(flags: Flags, frontend: str) -> Mapping[str, tuple[Member, ...]]:
    """What the Trainer refuses, and what LLaMA-Factory does beside it."""
    trainer, own = faults(flags), llama_factory_faults.faults(flags) if frontend == "llama-factory" else {}
    found = {name: (*trainer.get(name, ()), *own.get(name, ())) for name in {**trainer, **own}}
    return {name: members for name, members in found.items() if members}


def frontend_of(script: Word, flags: Flags) -> str:
    """The front end whose defaults hold for a program: that of LLaMA-Factory, ms-swift, or the Trainer itself."""
    name = PurePosixPath(script.shown).name
    if name in _TASKS or "swift/cli/" in script.shown:
        return "ms-swift"
    own = flags.flags.keys() & {"stage", "cutoff-len", "template", "dataset-dir"}
    if name == "train_bash.py" or ("finetuning-type" in flags.flags and own):
        return "llama-factory"
    return "transformers"


def _names_file(program: Sequence[Word], flag: str) -> bool:
    """Whether a flag is followed by a word that is no flag."""
    for index, word in enumerate(program[:-1]):
        if word.shown == flag and not program[index + 1].shown.startswith("-"):
            return True
    return any(word.shown.startswith(f"{flag}=") for word in program)


def _framework(flags: Flags) -> str:
    """Who carries out the plan; without a config the Trainer wraps the model in DDP, which follows from the launch."""
    option = flags.flags.get("deepspeed")
    if option is not None and option.value is not None:
        return "deepspeed"
    return "fsdp" if is_fsdp(flags) else ""


def _plain_claims(flags: Flags) -> Iterator[Claim]:
    for name, (setting, read) in _SETTINGS.items():
        option = flags.flags.get(name)
        if option is not None:
            yield Claim(setting, read(option), option.spelled)
    length = flags.first(_LENGTHS)
    if length is not None:
        yield Claim("data.sequence_length", _length(flags, length), length.spelled)
    steps = flags.flags.get("max-steps")
    value = integer(steps.value) if steps is not None else None
    if steps is not None and isinstance(value, Value) and isinstance(value.value, int) and value.value > 0:
        yield Claim("run.steps", value, steps.spelled)


def _length(flags: Flags, option: Option) -> Setting:
    """The longest sample. Of images with a caption most are far shorter, and ms-swift (--max_length) cuts what is
    longer where it does not pack.
    """
    shorter = any(_IMAGES.search(name) for name in flags.flags) or option.name == "max-length"
    return bound(option.value) if shorter and not flags.on("packing") else integer(option.value)


def _batch(flags: Flags) -> Iterator[Claim]:
    if "auto-find-batch-size" in flags.flags and flags.on("auto-find-batch-size") is not False:
        reason = "auto_find_batch_size lowers it until it fits"
        origin = Origin("written", flags.flags["auto-find-batch-size"].place)
        yield Claim("batch.micro", Unknown(reason, "--set batch.micro=N", origin), "--auto_find_batch_size")


def _group(flags: Flags, frontend: str) -> Iterator[Claim]:
    """The answers to one prompt, of which TRL wants whole groups: from 0.15 on in one micro-batch of all ranks, in
    later releases in those of a step (trl 1.16.0 trainer/grpo_config.py, __post_init__), or of as many as is written.
    """
    option = flags.flags.get("num-generations")
    if option is None or frontend != "transformers":
        return
    other = flags.first(("generation-batch-size", "steps-per-generation"))
    if other is None:
        yield Claim("batch.group", integer(option.value), option.spelled)
    else:
        reason = f"{other.spelled} says how many answers are there at a time"
        yield Claim("batch.group", Unknown(reason, "", Origin("written", other.place)), option.spelled)


def _engine(flags: Flags) -> Iterator[Claim]:
    """vLLM on the GPUs of the trainer, which its degree has to divide (trl 0.23 and ms-swift 3.8, grpo_trainer.py)."""
    mode, degree = flags.flags.get("vllm-mode"), flags.flags.get("vllm-tensor-parallel-size")
    if mode is None or mode.value is None or degree is None or not flags.on("use-vllm"):
        return
    if mode.value.text == "colocate":
        yield Claim("parallel.rollout", integer(degree.value), degree.spelled)
        yield Claim("parallel.rollout_shares", setting_of(mode.value, True), mode.spelled)


def _precision(flags: Flags) -> Iterator[Claim]:
    """The format of the matrix products; --pure_bf16 keeps the weights in it too."""
    pure = flags.flags.get("pure-bf16")
    if pure is not None and flags.on("pure-bf16"):
        yield Claim("precision.compute", setting_of(pure.flag, "bf16"), pure.spelled)
        yield Claim("precision.master", setting_of(pure.flag, "none"), pure.spelled)
        return
    given = [(name, flags.flags[name]) for name in ("bf16", "fp16") if name in flags.flags]
    for name, option in given:
        value = switch(option)
        if not isinstance(value, Value) or value.value:
            yield _compute(option, value, name)
            return
    if len(given) == 2:
        yield _compute(given[0][1], switch(given[0][1]), "fp32")
    elif "torch-dtype" in flags.flags and flags.word("torch-dtype") in _DTYPES:
        option = flags.flags["torch-dtype"]
        assert option.value is not None
        yield Claim("precision.compute", setting_of(option.value, _DTYPES[flags.word("torch-dtype")]), option.spelled)


def _compute(option: Option, value: Setting, name: str) -> Claim:
    return Claim("precision.compute", value._replace(value=name) if isinstance(value, Value) else value, option.spelled)


def _optimizer(flags: Flags) -> Iterator[Claim]:
    """Optimizers of LLaMA-Factory that a switch of their own turns on."""
    for name, optimizer in _OPTIMIZERS.items():
        if name in flags.flags and flags.on(name):
            yield Claim("optimizer.name", setting_of(flags.flags[name].flag, optimizer), flags.flags[name].spelled)


def _buckets(flags: Flags) -> Iterator[Claim]:
    option = flags.flags.get("ddp-bucket-cap-mb")
    value = number(option.value) if option is not None else None
    if option is None or value is None:
        return
    if isinstance(value, Value) and isinstance(value.value, (int, float)):
        value = value._replace(value=int(value.value * _MIB))
    yield Claim("communication.bucket_bytes", value, option.spelled)


def _numbers(flags: Flags) -> Mapping[str, tuple[Member, ...]]:
    """What no setting of the plan holds and a DeepSpeed config may repeat: `name`, `value` (perhaps unknown)."""
    given = [(option, number(option.value)) for name in REPEATED if (option := flags.flags.get(name)) is not None]
    given += [(option, switch(option)) for name in FORMATS if (option := flags.flags.get(name)) is not None]
    members = tuple(
        Member(option.place, {**texts(option.place, name=option.name), "value": value}) for option, value in given
    )
    return {"config.arguments": members} if members else {}


def _files(flags: Flags) -> Iterator[NamedFile]:
    option = flags.flags.get("fsdp-config")
    if option is not None and option.value is not None and is_fsdp(flags):
        yield NamedFile("fsdp", option.value)
