"""A rank of a run as the Trainer's arguments see it, on a machine that need not have GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch


@contextmanager
def pretended_rank(world: int | None) -> Iterator[None]:
    """The first of `world` processes; None for a program that is started by itself."""
    from accelerate.utils import DistributedType
    from transformers import training_args

    kind = DistributedType.NO if world is None else DistributedType.MULTI_GPU
    place = {"process_index": 0, "local_process_index": 0, "device": "cpu", "backend": "nccl"}
    state = SimpleNamespace(num_processes=world or 1, distributed_type=kind, **place)

    def devices(arguments: Any) -> Any:
        import torch

        arguments.distributed_state, arguments._n_gpu = state, 1
        return torch.device("cpu")

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.object(training_args.TrainingArguments, "_setup_devices", property(devices)))
        stack.enter_context(patch.object(training_args, "is_torch_bf16_gpu_available", lambda: True))
        stack.enter_context(patch("torch.cuda.current_device", lambda: 0))
        stack.enter_context(patch("accelerate.utils.dataclasses.is_cuda_available", lambda: True))
        yield
