"""Megatron-LM launches as real scripts have them: shapes, layouts and recipes, put together by a seeded choice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from oracles import Question
from oracles.commands import script

VERSION = "0.20.0"
"""megatron-core of the checkout that is asked."""

Flags = Mapping[str, tuple[str, ...]]
"""A flag's values by its name without dashes."""


class Run(NamedTuple):
    """A launch: machines, the program's flags, exported variables and the GPU that it runs on."""

    nodes: int
    processes: int
    flags: Flags
    env: Mapping[str, str] = {}
    gpu: str = "H100"

    def plus(self, **flags: object) -> Run:
        """With further flags (`_` for `-`): True for one without a value, text split at blanks; in place if there."""
        found = {name.replace("_", "-"): _values(value) for name, value in flags.items()}
        return self._replace(flags={**self.flags, **found})

    def without(self, *names: str) -> Run:
        """Without some flags."""
        return self._replace(flags={name: values for name, values in self.flags.items() if name not in names})

    def number(self, name: str, otherwise: int = 1) -> int:
        """A flag's number."""
        return int(self.flags[name][0]) if name in self.flags else otherwise

    @property
    def tensor(self) -> int:
        """TP."""
        return self.number("tensor-model-parallel-size")

    @property
    def pipeline(self) -> int:
        """PP."""
        return self.number("pipeline-model-parallel-size")

    @property
    def context(self) -> int:
        """CP."""
        return self.number("context-parallel-size")

    @property
    def data(self) -> int:
        """DP."""
        return self.nodes * self.processes // (self.tensor * self.pipeline * self.context)

    @property
    def chunks(self) -> int:
        """Chunks of layers on a rank."""
        if "num-layers-per-virtual-pipeline-stage" in self.flags:
            return self.number("num-layers") // self.pipeline // self.number("num-layers-per-virtual-pipeline-stage")
        return self.number("num-virtual-stages-per-pipeline-rank")

    @property
    def fsdp(self) -> bool:
        """Whether it shards by FSDP."""
        return "use-torch-fsdp2" in self.flags or "use-megatron-fsdp" in self.flags

    def question(self, name: str, kind: str) -> Question:
        """As a question to Megatron."""
        words = ["torchrun", "--nnodes", str(self.nodes), "--nproc_per_node", str(self.processes), "pretrain_gpt.py"]
        for flag, values in self.flags.items():
            words += ["--" + flag, *values]
        return Question(name, kind, script(words, self.env), {"cluster.gpu": self.gpu, "framework.version": VERSION})


def _values(value: object) -> tuple[str, ...]:
    return () if value is True else tuple(str(value).split()) if not isinstance(value, tuple) else value


_LLAMA = dict.fromkeys(
    (
        "no-position-embedding",
        "swiglu",
        "disable-bias-linear",
        "untie-embeddings-and-output-weights",
        "no-masked-softmax-fusion",
    ),
    (),
) | {"position-embedding-type": ("rope",), "normalization": ("RMSNorm",)}
_EXPERTS = {"moe-token-dispatcher-type": ("alltoall",), "moe-grouped-gemm": (), "moe-aux-loss-coeff": ("1e-2",)}


def _shape(layers: int, hidden: int, heads: int, length: int, **more: object) -> Flags:
    sizes = {"num-layers": layers, "hidden-size": hidden, "num-attention-heads": heads, "seq-length": length}
    written = {name: (str(value),) for name, value in sizes.items()} | {"max-position-embeddings": (str(length),)}
    return {**written, **{name.replace("_", "-"): _values(value) for name, value in more.items()}}


def _grouped(groups: int) -> dict[str, object]:
    return {"group_query_attention": True, "num_query_groups": groups}


