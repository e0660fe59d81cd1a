"""Facts about where groups of ranks lie on the machines."""

from __future__ import annotations

from math import gcd, prod

from dtlint.cost.assemble import order_of, whole_order
from dtlint.cost.communication import nodes_spanned
from dtlint.facts.registry import DEGREES, FactValue, first_unknown, missing, number_of, register
from dtlint.plan import Plan
from dtlint.plan.derived.degrees import model_parallel_size
from dtlint.plan.derived.degrees import smallest_world as smallest_world_of
from dtlint.value import Unknown

REPLICAS = ("data", "context", "ulysses")
"""Axes along which ranks hold the same parameters, and share the states out where these are sharded."""
_USUAL_GIB, _TAKEN = 80, 0.9
"""The memory of an A100 or H100, and vLLM's gpu_memory_utilization."""


@register(
    "topology.smallest_world",
    "number",
    "ranks",
    ("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.expert"),
    "megatron-parallel-state",
)
def smallest_world(plan: Plan) -> FactValue:
    """The fewest processes that the degrees allow: PP x lcm(TP x CP, EP x ETP)."""
    missing = first_unknown(plan, "parallel.tensor", "parallel.pipeline", "parallel.context")
    return missing or smallest_world_of(plan)


@register(
    "topology.known_ways",
    "number",
    "ranks",
    ("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.ulysses"),
    "megatron-parallel-state",
)
def known_ways(plan: Plan) -> FactValue:
    """The product of the degrees that are known, of which every number of processes is a multiple: TP x PP, and CP and
    Ulysses where they are told.
    """
    missing = first_unknown(plan, "parallel.tensor", "parallel.pipeline")
    others = (plan.integer(name) or 1 for name in ("parallel.context", "parallel.ulysses"))
    return missing or (plan.integer("parallel.tensor") or 1) * (plan.integer("parallel.pipeline") or 1) * prod(others)


@register(
    "topology.expert_data",
    "number",
    "ranks",
    ("parallel.world_size", "parallel.pipeline", "parallel.expert", "parallel.expert_tensor"),
    "megatron-parallel-state",
)
def expert_data(plan: Plan) -> FactValue:
    """The ranks that hold one expert's same part: world / (ETP x EP x PP), whatever the other layers have."""
    names = ("parallel.world_size", "parallel.pipeline", "parallel.expert", "parallel.expert_tensor")
    missing = first_unknown(plan, *names)
    if missing is not None:
        return missing
    world, *degrees = (plan.integer(name) or 1 for name in names)
    size = prod(degrees)
    return Unknown(f"{world} processes are no multiple of {size} (ETP x EP x PP)") if world % size else world // size


@register("topology.written_product", "number", "ranks", DEGREES, "torchtitan parallel_dims.py")
def written_product(plan: Plan) -> FactValue:
    """The product of all degrees where the data-parallel size is written too, else the number of processes."""
    data = plan.stated("parallel.data")
    if data is None or not isinstance(data.value, int) or data.origin.kind == "derived":
        world = plan.get("launch.processes")
        return number_of(world)
    return data.value * model_parallel_size(plan)


@register(
    "topology.tensor_nodes",
    "number",
    "NVLink domains",
    ("parallel.tensor", "parallel.order", "cluster.nvlink_domain", "parallel.world_size"),
    "megatron-parallel-state",
)
def tensor_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains the widest tensor-parallel group spans."""
    return _spanned(plan, "parallel.tensor", stride_of(plan, "tensor"))


@register("topology.tensor_stride", "number", "ranks", ("parallel.order",), "torch-device-mesh")
def tensor_stride(plan: Plan) -> FactValue:
    """Ranks between neighbours of a tensor-parallel group: 1, unless other axes vary faster."""
    return stride_of(plan, "tensor")


@register(
    "topology.data_nodes", "number", "NVLink domains", (*DEGREES, "cluster.nvlink_domain"), "megatron-parallel-state"
)
def data_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains a data-parallel group spans."""
    unknown = first_unknown(plan, *DEGREES)
    return unknown or _spanned(plan, "parallel.data", stride_of(plan, "data"))


@register(
    "topology.context_nodes",
    "number",
    "NVLink domains",
    ("parallel.context", "parallel.tensor", "cluster.nvlink_domain", "parallel.world_size"),
    "megatron-parallel-state",
)
def context_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains a context-parallel group spans; its ranks mostly lie a tensor-parallel group apart."""
    return _spanned(plan, "parallel.context", stride_of(plan, "context"))


@register(
    "topology.expert_nodes",
    "number",
    "NVLink domains",
    ("parallel.expert", "parallel.expert_tensor", "cluster.nvlink_domain", "parallel.world_size"),
    "megatron-parallel-state",
)
def expert_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains an expert-parallel group spans; its ranks lie an expert-tensor group apart."""
    return _spanned(plan, "parallel.expert", plan.integer("parallel.expert_tensor") or 1)


