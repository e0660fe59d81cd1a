"""verl's workers that train, the actor and the critic: which keys of the config tell the plan of each.

verl 0.7 (b178a3c) verl/trainer/config/actor, critic and engine, verl/workers/fsdp_workers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim
from dtlint.frameworks.answers import answered, per_prompt, shard_group
from dtlint.frameworks.deepspeed.values import format_name, number
from dtlint.frameworks.dotted_keys import Keys, number_at
from dtlint.frameworks.keys import ON, Meaning, Table, claims_of, spelled
from dtlint.frameworks.stage_cuts import keyed_cut
from dtlint.languages.json_tree import Node, setting
from dtlint.record import NamedTuple
from dtlint.value import Origin, Plain, Setting, Unknown, default

TAKEN = "data.train_batch_size"
_ROLLOUT = "actor_rollout_ref.rollout"
SAMPLES = f"{_ROLLOUT}.n"
_AGENTS = f"{_ROLLOUT}.n_agent"
"""A key of forks for agents alone, which repeat each prompt so often before any of it is dealt out."""
_ENGINE = {f"{_ROLLOUT}.tensor_model_parallel_size": Meaning("parallel.rollout")}
_SPLITTING = ("vllm", "sglang")
_STRATEGIES = {"fsdp": "fsdp", "fsdp2": "fsdp", "megatron": "megatron"}
_LAUNCH = {
    "trainer.nnodes": Meaning("launch.nodes"),
    "trainer.n_gpus_per_node": Meaning("launch.processes_per_node"),
}


class Worker(NamedTuple):
    """Where a worker's keys stand: its own, those of its model, those of FSDP, and those of Megatron."""

    own: str
    model: str
    fsdp: str
    megatron: str


ACTOR = Worker(
    "actor_rollout_ref.actor",
    "actor_rollout_ref.model",
    "actor_rollout_ref.actor.fsdp_config",
    "actor_rollout_ref.actor.megatron",
)
CRITIC = Worker("critic", "critic.model", "critic.model.fsdp_config", "critic.megatron")
ENGINE = Worker("engine", "model", "engine", "engine")
"""The one of the newer trainer for fine-tuning."""


def framework_of(keys: Keys, worker: Worker) -> str:
    """What carries out a worker's plan, "" where its own keys do not tell."""
    told = keys.known(f"{worker.own}.strategy")
    return _STRATEGIES.get(str(told), "") if told is not None else "megatron" if keys.under(worker.megatron) else ""


def claims_of_worker(keys: Keys, worker: Worker, framework: str) -> Iterator[Claim]:
    """What a worker's keys claim. The critic takes the actor's mini-batch and way of packing, unless it has its own."""
    yield from claims_of(keys, _LAUNCH)
    yield from layout_claims(keys, worker, framework)
    yield from _batch(keys, worker)


def layout_claims(keys: Keys, worker: Worker, framework: str) -> Iterator[Claim]:
    """What a worker's keys claim but for its batches: how it is split and what it recomputes."""
    by_framework = _degrees(worker) if framework == "megatron" else _fsdp(worker)
    yield from claims_of(keys, {**_always(worker), **by_framework})
    yield from _engine(keys, worker) if framework == "megatron" else _sharding(keys, worker)


def engine_claims(keys: Keys, worker: Worker) -> Iterator[Claim]:
    """How vLLM or SGLang splits the actor's model, where that is the engine; SGLang's own arguments may split attention
    another way, and other engines have bounds of their own.
    """
    engine = keys.known(f"{_ROLLOUT}.name") or "vllm"
    if worker is ACTOR and engine in _SPLITTING and not keys.under(f"{_ROLLOUT}.engine_kwargs.sglang"):
        yield from claims_of(keys, _ENGINE)
        yield from _sharing(keys)


def _sharing(keys: Keys) -> Iterator[Claim]:
    """The engines take the actor's GPUs, unless they stand apart or have machines of their own."""
    joined = keys.node("actor_rollout_ref.hybrid_engine")
    apart = keys.under("rollout") or keys.node(f"{_ROLLOUT}.nnodes") is not None
    if not apart and (joined is None or joined.value is True):
        yield Claim("parallel.rollout_shares", default(True, "verl"), f"{_ROLLOUT}.name")


def unwritten_engine(claims: Sequence[Claim], framework: str) -> Iterator[Claim]:
    """The degree that ppo_trainer.yaml has for the engine beside FSDP, since 0.1; Megatron's has had 1 and 2."""
    named = {claim.setting for claim in claims}
    if framework == "fsdp" and "parallel.rollout_shares" in named and "parallel.rollout" not in named:
        yield Claim("parallel.rollout", default(2, "verl"), f"{_ROLLOUT}.tensor_model_parallel_size")


def spell_for(worker: Worker, setting_name: str, value: Plain) -> str | None:
    """A setting of a worker as the command line has it (`critic.grad_clip=1.0`)."""
    batch = {f"{worker.own}.ppo_mini_batch_size": Meaning("batch.global"), TAKEN: Meaning("batch.rollout")}
    table = {**_LAUNCH, **_ENGINE, **_always(worker), **_fsdp(worker), **_degrees(worker), **_micro(worker), **batch}
    found = spelled(table, setting_name, value)
    return None if found is None else "=".join(found)


def _always(worker: Worker) -> Table:
    return {
        f"{worker.model}.lora_rank": Meaning("model.lora_rank"),
        f"{worker.own}.grad_clip": Meaning("optimizer.clip", number),
    }