_DENSE: tuple[Flags, ...] = (
    _shape(24, 1024, 16, 1024),
    _shape(24, 2048, 16, 2048, attention_dropout=0, hidden_dropout=0),
    _shape(32, 4096, 32, 2048, init_method_std=0.006),
    _shape(40, 5120, 40, 4096),
    _shape(96, 12288, 96, 2048),
    {**_shape(32, 4096, 32, 4096, ffn_hidden_size=11008), **_LLAMA},
    {**_shape(32, 4096, 32, 8192, ffn_hidden_size=14336, **_grouped(8)), **_LLAMA},
    {**_shape(80, 8192, 64, 8192, ffn_hidden_size=28672, **_grouped(8)), **_LLAMA},
    {**_shape(64, 5120, 40, 4096, **_grouped(8)), **_LLAMA},
    {**_shape(48, 6144, 48, 16384, **_grouped(8), kv_channels=128), **_LLAMA},
)
_SPARSE: tuple[Flags, ...] = (
    {**_shape(32, 4096, 32, 4096, ffn_hidden_size=14336, **_grouped(8), num_experts=8), **_LLAMA, **_EXPERTS},
    {
        **_shape(
            48, 2048, 32, 4096, ffn_hidden_size=6144, **_grouped(4), kv_channels=128, num_experts=128,
            moe_ffn_hidden_size=768, moe_router_topk=8,
        ),
        **_LLAMA,
        **_EXPERTS,
    },
    {
        **_shape(
            28, 2048, 16, 4096, ffn_hidden_size=10944, num_experts=64, moe_ffn_hidden_size=1408, moe_router_topk=6,
            moe_shared_expert_intermediate_size=2816, moe_layer_freq=("([0]*1+[1]*27)",), multi_latent_attention=True,
            kv_lora_rank=512, v_head_dim=128,
        ),
        **_LLAMA,
        **_EXPERTS,
    },
)  # fmt: skip

# nodes, tensor, pipeline, context
_LAYOUTS = (
    (1, 1, 1, 1), (1, 2, 1, 1), (1, 8, 1, 1), (1, 2, 2, 1), (1, 1, 4, 1), (2, 4, 2, 1), (2, 8, 2, 1), (2, 1, 1, 1),
    (4, 8, 4, 1), (4, 2, 2, 2), (4, 4, 4, 1), (4, 1, 1, 4), (8, 8, 4, 1), (8, 4, 1, 2), (8, 2, 8, 1), (16, 8, 8, 1),
    (4, 1, 2, 1), (8, 4, 4, 2), (2, 1, 8, 1), (4, 2, 1, 1),
)  # fmt: skip


def valid_runs(pick: random.Random, count: int) -> Iterator[Run]:
    """Launches that Megatron starts."""
    for number in range(count):
        sparse = number % 4 == 3
        shape = pick.choice(_SPARSE if sparse else _DENSE)
        layout = _LAYOUTS[number % len(_LAYOUTS)]
        run = _placed(pick, shape, layout)
        run = _with_experts(pick, run) if sparse else run
        run = _ADDITIONS[number % len(_ADDITIONS)](pick, run)
        yield _shuffled(pick, _trained(pick, run))


def _placed(pick: random.Random, shape: Flags, layout: tuple[int, int, int, int]) -> Run:
    """A shape on machines: degrees that are 1 are not always written."""
    nodes, tensor, pipeline, context = layout
    run = Run(nodes, 8, shape, gpu=pick.choice(("H100", "A100", "H100", "B200")))
    while run.number("num-layers") % pipeline:
        pipeline //= 2
    if tensor > 1 or pick.random() < 0.5:
        run = run.plus(tensor_model_parallel_size=tensor)
    if pipeline > 1 or pick.random() < 0.5:
        run = run.plus(pipeline_model_parallel_size=pipeline)
    if context > 1:
        run = run.plus(context_parallel_size=context)
    if tensor > 1 and ("num-experts" in shape or pick.random() < 0.8):
        run = run.plus(sequence_parallel=True)
    needed = (tensor > 1 or context > 1) and run.gpu != "B200"
    return run._replace(env={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}) if needed else run