@register(
    "topology.shard_nodes",
    "number",
    "NVLink domains",
    ("sharding.group", *DEGREES, "cluster.nvlink_domain"),
    "megatron-parallel-state",
)
def shard_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains the ranks span that hold one copy of the sharded states."""
    unknown = first_unknown(plan, *DEGREES)
    return unknown or _spanned(plan, "sharding.group", stride_of(plan, *REPLICAS))


@register(
    "topology.sequence_parts",
    "number",
    "parts",
    ("parallel.tensor", "parallel.context", "parallel.sequence", "framework"),
    "megatron-arguments",
)
def sequence_parts(plan: Plan) -> FactValue:
    """Equal parts that a sample's tokens are cut into: 2 CP for the balanced causal mask, TP with sequence
    parallelism; torchtitan and a rank's own share cut by both.
    """
    unknown = first_unknown(plan, "parallel.tensor", "parallel.context")
    if unknown is not None:
        return unknown
    context, tensor = plan.integer("parallel.context") or 1, plan.integer("parallel.tensor") or 1
    split = tensor if plan.flag("parallel.sequence") else 1
    return split * (2 * context if context > 1 else 1)


@register(
    "topology.widest_tensor", "number", "ranks", ("parallel.tensor", "cluster.nvlink_domain", "model.heads"), "seed"
)
def widest_tensor(plan: Plan) -> FactValue:
    """The widest TP that stays in one NVLink domain and divides it, the attention heads and the world."""
    domain, world = plan.integer("cluster.nvlink_domain"), plan.integer("parallel.world_size")
    if domain is None or world is None:
        return missing(plan, "cluster.nvlink_domain", "parallel.world_size")
    heads = plan.integer("model.heads") or 0
    other = model_parallel_size(plan) // (plan.integer("parallel.tensor") or 1)
    fits = [width for width in range(1, min(domain, world) + 1) if domain % width == 0 and world % (width * other) == 0]
    return max((width for width in fits if heads % width == 0), default=1)


@register(
    "topology.rollout_nodes",
    "number",
    "NVLink domains",
    ("parallel.rollout", "parallel.rollout_shares", "cluster.gpus_per_node", "cluster.nvlink_domain"),
    "vllm-parallelism",
)
def rollout_nodes(plan: Plan) -> FactValue:
    """How many NVLink domains an engine spans at the least that generates the answers. What the trainer takes of a node
    is the node only for engines that share its ranks, and not where Ray packs these onto nodes as it likes (OpenRLHF).
    """
    size, domain = plan.integer("parallel.rollout"), plan.integer("cluster.nvlink_domain")
    shares, world = plan.flag("parallel.rollout_shares"), plan.integer("parallel.world_size")
    own = shares and plan.word("frontend") != "openrlhf"
    if size is None or domain is None or (plan.stated("cluster.gpus_per_node") is None and not own):
        return missing(plan, "parallel.rollout", "cluster.gpus_per_node")
    return 1 if shares and world is not None and world % size else -(-size // domain)


@register(
    "topology.widest_rollout", "number", "ranks", ("parallel.rollout", "cluster.nvlink_domain", "model.heads"), "seed"
)
def widest_rollout(plan: Plan) -> FactValue:
    """The widest TP of an engine that stays in one NVLink domain and divides it, the attention heads and its own."""
    size, domain = plan.integer("parallel.rollout"), plan.integer("cluster.nvlink_domain")
    if size is None or domain is None:
        return missing(plan, "parallel.rollout", "cluster.nvlink_domain")
    return gcd(size, domain, plan.integer("model.heads") or 0)


@register(
    "topology.rollout_fits",
    "flag",
    "",
    ("model.parameters", "cluster.nvlink_domain", "cluster.gpu_memory_gib"),
    "vllm-parallelism",
)
def rollout_fits(plan: Plan) -> FactValue:
    """Whether the weights in 16 bits fit the GPUs of one NVLink domain, of whose memory vLLM takes nine tenths unasked;
    a card that is not known counts as one of 80 GB, and a model that is not known fits.
    """
    parameters, domain = plan.number("model.parameters"), plan.integer("cluster.nvlink_domain")
    if domain is None:
        return missing(plan, "cluster.nvlink_domain")
    memory = plan.number("cluster.gpu_memory_gib") or _USUAL_GIB
    return 2 * (parameters or 0) <= _TAKEN * memory * 2**30 * domain


@register(
    "topology.link_ratio",
    "number",
    "",
    ("cluster.intranode_gb_per_s", "cluster.internode_gbit_per_s", "cluster.gpus_per_node"),
    "seed",
)
def link_ratio(plan: Plan) -> FactValue:
    """How many times faster a GPU reaches its node's GPUs than other nodes.

    Both in one direction, the node's network shared by its GPUs.
    """
    inside, outside, gpus = (
        plan.number(name)
        for name in ("cluster.intranode_gb_per_s", "cluster.internode_gbit_per_s", "cluster.gpus_per_node")
    )
    if inside is None or not outside or gpus is None:
        return missing(plan, "cluster.intranode_gb_per_s", "cluster.internode_gbit_per_s", "cluster.gpus_per_node")
    return inside / (outside / 8 / gpus)


def stride_of(plan: Plan, *axes: str) -> int | Unknown:
    """Distance in ranks between neighbours of a group over these axes: the product of the axes that vary faster than
    all of them, in the order of the program's mesh or of its framework. One of those that is not known counts as 1,
    but for the data axis, which is seldom small.
    """
    if isinstance(unknown := plan.setting("parallel.order"), Unknown):
        return unknown
    told = plan.value("parallel.order")
    order = whole_order(told) if isinstance(told, tuple) else order_of(plan.word("framework") or "")
    faster = [name for name in order[: min(order.index(axis) for axis in axes)] if name != "expert"]
    if "data" in faster and plan.integer("parallel.data") is None:
        return missing(plan, "parallel.data")
    return prod(plan.integer(f"parallel.{name}") or 1 for name in faster)


def _spanned(plan: Plan, axis: str, stride: int | Unknown) -> FactValue:
    size, domain, world = plan.integer(axis), plan.integer("cluster.nvlink_domain"), plan.integer("parallel.world_size")
    if size == 1:
        return 1
    if size is None or domain is None or world is None:
        return missing(plan, axis, "cluster.nvlink_domain", "parallel.world_size")
    return stride if isinstance(stride, Unknown) else nodes_spanned(stride, size, domain, world)
