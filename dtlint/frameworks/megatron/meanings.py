"""Which setting each Megatron flag sets by itself: the table that reading and writing share."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.record import NamedTuple
from dtlint.value import Plain


class Meaning(NamedTuple):
    """What a flag sets. `kind`: "integer", "number" or "word" (the setting is the flag's value), or "fixed" (the flag's
    presence sets `value`). `scale` multiplies a number into the setting's unit, `words` are the words that a "word" may
    be (any if empty) with what they mean.
    """

    setting: str
    kind: str
    value: Plain = True
    scale: int = 1
    words: Mapping[str, str] = {}


def _same(words: str) -> Mapping[str, str]:
    return {word: word for word in words.split()}


_INTEGERS = {
    "tensor-model-parallel-size": "parallel.tensor",
    "pipeline-model-parallel-size": "parallel.pipeline",
    "model-parallel-size": "parallel.tensor",
    "pipe-parallel-size": "parallel.pipeline",
    "context-parallel-size": "parallel.context",
    "expert-model-parallel-size": "parallel.expert",
    "expert-tensor-parallel-size": "parallel.expert_tensor",
    "moe-expert-parallel-size": "parallel.expert",
    "ds-sequence-parallel-size": "parallel.ulysses",
    "num-virtual-stages-per-pipeline-rank": "parallel.virtual_pipeline",
    "micro-batch-size": "batch.micro",
    "global-batch-size": "batch.global",
    "num-layers": "model.layers",
    "encoder-num-layers": "model.layers",
    "hidden-size": "model.hidden",
    "ffn-hidden-size": "model.ffn",
    "num-attention-heads": "model.heads",
    "num-key-value-heads": "model.kv_heads",
    "kv-channels": "model.head_dim",
    "vocab-size": "model.vocab",
    "padded-vocab-size": "model.vocab",
    "moe-router-topk": "model.experts_per_token",
    "topk": "model.experts_per_token",
    "moe-ffn-hidden-size": "model.expert_ffn",
    "moe-shared-expert-intermediate-size": "model.shared_expert_ffn",
    "seq-length": "data.sequence_length",
    "max-position-embeddings": "model.max_positions",
    "microbatch-group-size-per-virtual-pipeline-stage": "schedule.group",
    "num-distributed-optimizer-instances": "sharding.instances",
    "encoder-seq-length": "data.sequence_length",
    "zero-stage": "sharding.stage",
    "train-iters": "run.steps",
    "exit-interval": "run.steps_per_launch",
    "train-tokens": "run.tokens",
}
_FIXED: tuple[tuple[str, str, Plain], ...] = (
    ("sequence-parallel", "parallel.sequence", True),
    ("no-pipeline-parallel", "parallel.pipeline_engine", False),
    ("use-tp-pp-dp-mapping", "parallel.order", ("tensor", "context", "expert", "pipeline", "data")),
    ("use-distributed-optimizer", "sharding.stage", 1),
    ("use-torch-fsdp2", "sharding.stage", 3),
    ("optimizer-cpu-offload", "sharding.offload_optimizer", "cpu"),
    ("cpu-optimizer", "sharding.offload_optimizer", "cpu"),
    ("overlap-grad-reduce", "overlap.gradients", True),
    ("overlap-param-gather", "overlap.parameters", True),
    ("tp-comm-overlap", "overlap.tensor", True),
    ("overlap-moe-expert-parallel-comm", "overlap.expert", True),
    ("overlap-p2p-communication", "overlap.pipeline", True),
    ("no-overlap-p2p-communication", "overlap.pipeline", False),
    ("swiglu", "model.gated_mlp", True),
    ("untie-embeddings-and-output-weights", "model.tied_embeddings", False),
    ("use-flash-attn", "attention.flash", True),
    ("use-flash-attn-v1", "attention.flash", True),
    ("use-flash-attn-v2", "attention.flash", True),
    ("use-flash-attn-builder", "attention.flash", True),
    ("use-flash-attn-triton", "attention.flash", True),
    ("recompute-activations", "checkpointing.activations", "selective"),
    ("checkpoint-activations", "checkpointing.activations", "full"),
    ("distribute-saved-activations", "checkpointing.partitioned", True),
    ("distribute-checkpointed-activations", "checkpointing.partitioned", True),
    ("partition-activations", "checkpointing.partitioned", True),
    ("enable-zbh1-pipeline", "schedule.kind", "zb1p"),
)

MEANINGS: Mapping[str, Meaning] = {
    **{flag: Meaning(setting, "integer") for flag, setting in _INTEGERS.items()},
    **{flag: Meaning(setting, "fixed", value) for flag, setting, value in _FIXED},
    "distributed-timeout-minutes": Meaning("launch.timeout_seconds", "number", scale=60),
    "clip-grad": Meaning("optimizer.clip", "number"),
    "optimizer": Meaning("optimizer.name", "word"),
    "recompute-granularity": Meaning("checkpointing.activations", "word", words=_same("none selective full")),
    "activations-checkpoint-method": Meaning(
        "checkpointing.activations", "word", words={"uniform": "full", "block": "full"}
    ),
    "moe-token-dispatcher-type": Meaning(
        "communication.moe_dispatcher", "word", words={**_same("allgather alltoall flex"), "alltoall_seq": "alltoall"}
    ),
    "main-params-dtype": Meaning("precision.master", "word", words=_same("fp32 fp16 bf16")),
}
"""By the flag's name without dashes in front; of two flags for one setting the later in a command counts."""

SPELLINGS: Mapping[tuple[str, Plain], str] = {
    ("sharding.stage", 1): "--use-distributed-optimizer",
    ("sharding.stage", 3): "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
    ("precision.compute", "bf16"): "--bf16",
    ("precision.compute", "fp16"): "--fp16",
    ("precision.compute", "fp8"): "--fp8-format hybrid",
    ("precision.compute", "mxfp8"): "--fp8-format e4m3 --fp8-recipe mxfp8",
    ("precision.compute", "nvfp4"): "--fp4-format e2m1",
    ("precision.reduce", "bf16"): "--grad-reduce-in-bf16",
    ("precision.gradients", "bf16"): "--grad-reduce-in-bf16",
    ("precision.gradients", "fp32"): "--accumulate-allreduce-grads-in-fp32",
    (
        "checkpointing.activations",
        "full",
    ): "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    ("checkpointing.activations", "selective"): "--recompute-granularity selective",
    ("attention.flash", True): "--attention-backend flash",
}
"""Settings that a user writes in more than one word, or by another flag than the one in the table."""

PREFERRED: Mapping[str, str] = {
    "parallel.expert": "expert-model-parallel-size",
    "parallel.ulysses": "ds-sequence-parallel-size",
    "model.layers": "num-layers",
    "model.experts_per_token": "moe-router-topk",
    "model.vocab": "vocab-size",
    "model.kv_heads": "group-query-attention --num-query-groups",
    "data.sequence_length": "seq-length",
    "overlap.pipeline": "",
    "sharding.stage": "",
    "run.tokens": "",
}
"""The flag to write where several set a setting; "" where none is right for every value."""
