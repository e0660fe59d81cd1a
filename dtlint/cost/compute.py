"""Compute: how long matrix products, attention and memory-bound work of a layer take on one GPU."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from dtlint.cost import constants
from dtlint.cost.activations import has_dropout, tokens_per_rank
from dtlint.cost.figures import Job, Machine, Shape
from dtlint.record import NamedTuple


class Rates(NamedTuple):
    """What a GPU does per second: `matrix` operations of big products in the compute format, `wide` in 16 bits,
    `attention`, `memory` bytes."""

    matrix: float
    wide: float
    attention: float
    memory: float
    multiprocessors: int
    element: float


class Passes(NamedTuple):
    """Seconds of a forward and of a backward pass."""

    forward: float
    backward: float

    def plus(self, other: Passes) -> Passes:
        """Both passes of two pieces of work one after the other."""
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def times(self, count: float) -> Passes:
        """The same work `count` times."""
        return Passes(self.forward * count, self.backward * count)


NOTHING = Passes(0.0, 0.0)


@lru_cache(maxsize=256)
def rates(machine: Machine, compute: str, native: bool = False) -> Rates:
    """The rates of a machine's GPU in a compute format: the best measured matrix rate times the share that is
    sustained over a step."""
    gpu, family = machine.gpu, machine.family
    sheet = (
        (gpu.bf16_tflops or gpu.fp16_tflops or 100.0)
        if compute != "fp16"
        else (gpu.fp16_tflops or gpu.bf16_tflops or 100.0)
    )
    wide = (gpu.measured_gemm_tflops or sheet * constants.UNMEASURED_CEILING) * family.sustained * 1e12
    matrix, element = wide, 2.0
    if compute in constants.CAST_BYTES and gpu.fp8_tflops:
        narrow = gpu.measured_fp8_gemm_tflops or gpu.fp8_tflops * constants.UNMEASURED_CEILING
        matrix, element = narrow * family.sustained * constants.NARROW_FORMAT.get(compute, 1.0) * 1e12, 1.0
    if compute == "fp32":
        matrix = wide = (
            (gpu.tf32_tflops or gpu.fp32_tflops or sheet / 2) * constants.UNMEASURED_CEILING * family.sustained * 1e12
        )
        element = 4.0
    memory = (gpu.memory_bandwidth_gb_per_s or 1000.0) * 1e9 * constants.MEMORY_SHARE
    return Rates(
        matrix,
        wide,
        sheet * (family.native_attention if native else family.attention) * 1e12,
        memory,
        family.multiprocessors,
        element,
    )


@lru_cache(maxsize=65536)
def product_seconds(
    rows: int,
    columns: int,
    inner: int,
    rate: float,
    memory: float,
    multiprocessors: int,
    element: float,
    groups: int = 1,
) -> float:
    """`groups` matrix products (rows x inner) (inner x columns).

    The output is cut in tiles that the multiprocessors work off in waves; the last wave may be partly idle, and each
    tile starts and ends with a ramp along the inner dimension. The best tile counts, and no product is faster than its
    arrays can be read and written.
    """
    if rows <= 0 or columns <= 0 or inner <= 0:
        return 0.0
    ramp = inner + constants.RAMP_DEPTH * 2 / element
    best = float("inf")
    for height, width, share in constants.TILES:
        waves = groups * ceil(rows / height) * ceil(columns / width) / multiprocessors
        waves += constants.WAVE_LOSS * (ceil(waves) - waves)
        best = min(best, waves * height * width / share)
    busy = 2 * best * ramp * multiprocessors / rate
    if inner % 8 or columns % 8:
        busy /= constants.UNALIGNED_SHARE
    moved = groups * (element * inner * (rows + columns) + 2 * rows * columns) / memory
    return max(busy, moved)


def linear(tokens: float, outputs: float, inputs: float, rate: Rates, groups: int = 1) -> Passes:
    """A linear layer: the product forward, gradients of input and weight backward."""
    rows, columns, inner = ceil(tokens), ceil(outputs), ceil(inputs)
    given = rate.matrix, rate.memory, rate.multiprocessors, rate.element, groups
    forward = product_seconds(rows, columns, inner, *given)
    backward = product_seconds(rows, inner, columns, *given) + product_seconds(inner, columns, rows, *given)
    return Passes(forward, backward)


def attention(job: Job, rate: Rates) -> Passes:
    """Scores and their product with the values, over the whole sequence; causal in fused kernels, which do half the
    work."""
    shape, layout = job.shape, job.layout
    heads = shape.heads / (layout.tensor * layout.ulysses)
    tokens = tokens_per_rank(job) * layout.ulysses
    width = shape.latent.nope + shape.latent.rope + shape.latent.value if shape.latent else 2 * shape.head_dim
    operations = 2 * tokens * shape.sequence * heads * width
    if job.schedule.flash:
        seconds = operations / 2 / rate.attention
        return Passes(seconds, 2.5 * seconds)
    slow = constants.UNALIGNED_SHARE if shape.head_dim % 8 else 1.0
    seconds = operations / (rate.wide * constants.UNFUSED_ATTENTION * slow)
    scores = tokens * shape.sequence * heads / rate.memory
    return Passes(
        seconds + scores * constants.SCORE_PASSES_FORWARD, 2 * seconds + scores * constants.SCORE_PASSES_BACKWARD
    )


def streaming(job: Job, expert: bool, rate: Rates) -> Passes:
    """Norms, residuals, dropout and activation functions: arrays of 16 bits read or written."""
    shape, layout, tokens = job.shape, job.layout, tokens_per_rank(job)
    passes = constants.HIDDEN_PASSES + (constants.DROPOUT_PASSES if has_dropout(job) else 0.0)
    if expert:
        passes += constants.ROUTED_PASSES * shape.experts_per_token
    narrow = passes * shape.hidden / (layout.tensor if layout.sequence_parallel else 1)
    wide = constants.WIDE_PASSES * (1 if shape.gated else 2 / 3) * layer_width(shape, expert) / layout.tensor
    seconds = 2 * tokens * (narrow + wide) / rate.memory
    return Passes(seconds, constants.BACKWARD_PASSES * seconds)


def layer_width(shape: Shape, expert: bool) -> int:
    """Feed-forward width that one token passes through in a layer."""
    return shape.shared_ffn + shape.experts_per_token * shape.expert_ffn if expert else shape.ffn


def casting(elements: float, compute: str, rate: Rates) -> Passes:
    """Bringing the inputs of narrow matrix products into their format; backward it is the gradients' turn."""
    seconds = constants.CAST_BYTES.get(compute, 0.0) * elements / rate.memory
    return Passes(seconds, seconds)


