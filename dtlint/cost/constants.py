"""The constants of the cost model: few, global, each with a physical meaning and how it was obtained.

None belongs to a run, a source or a framework. "Fitted" means: fitted to public measured runs
(tests/data/measured_runs.csv) by benchmarks/fit_constants.py; docs/accuracy.md tells how far the constants carry over
to sources that the fit has not seen.
"""

from __future__ import annotations

from dtlint.catalog import LatentAttention
from dtlint.record import NamedTuple


class Family(NamedTuple):
    """What one generation of GPUs adds to its data sheet.

    `multiprocessors` (vendor's architecture papers) bounds how a matrix product is cut in tiles. `sustained` is the
    share of the best measured matrix rate (of the data sheet where none is measured) that lasts over a whole training
    step under the power limit; `attention` the share of the data-sheet rate that FlashAttention 2 reaches,
    `native_attention` that of kernels written for the generation (cuDNN's, which Megatron takes from Transformer
    Engine); `network_gbit_per_s` the usual network of one node, for plans that do not tell it. `switch_reduction` is
    how much faster an all-reduce inside the node is where the NVLink switches add up (NVLS): 482 over 367 GB/s on eight
    H200, 838 over 682 on eight B200 (ml-engineering network benchmarks); nothing else gains.
    """

    multiprocessors: int
    sustained: float
    attention: float
    native_attention: float
    network_gbit_per_s: float
    switch_reduction: float = 1.0


class Spread(NamedTuple):
    """A constant that settings do not decide, with the bounds within which implementations differ."""

    optimistic: float
    typical: float
    pessimistic: float


FAMILIES: dict[str, Family] = {
    "V100": Family(80, 0.839, 0.30, 0.30, 100),
    "A100": Family(108, 0.95, 0.305, 0.305, 1600),
    "A800": Family(108, 0.95, 0.305, 0.305, 1600),
    "H100": Family(132, 0.786, 0.172, 0.5, 3200, 1.31),
    "H200": Family(132, 0.786, 0.172, 0.5, 3200, 1.31),
    "H800": Family(132, 0.786, 0.172, 0.5, 3200, 1.31),
    "GH200": Family(132, 0.80, 0.172, 0.5, 400),
    "H20": Family(78, 0.95, 0.50, 0.50, 3200),
    "B200": Family(148, 0.565, 0.28, 0.463, 3200, 1.23),
    "B300": Family(148, 0.691, 0.28, 0.463, 6400, 1.23),
    "GB200": Family(152, 0.8, 0.28, 0.463, 1600, 1.23),
    "GB300": Family(152, 0.892, 0.28, 0.463, 3200, 1.23),
    "MI250X": Family(220, 0.80, 0.20, 0.25, 800),
    "MI300X": Family(304, 0.85, 0.20, 0.25, 3200),
    "MI325X": Family(304, 0.85, 0.20, 0.25, 3200),
    "MI355X": Family(256, 0.85, 0.20, 0.25, 3200),
}
USUAL_FAMILY = Family(100, 0.80, 0.30, 0.30, 100)
"""For GPUs whose generation has no measured run here."""

UNMEASURED_CEILING = 0.80
"""Best matrix rate over the data sheet, for GPUs without a measurement: the middle of A100 0.87, H100 0.80, B200 0.78.
"""

# Matrix products

TILES = ((256, 128, 1.0), (128, 128, 0.93), (128, 64, 0.80), (64, 64, 0.62))
"""Output tiles of matrix kernels, with the share of the multiprocessor's rate that each reaches (smaller tiles reuse
less)."""

WAVE_LOSS = 0.749
"""Share of an incomplete last wave of tiles that is lost (1: nothing fills it; split-K and streamed kernels fill
some). Fitted."""

RAMP_DEPTH = 452.0
"""Inner dimension that a tile's start and end cost, in elements of 16 bits. Fitted."""

UNALIGNED_SHARE = 0.234
"""Share of the rate left when an inner dimension is no multiple of 8 elements of 16 bits: tensor cores need 16-byte
rows. Fitted."""

NARROW_FORMAT = {"nvfp4": 1.93}
"""Matrix rate over that of fp8 for formats that the data sheets of the catalog leave out. Fitted."""

# Memory-bound work

