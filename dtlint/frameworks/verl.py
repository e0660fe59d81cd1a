"""verl's config, hydra keys in files or on its command line: the plan of the actor, which is what trains.

verl 0.7 (b178a3c) verl/trainer/config, verl/utils/config.py and verl/workers/fsdp_workers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.answers import answered, longest, ray_launch, shard_group
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed_values import format_name, number, whole_number
from dtlint.frameworks.keys import ON, Keys, Meaning, claims_of, keys_of, model_named, spelled
from dtlint.languages.json_tree import Document, Node, setting
from dtlint.languages.traced import Word
from dtlint.value import Origin, Plain, Setting, Unknown

LAYER = "verl"
ROLE = "verl"

_ACTOR = "actor_rollout_ref.actor"
_MODEL = "actor_rollout_ref.model"
_MEGATRON = f"{_ACTOR}.megatron"
_STRATEGIES: dict[str, Plain] = {"fsdp": "fsdp", "fsdp2": "fsdp", "megatron": "megatron"}
_CONFIG_FLAGS = ("--config-name", "--config-path", "--config-dir")

_ANY = {
    "trainer.nnodes": Meaning("launch.nodes"),
    "trainer.n_gpus_per_node": Meaning("launch.processes_per_node"),
    f"{_MODEL}.enable_gradient_checkpointing": Meaning(
        "checkpointing.activations", words={"true": "full", "false": "none"}
    ),
    f"{_MODEL}.lora_rank": Meaning("model.lora_rank"),
    f"{_ACTOR}.grad_clip": Meaning("optimizer.clip", number),
}
_FSDP = {
    f"{_ACTOR}.ulysses_sequence_parallel_size": Meaning("parallel.ulysses"),
    f"{_ACTOR}.fsdp_config.reshard_after_forward": Meaning("sharding.reshard_after_forward", words=ON),
    f"{_ACTOR}.fsdp_config.model_dtype": Meaning("precision.master", format_name),
    f"{_ACTOR}.fsdp_config.dtype": Meaning("precision.compute", format_name),
    f"{_ACTOR}.fsdp_config.mixed_precision.param_dtype": Meaning("precision.compute", format_name),
    f"{_ACTOR}.fsdp_config.mixed_precision.reduce_dtype": Meaning("precision.reduce", format_name),
}
_DEGREES = {
    f"{_MEGATRON}.tensor_model_parallel_size": Meaning("parallel.tensor"),
    f"{_MEGATRON}.pipeline_model_parallel_size": Meaning("parallel.pipeline"),
    f"{_MEGATRON}.context_parallel_size": Meaning("parallel.context"),
    f"{_MEGATRON}.expert_model_parallel_size": Meaning("parallel.expert"),
    f"{_MEGATRON}.expert_tensor_parallel_size": Meaning("parallel.expert_tensor"),
    f"{_MEGATRON}.sequence_parallel": Meaning("parallel.sequence", words=ON),
    f"{_MEGATRON}.override_transformer_config.recompute_granularity": Meaning(
        "checkpointing.activations", words={"selective": "selective", "full": "full"}
    ),
}
_MICRO = {f"{_ACTOR}.ppo_micro_batch_size_per_gpu": Meaning("batch.micro")}
_MINI = f"{_ACTOR}.ppo_mini_batch_size"
_TAKEN = "data.train_batch_size"
_SAMPLES = "actor_rollout_ref.rollout.n"
_SPELLED = {**_ANY, **_FSDP, **_DEGREES, **_MICRO, _MINI: Meaning("batch.global"), _TAKEN: Meaning("batch.rollout")}


def recognise(document: Document) -> bool:
    """Whether a file is a config of verl: it has a section of the actor and of the trainer or the data."""
    keys = {entry.key for entry in document.root.entries} if document.root is not None else set()
    return "actor_rollout_ref" in keys and bool(keys & {"trainer", "data", "defaults", "algorithm"})


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program's arguments override verl's config."""
    return sum(word.shown.lstrip("+").startswith("actor_rollout_ref.") for word in program[1:]) >= 2