def layer(job: Job, expert: bool, rate: Rates) -> Passes:
    """One layer on one micro-batch, without communication."""
    shape, layout, tokens = job.shape, job.layout, tokens_per_rank(job)
    products = _projections(job, tokens, rate)
    products = products.plus(_experts(job, tokens, rate) if expert else _feed_forward(job, shape.ffn, tokens, rate))
    if shape.trainable is not None:  # frozen weights get no gradient: half of the backward products
        products = Passes(products.forward, products.backward / 2)
    work = products.plus(attention(job, rate)).plus(streaming(job, expert, rate))
    split = (shape.heads * shape.head_dim + layer_width(shape, expert)) / layout.tensor
    work = work.plus(casting(tokens * (2 * shape.hidden + split), job.precision.compute, rate))
    floor = constants.KERNEL_SECONDS_EXPERTS if expert else constants.KERNEL_SECONDS_DENSE
    return Passes(max(work.forward, floor / 3), max(work.backward, floor * 2 / 3))


def _projections(job: Job, tokens: float, rate: Rates) -> Passes:
    shape, tensor, latent = job.shape, job.layout.tensor, job.shape.latent
    heads = shape.heads / tensor
    if latent is None:
        keys = max(1.0, shape.kv_heads / tensor)
        joint = linear(tokens, (heads + 2 * keys) * shape.head_dim, shape.hidden, rate)
        return joint.plus(linear(tokens, shape.hidden, heads * shape.head_dim, rate))
    width = latent.nope + latent.rope
    down = linear(tokens, latent.query + latent.key_value + latent.rope, shape.hidden, rate)
    query = linear(tokens, heads * width, latent.query or shape.hidden, rate)
    keys_up = linear(tokens, heads * (latent.nope + latent.value), latent.key_value, rate)
    return down.plus(query).plus(keys_up).plus(linear(tokens, shape.hidden, heads * latent.value, rate))


def _feed_forward(job: Job, ffn: int, tokens: float, rate: Rates) -> Passes:
    width = ffn / job.layout.tensor
    into = linear(tokens, (2 if job.shape.gated else 1) * width, job.shape.hidden, rate)
    return into.plus(linear(tokens, job.shape.hidden, width, rate))


def _experts(job: Job, tokens: float, rate: Rates) -> Passes:
    """Routed experts, balanced: each rank has E/EP experts and works on tokens/TP x top-k x ETP rows of width/ETP."""
    shape, layout = job.shape, job.layout
    local = max(1, shape.experts // layout.expert)
    rows = tokens / layout.tensor * shape.experts_per_token * layout.expert_tensor / local
    width = shape.expert_ffn / layout.expert_tensor
    into = linear(rows, (2 if shape.gated else 1) * width, shape.hidden, rate, local)
    routed = into.plus(linear(rows, shape.hidden, width, rate, local))
    return routed.plus(_feed_forward(job, shape.shared_ffn, tokens, rate)) if shape.shared_ffn else routed


def head(job: Job, rate: Rates) -> Passes:
    """The output head, in 16 bits, and the loss."""
    tokens, vocab = tokens_per_rank(job), job.shape.vocab / job.layout.tensor
    work = linear(
        tokens,
        -(-job.shape.vocab // (128 * job.layout.tensor)) * 128,
        job.shape.hidden,
        rate._replace(matrix=rate.wide, element=2.0),
    )
    loss = constants.LOSS_BYTES * tokens * vocab / rate.memory / 2
    return work.plus(Passes(loss, loss))


def recomputed(job: Job, expert: bool, rate: Rates, forward: float) -> float:
    """Seconds that a layer's backward pass recomputes of its forward pass: all of it (full), the attention core
    (selective, unfused), or about half of the products (torchtitan's selective policy)."""
    if job.schedule.recompute == "full":
        return forward
    if job.schedule.recompute != "selective":
        return 0.0
    if not job.schedule.flash:
        return attention(job, rate).forward
    return 0.5 * (forward - attention(job, rate).forward) if job.style in ("fsdp", "ddp") else 0.0