MEMORY_SHARE = 0.80
"""Share of the memory's data-sheet bandwidth that streaming kernels reach."""

HIDDEN_PASSES = 5.36
"""Times that a layer's forward pass reads or writes an array of tokens x hidden outside its matrix products (2 norms,
2 residuals, copies). Fitted."""

DROPOUT_PASSES = 1.32
"""The same for two dropouts: drawing, keeping and applying their masks. Fitted."""

ROUTED_PASSES = 16.8
"""Times that the forward pass reads or writes each copy of a token that goes to an expert: sorting, sending,
weighting, adding. Fitted."""

WIDE_PASSES = 5.0
"""The same for arrays of tokens x feed-forward width: the activation function, with its gate."""

BACKWARD_PASSES = 1.6
"""Memory-bound work of the backward pass over that of the forward pass."""

SCORE_PASSES_FORWARD = 13.0
"""Bytes per attention score of unfused attention, forward: product, mask and softmax, dropout, second product."""

SCORE_PASSES_BACKWARD = 17.0
"""Bytes per attention score of unfused attention, backward."""

UNFUSED_ATTENTION = 0.316
"""Share of the matrix rate that the batched products of unfused attention reach. Fitted."""

LOSS_BYTES = 30.0
"""Bytes per logit of the loss outside its matrix products: upcast, softmax, gradient. Fitted."""

CAST_BYTES = {"fp8": 5.37, "mxfp8": 16.0, "nvfp4": 10.1, "fp8-rowwise": 12.0}
"""Bytes moved per element to bring one input of an 8-bit matrix product into its format (value, transposed copy,
largest value). Fitted."""

KERNEL_SECONDS_DENSE = 0.004
"""Least time of one dense layer's forward and backward pass: launching its kernels one after another from the host.
Fitted."""

RESTORE_SECONDS = 0.000158
"""Time that full recomputation of one layer adds beside its work: restoring the random state waits for the launch
queue to drain. Fitted."""

RESTORE_SECONDS_DEEPSPEED = 0.0141
"""The same with DeepSpeed's activation checkpointing and its pipeline engine: 10 ms a layer apart from Megatron alone
on the same V100 nodes (BigScience gpt2.md, 120 against 130 tokens/s). Fitted."""

RESTORE_MOST = 1.5
"""Times a layer's recomputation that restoring may take: the least bound that the measured runs agree with; models
smaller than theirs would otherwise be all waiting."""

KERNEL_SECONDS_EXPERTS = 0.00441
"""The same for a layer with experts, whose token counts come back to the host. Fitted."""

# Links

INTRANODE_SHARE = 0.82
"""Share of a GPU's data-sheet link rate that collectives reach inside a node; all-reduces alone measure A100 235/300,
H200 367/450, B200 682/900 GB/s (ml-engineering network benchmarks). Fitted."""

INTERNODE_SHARE = 0.44
"""Share of the NICs' rate that collectives reach between nodes within a training step. All-reduces alone measure 0.73
to 0.95 at 1 GiB and more, and half of that at 128 MiB (ml-engineering network benchmarks). Fitted."""

LEVEL_LOSS = 0.619
"""Share of the faster level of a hierarchical collective that does not run beside the slower one. Fitted."""

SWITCH_REDUCTION_RANKS = 8
"""Ranks of one NVLink domain from which on NVLS gains (four B200 gain nothing, ml-engineering network benchmarks)."""

RING_STEP_INTRANODE = 3.4e-6
"""Seconds of one step of a ring inside a node (NCCL src/graph/tuning.cc, NVLink, simple protocol)."""

RING_STEP_INTERNODE = 1.4e-05
"""Seconds of one step of a ring between nodes (NCCL src/graph/tuning.cc, network, simple protocol)."""

COLLECTIVE_SECONDS = 2.5e-05
"""Seconds that any collective takes before its first byte moves."""

CONTENTION = 0.4
"""Share of hidden communication that still slows the compute beside it (multiprocessors and memory bandwidth that it
takes). Fitted."""

# Memory

CONTEXT_BYTES = Spread(0.5e9, 1.2e9, 1.6e9)
"""What a process holds on the GPU before its first tensor: CUDA context and kernels (1.1-1.3 GB on A100, BigScience
gpt2.md)."""

