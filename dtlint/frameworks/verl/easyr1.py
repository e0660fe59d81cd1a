"""EasyR1's config, a YAML file with `key=value` words over it: the plan of the actor, which is what trains.

EasyR1 (04e3dcd) verl/workers/fsdp_workers.py, verl/workers/actor/config.py and verl/trainer/ray_trainer.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.answers import answered, length, per_prompt, ray_launch, shard_group
from dtlint.frameworks.deepspeed.values import format_name, number
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import Meaning, claims_of, hidden, keys_of, model_named, spelled
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.value import Plain, default

LAYER = "easyr1"
ROLE = "easyr1"

_ACTOR = "worker.actor"
_DEVICE: dict[str, Plain] = {"true": "cpu", "false": "none"}
_TABLE = {
    "trainer.nnodes": Meaning("launch.nodes"),
    "trainer.n_gpus_per_node": Meaning("launch.processes_per_node"),
    f"{_ACTOR}.micro_batch_size_per_device_for_update": Meaning("batch.micro"),
    f"{_ACTOR}.max_grad_norm": Meaning("optimizer.clip", number),
    "worker.rollout.tensor_parallel_size": Meaning("parallel.rollout"),
    f"{_ACTOR}.ulysses_size": Meaning("parallel.ulysses"),
    f"{_ACTOR}.ulysses_sequence_parallel_size": Meaning("parallel.ulysses"),
    f"{_ACTOR}.model.enable_gradient_checkpointing": Meaning(
        "checkpointing.activations", words={"true": "full", "false": "none"}
    ),
    f"{_ACTOR}.model.lora.rank": Meaning("model.lora_rank"),
    f"{_ACTOR}.fsdp.enable_full_shard": Meaning("sharding.stage", words={"true": 3, "false": 2}),
    f"{_ACTOR}.fsdp.torch_dtype": Meaning("precision.master", format_name),
    f"{_ACTOR}.fsdp.mp_param_dtype": Meaning("precision.compute", format_name),
    f"{_ACTOR}.fsdp.mp_reduce_dtype": Meaning("precision.reduce", format_name),
    f"{_ACTOR}.fsdp.enable_cpu_offload": Meaning("sharding.offload_parameters", words=_DEVICE),
}
_STEP = f"{_ACTOR}.global_batch_size"
_TAKEN = "data.rollout_batch_size"
_SAMPLES = "worker.rollout.n"
_SPELLED = {**_TABLE, _STEP: Meaning("batch.global"), _TAKEN: Meaning("batch.rollout")}


def recognise(document: Document) -> bool:
    """Whether a file is a config of EasyR1: it has workers, and data or a trainer."""
    keys = {entry.key for entry in document.root.entries} if document.root is not None else set()
    return "worker" in keys and bool(keys & {"trainer", "data"})


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is EasyR1's trainer, or its arguments override a config of it."""
    main = bool(program) and program[0].text == "verl.trainer.main"
    return main or sum(word.shown.startswith(("worker.actor.", "worker.rollout.")) for word in program[1:]) >= 2


def read_program(program: Sequence[Word]) -> Reading:
    """The file that `config=` names; without one the words are all there is."""
    named = next((word.part(len("config=")) for word in program[1:] if word.shown.startswith("config=")), None)
    if named is None:
        return read_config((), program[1:])
    return Reading("program", program[0].place, files=(NamedFile(ROLE, named),), frontend="verl")


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, and words that override them, claim about the actor's training.

    Samples of one optimizer step are global_batch_size prompts with rollout.n answers each.
    """
    roots = [document.root for document in documents]
    keys = resolved(keys_of(roots, words))
    named, files = model_named(keys, f"{_ACTOR}.model.model_path")
    place = next((document.root.span for document in documents if document.root is not None), None)
    claims = (
        *ray_launch(keys, "EasyR1", place),
        *claims_of(keys, _TABLE),
        Claim("parallel.rollout_shares", default(True, "EasyR1"), "worker.rollout"),
        *per_prompt(keys, _SAMPLES, "EasyR1"),
        *answered(keys, _STEP, _SAMPLES, "batch.global"),
        *answered(keys, _TAKEN, _SAMPLES, "batch.rollout"),
        *length(keys, keys.node(f"{_ACTOR}.padding_free")),
        *shard_group(keys, f"{_ACTOR}.fsdp.fsdp_size"),
        *named,
    )
    return Reading(LAYER, place, claims, files, framework="fsdp", frontend="verl", open=hidden(roots, words))


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it, by its path (`trainer.nnodes: 2`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else ": ".join(found)
