"""Facts about the sum of the gradients at the end of a step: over how many ranks, how often, and who makes it."""

from __future__ import annotations

from dtlint.cost import estimate
from dtlint.cost.communication import nodes_spanned
from dtlint.facts.registry import DEGREES, TIMING, FactValue, fact, lower, missing, register
from dtlint.facts.topology import stride_of
from dtlint.plan import Infeasible, Plan
from dtlint.plan.constraints import COMPRESSING_OPTIMIZERS
from dtlint.plan.vocabulary import term
from dtlint.value import Unknown, Value

OLDEST_GPU = "V100-SXM-32GB"
"""The slowest GPU that large models are still trained on; it has no bf16."""


@register("communication.gradient_ranks", "number", "ranks", DEGREES, "megatron-parallel-state")
def gradient_ranks(plan: Plan) -> FactValue:
    """Ranks over which the gradients of dense layers are summed: DP x CP."""
    data = plan.integer("parallel.data")
    return missing(plan, "parallel.data") if data is None else data * (plan.integer("parallel.context") or 1)


@register(
    "communication.expert_gradient_ranks",
    "number",
    "ranks",
    ("parallel.expert", "parallel.expert_tensor", "parallel.pipeline", "parallel.world_size"),
    "megatron-parallel-state",
)
def expert_gradient_ranks(plan: Plan) -> FactValue:
    """Ranks over which the gradients of experts are summed: world / (EP x ETP x PP). Unknown for a lone rank."""
    world, expert = plan.integer("parallel.world_size"), plan.integer("parallel.expert")
    if world is None or expert is None:
        return missing(plan, "parallel.world_size", "parallel.expert")
    if expert == 1:
        return Unknown("the experts are not shared out")
    copies = expert * (plan.integer("parallel.expert_tensor") or 1) * (plan.integer("parallel.pipeline") or 1)
    return world // copies if world > copies else Unknown("no two ranks hold the same experts")


@register(
    "topology.gradient_nodes",
    "number",
    "NVLink domains",
    (*DEGREES, "cluster.nvlink_domain"),
    "megatron-parallel-state",
)
def gradient_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains the ranks span over which the gradients of dense layers are summed."""
    ranks = fact(plan, "communication.gradient_ranks")
    domain, world = plan.integer("cluster.nvlink_domain"), plan.integer("parallel.world_size")
    if isinstance(ranks, Unknown) or domain is None or world is None:
        return ranks if isinstance(ranks, Unknown) else missing(plan, "cluster.nvlink_domain", "parallel.world_size")
    stride = stride_of(plan, "data", "context")
    return stride if isinstance(stride, Unknown) else nodes_spanned(stride, int(lower(ranks)), domain, world)


@register("topology.gradients_stay_near", "flag", "", (*DEGREES, "cluster.gpu"), "megatron-parallel-state")
def gradients_stay_near(plan: Plan) -> FactValue:
    """Whether the gradients are known to be summed within one NVLink domain: of a card that is named."""
    return _is_told(plan) and fact(plan, "topology.gradient_nodes") == 1


@register(
    "communication.exchange_microbatches",
    "number",
    "micro-batches",
    ("batch.global", "batch.micro", "parallel.data", "sharding.stage"),
    "zero",
)
def exchange_microbatches(plan: Plan) -> FactValue:
    """Micro-batches whose gradients one exchange sums: those of a step, one from ZeRO-2 on. Where no file tells how
    many samples a micro-batch has (they are packed), the fewest that are usual.
    """
    stage, data, total = (plan.integer(name) for name in ("sharding.stage", "parallel.data", "batch.global"))
    micro = plan.integer("batch.micro") or term("batch.micro").pessimistic
    if stage is None:
        return missing(plan, "sharding.stage")
    if stage >= 2:
        return 1
    if data is None or total is None or not isinstance(micro, int):
        return missing(plan, "parallel.data", "batch.global")
    return total // (micro * data)


@register("communication.optimizer_exchanges", "flag", "", ("optimizer.name",), "deepspeed-config")
def optimizer_exchanges(plan: Plan) -> FactValue:
    """Whether the optimizer exchanges in few bits itself, in place of the engine (OneBitAdam and its like)."""
    return (plan.word("optimizer.name") or "").lower() in COMPRESSING_OPTIMIZERS


@register("step.least_exposed_data_share", "number", "share of a step", TIMING, "zero")
def least_exposed_data_share(plan: Plan) -> FactValue:
    """The share of a step that waits for data-parallel ranks, at the least: of an older GPU too where no file names
    the card and the numbers are not bf16.
    """
    today = fact(plan, "step.exposed_data_share")
    if isinstance(today, Unknown) or _is_told(plan) or plan.word("precision.compute") not in ("fp32", "fp16"):
        return today if isinstance(today, Unknown) else lower(today)
    older = plan.but({"cluster.gpu": OLDEST_GPU})
    if isinstance(older, Infeasible) or isinstance(estimate(older), Unknown):
        return lower(today)
    return min(lower(today), lower(fact(older, "step.exposed_data_share")))


def _is_told(plan: Plan) -> bool:
    """Whether a file or the user names the card."""
    card = plan.get("cluster.gpu")
    return isinstance(card, Value) and card.origin.kind != "assumed"


@register("precision.unscaled", "flag", "", (), "torch-amp")
def unscaled(plan: Plan) -> FactValue:
    """Whether the program computes in fp16 under FSDP and scales no loss."""
    return bool(plan.collection("code.unscaled_units"))