NETWORK_BUFFER_BYTES = Spread(0.1e9, 0.4e9, 0.8e9)
"""What NCCL's channels hold on the GPU for one communicator."""

FRAGMENTATION = Spread(1.0, 1.05, 1.12)
"""Memory that the caching allocator reserves over what is allocated at the peak (3-8% in SimuMax's B200 rows)."""

LOGIT_BYTES_PARALLEL = Spread(6.0, 8.0, 12.0)
"""Bytes per logit at the peak of Megatron's vocabulary-parallel loss: 16-bit logits 2, an fp32 copy that becomes
softmax and gradient 4, a 16-bit gradient 2."""

LOGIT_BYTES = Spread(3.0, 13.0, 16.0)
"""Bytes per logit of a plain PyTorch loss: 16-bit logits 2, fp32 copy 4, log-softmax 4, gradient 2 to 4; fused or
chunked losses need less."""

LOGIT_BYTES_PLAIN = Spread(10.0, 13.0, 16.0)
"""The same where nothing fuses or cuts it: the forward pass ends with logits 2, fp32 copy 4 and log-softmax 4, and the
backward pass holds log-softmax, its gradient and that of the logits, 4 each (torch.nn.functional.cross_entropy)."""

LOGIT_BYTES_FUSED = Spread(0.0, 2.0, 4.0)
"""Bytes per logit where the loss is computed in pieces: nothing but one piece (Liger Kernel), or all logits in 16 bits
beside the fp32 copy of one (torchtune's chunked loss)."""

NARROW_STATE_BYTES = {"8bit": 1.02, "4bit": 0.53}
"""Bytes of an optimizer's number in 8 or 4 bits with the fp32 scale of its block (256 numbers in bitsandbytes, 128 in
torchao's 4-bit optimizers)."""

STEP_COPY_BYTES = Spread(4.0, 6.0, 6.0)
"""Bytes per owned parameter that DeepSpeed's step adds: an fp32 copy of the gradients 4, and flattening them 2
(zero/stage_1_and_2.py)."""

DEEPSPEED_BUCKET_BYTES = 1e9
"""DeepSpeed's reduce bucket: 5e8 elements of 16 bits (zero/config.py)."""

DEEPSPEED_LIVE_PARAMETERS = 1e9
"""Gathered parameters that ZeRO-3 lets live at most (stage3_max_live_parameters, zero/config.py)."""

# Shapes

USUAL_LATENT = LatentAttention(query=1536, key_value=512, rope=64, nope=128, value=128)
"""Widths of multi-head latent attention where a plan names it without ranks: those of DeepSeek-V2 and V3 (their
config.json)."""

# What runs beside what

TENSOR_OVERLAP = 0.313
"""Share of tensor-parallel communication that user buffers or async TP hide. Fitted."""

BACKWARD_OVERLAP = 0.9
"""Share of the backward pass's tensor-parallel communication that runs beside weight gradients. Fitted."""

CONTEXT_OVERLAP = 0.3
"""Share of the compute beside which ring attention can pass keys and values (attention itself)."""

EXPERT_EXPOSED = 0.138
"""Share of the experts' all-to-alls that nothing hides. Fitted."""

REDUCE_WINDOW = 0.545
"""Share of a pass beside which gradients or parameters travel: the first or last buckets have nothing beside them.
Fitted."""

MATRICES_OF_A_LAYER = 4
"""Weights of a layer that ZeRO-3 gathers one by one: joint projection, output, and two of the feed-forward block
(zero/stage3.py)."""

DEEPSPEED_PREFETCH_PARAMETERS = 5e7
"""Parameters that ZeRO-3 gathers ahead of use at most (stage3_prefetch_bucket_size, zero/config.py)."""

HOST_MEMORY_RATE = 2e11
"""Bytes per second of a two-socket node's memory that a CPU optimizer streams (200-400 GB/s with all threads)."""

HOST_THREAD_RATE = 1.5e10
"""Bytes per second of that memory that one thread streams (10-15 GB/s)."""

HOST_LINK_RATE = 2e10
"""Bytes per second of one GPU's link to its host, one direction (PCIe 4 x16: 25 GB/s measured with pinned memory, less
protocol)."""
