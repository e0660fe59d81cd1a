"""Qualified names of what training scripts call in torch, and how its words map to those of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtlint.value import Choice, Option, Plain, Setting, Unknown, Value

FSDP1 = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
FSDP2 = (
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard.fully_shard",
    "torch.distributed.fsdp._fully_shard.fully_shard",
)
DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
DATA_PARALLEL = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
)
DDP_KWARGS = ("accelerate.DistributedDataParallelKwargs", "accelerate.utils.DistributedDataParallelKwargs")
"""What Accelerate hands to DDP where it wraps the model."""
DEVICE_MESH = (
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.init_device_mesh",
    "torch.distributed._tensor.init_device_mesh",
    "torch.distributed._tensor.device_mesh.init_device_mesh",
    "torch.distributed.tensor.init_device_mesh",
    "torch.distributed.device_mesh.DeviceMesh",
    "torch.distributed._tensor.DeviceMesh",
    "torch.distributed.tensor.DeviceMesh",
)
WRAP_BY_HAND = ("torch.distributed.fsdp.wrap.wrap", "torch.distributed.fsdp.wrap.enable_wrap")
CHECKPOINT_WRAPPERS = tuple(
    f"torch.distributed.algorithms._checkpoint.checkpoint_wrapper.{name}"
    for name in ("apply_activation_checkpointing", "checkpoint_wrapper")
)
CHECKPOINTS = (
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
    "torch.distributed._composable.checkpoint",
    "torch.distributed._composable.checkpoint_activation.checkpoint",
)
SELECTIVE_POLICIES = ("torch.utils.checkpoint.create_selective_checkpoint_contexts",)

PRECISIONS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
}
"""torch's dtypes in the plan's words."""

Convert = Callable[[Plain], Plain]


def converted(value: Setting, words: Mapping[str, Plain], absent: Plain = None) -> Setting:
    """A setting with each library symbol replaced by the plan's word for it; `absent` stands for None.

    A symbol without a word in the plan becomes Unknown.
    """
    if isinstance(value, Choice):
        options = tuple(Option(option.guard, _known(option.value, words, absent)) for option in value.options)
        same = {option.value.value for option in options if isinstance(option.value, Value)}
        if len(same) == 1 and all(isinstance(option.value, Value) for option in options):
            return options[0].value
        return Choice(options)
    return _known(value, words, absent)


def _known(value: Value | Unknown, words: Mapping[str, Plain], absent: Plain) -> Value | Unknown:
    if isinstance(value, Unknown):
        return value
    if value.value is None:
        return value._replace(value=absent)
    last = str(value.value).rpartition(".")[2]
    if last not in words:
        return Unknown(f"{last} is not a word that is known here", "", value.origin)
    return value._replace(value=words[last])


def under(value: Setting, condition: str, otherwise: str) -> Setting:
    """A setting that holds under a condition only; in the other case it is unknown, for the reason given."""
    options = value.options if isinstance(value, Choice) else (Option("", value),)
    kept = tuple(
        Option(f"{condition} and {option.guard}" if option.guard else condition, option.value) for option in options
    )
    return Choice((*kept, Option(f"not ({condition})", Unknown(otherwise))))
