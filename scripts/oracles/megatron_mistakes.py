"""One mistake in a valid Megatron launch, by the name of the rule about it; None where a launch has no room for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from oracles.megatron_runs import Run

Mistake = Callable[[random.Random, Run], "Run | None"]


def mistaken(pick: random.Random, valid: Sequence[Run], mistakes: Sequence[Mistake], count: int) -> Iterator[Run]:
    """`count` launches with a mistake each, the ways to make it in turn."""
    for number in range(count):
        mistake = mistakes[number % len(mistakes)]
        tries = (mistake(pick, run) for run in pick.sample(valid, len(valid)))
        found = next((run for run in tries if run is not None), None)
        if found is None:
            raise ValueError(f"no valid launch has room for mistake {number % len(mistakes)}")
        yield found


def _if(holds: bool, run: Run) -> Run | None:
    return run if holds else None


def _renamed(run: Run, old: str, new: str) -> Run:
    """A flag spelled otherwise, at its place."""
    return run._replace(flags={new if name == old else name: values for name, values in run.flags.items()})


# unknown-setting

_SPELLED = (
    ("tensor-model-parallel-size", "tensor-model-parallel-sizes"),
    ("tensor-model-parallel-size", "tensor_model_parallel_size"),
    ("tensor-model-parallel-size", "tensor-model"),
    ("pipeline-model-parallel-size", "pipeline-model-parallel-siz"),
    ("use-distributed-optimizer", "use-distributed-optimiser"),
    ("use-distributed-optimizer", "use-distributed-opt"),
    ("sequence-parallel", "sequence-paralell"),
    ("sequence-parallel", "sequence_parallel"),
    ("micro-batch-size", "micro-batchsize"),
    ("micro-batch-size", "micro_batch_size"),
    ("micro-batch-size", "micro-batch"),
    ("global-batch-size", "global-batch-sizes"),
    ("global-batch-size", "global_batch_size"),
    ("global-batch-size", "global-batch"),
    ("overlap-grad-reduce", "overlap-grads-reduce"),
    ("overlap-param-gather", "overlap-params-gather"),
    ("num-layers", "num-layer"),
    ("num-attention-heads", "num-attention-head"),
    ("num-attention-heads", "num_attention_heads"),
    ("hidden-size", "hidden-sizes"),
    ("max-position-embeddings", "max-position-embedding"),
    ("seq-length", "seq_length"),
    ("swiglu", "swiglue"),
    ("recompute-granularity", "recompute-granulariy"),
    ("context-parallel-size", "context-paralel-size"),
    ("expert-model-parallel-size", "expert-model-parallel"),
    ("num-query-groups", "num-query-group"),
    ("untie-embeddings-and-output-weights", "untie-embeddings-and-output-weight"),
    ("train-iters", "train-iter"),
    ("position-embedding-type", "position-embeddings-type"),
    ("clip-grad", "clip-grads"),
    ("ffn-hidden-size", "ffn-hidden-sizes"),
)


def _misspelt(old: str, new: str) -> Mistake:
    return lambda _, run: _if(old in run.flags, _renamed(run, old, new))


# setting-type

_VALUES: tuple[tuple[str, str], ...] = (
    ("tensor-model-parallel-size", "two"), ("pipeline-model-parallel-size", "2.0"), ("micro-batch-size", "1.5"),
    ("global-batch-size", "1e3"), ("train-iters", "1e6"), ("train-samples", "1_000_000.0"), ("num-layers", "32L"),
    ("seq-length", "4k"), ("hidden-size", "4096.0"), ("num-attention-heads", "''"), ("lr", "1e-4f"), ("min-lr", "low"),
    ("clip-grad", "none"), ("recompute-granularity", "partial"), ("recompute-method", "all"),
    ("moe-token-dispatcher-type", "all2all"), ("num-experts", "eight"), ("context-parallel-size", "auto"),
    ("expert-model-parallel-size", "8x"), ("position-embedding-type", "rotary"), ("normalization", "rmsnorm"),
    ("data-parallel-sharding-strategy", "full"), ("fp8-format", "e5m2"), ("fp8-recipe", "dynamic"),
    ("ckpt-format", "safetensors"), ("exp-avg-dtype", "int8"), ("main-grads-dtype", "float32"),
    ("attention-backend", "xformers"), ("distributed-timeout-minutes", "1h"), ("ddp-bucket-size", "50M"),
    ("optimizer", "adamw"), ("num-query-groups", "8.0"), ("ffn-hidden-size", "11008,"), ("kv-channels", "1/8"),
)  # fmt: skip
_WORDS_BEHIND: tuple[tuple[str, str], ...] = (
    ("bf16", "true"), ("sequence-parallel", "True"), ("use-distributed-optimizer", "1"), ("swiglu", "yes"),
    ("overlap-grad-reduce", "false"), ("untie-embeddings-and-output-weights", "True"),
)  # fmt: skip
_WITHOUT_VALUE = ("tensor-model-parallel-size", "micro-batch-size", "num-layers", "lr", "recompute-granularity")


def _valued(name: str, value: str) -> Mistake:
    text = value.strip("'")
    return lambda _, run: _if(name in run.flags, run.plus(**{name: (text,)}))


def _emptied(name: str) -> Mistake:
    return lambda _, run: _if(name in run.flags, run.plus(**{name: ()}))


# world-size-mismatch, ep-not-divisible


def _fewer_nodes(pick: random.Random, run: Run) -> Run | None:
    size = run.tensor * run.pipeline * run.context
    nodes = [count for count in (1, 2, 3, 5) if count * run.processes % size]
    return run._replace(nodes=pick.choice(nodes)) if nodes else None


def _fewer_processes(pick: random.Random, run: Run) -> Run | None:
    size = run.tensor * run.pipeline * run.context
    counts = [count for count in (1, 3, 4, 6, 7) if run.nodes * count % size]
    return run._replace(processes=pick.choice(counts)) if counts else None


def _odd_degree(name: str, degrees: Sequence[int]) -> Mistake:
    def mistake(pick: random.Random, run: Run) -> Run | None:
        others = run.tensor * run.pipeline * run.context // max(1, run.number(name))
        fits = [degree for degree in degrees if run.nodes * run.processes % (others * degree)]
        return run.plus(**{name: pick.choice(fits)}) if fits else None

    return mistake


def _experts_that_do_not_divide(pick: random.Random, run: Run) -> Run | None:
    degree = run.number("expert-model-parallel-size")
    return run.plus(num_experts=degree * pick.choice((1, 3, 7)) + 1) if degree > 1 else None


def _no_experts(_: random.Random, run: Run) -> Run | None:
    grid = run.nodes * run.processes // run.pipeline // run.tensor
    fits = "num-experts" not in run.flags and not run.fsdp and grid % 2 == 0
    return run.plus(expert_model_parallel_size=2) if fits else None


def _grid_that_does_not_fit(pick: random.Random, run: Run) -> Run | None:
    """EP that divides the experts but, with ETP and PP, not the world."""
    if "num-experts" not in run.flags:
        return None
    world, tensor = run.nodes * run.processes, run.number("expert-tensor-parallel-size", run.tensor)
    degrees = [
        ep for ep in (4, 8, 16, 32, 64) if run.number("num-experts") % ep == 0 and world % (ep * tensor * run.pipeline)
    ]
    return run.plus(expert_model_parallel_size=pick.choice(degrees)) if degrees else None


# batch-not-divisible, microbatches-lt-stages, batch-rampup-ignored


def _odd_batch(pick: random.Random, run: Run) -> Run | None:
    local = run.number("micro-batch-size") * run.data
    if local == 1 or "global-batch-size" not in run.flags:
        return None
    return run.plus(global_batch_size=run.number("global-batch-size") + pick.randrange(1, local))


def _tiny_batch(pick: random.Random, run: Run) -> Run | None:
    local = run.number("micro-batch-size") * run.data
    return (
        run.plus(global_batch_size=pick.randrange(1, local)) if local > 1 and "global-batch-size" in run.flags else None
    )


def _odd_micro(pick: random.Random, run: Run) -> Run | None:
    total = run.number("global-batch-size")
    sizes = [size for size in (3, 5, 6, 7, 12) if total % (size * run.data)]
    return run.plus(micro_batch_size=pick.choice(sizes)) if sizes and "global-batch-size" in run.flags else None


def _odd_nodes(pick: random.Random, run: Run) -> Run | None:
    size, total = run.tensor * run.pipeline * run.context, run.number("global-batch-size")
    nodes = [
        count
        for count in (3, 5, 6, 7, 12)
        if count * run.processes % size == 0
        and total % (run.number("micro-batch-size") * count * run.processes // size)
    ]
    wide = run.number("expert-model-parallel-size") > 1 or "global-batch-size" not in run.flags
    return run._replace(nodes=pick.choice(nodes)) if nodes and not wide else None


def _few_microbatches(pick: random.Random, run: Run) -> Run | None:
    if run.chunks < 2 or run.pipeline < 2:
        return None
    return run.plus(global_batch_size=run.number("micro-batch-size") * run.data * pick.randrange(1, run.pipeline))


def _no_global_batch(_: random.Random, run: Run) -> Run | None:
    return run.without("global-batch-size") if run.chunks > 1 and run.pipeline > 1 else None


def _left_over_microbatches(pick: random.Random, run: Run) -> Run | None:
    """More micro-batches than stages, in groups of which the last is too small."""
    if run.chunks < 2 or run.pipeline < 3:
        return None
    count = run.pipeline * pick.choice((1, 2, 3)) + pick.randrange(1, run.pipeline)
    return run.plus(global_batch_size=run.number("micro-batch-size") * run.data * count)


def _group_out_of_range(pick: random.Random, run: Run) -> Run | None:
    if run.chunks < 2 or run.pipeline < 2 or "global-batch-size" not in run.flags:
        return None
    count = run.number("global-batch-size") // (run.number("micro-batch-size") * run.data)
    sizes = (run.pipeline - 1, count + 1)
    return run.plus(microbatch_group_size_per_virtual_pipeline_stage=pick.choice(sizes))


def _schedule_and_batch(pick: random.Random, run: Run) -> Run | None:
    if "global-batch-size" not in run.flags:
        return None
    total = run.number("global-batch-size")
    forms = (f"0:{total} 100B:{2 * total}", f"0:{total},250M:{total * 4}", f"0:{total}")
    return run.plus(step_batch_size_schedule=(pick.choice(forms),))


# heads-not-divisible, layers-not-divisible, seq-not-divisible


def _odd_heads(pick: random.Random, run: Run) -> Run | None:
    """Heads off the tensor-parallel degree; the hidden size follows, so that a head keeps its width."""
    if run.tensor < 2 or "kv-channels" in run.flags or "num-query-groups" in run.flags:
        return None
    width = run.number("hidden-size") // run.number("num-attention-heads")
    heads = run.number("num-attention-heads") + pick.randrange(1, run.tensor)
    return run.plus(num_attention_heads=heads, hidden_size=heads * width)


def _odd_groups(pick: random.Random, run: Run) -> Run | None:
    """Key-value groups that neither divide the tensor-parallel degree nor are divided by it."""
    if run.tensor < 4 or "num-query-groups" not in run.flags:
        return None
    groups = [count for count in (3, 6, 12) if count % run.tensor and run.tensor % count]
    return run.plus(num_query_groups=pick.choice(groups)) if groups else None


def _heads_that_do_not_divide_hidden(pick: random.Random, run: Run) -> Run | None:
    if "kv-channels" in run.flags or "num-query-groups" in run.flags:
        return None
    hidden = run.number("hidden-size")
    counts = [run.tensor * count for count in (3, 5, 7, 9, 11) if hidden % (run.tensor * count)]
    return run.plus(num_attention_heads=pick.choice(counts)) if counts else None


def _odd_tensor(pick: random.Random, run: Run) -> Run | None:
    """Six processes on each node and as many tensor-parallel ranks."""
    if run.tensor > 1 or run.pipeline > 1 or run.context > 1 or "num-experts" in run.flags or run.fsdp:
        return None
    env = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    whole = run.plus(tensor_model_parallel_size=6, global_batch_size=run.number("micro-batch-size") * run.nodes * 4)
    fits = run.number("num-attention-heads") % 6 and "global-batch-size" in run.flags
    return whole._replace(processes=6, env=env) if fits else None


def _odd_layers(pick: random.Random, run: Run) -> Run | None:
    shaped = {"pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers", "moe-layer-freq"}
    if run.pipeline < 2 or shaped & run.flags.keys():
        return None
    return run.plus(num_layers=run.number("num-layers") + pick.randrange(1, run.pipeline))


def _odd_chunks(pick: random.Random, run: Run) -> Run | None:
    """Chunks that do not divide the layers of a stage."""
    if run.pipeline < 2 or "num-layers-per-virtual-pipeline-stage" not in run.flags:
        return None
    layers = run.number("num-layers") // run.pipeline
    sizes = [size for size in (3, 5, 7, 9, 11) if layers % size and size < layers]
    return run.plus(num_layers_per_virtual_pipeline_stage=pick.choice(sizes)) if sizes else None


def _odd_ends(pick: random.Random, run: Run) -> Run | None:
    """First and last stage that leave the others a remainder."""
    ends = {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"}
    if not ends <= run.flags.keys() or run.pipeline < 4:
        return None
    return run.plus(decoder_first_pipeline_num_layers=run.number("decoder-first-pipeline-num-layers") - 1)


def _extra_layer(pick: random.Random, run: Run) -> Run | None:
    """Embedding or loss counted as a layer where the layers divide without it."""
    other = {
        "pipeline-model-parallel-layout",
        "decoder-first-pipeline-num-layers",
        "account-for-loss-in-pipeline-split",
    }
    if run.pipeline < 2 or run.chunks > 1 or other & run.flags.keys():
        return None
    flag = pick.choice(("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"))
    return run.plus(**{flag: True})


def _short_layout(pick: random.Random, run: Run) -> Run | None:
    """A layout of too few stages, or of too few layers."""
    layout = run.flags.get("pipeline-model-parallel-layout", ("",))[0]
    if not layout:
        return None
    whole = layout.replace("|", "", 1) if pick.random() < 0.5 else layout.replace("t", "", 1)
    return run.plus(pipeline_model_parallel_layout=(whole,))


def _odd_length(pick: random.Random, run: Run) -> Run | None:
    """Tokens off TP x 2 x CP."""
    parts = (run.tensor if "sequence-parallel" in run.flags else 1) * (2 * run.context if run.context > 1 else 1)
    if parts < 2 or "num-experts" in run.flags:
        return None
    return run.plus(seq_length=run.number("seq-length") - pick.randrange(1, parts))


def _longer_than_positions(pick: random.Random, run: Run) -> Run | None:
    return run.plus(seq_length=run.number("seq-length") * pick.choice((2, 4)))


# overlap-flag-dependency, cuda-max-connections, overlap-serialized


def _gather_without_reduce(_: random.Random, run: Run) -> Run | None:
    return _if("overlap-param-gather" in run.flags, run.without("overlap-grad-reduce"))


def _gather_without_optimizer(_: random.Random, run: Run) -> Run | None:
    whole = "overlap-param-gather" in run.flags and not run.fsdp
    return _if(whole, run.without("use-distributed-optimizer"))


def _gather_alone(_: random.Random, run: Run) -> Run | None:
    whole = not {"overlap-grad-reduce", "use-distributed-optimizer"} & run.flags.keys() and not run.fsdp
    return _if(whole, run.plus(overlap_param_gather=True))


def _overlap_without_sequence(_: random.Random, run: Run) -> Run | None:
    return _if(run.tensor > 1, run.without("sequence-parallel").plus(tp_comm_overlap=True))


def _overlap_without_tensor(_: random.Random, run: Run) -> Run | None:
    return _if(run.tensor == 1, run.plus(sequence_parallel=True, tp_comm_overlap=True))


def _gather_with_step(pick: random.Random, run: Run) -> Run | None:
    """Which needs the interleaved schedule too, and a checkpoint of the old form."""
    whole = "overlap-param-gather" in run.flags and run.chunks == 1 and not run.fsdp
    laid_out = "pipeline-model-parallel-layout" in run.flags
    return _if(whole and not laid_out, run.plus(overlap_param_gather_with_optimizer_step=True, ckpt_format="torch"))


def _other_connections(pick: random.Random, run: Run) -> Run | None:
    value = pick.choice(("8", "32", "2", "4"))
    return run._replace(env={"CUDA_DEVICE_MAX_CONNECTIONS": value}) if run.env else None


def _no_connections(_: random.Random, run: Run) -> Run | None:
    return run._replace(env={}) if run.env else None


def _one_connection(_: random.Random, run: Run) -> Run | None:
    return run._replace(env={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}) if run.fsdp else None


# removed-or-renamed

_GONE: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    ("micro-batch-size", "batch-size", {}),
    ("tensor-model-parallel-size", "model-parallel-size", {}),
    ("recompute-activations", "checkpoint-activations", {}),
    ("use-megatron-fsdp", "use-custom-fsdp", {}),
    ("", "warmup", {"warmup": 100}),
    ("", "checkpoint-activations", {"checkpoint_activations": True}),
    ("", "no-async-tensor-model-parallel-allreduce", {}),
    ("", "DDP-impl", {"DDP_impl": "local"}),
    ("", "distribute-checkpointed-activations", {}),
    ("", "moe-extended-tp", {}),
    ("", "use-legacy-models", {}),
    ("", "no-contiguous-buffers-in-local-ddp", {}),
    ("", "standalone-embedding-stage", {}),
    ("", "activations-checkpoint-method", {}),
    ("recompute-method", "activations-checkpoint-method", {}),
    ("", "no-query-key-layer-scaling", {}),
)


def _old(name: str, new: str, flags: Mapping[str, object]) -> Mistake:
    def mistake(_: random.Random, run: Run) -> Run | None:
        if name:
            return _if(name in run.flags, _renamed(run, name, new))
        return run.plus(**(flags or {new.replace("-", "_"): True}))

    return mistake


# refused-combination: flags that are refused beside each other

_BESIDE: tuple[tuple[Mapping[str, object], Callable[[Run], bool]], ...] = (
    ({"fp16": True, "bf16": True}, lambda run: not run.fsdp),
    ({"fp8_format": "hybrid", "fp4_format": "e2m1"}, lambda run: True),
    (
        {"num_virtual_stages_per_pipeline_rank": 2, "num_layers_per_virtual_pipeline_stage": 2},
        lambda run: run.pipeline > 1,
    ),
    ({"num_virtual_stages_per_pipeline_rank": 2}, lambda run: "pipeline-model-parallel-layout" in run.flags),
    ({"recompute_granularity": "selective", "recompute_method": "uniform"}, lambda run: True),
    (
        {"recompute_granularity": "selective", "recompute_num_layers": 1},
        lambda run: "recompute-method" not in run.flags,
    ),
    ({"train_iters": 1000, "train_samples": 100000}, lambda run: True),
    ({"train_iters": 1000, "lr_decay_samples": 100000}, lambda run: "train-samples" not in run.flags),
    ({"train_samples": 100000, "lr_decay_iters": 1000}, lambda run: "train-iters" not in run.flags),
    ({"train_samples": 100000, "lr_warmup_iters": 10}, lambda run: "train-iters" not in run.flags),
    ({"train_iters": 1000, "lr_warmup_samples": 10}, lambda run: "train-samples" not in run.flags),
    (
        {"train_iters": 1000, "lr_warmup_iters": 10, "lr_warmup_fraction": "0.01"},
        lambda run: "train-samples" not in run.flags,
    ),
    ({"use_distributed_optimizer": True}, lambda run: "use-torch-fsdp2" in run.flags),
    ({"fp16": True, "bf16": ()}, lambda run: "use-torch-fsdp2" in run.flags),
    ({"multi_latent_attention": True}, lambda run: "group-query-attention" in run.flags),
    ({"num_layers": 24, "encoder_num_layers": 24}, lambda run: "num-layers" in run.flags and run.pipeline == 1),
    ({"ddp_num_buckets": 8, "ddp_bucket_size": 40000000}, lambda run: not run.fsdp),
    ({"decoder_first_pipeline_num_layers": 4}, lambda run: "account-for-loss-in-pipeline-split" in run.flags),
    ({"decoder_first_pipeline_num_layers": 4}, lambda run: "pipeline-model-parallel-layout" in run.flags),
    ({"account_for_loss_in_pipeline_split": True}, lambda run: "pipeline-model-parallel-layout" in run.flags),
    ({"cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "te"}, lambda run: True),
    ({"cpu_offloading_num_layers": 2}, lambda run: run.pipeline > 1),
    ({"cpu_offloading_num_layers": 2}, lambda run: run.pipeline == 1 and "recompute-granularity" in run.flags),
    (
        {"step_batch_size_schedule": "0:1024", "decrease_batch_size_if_needed": True},
        lambda run: "global-batch-size" not in run.flags,
    ),
    (
        {"distribute_saved_activations": True},
        lambda run: (
            run.tensor > 1 and "sequence-parallel" in run.flags and run.flags.get("recompute-granularity") == ("full",)
        ),
    ),
    ({"accumulate_allreduce_grads_in_fp32": True}, lambda run: run.flags.get("main-grads-dtype") == ("bf16",)),
    ({"optimizer": "sgd"}, lambda run: "use-precision-aware-optimizer" in run.flags),
    ({"squared_relu": True}, lambda run: "swiglu" in run.flags),
    ({"seq_length": 2048, "encoder_seq_length": 2048}, lambda run: True),
)


def _beside(flags: Mapping[str, object], fits: Callable[[Run], bool]) -> Mistake:
    return lambda _, run: _if(fits(run), run.plus(**flags))


# and one without the one that it needs

_FULL = {"recompute_granularity": "full"}
_LACKING: tuple[tuple[Mapping[str, object], tuple[str, ...], Callable[[Run], bool]], ...] = (
    (
        {"optimizer_cpu_offload": True},
        ("use-precision-aware-optimizer", "exp-avg-dtype", "exp-avg-sq-dtype", "main-grads-dtype"),
        lambda run: True,
    ),
    (
        {"exp_avg_dtype": "bf16"},
        ("use-precision-aware-optimizer",),
        lambda run: "optimizer-cpu-offload" not in run.flags,
    ),
    (
        {"main_grads_dtype": "bf16"},
        ("use-precision-aware-optimizer",),
        lambda run: "optimizer-cpu-offload" not in run.flags and "accumulate-allreduce-grads-in-fp32" not in run.flags,
    ),
    (_FULL, ("recompute-method", "recompute-num-layers"), lambda run: True),
    ({**_FULL, "recompute_method": "uniform"}, ("recompute-num-layers",), lambda run: True),
    ({**_FULL, "recompute_num_layers": 1}, ("recompute-method",), lambda run: True),
    (
        {"distribute_saved_activations": True, **_FULL, "recompute_method": "uniform", "recompute_num_layers": 1},
        (),
        lambda run: run.tensor == 1,
    ),
    (
        {"distribute_saved_activations": True},
        ("recompute-granularity", "recompute-method", "recompute-num-layers"),
        lambda run: run.tensor > 1,
    ),
    (
        {"fp8_format": "hybrid", "fp8_param_gather": True},
        ("use-distributed-optimizer", "overlap-param-gather"),
        lambda run: not run.fsdp,
    ),
    ({"fp8_param_gather": True}, ("fp8-format", "fp8-recipe"), lambda run: "use-distributed-optimizer" in run.flags),
    ({"fp4_param_gather": True}, ("fp8-format", "fp8-recipe"), lambda run: True),
    ({}, ("ckpt-format",), lambda run: "use-megatron-fsdp" in run.flags),
    ({"ckpt_format": "fsdp_dtensor"}, (), lambda run: not run.fsdp),
    ({"ckpt_format": "torch_dcp"}, (), lambda run: not run.fsdp),
    ({}, ("untie-embeddings-and-output-weights",), lambda run: "use-torch-fsdp2" in run.flags),
    ({}, ("no-gradient-accumulation-fusion",), lambda run: "use-torch-fsdp2" in run.flags),
    (
        {"num_virtual_stages_per_pipeline_rank": 2},
        (),
        lambda run: run.pipeline == 1 and run.number("num-layers") % 2 == 0,
    ),
    (
        {"num_virtual_stages_per_pipeline_rank": 2, "no_overlap_p2p_communication": True},
        (),
        lambda run: (
            run.pipeline == 2
            and run.chunks == 1
            and "pipeline-model-parallel-layout" not in run.flags
            and run.number("num-layers") % 4 == 0
        ),
    ),
    (
        {},
        ("disable-bias-linear",),
        lambda run: "num-experts" in run.flags and run.tensor > 1 and "expert-tensor-parallel-size" not in run.flags,
    ),
    ({"moe_router_topk": 1}, (), lambda run: "num-experts" in run.flags),
    ({"moe_ffn_hidden_size": 1024}, (), lambda run: "num-experts" not in run.flags),
    (
        {"moe_shared_expert_overlap": True, "moe_token_dispatcher_type": "allgather"},
        (),
        lambda run: "moe-shared-expert-intermediate-size" in run.flags,
    ),
    ({"moe_enable_deepep": True}, (), lambda run: "num-experts" in run.flags),
    (
        {"moe_pad_expert_input_to_capacity": True},
        ("moe-expert-capacity-factor",),
        lambda run: "num-experts" in run.flags,
    ),
    ({"moe_router_group_topk": 2}, ("moe-router-num-groups",), lambda run: "num-experts" in run.flags),
    (
        {"recompute_granularity": "selective", "recompute_modules": "moe_act"},
        ("recompute-method", "recompute-num-layers"),
        lambda run: "moe-grouped-gemm" not in run.flags,
    ),
    (
        {"recompute_granularity": "selective", "recompute_modules": "mla_up_proj"},
        ("recompute-method", "recompute-num-layers"),
        lambda run: "multi-latent-attention" not in run.flags,
    ),
    ({"defer_embedding_wgrad_compute": True}, (), lambda run: run.pipeline == 1),
    ({"fp16_lm_cross_entropy": True}, (), lambda run: "fp16" not in run.flags),
    ({"cp_comm_type": "a2a+p2p"}, ("hierarchical-context-parallel-sizes",), lambda run: run.context > 1),
    ({"hierarchical_context_parallel_sizes": "2 4"}, (), lambda run: run.context in (2, 4)),
    ({"reuse_grad_buf_for_mxfp8_param_ag": True}, ("fp8-param-gather",), lambda run: not run.fsdp),
    (
        {"num_distributed_optimizer_instances": 3},
        (),
        lambda run: run.data * run.context % 3 > 0 and "use-distributed-optimizer" in run.flags,
    ),
    ({"fp32_residual_connection": True}, ("bf16", "fp16"), lambda run: not run.fsdp),
    ({"no_position_embedding": True}, (), lambda run: "position-embedding-type" not in run.flags),
    ({"moe_latent_size": 512}, (), lambda run: "num-experts" not in run.flags),
)


def _lacking(flags: Mapping[str, object], without: tuple[str, ...], fits: Callable[[Run], bool]) -> Mistake:
    return lambda _, run: _if(fits(run), run.without(*without).plus(**flags))


MISTAKES: Mapping[str, Sequence[Mistake]] = {
    "unknown-setting": [_misspelt(*pair) for pair in _SPELLED],
    "setting-type": [
        *(_valued(*pair) for pair in _VALUES),
        *(_valued(*pair) for pair in _WORDS_BEHIND),
        *(_emptied(name) for name in _WITHOUT_VALUE),
    ],
    "world-size-mismatch": [
        _fewer_nodes, _fewer_processes, _odd_degree("tensor-model-parallel-size", (3, 5, 6, 16, 32)),
        _odd_degree("pipeline-model-parallel-size", (3, 5, 6, 12)), _odd_degree("context-parallel-size", (3, 5, 64)),
    ],
    "ep-not-divisible": [_experts_that_do_not_divide, _no_experts, _grid_that_does_not_fit],
    "batch-not-divisible": [_odd_batch, _tiny_batch, _odd_micro, _odd_nodes],
    "microbatches-lt-stages": [_few_microbatches, _no_global_batch, _left_over_microbatches, _group_out_of_range],
    "batch-rampup-ignored": [_schedule_and_batch],
    "heads-not-divisible": [_odd_heads, _odd_groups, _heads_that_do_not_divide_hidden, _odd_tensor],
    "layers-not-divisible": [_odd_layers],
    "stage-split-mismatch": [_odd_chunks, _odd_ends, _extra_layer, _short_layout],
    "seq-not-divisible": [_odd_length, _odd_length, _longer_than_positions],
    "overlap-flag-dependency": [
        _gather_without_reduce, _gather_without_optimizer, _gather_alone, _overlap_without_sequence,
        _overlap_without_tensor, _gather_with_step,
    ],
    "cuda-max-connections": [_other_connections, _no_connections],
    "overlap-serialized": [_one_connection],
    "removed-or-renamed": [_old(*row) for row in _GONE],
    "refused-combination": [*(_beside(*row) for row in _BESIDE), *(_lacking(*row) for row in _LACKING)],
}  # fmt: skip
"""Ways to make each mistake, by the name of the rule about it."""
