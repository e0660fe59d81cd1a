"""verl's trainers for fine-tuning, which torchrun starts: their hydra arguments.

verl 0.7 (b178a3c) verl/trainer/fsdp_sft_trainer.py and its successor sft_trainer.py, with the configs sft_trainer.yaml
and sft_trainer_engine.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import format_name, number, whole_number
from dtlint.frameworks.dotted_keys import Keys, without_part
from dtlint.frameworks.hydra.command_line import overrides
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import ON, Meaning, claims_of, hidden, keys_of, model_named, spelled
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.verl.workers import ENGINE, layout_claims, packed_samples
from dtlint.languages.json_tree import Document, setting
from dtlint.languages.traced import Word
from dtlint.value import Plain, Unknown, Value, default

LAYER = "verl-sft"

_OLD, _NEW = "fsdp_sft_trainer", "sft_trainer"
_HYDRAS = ("--config-", "--multirun", "--cfg", "--package", "--run", "--info", "--resolve")
"""What the options of hydra's command line begin with."""
_SHIPPED = ("sft_trainer", "sft_trainer_engine")
"""The configs that verl brings."""

_TABLE = {
    "data.train_batch_size": Meaning("batch.global"),
    "data.micro_batch_size_per_gpu": Meaning("batch.micro"),
    "ulysses_sequence_parallel_size": Meaning("parallel.ulysses"),
    "optim.clip_grad": Meaning("optimizer.clip", number),
    "model.enable_gradient_checkpointing": Meaning(
        "checkpointing.activations", words={"true": "full", "false": "none"}
    ),
    "model.lora_rank": Meaning("model.lora_rank"),
    "model.fsdp_config.model_dtype": Meaning("precision.master", format_name),
    "model.use_liger": Meaning("model.fused_loss", words=ON),
}
_UNWRITTEN: dict[str, tuple[str, Plain]] = {
    "data.train_batch_size": ("batch.global", 256),
    "data.micro_batch_size_per_gpu": ("batch.micro", 4),
}
"""What sft_trainer.yaml has for them."""


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is one of verl's trainers for fine-tuning. Other trainers are called sft_trainer.py too: verl's
    is a module of verl, or is told what hydra takes.
    """
    if _name(program) != _NEW:
        return _name(program) == _OLD
    options = [word.shown for word in program[1:] if word.shown.startswith("--")]
    overridden = any("=" in word.shown for word in program[1:])
    return "verl" in program[0].shown or (overridden and all(each.startswith(_HYDRAS) for each in options))


def read_program(program: Sequence[Word]) -> Reading:
    """The program, whose config its command line or its decorator names."""
    return Reading("program", program[0].place, files=(NamedFile("verl_sft", program[0]),), frontend="verl")


def read_composed(document: Document | None, program: Sequence[Word], missing: Sequence[str]) -> Reading:
    """What hydra's config claims with the overrides of the command line; verl's own config stands behind it."""
    roots = [] if document is None else [document.root]
    keys = resolved(keys_of(roots, program[1:], given=overrides))
    old = _name(program) == _OLD
    framework = "fsdp" if old or keys.known("engine") != "megatron" else "megatron"
    named, files = model_named(keys, "model.partial_pretrain" if old else "model.path")
    own = (*claims_of(keys, _TABLE), *_absent(keys), *_offload(keys)) if old else _newer(keys, framework)
    place = stretch(program[1:], program[0].place)
    claims = (*own, *_length(keys), *named)
    why = hidden(roots, program[1:])
    reading = Reading(LAYER, place, claims, files, framework=framework, frontend="verl", open=why)
    lost = next((name for name in missing if PurePosixPath(name).name.removesuffix(".yaml") not in _SHIPPED), "")
    return without_part(reading, lost) if lost else reading


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`data.train_batch_size=256`)."""
    found = spelled(_TABLE, setting_name, value)
    return None if found is None else "=".join(found)


def _absent(keys: Keys) -> Iterator[Claim]:
    """Batches that are not written; what does not divide is refused here, unlike in verl's other trainers."""
    yield Claim("batch.remainder", default("refused", "verl"))
    for path, (name, value) in _UNWRITTEN.items():
        if keys.node(path) is None:
            yield Claim(name, default(value, "verl"), path)


def _newer(keys: Keys, framework: str) -> tuple[Claim, ...]:
    """Samples are packed, unless use_dynamic_bsz is off; of the batch each rank takes the whole part."""
    switch = keys.node("data.use_dynamic_bsz")
    whole = switch is not None and str(switch.value).lower() == "false"
    batch = {
        path: meaning for path, meaning in _TABLE.items() if path.startswith("data.") and (whole or "micro" not in path)
    }
    unknown = Unknown("samples are packed up to a number of tokens", "--set batch.micro=N")
    names = () if whole else ("batch.micro", "batch.accumulation")
    hidden = [
        Claim(name, packed_samples(switch, name) if switch else unknown, "data.use_dynamic_bsz") for name in names
    ]
    absent = () if keys.node("data.train_batch_size") is not None else (Claim("batch.global", default(256, "verl")),)
    return (*claims_of(keys, batch), *absent, *hidden, *layout_claims(keys, ENGINE, framework))


def _name(program: Sequence[Word]) -> str:
    """The last part of a program's name, be it a module's or a script's."""
    text = (program[0].text or "") if program else ""
    return text.removesuffix(".py").replace("/", ".").rpartition(".")[2]


def _length(keys: Keys) -> Iterator[Claim]:
    node = keys.node("data.max_length")
    value = None if node is None else whole_number(node)
    if isinstance(value, Value):
        yield Claim("data.sequence_length", at_most(value), "data.max_length")


def _offload(keys: Keys) -> Iterator[Claim]:
    """Offloading takes both switches."""
    on, parameters = keys.node("model.fsdp_config.cpu_offload"), keys.known("model.fsdp_config.offload_params")
    if on is not None and on.value is True and parameters is True:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(on, "cpu"), "model.fsdp_config.cpu_offload")
