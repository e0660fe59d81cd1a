"""What `accelerate launch` refuses on its command line: values of another kind, flags that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.accelerate.releases import refused_since
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.options import Option, Split, left_empty, number, whole
from dtlint.languages.traced import setting_of
from dtlint.value import Setting, Value, written

_WHOLE = frozenset(
    (
        "num-processes", "num-machines", "machine-rank", "main-process-port", "num-cpu-threads-per-process",
        "max-restarts", "zero-stage", "gradient-accumulation-steps", "fsdp-min-num-params", "megatron-lm-tp-degree",
        "megatron-lm-pp-degree", "megatron-lm-num-micro-batches", "megatron-lm-recompute-num-layers",
        "megatron-lm-decoder-last-pipeline-num-layers", "megatron-lm-expert-model-parallel-size",
        "megatron-lm-context-parallel-size", "megatron-lm-expert-tensor-parallel-size", "fp8-margin", "fp8-interval",
        "fp8-amax-history-len", "parallelism-config-dp-replicate-size", "parallelism-config-dp-shard-size",
        "parallelism-config-tp-size", "parallelism-config-cp-size", "parallelism-config-sp-size",
    )
)  # fmt: skip
_NUMBERS = frozenset(
    (
        "monitor-interval", "gradient-clipping", "megatron-lm-gradient-clipping", "megatron-lm-attention-dropout",
        "megatron-lm-hidden-dropout",
    )
)  # fmt: skip
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "mixed-precision": ("no", "fp16", "bf16", "fp8"),
    "fsdp-version": ("1", "2"),
    "dynamo-backend": (
        "no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs", "ofi", "fx2trt",
        "onnxrt", "tensorrt", "aot_torchxla_trace_once", "torhchxla_trace_once", "ipex", "tvm", "hpu_backend",
    ),
    "dynamo-mode": ("default", "reduce-overhead", "max-autotune"),
    "fp8-backend": ("ao", "te", "msamp"),
    "fp8-format": ("HYBRID", "E4M3", "E5M2"),
    "fp8-amax-compute-algo": ("max", "most_recent"),
    "fp8-opt-level": ("O1", "O2"),
    "parallelism-config-cp-backend": ("torch",),
    "parallelism-config-sp-backend": ("deepspeed",),
}  # fmt: skip
"""Kinds of values (accelerate 1.15.0 commands/launch.py, launch_command_parser)."""

_TWO_AT_LEAST = "0.16"
"""The release from which on one process beside --multi_gpu is refused (commands/launch.py of 0.15.0 and 0.16.0)."""

_WAYS = ("cpu", "multi-gpu", "tpu", "use-deepspeed", "use-fsdp")
"""Flags of which one at most may be given."""


def invalid(split: Split) -> Iterator[Member]:
    """Members of `config.invalid` for values that the parser refuses."""
    for option in split.options:
        expected = _expected(option)
        if expected:
            yield _wrong(option, expected)
    yield from _one_process(split)
    yield from _alone(split)


def excluded(split: Split) -> Iterator[Member]:
    """Members of `config.conflicts` for flags that exclude each other."""
    for names in (_WAYS, ("module", "no-python")):
        given = [option for name in names if (option := split.last(name)) is not None]
        if len(given) > 1:
            yield _clash(given)


def _expected(option: Option) -> str:
    """What the flag takes if its value is known and something else."""
    word = option.value or option.instead
    text = word.text if word is not None else None
    if text is None:
        return ""
    if option.instead is not None and option.name not in (*_WHOLE, *_NUMBERS, *_CHOICES):
        return "a value"
    if option.name in _WHOLE:
        return "a whole number" if whole(text) is None else ""
    if option.name in _NUMBERS:
        return "a number" if not isinstance(number(word), Value) else ""
    choices = _CHOICES.get(option.name, (text,))
    return "" if text in choices else "one of " + ", ".join(choices)


def _wrong(option: Option, expected: str, **release: str) -> Member:
    word = option.value or option.instead
    told: Setting = setting_of(word) if word is not None else written(True, option.place)
    words = {"key": option.spelled, "section": "accelerate", "expected": expected, "effect": "refused", **release}
    if word is not None:
        words["left"] = left_empty(word)
    return Member(option.place, {**texts(option.place, **words), "value": told})


def _one_process(split: Split) -> Iterator[Member]:
    count = split.last("num-processes")
    text = count.value.text if count is not None and count.value is not None else None
    processes = whole(text) if text is not None else None
    if count is not None and processes is not None and processes < 2 and split.last("multi-gpu") is not None:
        yield _wrong(count, "2 or more beside --multi_gpu", **refused_since(_TWO_AT_LEAST, "start one process"))


def _alone(split: Split) -> Iterator[Member]:
    """Degrees of parallelism are for FSDP2, on the command line too."""
    option, version = split.last("use-parallelism-config"), split.last("fsdp-version")
    if option is not None and (split.last("use-fsdp") is None) and not split.open:
        yield _wrong(option, "--use_fsdp and --fsdp_version 2 beside it")
    elif option is not None and version is not None and version.value is not None and version.value.text == "1":
        yield _wrong(option, "--fsdp_version 2 beside it")


def _clash(given: Sequence[Option]) -> Member:
    first, second = given[0], given[1]
    fields = texts(
        second.place, setting="framework", name=second.spelled, winner_name=first.spelled, effect="exclusive"
    )
    told = {"value": written(True, second.place), "winner": written(True, first.place)}
    return Member(second.place, {**fields, **told}, ((first.place, "given beside it"),))