def _with_experts(pick: random.Random, run: Run) -> Run:
    """Expert degrees that fit the grid EP x ETP x PP."""
    world = run.nodes * run.processes
    own = pick.random() < 0.5
    if own:
        run = run.plus(expert_tensor_parallel_size=1)
    tensor = 1 if own else run.tensor
    ranks = world // run.pipeline // tensor
    degrees = [degree for degree in (1, 2, 4, 8) if ranks % degree == 0 and run.number("num-experts") % degree == 0]
    return run.plus(expert_model_parallel_size=pick.choice(degrees))


def _trained(pick: random.Random, run: Run) -> Run:
    """Batches that fill the pipeline, the optimizer's numbers, and the precision."""
    micro = pick.choice((1, 1, 2, 4))
    rounds = run.pipeline * pick.choice((1, 2, 4, 8))
    if "step-batch-size-schedule" in run.flags:
        rounds = 0
    run = run.plus(micro_batch_size=micro)
    if rounds and pick.random() < 0.95:
        run = run.plus(global_batch_size=micro * run.data * rounds)
    elif not rounds:
        unit = micro * run.data * run.pipeline
        run = run.plus(step_batch_size_schedule=(f"0:{unit} 1B:{4 * unit}",))
    else:
        run = run if run.chunks == 1 else run.plus(global_batch_size=micro * run.data * rounds)
    if not {"bf16", "fp16"} & run.flags.keys():
        run = run.plus(bf16=True)
    length = {"train_samples": 1000000} if pick.random() < 0.3 else {"train_iters": pick.choice((1000, 500000))}
    return run.plus(**length, lr=pick.choice(("1e-4", "1.5e-4", "6.0e-5")), min_lr="1e-5", clip_grad="1.0")


def _shuffled(pick: random.Random, run: Run) -> Run:
    """Groups of flags in another order now and then; scripts have no fixed one."""
    items = list(run.flags.items())
    start = pick.choice((0, 0, pick.randrange(len(items))))
    return run._replace(flags=dict(items[start:] + items[:start]))


def _plain(pick: random.Random, run: Run) -> Run:
    return run


def _overlapped(pick: random.Random, run: Run) -> Run:
    return run.plus(use_distributed_optimizer=True, overlap_grad_reduce=True, overlap_param_gather=True)


def _sharded(pick: random.Random, run: Run) -> Run:
    return run.plus(use_distributed_optimizer=True, **pick.choice(({}, {"overlap_grad_reduce": True})))


