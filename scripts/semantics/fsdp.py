"""What FullyShardedDataParallel (FSDP1) and fully_shard (FSDP2) do with gradients and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)

from semantics import Fact
from semantics.pair import WAITS
from semantics.small import shown

_ROWS = 2
"""Weights of the model, one for each rank's shard."""


def _line() -> nn.Linear:
    """Two weights of 1."""
    model = nn.Linear(1, _ROWS, bias=False)
    nn.init.constant_(model.weight, 1.0)
    return model


def _loss(model: nn.Module, gradient: Tensor) -> Tensor:
    """A loss whose gradient by the weights is the given one."""
    return (model(torch.ones(1, 1)) * gradient).sum()


def _own() -> Tensor:
    """(3, 0) on rank 0 and (5, 8) on rank 1: the mean gradient is (4, 4), one number for each rank's shard."""
    return torch.tensor([[3.0, 0.0], [5.0, 8.0]])[dist.get_rank()]


def _wrapped(**options: object) -> FullyShardedDataParallel:
    return FullyShardedDataParallel(_line(), device_id=torch.device("cpu"), **options)


def _sharded(**options: object) -> nn.Module:
    model = _line()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)), **options)
    return model


def _held_gradient(model: nn.Module) -> str:
    """The gradient of the one weight that this rank holds."""
    gradient = next(model.parameters()).grad
    if gradient is None:
        return "none"
    return shown(getattr(gradient, "to_local", lambda: gradient)().abs().max())


def fsdp1_averages() -> str:
    """`FSDP(model)(x).sum().backward()`, then the gradient of the shard."""
    model = _wrapped()
    _loss(model, _own()).backward()
    return _held_gradient(model)


def fsdp2_averages() -> str:
    """`fully_shard(model)`, forward, backward, then the gradient of the shard."""
    model = _sharded()
    _loss(model, _own()).backward()
    return _held_gradient(model)


def torch_clips_fsdp1() -> str:
    """`torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)` of FSDP1: the norm that it returns."""
    model = _uneven_gradients(_wrapped())
    return shown(nn.utils.clip_grad_norm_(model.parameters(), 1e9))


def fsdp1_clips_itself() -> str:
    """`model.clip_grad_norm_(1e9)` of FSDP1."""
    model = _wrapped()
    _uneven_gradients(model)
    return shown(model.clip_grad_norm_(1e9))


def torch_clips_fsdp2() -> str:
    """`torch.nn.utils.clip_grad_norm_` of FSDP2."""
    model = _uneven_gradients(_sharded())
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    return shown(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def _uneven_gradients(model: nn.Module) -> nn.Module:
    """A mean gradient of (3, 4), whose norm is 5: 3 is held by rank 0, 4 by rank 1."""
    _loss(model, torch.tensor([3.0, 4.0])).backward()
    return model


def _moves(build: Callable[[], tuple[nn.Module, torch.optim.Optimizer]]) -> str:
    """Whether a step changes the weights that the model computes with."""
    model, optimizer = build()
    before = float(model(torch.ones(1, 1)).sum())
    _loss(model, _own()).backward()
    optimizer.step()
    return "moves" if float(model(torch.ones(1, 1)).sum()) != before else "stays"


def optimizer_before_fsdp1() -> str:
    """`SGD(model.parameters())`, then `FSDP(model)`; forward, backward, step."""

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = _line()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        return FullyShardedDataParallel(model, device_id=torch.device("cpu")), optimizer

    return _moves(build)


def optimizer_before_fsdp1_original() -> str:
    """The same with `use_orig_params=True`."""

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = _line()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True), optimizer

    return _moves(build)


def optimizer_before_fsdp2() -> str:
    """`SGD(model.parameters())`, then `fully_shard(model)`."""

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = _line()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        return model, optimizer

    return _moves(build)


def optimizer_after_fsdp2() -> str:
    """`fully_shard(model)`, then `SGD(model.parameters())`."""

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = _sharded()
        return model, torch.optim.SGD(model.parameters(), lr=1.0)

    return _moves(build)


