"""From a plan to whole jobs: what a plan leaves open is completed with the bounds of the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Literal, cast

from dtlint.cost.assemble import assemble, family_of, style_of, varied
from dtlint.cost.contradiction import first_contradiction, outside_domain
from dtlint.cost.figures import Job
from dtlint.cost.formats import is_counted, precision_of
from dtlint.cost.told import Values
from dtlint.plan.vocabulary import Term, term
from dtlint.record import NamedTuple
from dtlint.value import Plain, Unknown, Value

if TYPE_CHECKING:
    from dtlint.plan import Plan

__all__ = ["BOUNDS", "Bound", "Completed", "Job", "complete", "family_of", "precision_of", "style_of"]

Bound = Literal["optimistic", "typical", "pessimistic"]
BOUNDS: tuple[Bound, ...] = ("optimistic", "typical", "pessimistic")


class Completed(NamedTuple):
    """The jobs of the three completions (one and the same where nothing was open), what was completed, and what would
    narrow the interval."""

    optimistic: Job
    typical: Job
    pessimistic: Job
    assumed: tuple[str, ...]

    @property
    def jobs(self) -> tuple[Job, Job, Job]:
        """The three in their order."""
        return self.optimistic, self.typical, self.pessimistic


NAMES = (
    "framework", "cluster.gpus_per_node", "cluster.gpu", "cluster.gpu_memory_gib", "cluster.nvlink_domain",
    "cluster.intranode_gb_per_s", "cluster.internode_gbit_per_s", "model.name", "model.architecture", "model.layers",
    "model.hidden", "model.ffn", "model.heads", "model.kv_heads", "model.head_dim", "model.vocab", "model.experts",
    "model.experts_per_token", "model.expert_ffn", "model.shared_expert_ffn", "model.moe_layers",
    "model.latent_attention", "model.gated_mlp", "model.tied_embeddings", "model.lora_rank", "model.fused_loss",
    "model.plain_loss", "model.trainable_parameters", "model.reference_copies", "data.sequence_length",
    "parallel.world_size", "parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.virtual_pipeline",
    "parallel.context", "parallel.ulysses", "parallel.expert", "parallel.expert_tensor", "parallel.sequence",
    "parallel.order", "parallel.stage_layers", "sharding.stage", "sharding.group", "sharding.reshard_after_forward",
    "sharding.units", "sharding.offload_optimizer", "sharding.offload_parameters", "batch.micro", "batch.global",
    "batch.accumulation", "schedule.kind", "schedule.microbatches", "precision.compute", "precision.gradients",
    "precision.reduce", "precision.master", "precision.frozen", "optimizer.name", "optimizer.state_dtype",
    "optimizer.in_backward", "checkpointing.activations", "checkpointing.layers", "checkpointing.unit",
    "checkpointing.partitioned", "checkpointing.offload", "overlap.gradients", "overlap.parameters", "overlap.tensor",
    "overlap.pipeline", "communication.bucket_bytes", "communication.moe_dispatcher", "attention.flash",
    "parallel.context_exchange",
)  # fmt: skip

_RECIPE = frozenset((
    "sharding.reshard_after_forward", "sharding.units", "overlap.gradients", "overlap.parameters", "overlap.tensor",
    "overlap.pipeline", "communication.moe_dispatcher", "attention.flash", "checkpointing.activations",
))  # fmt: skip
"""Settings that recipes on top of a framework choose: its defaults hold for a launch that was read, not for a plan
told by hand."""

_LEANEST: Mapping[str, Plain] = {
    "model.fused_loss": True,
    "optimizer.in_backward": True,
    "optimizer.name": "adafactor",
    "precision.master": "none",
}
"""What the leanest recipe on plain PyTorch chooses (torchtune's for one GPU, LOMO's, Galore's): the optimistic end of
a plan told by hand that does not tell it."""

_PLAIN = ("fsdp", "ddp", "pytorch")
"""Frameworks that leave the format of the weights and the optimizer to the recipe."""

_FOLLOWING = frozenset(("precision.frozen", "precision.master"))
"""Settings that are, where no file speaks of them, as others of the same completion make them."""

_COUNTED = "model.parameters"
"""What the shape tells, unless a reader says that it does not."""
OPTIMIZER = "optimizer.name"
_ESSENTIAL = ("parallel.world_size", "model.layers", "model.hidden")


def complete(plan: Plan) -> Completed | Unknown:
    """The plan with every gap filled three ways; Unknown names the first setting that has no bounds and is needed."""
    known, open_names = _read(plan)
    gap = missing(plan)
    if gap == OPTIMIZER:
        return unknown_optimizer(plan)
    if gap:
        told = plan.get(gap)
        return told if isinstance(told, Unknown) else Unknown(f"no file tells {gap}", f"--set {gap}=...")
    nonsense = outside_domain({name: value for name, value in known.items() if name in plan.settings})
    if nonsense is not None:
        return nonsense
    leanest = _leanest(plan, known)
    completions = [_values(known, open_names, bound) for bound in BOUNDS]
    completions[0].update(leanest)
    impossible = first_contradiction(completions)
    if impossible is not None:
        return impossible
    optimistic = assemble(completions[0], known)
    typical, pessimistic = (_varied(optimistic, completions[0], values, known) for values in completions[1:])
    jobs = optimistic, typical, pessimistic
    spreading = (name for name in open_names if _spreads(name) and any(_matters(name, job) for job in jobs))
    return Completed(*jobs, (*spreading, *leanest))


_IDLE: Mapping[str, Callable[[Job], bool]] = {
    "cluster.internode_gbit_per_s": lambda job: job.layout.world <= job.machine.per_node,
    "overlap.pipeline": lambda job: job.layout.chunks == 1,
    "overlap.tensor": lambda job: job.layout.tensor == 1,
    "communication.moe_dispatcher": lambda job: job.layout.expert == 1,
}
"""Settings that a cost does not rest on in a job of which this holds: there they are not named as assumed."""


def _matters(name: str, job: Job) -> bool:
    return name not in _IDLE or not _IDLE[name](job)


def _leanest(plan: Plan, known: Values) -> Mapping[str, Plain]:
    """What the optimistic end takes in place of defaults that only a recipe keeps."""
    if known.get("framework") not in _PLAIN or not told_by_hand(plan):
        return {}
    return {name: value for name, value in _LEANEST.items() if name not in plan.settings}


def missing(plan: Plan) -> str:
    """The first setting that no bounds can stand for and the plan does not tell, "" if there is none.

    The parameters are one where a reader says that the shape does not tell them, and the GPU where it is another
    vendor's than those that its bounds are taken from; the optimizer is one where nobody knows what it keeps.
    """
    untold = _COUNTED if isinstance(plan.setting(_COUNTED), Unknown) else ""
    foreign = "cluster.gpu" if _is_foreign(plan) else ""
    strange = "" if is_counted(plan.word(OPTIMIZER) or "adam") else OPTIMIZER
    return next((name for name in _ESSENTIAL if plan.value(name) is None), untold or foreign or strange)


def unknown_optimizer(plan: Plan) -> Unknown:
    """Why it is not known what the optimizer keeps."""
    return Unknown(f"what {plan.word(OPTIMIZER)} keeps is not known", f"--set {OPTIMIZER}=...")


def _is_foreign(plan: Plan) -> bool:
    """Whether the accelerators are not NVIDIA's and no card is named."""
    return plan.word("cluster.vendor") not in (None, "nvidia") and plan.value("cluster.gpu") is None


def _varied(job: Job, values: Values, other: Values, known: Values) -> Job:
    names = [name for name, value in other.items() if value != values[name]]
    return varied(job, other, known, names) if names else job


def _read(plan: Plan) -> tuple[dict[str, Plain], list[str]]:
    """What the plan tells, and the names of the settings with bounds that it does not tell or only assumes."""
    known: dict[str, Plain] = {}
    open_names = []
    get, by_hand = plan.get, told_by_hand(plan)
    for name in NAMES:
        found = get(name)
        if isinstance(found, Value) and not (by_hand and name in _RECIPE and found.origin.kind == "default"):
            known[name] = found.value
            if found.origin.kind == "assumed" and _spreads(name):
                open_names.append(name)
        elif _is_bounded(name) and not (name in _FOLLOWING and name not in plan.settings):
            open_names.append(name)
    return known, open_names


def told_by_hand(plan: Plan) -> bool:
    """Whether no file stands behind the plan."""
    return not any(isinstance(found, Value) and found.origin.kind == "written" for found in plan.settings.values())


@cache
def _is_bounded(name: str) -> bool:
    return term(name).bounded


@cache
def _spreads(name: str) -> bool:
    return term(name).bounded and term(name).optimistic != term(name).pessimistic


def _values(known: Values, open_names: list[str], bound: Bound) -> dict[str, Plain]:
    values = dict(known)
    for name in open_names:
        if bound != "typical" or name not in known:
            values[name] = _reaching(known.get(name), name, bound)
    return values


def _reaching(told: Plain, name: str, bound: Bound) -> Plain:
    """The value of a completion, which reaches what is assumed where that lies beyond the vocabulary's bounds."""
    end, other = _completion(name, bound), _completion(name, _OTHER_END[bound])
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (told, end, other)):
        return end
    return told if _is_beyond(cast("float", told), cast("float", end), cast("float", other)) else end


_OTHER_END: Mapping[Bound, Bound] = {"optimistic": "pessimistic", "typical": "typical", "pessimistic": "optimistic"}


def _is_beyond(told: float, end: float, other: float) -> bool:
    return told > end > other or told < end < other


@cache
def _completion(name: str, bound: Bound) -> Plain:
    return bound_of(term(name), bound)


def bound_of(found: Term, bound: Bound) -> Plain:
    """The vocabulary's value for a completion; the middle is the typical value, else the geometric mean of two
    numbers, else the optimistic one."""
    if bound != "typical":
        return found.optimistic if bound == "optimistic" else found.pessimistic
    if found.typical is not None:
        return found.typical
    low, high = found.optimistic, found.pessimistic
    if found.type in ("integer", "number") and isinstance(low, (int, float)) and isinstance(high, (int, float)):
        middle = sqrt(float(low) * float(high))
        return round(middle) if found.type == "integer" else middle
    return found.optimistic