def _fsdp(worker: Worker) -> Table:
    """Megatron's workers do not look at the model's switch for recomputation."""
    recomputed: dict[str, Plain] = {"true": "full", "false": "none"}
    return {
        f"{worker.model}.enable_gradient_checkpointing": Meaning("checkpointing.activations", words=recomputed),
        f"{worker.own}.ulysses_sequence_parallel_size": Meaning("parallel.ulysses"),
        f"{worker.fsdp}.reshard_after_forward": Meaning("sharding.reshard_after_forward", words=ON),
        f"{worker.fsdp}.model_dtype": Meaning("precision.master", format_name),
        f"{worker.fsdp}.dtype": Meaning("precision.compute", format_name),
        f"{worker.fsdp}.mixed_precision.param_dtype": Meaning("precision.compute", format_name),
        f"{worker.fsdp}.mixed_precision.reduce_dtype": Meaning("precision.reduce", format_name),
    }


def _degrees(worker: Worker) -> Table:
    recomputed: dict[str, Plain] = {"selective": "selective", "full": "full"}
    granularity = f"{worker.megatron}.override_transformer_config.recompute_granularity"
    return {
        f"{worker.megatron}.tensor_model_parallel_size": Meaning("parallel.tensor"),
        f"{worker.megatron}.pipeline_model_parallel_size": Meaning("parallel.pipeline"),
        f"{worker.megatron}.virtual_pipeline_model_parallel_size": Meaning("parallel.virtual_pipeline"),
        f"{worker.megatron}.context_parallel_size": Meaning("parallel.context"),
        f"{worker.megatron}.expert_model_parallel_size": Meaning("parallel.expert"),
        f"{worker.megatron}.expert_tensor_parallel_size": Meaning("parallel.expert_tensor"),
        f"{worker.megatron}.sequence_parallel": Meaning("parallel.sequence", words=ON),
        granularity: Meaning("checkpointing.activations", words=recomputed),
        f"{worker.megatron}.override_transformer_config.moe_token_dispatcher_type": Meaning(
            "communication.moe_dispatcher", words={"allgather": "allgather", "alltoall": "alltoall", "flex": "flex"}
        ),
    }


def _micro(worker: Worker) -> Table:
    return {f"{worker.own}.ppo_micro_batch_size_per_gpu": Meaning("batch.micro")}


def _batch(keys: Keys, worker: Worker) -> Iterator[Claim]:
    """Where samples are packed up to a number of tokens, no micro batch has a size, and all batches divide."""
    yield from per_prompt(keys, SAMPLES, "verl")
    yield from answered(keys, _given(keys, worker, "ppo_mini_batch_size"), SAMPLES, "batch.global")
    switch = _given(keys, worker, "use_dynamic_bsz")
    switched = keys.node(switch)
    if switched is not None and str(switched.value).lower() != "false":
        for name in ("batch.micro", "batch.accumulation"):
            yield Claim(name, packed_samples(switched, name), switch)
        return
    yield from claims_of(keys, _micro(worker))
    yield from _taken(keys)


def _taken(keys: Keys) -> Iterator[Claim]:
    """The samples of a roll-out; of a fork that repeats the prompts for its agents they are its own affair."""
    agents = keys.node(_AGENTS)
    if agents is None or agents.value in (1, "1") or keys.node(TAKEN) is None:
        yield from answered(keys, TAKEN, SAMPLES, "batch.rollout")
        return
    reason = "n_agent is a fork's, which repeats each prompt so often and pads what it deals out"
    yield Claim("batch.rollout", Unknown(reason, "--set batch.rollout=N", Origin("written", agents.span)), TAKEN)


def _given(keys: Keys, worker: Worker, name: str) -> str:
    """The path of a worker's key, of the actor's where the worker has none of its own."""
    own = f"{worker.own}.{name}"
    return own if keys.node(own) is not None else f"{ACTOR.own}.{name}"


def packed_samples(node: Node, name: str) -> Setting:
    """The Unknown that a batch is which is filled up to a number of tokens."""
    reason = "use_dynamic_bsz packs samples up to a number of tokens"
    return Unknown(reason, f"--set {name}=N", Origin("written", node.span))


def _sharding(keys: Keys, worker: Worker) -> Iterator[Claim]:
    """param_offload and optimizer_offload move what lies idle while others work, not while the worker trains; an
    offload policy, which FSDP2 alone takes, keeps it in main memory for good.
    """
    yield from shard_group(keys, f"{worker.fsdp}.fsdp_size")
    policy = keys.node(f"{worker.fsdp}.offload_policy")
    if policy is not None and policy.value is True and keys.known(f"{worker.own}.strategy") == "fsdp2":
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(policy, "cpu"), f"{worker.fsdp}.offload_policy")


def _engine(keys: Keys, worker: Worker) -> Iterator[Claim]:
    """Megatron's switches that verl sets by itself, or takes from override_ddp_config, and how the layers are cut."""
    layers = number_at(keys, f"{worker.model}.override_config.num_hidden_layers")
    stages = number_at(keys, f"{worker.megatron}.pipeline_model_parallel_size")
    yield from keyed_cut(keys, f"{worker.megatron}.override_transformer_config", layers, stages)
    for name, key in (("gradients", "overlap_grad_reduce"), ("parameters", "overlap_param_gather")):
        path = f"{worker.megatron}.override_ddp_config.{key}"
        table = {path: Meaning(f"overlap.{name}", words=ON)}
        unsaid = Unknown(f"verl hands Megatron {key} in override_ddp_config", f"--set overlap.{name}=...")
        yield from claims_of(keys, table) if keys.node(path) is not None else (Claim(f"overlap.{name}", unsaid, path),)