def _interleaved(pick: random.Random, run: Run) -> Run:
    layers = run.number("num-layers") // run.pipeline
    chunks = next((number for number in (2, 4, 5, 7) if layers % number == 0), 1)
    if run.pipeline < 2 or chunks == 1:
        return _overlapped(pick, run)
    if pick.random() < 0.5:
        return _overlapped(pick, run.plus(num_layers_per_virtual_pipeline_stage=layers // chunks))
    return run.plus(num_virtual_stages_per_pipeline_rank=chunks)


def _recomputed(pick: random.Random, run: Run) -> Run:
    full = {"recompute_granularity": "full", "recompute_method": pick.choice(("uniform", "block"))}
    ways = (
        {**full, "recompute_num_layers": 1},
        {"recompute_granularity": "selective"},
        {"recompute_activations": True},
        {"recompute_granularity": "selective", "recompute_modules": "core_attn layernorm"},
    )
    return _sharded(pick, run.plus(**pick.choice(ways)))


def _uneven(pick: random.Random, run: Run) -> Run:
    """A first or last stage of its own size, or embedding and loss counted as layers."""
    stages, layers = run.pipeline, run.number("num-layers")
    if stages < 4:
        return _sharded(pick, run)
    if "moe-layer-freq" in run.flags:
        return run.plus(decoder_first_pipeline_num_layers=layers // stages)
    size = layers // stages
    if pick.random() < 0.5:
        whole = size * stages - 2
        return run.plus(
            num_layers=whole, account_for_embedding_in_pipeline_split=True, account_for_loss_in_pipeline_split=True
        )
    return run.plus(
        num_layers=size * stages - 2,
        decoder_first_pipeline_num_layers=size - 1,
        decoder_last_pipeline_num_layers=size - 1,
    )


def _laid_out(pick: random.Random, run: Run) -> Run:
    """The stages letter by letter."""
    stages, layers = run.pipeline, run.number("num-layers")
    if stages < 2 or "moe-layer-freq" in run.flags:
        return _overlapped(pick, run)
    chunks = 2 if layers % (2 * stages) == 0 else 1
    size = layers // (stages * chunks)
    middle = "|".join(["t" * size] * (stages * chunks))
    return run.plus(pipeline_model_parallel_layout=f"E{middle}L")


def _narrow(pick: random.Random, run: Run) -> Run:
    """FP8 in its forms."""
    ways = (
        {"fp8_format": "hybrid", "fp8_recipe": "tensorwise"},
        {"fp8_format": "e4m3", "fp8_recipe": "mxfp8"},
        {"fp8_format": "hybrid", "fp8_amax_history_len": 1024, "fp8_amax_compute_algo": "max"},
    )
    return _overlapped(pick, run.plus(**pick.choice(ways)))


def _half(pick: random.Random, run: Run) -> Run:
    return run.plus(fp16=True, **pick.choice(({}, {"initial_loss_scale": 65536}, {"use_distributed_optimizer": True})))


def _fully_sharded(pick: random.Random, run: Run) -> Run:
    """Megatron's FSDP, whose processes must not have one connection."""
    strategy = pick.choice(("optim", "optim_grads", "optim_grads_params"))
    run = run.plus(use_megatron_fsdp=True, data_parallel_sharding_strategy=strategy, ckpt_format="fsdp_dtensor")
    run = run.plus(use_distributed_optimizer=True, overlap_grad_reduce=True, overlap_param_gather=True)
    return run._replace(env={})


def _torch_sharded(pick: random.Random, run: Run) -> Run:
    if run.pipeline > 1 or run.number("expert-model-parallel-size") > 1 or run.tensor > 1:
        return _fully_sharded(pick, run)
    flags = {"use_torch_fsdp2": True, "no_gradient_accumulation_fusion": True, "ckpt_format": "torch_dist"}
    return run.plus(**flags, untie_embeddings_and_output_weights=True)._replace(env={})


def _thrifty(pick: random.Random, run: Run) -> Run:
    """Narrow or offloaded optimizer states."""
    ways = (
        {"exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "bf16"},
        {"main_grads_dtype": "bf16"},
        {"optimizer_cpu_offload": True, "optimizer_offload_fraction": "1.0"},
    )
    return _overlapped(pick, run.plus(use_precision_aware_optimizer=True, **pick.choice(ways)))


def _reduced(pick: random.Random, run: Run) -> Run:
    flag = pick.choice(("grad_reduce_in_bf16", "accumulate_allreduce_grads_in_fp32"))
    return _overlapped(pick, run.plus(**{flag: True}, ddp_bucket_size=50000000))


def _overlapping_tensor(pick: random.Random, run: Run) -> Run:
    if run.tensor < 2:
        return run.plus(sequence_parallel=True)
    return _overlapped(pick, run.plus(sequence_parallel=True, tp_comm_overlap=True))


def _stepped(pick: random.Random, run: Run) -> Run:
    return _sharded(pick, run.plus(step_batch_size_schedule="0:1"))


def _bare(pick: random.Random, run: Run) -> Run:
    more = {"distributed_timeout_minutes": 60, "attention_backend": pick.choice(("flash", "auto", "fused"))}
    return _sharded(pick, run.plus(**more, no_overlap_p2p_communication=True))


def _clipped(pick: random.Random, run: Run) -> Run:
    return _overlapped(
        pick, run.plus(optimizer=pick.choice(("adam", "sgd")), use_flash_attn=True, use_mcore_models=True)
    )


_ADDITIONS = (
    _plain, _overlapped, _interleaved, _recomputed, _uneven, _laid_out, _narrow, _half, _fully_sharded, _torch_sharded,
    _thrifty, _reduced, _overlapping_tensor, _stepped, _bare, _clipped, _interleaved,
)  # fmt: skip