@contextmanager
def _noted_formats() -> Iterator[list[str]]:
    """The format of each reduce-scatter while the block runs."""
    seen: list[str] = []
    original = dist.reduce_scatter_single

    def noting(output: Tensor, *given: object, **named: object) -> object:
        seen.append(str(output.dtype))
        return original(output, *given, **named)

    dist.reduce_scatter_single = noting
    try:
        yield seen
    finally:
        dist.reduce_scatter_single = original


def fsdp1_no_sync_around_backward() -> str:
    """Four micro-batches of FSDP1, the backward pass of three alone within `no_sync()`: reduce-scatters."""
    model = _wrapped()
    with _noted_formats() as seen:
        for index in range(4):
            loss = _loss(model, _own())
            if index < 3:
                with model.no_sync():
                    loss.backward()
            else:
                loss.backward()
    return shown(len(seen))


def fsdp2_switch_off() -> str:
    """`set_requires_gradient_sync(False)`, forward, backward: the gradient of the shard."""
    model = _sharded()
    model.set_requires_gradient_sync(False)
    _loss(model, _own()).backward()
    return _held_gradient(model)


def fsdp2_switch_on_for_last() -> str:
    """The switch is off for the first of two micro-batches and on for the second."""
    model = _sharded()
    model.set_requires_gradient_sync(False)
    _loss(model, _own()).backward()
    model.set_requires_gradient_sync(True)
    _loss(model, _own()).backward()
    return _held_gradient(model)


def fsdp2_switch_after_forward() -> str:
    """The switch is turned off between the forward and the backward pass."""
    model = _sharded()
    loss = _loss(model, _own())
    model.set_requires_gradient_sync(False)
    loss.backward()
    return _held_gradient(model)


def fp16_reduction_overflows() -> str:
    """FSDP1 with `reduce_dtype=torch.float16`, gradients of 100,000."""
    return _reduced(torch.float16, 100_000.0)


def bf16_reduction_rounds() -> str:
    """FSDP1 with `reduce_dtype=torch.bfloat16`, gradients of 257 on both ranks, whose mean is 257."""
    return _reduced(torch.bfloat16, 257.0)


def fp32_reduction_is_exact() -> str:
    """The same with `reduce_dtype=torch.float32`."""
    return _reduced(torch.float32, 257.0)


def _reduced(dtype: torch.dtype, value: float) -> str:
    model = _wrapped(mixed_precision=MixedPrecision(reduce_dtype=dtype))
    _loss(model, torch.full((_ROWS,), value)).backward()
    return _held_gradient(model)


def fsdp2_reduces_in_compute_format() -> str:
    """FSDP2 with `MixedPrecisionPolicy(param_dtype=torch.bfloat16)`: the format of what it reduces."""
    model = _sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    with _noted_formats() as seen:
        _loss(model, _own()).backward()
    return ", ".join(seen)


def state_of_first_rank() -> str:
    """`if rank == 0: model.state_dict()` of FSDP1."""
    model = _wrapped()
    if dist.get_rank() == 0:
        model.state_dict()
    return "ends"


def clip_of_first_rank() -> str:
    """`if rank == 0: model.clip_grad_norm_(1)` of FSDP1."""
    model = _wrapped()
    _uneven_gradients(model)
    if dist.get_rank() == 0:
        model.clip_grad_norm_(1.0)
    return "ends"


def more_forward_passes() -> str:
    """Rank 0 makes three forward passes of a sharded model without gradients, rank 1 two, as in generation."""
    inner = _wrapped()
    model = FullyShardedDataParallel(nn.Sequential(inner), device_id=torch.device("cpu"))
    with torch.no_grad():
        for _ in range(3 - dist.get_rank()):
            model(torch.ones(1, 1))
    return "ends"


def join_of_fsdp() -> str:
    """`with Join([FSDP(model)])`."""
    with Join([_wrapped()]):
        return "ends"


def fsdp1_starts_from_own_weights() -> str:
    """Weights of 1 on rank 0 and 9 on rank 1 before FSDP1 wraps the model: the whole weight afterwards."""
    model = nn.Linear(1, _ROWS, bias=False)
    nn.init.constant_(model.weight, 1.0 + 8 * dist.get_rank())
    wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    return str(wrapped.state_dict()["weight"].flatten().tolist())


