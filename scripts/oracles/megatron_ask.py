"""Megatron-LM's own start-up to the first step, on a CPU: parser, argument checks, configs, groups, schedule.

MEGATRON_LM names a checkout. A GPU and Transformer Engine are only looked like: the checks that ask for them read a
version or a compute capability, which stand here.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import types
import typing
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from unittest import mock

from oracles import Answer, Plain, Question
from oracles.commands import command_of, environment, first_line

TRANSFORMER_ENGINE = "2.14.0"
"""The release that the checks are told is installed: the newest that one of them asks for."""

_CAPABILITY = {"H100": (9, 0), "A100": (8, 0), "B200": (10, 0)}
_DTYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
_STAGES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def ask(question: Question) -> Answer:
    """What Megatron makes of the script of a question, each step as pretrain() takes it."""
    words, env = command_of(question)
    nodes, processes, arguments = _launch(words)
    capability = _CAPABILITY[str(question.settings["cluster.gpu"])]
    world = {"WORLD_SIZE": str(nodes * processes), "RANK": "0", "LOCAL_RANK": "0"}
    with environment({**world, **env}), _quiet(), _machine(capability):
        megatron = _megatron()
        try:
            return Answer(None, _started(megatron, arguments))
        except SystemExit as error:
            return Answer(f"SystemExit: {error}", {})
        except Exception as error:  # noqa: BLE001 - whatever stops Megatron is its answer
            return Answer(first_line(error), {})


def parser() -> Any:
    """The parser of the training scripts."""
    import argparse

    with _quiet(), _machine((9, 0)):
        return _megatron().arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))


class WrongUseError(Exception):
    """What argparse prints when it leaves."""


def _launch(words: Sequence[str]) -> tuple[int, int, list[str]]:
    """Nodes, processes on each, and the program's arguments of a torchrun command."""
    program = next(index for index, word in enumerate(words) if word.endswith(".py"))
    options = dict(zip(words[1:program:2], words[2:program:2], strict=False))
    return int(options["--nnodes"]), int(options["--nproc_per_node"]), list(words[program + 1 :])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _machine(capability: tuple[int, int]) -> Iterator[None]:
    """A machine of eight GPUs of a compute capability, with Transformer Engine."""
    import torch

    properties = types.SimpleNamespace(major=capability[0], minor=capability[1], total_memory=80 << 30, name="GPU")
    looks: dict[str, Any] = {
        "get_device_properties": lambda *_, **__: properties,
        "get_device_capability": lambda *_, **__: capability,
        "device_count": lambda: 8,
        "current_device": lambda: 0,
    }
    with mock.patch.multiple(torch.cuda, **looks):
        yield


@cache
def _megatron() -> Any:
    """Megatron's modules, with what they ask of the installation answered."""
    import typing_extensions

    sys.path.insert(0, os.environ["MEGATRON_LM"])
    if not hasattr(typing, "override"):  # Python before 3.12
        typing.override = typing_extensions.override  # type: ignore[attr-defined, unused-ignore]
    from megatron.core import utils  # type: ignore[import-not-found, unused-ignore]
    from packaging.version import Version

    utils.get_te_version = lambda: Version(TRANSFORMER_ENGINE)
    from megatron.core import num_microbatches_calculator, parallel_state  # type: ignore[import-not-found, unused-ignore]
    from megatron.core.models.common.embeddings import rope_utils  # type: ignore[import-not-found, unused-ignore]
    from megatron.core.pipeline_parallel import schedules  # type: ignore[import-not-found, unused-ignore]
    from megatron.core.tensor_parallel import mappings  # type: ignore[import-not-found, unused-ignore]
    from megatron.core.transformer import transformer_block  # type: ignore[import-not-found, unused-ignore]
    from megatron.training import argument_utils, arguments, training  # type: ignore[import-not-found, unused-ignore]

    _with_fused_adam()
    rope_utils.fused_apply_rotary_pos_emb = rope_utils.fused_apply_rotary_pos_emb or object()
    modules = (
        utils, num_microbatches_calculator, parallel_state, schedules, mappings, transformer_block, argument_utils,
        arguments, training,
    )  # fmt: skip
    return types.SimpleNamespace(**{module.__name__.rpartition(".")[2]: module for module in modules})


def _with_fused_adam() -> None:
    """Transformer Engine's optimizer, of which the checks read the signature."""

    class FusedAdam:
        def __init__(
            self,
            master_weight_dtype: object,
            exp_avg_dtype: object,
            exp_avg_sq_dtype: object,
            use_decoupled_grad: object,
        ) -> None: ...

    names = ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.optimizers")
    found = {name: types.ModuleType(name) for name in names}
    found[names[-1]].FusedAdam = FusedAdam  # type: ignore[attr-defined]
    sys.modules.update(found)


