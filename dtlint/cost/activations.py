"""Activations: what the forward pass keeps for the backward pass, in bytes per token of one layer on one rank."""

from __future__ import annotations

from dtlint.cost.figures import Job, Shape
from dtlint.record import NamedTuple


class Kept(NamedTuple):
    """Bytes per token that a layer keeps: `split` by tensor parallelism, `whole` on every rank (unless sequence
    parallelism splits it)."""

    split: float
    whole: float

    def on(self, tensor: int, sequence_parallel: bool) -> float:
        """Bytes per token on one rank."""
        return self.split / tensor + (self.whole / tensor if sequence_parallel else self.whole)


def tokens_per_rank(job: Job) -> float:
    """Tokens of one micro-batch that a rank works on: micro x sequence / (CP x Ulysses)."""
    return job.batch.micro * job.shape.sequence / (job.layout.context * job.layout.ulysses)


def has_dropout(job: Job) -> bool:
    """Whether hidden states are dropped out: Megatron's GPT does (0.1 by default), models with a gate do not."""
    return job.style in ("megatron", "deepspeed") and not job.shape.gated


def layer_bytes(job: Job, expert: bool) -> float:
    """Bytes per token that one layer keeps on one rank without recomputation."""
    shape, layout = job.shape, job.layout
    attention, block = (
        attention_kept(shape, has_dropout(job)),
        routed_kept(shape) if expert else feed_forward_kept(shape, shape.ffn),
    )
    kept = Kept(attention.split + block.split, attention.whole + block.whole)
    return kept.on(layout.tensor, layout.sequence_parallel) + score_bytes(job)


def attention_kept(shape: Shape, dropout: bool) -> Kept:
    """2 norm inputs and outputs (8h; with dropout masks 2h more, as Megatron's GPT has them), queries, keys, values
    and the output.

    With A = K this is 18h: Korthikanti et al. 2022, table 2, less the scores (Megatron theoretical_memory_usage.py: 18
    + 4F/h).
    """
    masks = 2 * shape.hidden if dropout else 0
    whole = 8 * shape.hidden + masks
    latent = shape.latent
    if latent is None:
        return Kept(4 * shape.head_dim * (shape.heads + shape.kv_heads), whole)
    width = latent.nope + latent.rope
    ranks = 4 * (latent.query + latent.key_value) + 2 * latent.rope
    return Kept(shape.heads * (8 * width + 2 * latent.nope + 4 * latent.value), whole + ranks)


def feed_forward_kept(shape: Shape, width: int) -> Kept:
    """Input and output of the activation function: 4F; with a gate gate, up and product: 6F."""
    return Kept((6 if shape.gated else 4) * width, 0.0)


def routed_kept(shape: Shape) -> Kept:
    """Copies of the token sent to its experts, each expert's inner arrays, outputs to be weighted; router
    probabilities in fp32; shared experts."""
    inner = feed_forward_kept(shape, shape.expert_ffn).split
    routed = shape.experts_per_token * (4 * shape.hidden + inner)
    return Kept(routed + feed_forward_kept(shape, shape.shared_ffn).split, 4 * shape.experts)


def score_bytes(job: Job) -> float:
    """Unfused attention keeps scores, softmax and mask: 5*A*s bytes per token (Korthikanti et al.); selective
    recomputation drops them."""
    if job.schedule.flash or job.schedule.recompute == "selective":
        return 0.0
    return 5 * job.shape.heads * job.shape.sequence / (job.layout.tensor * job.layout.ulysses)


def kept_bytes(job: Job, expert: bool) -> float:
    """Bytes per token that one layer keeps on one rank, after recomputation; of layers that are recomputed together
    the input of the first, as each one's share of it (Megatron transformer_block.py, checkpointed_forward).
    """
    if job.schedule.recompute == "full":
        split = job.layout.tensor if job.layout.sequence_parallel or job.schedule.split_inputs else 1
        return 2 * job.shape.hidden / split / job.schedule.recompute_unit
    if job.schedule.recompute == "selective" and job.style in ("fsdp", "ddp"):
        return _every_second_product(job, expert)
    return layer_bytes(job, expert)


def _every_second_product(job: Job, expert: bool) -> float:
    """torchtitan's selective policy keeps attention outputs and every second matrix product (torchtitan
    activation_checkpoint.py)."""
    shape, tensor = job.shape, job.layout.tensor
    width = shape.experts_per_token * shape.expert_ffn + shape.shared_ffn if expert else shape.ffn
    products = (
        2 * shape.head_dim * (shape.heads + 2 * shape.kv_heads) + 4 * shape.hidden + (4 if shape.gated else 2) * width
    )
    return (products / 2 + 2 * shape.head_dim * shape.heads) / tensor + 2 * shape.hidden / (
        tensor if job.layout.sequence_parallel else 1
    )


def in_flight(kind: str, stage: int, stages: int, microbatches: int, chunks: int = 1) -> float:
    """Micro-batches whose activations a stage holds at its peak, in units of the stage's layers.

    GPipe m; 1F1B min(m, p - stage); interleaved that times 1 + (p-1)/(p*v) on the first stage (Narayanan et al. 2021);
    zero-bubble ZB1P as 1F1B, ZBV and DualPipe p on every stage (zero-bubble-pipeline-parallelism README).
    """
    if stages == 1:
        return 1.0
    if kind == "gpipe":
        return float(microbatches)
    held = min(microbatches, stages if kind in ("zbv", "dualpipe") else stages - stage)
    if kind != "interleaved" or chunks == 1:
        return float(held)
    most = min(microbatches * chunks, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1)
    return most / chunks