def read_program(program: Sequence[Word]) -> Reading:
    """What the arguments claim; verl's own config stands behind them, or the one that --config-name names."""
    named = next((word.shown for word in program[1:] if word.shown.startswith(_CONFIG_FLAGS)), "")
    reading = read_config((), program[1:])
    usual = not named or "ppo_megatron_trainer" in named or "ppo_trainer" in named
    hidden = reading.open or ("" if usual else f"{named} holds further settings")
    return reading._replace(place=stretch(program[1:], program[0].place), open=hidden)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, and words that override them, claim about the actor's training.

    Samples of one optimizer step are ppo_mini_batch_size prompts with rollout.n answers each.
    """
    keys = keys_of((document.root for document in documents), words)
    framework = _framework(keys, words)
    named, files = model_named(keys, f"{_MODEL}.path")
    place = next((document.root.span for document in documents if document.root is not None), None)
    claims = (
        *ray_launch(keys, "verl", place),
        *claims_of(keys, {**_ANY, **(_DEGREES if framework == "megatron" else _FSDP)}),
        *_batch(keys),
        *longest(keys),
        *(_engine(keys) if framework == "megatron" else _sharding(keys)),
        *named,
    )
    return Reading(LAYER, place, claims, files, framework=framework, frontend="verl", open=keys.open)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`trainer.nnodes=2`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else "=".join(found)


def _framework(keys: Keys, words: Sequence[Word]) -> str:
    told = keys.known(f"{_ACTOR}.strategy")
    if told is not None:
        return str(_STRATEGIES.get(str(told), ""))
    by_name = any("megatron" in word.shown for word in words if "config-name" in word.shown)
    return "megatron" if by_name or keys.below(_MEGATRON) else "fsdp"


def _batch(keys: Keys) -> Iterator[Claim]:
    """Where samples are packed up to a number of tokens, no micro batch has a size, and all batches divide."""
    yield from answered(keys, _MINI, _SAMPLES, "batch.global")
    packed = keys.node(f"{_ACTOR}.use_dynamic_bsz")
    if packed is not None and str(packed.value).lower() != "false":
        for name in ("batch.micro", "batch.accumulation"):
            yield Claim(name, _packed(packed, name), f"{_ACTOR}.use_dynamic_bsz")
        return
    yield from claims_of(keys, _MICRO)
    yield from answered(keys, _TAKEN, _SAMPLES, "batch.rollout")


def _packed(node: Node, name: str) -> Setting:
    reason = "use_dynamic_bsz packs samples up to ppo_max_token_len_per_gpu tokens"
    return Unknown(reason, f"--set {name}=N", Origin("written", node.span))


def _sharding(keys: Keys) -> Iterator[Claim]:
    """param_offload and optimizer_offload move what lies idle while answers are made, not while the actor trains; an
    offload policy, which FSDP2 alone takes, keeps it in main memory for good.
    """
    yield from shard_group(keys, f"{_ACTOR}.fsdp_config.fsdp_size")
    policy = keys.node(f"{_ACTOR}.fsdp_config.offload_policy")
    if policy is not None and policy.value is True and keys.known(f"{_ACTOR}.strategy") == "fsdp2":
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(policy, "cpu"), f"{_ACTOR}.fsdp_config.offload_policy")


def _engine(keys: Keys) -> Iterator[Claim]:
    """Megatron's switches that verl sets by itself, or takes from override_ddp_config."""
    chunks = keys.node(f"{_MEGATRON}.virtual_pipeline_model_parallel_size")
    if chunks is not None:
        yield Claim(
            "parallel.virtual_pipeline", whole_number(chunks), f"{_MEGATRON}.virtual_pipeline_model_parallel_size"
        )
    for name in ("gradients", "parameters"):
        yield Claim(f"overlap.{name}", Unknown("verl hands Megatron its switches in override_ddp_config"), "")
