"""The numbers of one job that the cost model works with: the model's shape, how it is split, in which formats, on
which machines."""

from __future__ import annotations

from dtlint.catalog import Gpu, LatentAttention
from dtlint.cost.constants import Family
from dtlint.record import NamedTuple


class Shape(NamedTuple):
    """The model: widths in elements, `sequence` in tokens, `scale` the stated parameter count over that of the shape
    (1 where they agree). `references` are whole copies beside it that answer and do not train."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    gated: bool
    tied: bool
    sequence: int
    experts: int
    experts_per_token: int
    expert_ffn: int
    shared_ffn: int
    moe_layers: int
    latent: LatentAttention | None
    trainable: float | None
    fused_loss: bool = False
    references: int = 0
    plain_loss: bool = False


class Layout(NamedTuple):
    """Degrees of parallelism, and `order`: the axes from the fastest-varying rank digit on. `stage_layers` () means
    evenly."""

    world: int
    data: int
    tensor: int
    pipeline: int
    chunks: int
    context: int
    ulysses: int
    expert: int
    expert_tensor: int
    sequence_parallel: bool
    order: tuple[str, ...]
    stage_layers: tuple[int, ...]


class Sharding(NamedTuple):
    """How data-parallel ranks share the model states: `group` ranks hold one copy of what `stage` shares out, and
    `copy` ranks a second copy of the weights for the backward pass (0 for none)."""

    stage: int
    group: int
    reshard: bool
    wrapped: bool
    offload_optimizer: bool
    offload_parameters: bool
    bucket_bytes: float
    copy: int = 0


class Batch(NamedTuple):
    """`micro` samples per rank and pass, `microbatches` passes per optimizer step."""

    micro: int
    microbatches: int


class Precision(NamedTuple):
    """Number formats: `compute` by name, the rest as bytes per parameter (master 0: the weights are their own);
    `frozen` for weights that do not train. `keeps_gradients` is false where each gradient is applied and freed inside
    the backward pass."""

    compute: str
    weight: float
    gradient: float
    reduce: float
    master: float
    moments: float
    frozen: float = 2.0
    keeps_gradients: bool = True


class Schedule(NamedTuple):
    """The order of work and what runs beside what. `recomputed_layers` of a stage are recomputed, None for all;
    those of a unit of `recompute_unit` together, from an input that the tensor-parallel ranks share if `split_inputs`;
    `offload` keeps activations in main memory."""

    kind: str
    recompute: str
    recomputed_layers: int | None
    overlap_gradients: bool
    overlap_parameters: bool
    overlap_tensor: bool
    overlap_pipeline: bool
    flash: bool
    dispatcher: str
    offload: bool = False
    context_exchange: str = "p2p"
    recompute_unit: int = 1
    split_inputs: bool = False


class Machine(NamedTuple):
    """One node's GPUs and links; rates in bytes per second and one direction, `intranode` of a GPU, `internode` of a
    node."""

    gpu: Gpu
    family: Family
    per_node: int
    domain: int
    intranode: float
    internode: float
    memory_bytes: float


class Job(NamedTuple):
    """A plan with no gap left. `style` is who keeps the model states: megatron, deepspeed, fsdp or ddp."""

    style: str
    framework: str
    shape: Shape
    layout: Layout
    sharding: Sharding
    batch: Batch
    precision: Precision
    schedule: Schedule
    machine: Machine