def _started(megatron: Any, arguments: Sequence[str]) -> dict[str, Plain]:
    """The settings on which a start up to the first step settles."""
    args = _parsed(megatron, arguments)
    megatron.arguments.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})
    count = _microbatches(megatron, args)
    config = megatron.argument_utils.core_transformer_config_from_args(args)
    container = megatron.argument_utils.pretrain_cfg_container_from_args(args, config)
    with _groups(megatron, args):
        _sharded(megatron, args, config)
        _scheduled(megatron, args, config, count)
        return _derived(args, config, container, count)


def _parsed(megatron: Any, arguments: Sequence[str]) -> Any:
    said = io.StringIO()
    with mock.patch.object(sys, "argv", ["pretrain_gpt.py", *arguments]), contextlib.redirect_stderr(said):
        try:
            return megatron.arguments.parse_args()
        except SystemExit as error:
            raise WrongUseError(said.getvalue().strip().rpartition("error: ")[2]) from error


def _microbatches(megatron: Any, args: Any) -> int:
    """Of one step at the full batch, as set_global_variables() counts them."""
    calculator = megatron.num_microbatches_calculator
    calculator.unset_num_microbatches_calculator()
    calculator.init_num_microbatches_calculator(
        rank=args.rank,
        global_batch_size=args.global_batch_size,
        micro_batch_size=args.micro_batch_size,
        data_parallel_size=args.data_parallel_size * args.gtp_weight_remat_size,
        decrease_batch_size_if_needed=args.decrease_batch_size_if_needed,
        step_batch_size_schedule=args.step_batch_size_schedule,
        seq_length=args.seq_length,
    )
    if args.step_batch_size_schedule is not None:
        calculator.update_num_microbatches(10**15, consistency_check=True)
    return int(calculator.get_num_microbatches())