_KEPT = "An optimizer that is built before FSDP shards the parameters steps parameters that nobody uses"
FACTS = (
    Fact(
        fsdp1_averages,
        "FSDP1 leaves the mean of the gradients of its shard on each rank",
        ("grad-double-averaged", "grad-overscaled"),
        ("4", "4"),
    ),
    Fact(
        fsdp2_averages,
        "So does FSDP2",
        ("grad-double-averaged", "grad-overscaled"),
        ("4", "4"),
    ),
    Fact(
        torch_clips_fsdp1,
        "torch's clip_grad_norm_ takes the norm of this rank's shard under FSDP1: 3 and 4 in place of 5",
        ("fsdp1-clip-grad",),
        ("3", "4"),
    ),
    Fact(fsdp1_clips_itself, "FSDP1's own clip_grad_norm_ takes the whole norm", ("fsdp1-clip-grad",), ("5", "5")),
    Fact(torch_clips_fsdp2, "Under FSDP2 torch's function takes the whole norm", ("fsdp1-clip-grad",), ("5", "5")),
    Fact(optimizer_before_fsdp1, _KEPT, ("optimizer-before-wrap",), ("stays", "stays")),
    Fact(
        optimizer_before_fsdp1_original,
        "With use_orig_params FSDP1 keeps the parameter objects, and the step acts",
        ("optimizer-before-wrap",),
        ("moves", "moves"),
    ),
    Fact(optimizer_before_fsdp2, _KEPT, ("optimizer-before-wrap",), ("stays", "stays")),
    Fact(optimizer_after_fsdp2, "One that is built afterwards acts", ("optimizer-before-wrap",), ("moves", "moves")),
    Fact(
        fsdp1_no_sync_around_backward,
        "FSDP1 decides in the backward pass: no_sync around it alone saves the exchange",
        ("no-sync-ineffective",),
        ("1", "1"),
    ),
    Fact(
        fsdp2_switch_off,
        "set_requires_gradient_sync(False) keeps the gradients back: the shard has none",
        ("grad-sync-wrong-microstep",),
        ("none", "none"),
    ),
    Fact(
        fsdp2_switch_on_for_last,
        "Turned on for the last micro-batch it exchanges the sum of all",
        ("grad-sync-wrong-microstep",),
        ("8", "8"),
    ),
    Fact(
        fsdp2_switch_after_forward,
        "FSDP2 reads the switch in the backward pass",
        ("no-sync-ineffective",),
        ("none", "none"),
    ),
    Fact(
        fp16_reduction_overflows,
        "A reduction in fp16 overflows beyond 65,504",
        ("reduce-dtype-unsafe",),
        ("inf", "inf"),
    ),
    Fact(
        bf16_reduction_rounds,
        "A reduction in bf16 keeps 8 bits: 257 becomes 256",
        ("reduce-dtype-unsafe",),
        ("256", "256"),
    ),
    Fact(fp32_reduction_is_exact, "In fp32 it stays 257", ("reduce-dtype-unsafe",), ("257", "257")),
    Fact(
        fsdp2_reduces_in_compute_format,
        "FSDP2 reduces in the format of the parameters where reduce_dtype is left out",
        ("reduce-dtype-unsafe",),
        ("torch.bfloat16", "torch.bfloat16"),
    ),
    Fact(
        state_of_first_rank,
        "FSDP1's state_dict is a collective",
        ("collective-rank-guarded",),
        (WAITS, "ends"),
    ),
    Fact(
        clip_of_first_rank,
        "FSDP1's clip_grad_norm_ is a collective",
        ("collective-rank-guarded",),
        (WAITS, "ends"),
    ),
    Fact(
        more_forward_passes,
        "A rank that makes more forward passes of a sharded model than the others waits for their shards",
        ("zero3-generate-unsynced", "uneven-batches"),
        (WAITS, "ends"),
    ),
    Fact(join_of_fsdp, "FSDP has no Join", ("uneven-batches",), ("AttributeError", "AttributeError")),
    Fact(
        fsdp1_starts_from_own_weights,
        "FSDP1 takes each shard from its rank: ranks that start apart train one model, made of pieces of theirs",
        ("unsynced-init",),
        ("[1.0, 9.0]", "[1.0, 9.0]"),
    ),
)
