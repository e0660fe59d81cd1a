"""verl's trainer for fine-tuning, `verl.trainer.fsdp_sft_trainer`, which torchrun starts: its hydra arguments.

verl 0.7 (b178a3c) verl/trainer/config/sft_trainer.yaml and verl/trainer/fsdp_sft_trainer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed_values import format_name, number, whole_number
from dtlint.frameworks.keys import Keys, Meaning, claims_of, keys_of, model_named, spelled
from dtlint.languages.json_tree import setting
from dtlint.languages.traced import Word
from dtlint.value import Plain, Value, default

LAYER = "verl-sft"

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
    "model.use_liger": Meaning("model.fused_loss", words={"true": True}),
}
_UNWRITTEN: dict[str, tuple[str, Plain]] = {
    "data.train_batch_size": ("batch.global", 256),
    "data.micro_batch_size_per_gpu": ("batch.micro", 4),
}
"""What sft_trainer.yaml has for them."""


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is verl's trainer for fine-tuning."""
    return bool(program) and (program[0].text or "").removesuffix(".py").endswith("fsdp_sft_trainer")


def read_program(program: Sequence[Word]) -> Reading:
    """What the arguments claim, over verl's own config."""
    keys = keys_of((), program[1:])
    named, files = model_named(keys, "model.partial_pretrain")
    claims = (*claims_of(keys, _TABLE), *_absent(keys), *_length(keys), *_offload(keys), *named)
    place = stretch(program[1:], program[0].place)
    return Reading(LAYER, place, claims, files, framework="fsdp", frontend="verl", open=keys.open)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`data.train_batch_size=256`)."""
    found = spelled(_TABLE, setting_name, value)
    return None if found is None else "=".join(found)


def _absent(keys: Keys) -> Iterator[Claim]:
    """Batches that are not written; what does not divide is refused here, unlike in verl's other trainers."""
    yield Claim("batch.remainder", default("refused", "verl"))
    for path, (name, value) in _UNWRITTEN.items():
        if path not in keys:
            yield Claim(name, default(value, "verl"), path)


def _length(keys: Keys) -> Iterator[Claim]:
    node = keys.node("data.max_length")
    value = None if node is None else whole_number(node)
    if isinstance(value, Value):
        note = "it bounds the samples, which may be far shorter"
        origin = value.origin._replace(kind="assumed", note=note, how="--set data.sequence_length=N")
        yield Claim("data.sequence_length", value._replace(origin=origin), "data.max_length")


def _offload(keys: Keys) -> Iterator[Claim]:
    """Offloading takes both switches."""
    on, parameters = keys.node("model.fsdp_config.cpu_offload"), keys.known("model.fsdp_config.offload_params")
    if on is not None and on.value is True and parameters is True:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(on, "cpu"), "model.fsdp_config.cpu_offload")