@contextlib.contextmanager
def _groups(megatron: Any, args: Any) -> Iterator[None]:
    """The process groups of rank 0, of a backend that sends nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=args.world_size)
    try:
        megatron.parallel_state.initialize_model_parallel(
            args.tensor_model_parallel_size,
            args.pipeline_model_parallel_size,
            args.virtual_pipeline_model_parallel_size,
            gtp_remat_size=args.gtp_weight_remat_size,
            expert_gtp_remat_size=args.expert_gtp_weight_remat_size,
            context_parallel_size=args.context_parallel_size,
            hierarchical_context_parallel_sizes=args.hierarchical_context_parallel_sizes,
            hybrid_context_parallel=args.hybrid_context_parallel,
            expert_model_parallel_size=args.expert_model_parallel_size,
            num_distributed_optimizer_instances=args.num_distributed_optimizer_instances,
            expert_tensor_parallel_size=args.expert_tensor_parallel_size,
            order="tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False,
        )
        yield
    finally:
        megatron.parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def _sharded(megatron: Any, args: Any, config: Any) -> None:
    """The divisions that the layers make when they are built and first run."""
    import torch

    utils, group = megatron.utils, megatron.parallel_state.get_tensor_model_parallel_group()
    utils.divide(config.ffn_hidden_size, args.tensor_model_parallel_size)
    if args.num_experts:
        utils.divide(config.moe_ffn_hidden_size, args.expert_tensor_parallel_size)
    for chunk in range(config.virtual_pipeline_model_parallel_size or 1):
        for rank in range(config.pipeline_model_parallel_size):
            chunked = config.virtual_pipeline_model_parallel_size is not None
            megatron.transformer_block.get_num_layers_to_build(config, chunk if chunked else None, rank)
    if config.sequence_parallel:
        sample = torch.empty(args.seq_length // args.context_parallel_size, 1, 1)
        megatron.mappings._split_along_first_dim(sample, group)


class _BegunError(Exception):
    """The schedule has passed its checks."""


def _scheduled(megatron: Any, args: Any, config: Any, count: int) -> None:
    """The interleaved schedule, stopped behind its checks."""
    import torch

    if args.virtual_pipeline_model_parallel_size is None:
        return
    chunks = [torch.nn.Linear(1, 1) for _ in range(args.virtual_pipeline_model_parallel_size)]
    on_cpu = torch.zeros
    begun = mock.Mock(side_effect=_BegunError)
    schedules = megatron.schedules
    with (
        mock.patch.object(schedules, "get_model_config", lambda _: config),
        mock.patch.object(schedules, "get_model_type", begun),
        mock.patch.object(schedules.torch, "zeros", lambda shape, dtype, device: on_cpu(shape, dtype=dtype)),
        contextlib.suppress(_BegunError),
    ):
        schedules.forward_backward_pipelining_with_interleaving(
            forward_step_func=lambda *_: None,
            data_iterator=[iter(()) for _ in chunks],
            model=chunks,
            num_microbatches=count,
            seq_length=args.seq_length,
            micro_batch_size=args.micro_batch_size,
        )


def _derived(args: Any, config: Any, container: Any, count: int) -> dict[str, Plain]:
    fsdp = args.use_megatron_fsdp or args.use_torch_fsdp2
    experts = args.num_experts or 0
    found: dict[str, Plain] = {
        "framework": "megatron",
        "parallel.world_size": args.world_size,
        "parallel.data": args.data_parallel_size,
        "parallel.tensor": config.tensor_model_parallel_size,
        "parallel.pipeline": config.pipeline_model_parallel_size,
        "parallel.virtual_pipeline": config.virtual_pipeline_model_parallel_size or 1,
        "parallel.context": config.context_parallel_size,
        "parallel.expert": config.expert_model_parallel_size,
        "parallel.expert_tensor": config.expert_tensor_parallel_size,
        "parallel.sequence": config.sequence_parallel,
        "batch.micro": args.micro_batch_size,
        "batch.global": args.micro_batch_size * args.data_parallel_size * count,
        "batch.accumulation": count,
        "schedule.microbatches": count,
        "model.layers": config.num_layers,
        "model.hidden": config.hidden_size,
        "model.heads": config.num_attention_heads,
        "model.kv_heads": config.num_query_groups,
        "model.head_dim": config.kv_channels,
        "model.ffn": config.ffn_hidden_size,
        "model.gated_mlp": config.gated_linear_unit,
        "model.tied_embeddings": not args.untie_embeddings_and_output_weights,
        "model.experts": experts,
        "data.sequence_length": args.seq_length,
        "sharding.stage": _stage(args, container) if fsdp else int(container.optimizer.use_distributed_optimizer),
        "sharding.offload_optimizer": "cpu" if container.optimizer.optimizer_cpu_offload else "none",
        "precision.compute": _compute(args),
        "precision.master": _dtype(container.optimizer.main_params_dtype),
        "optimizer.state_dtype": _dtype(container.optimizer.exp_avg_dtype),
        "optimizer.name": container.optimizer.optimizer,
        "optimizer.clip": container.optimizer.clip_grad,
        "checkpointing.activations": config.recompute_granularity or "none",
        "overlap.tensor": config.tp_comm_overlap,
        "overlap.pipeline": config.overlap_p2p_comm,
        "communication.moe_dispatcher": config.moe_token_dispatcher_type,
        "launch.timeout_seconds": args.distributed_timeout_minutes * 60,
    }
    if not args.use_torch_fsdp2:
        found.update(_exchange(args, container))
    if experts:
        found["model.experts_per_token"] = config.moe_router_topk
        found["model.expert_ffn"] = config.moe_ffn_hidden_size
        found["model.shared_expert_ffn"] = config.moe_shared_expert_intermediate_size
    if args.train_iters:
        found["run.steps"] = args.train_iters
    if args.train_samples:
        found["run.tokens"] = args.train_samples * args.seq_length
    return {name: value for name, value in found.items() if value is not None}


def _exchange(args: Any, container: Any) -> dict[str, Plain]:
    """What the wrapper that exchanges gradients is told."""
    gradients = "fp32" if container.ddp.grad_reduce_in_fp32 else _dtype(args.params_dtype)
    found: dict[str, Plain] = {
        "overlap.gradients": container.ddp.overlap_grad_reduce,
        "overlap.parameters": container.ddp.overlap_param_gather,
    }
    if args.use_megatron_fsdp:
        return found
    return {**found, "precision.gradients": gradients, "precision.reduce": gradients}


def _stage(args: Any, container: Any) -> int:
    return 3 if args.use_torch_fsdp2 else _STAGES[container.ddp.data_parallel_sharding_strategy]


def _compute(args: Any) -> str:
    if args.fp4:
        return "nvfp4"
    if args.fp8:
        return "mxfp8" if args.fp8_recipe == "mxfp8" else "fp8"
    return _dtype(args.params_dtype)


def _dtype(dtype: object) -> str:
    return _DTYPES[str(dtype)]
