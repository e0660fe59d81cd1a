"""The plugin by which a program of ColossalAI splits its model: tensor, sequence and pipeline ranks, micro-batches.

hpcaitech/ColossalAI 4f9953b colossalai/booster/plugin/hybrid_parallel_plugin.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.languages.python.callers import called_by_name
from dtlint.languages.python.calls import Call, argument, call_at, passed
from dtlint.languages.python.places import place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Setting, Unknown, Value, default

LAYER = "pytorch-python"

_PACKAGE = "colossalai.booster.plugin"
_CLASS = "HybridParallelPlugin"
_NAMES = (f"{_PACKAGE}.{_CLASS}", f"{_PACKAGE}.hybrid_parallel_plugin.{_CLASS}")
_TOOL = "ColossalAI"
_SIZES = {"parallel.tensor": ("tp_size", 0), "parallel.pipeline": ("pp_size", 1)}
_KINDS: Mapping[object, str] = {"1f1b": "1f1b", "interleaved": "interleaved", "zbv": "zbv"}
_FORMATS: Mapping[object, str] = {"fp16": "fp16", "bf16": "bf16", "fp32": "fp32"}
_IN_TENSOR_RANKS = ("split_gather", "ring")
"""Ways of sequence parallelism that the tensor-parallel ranks have among themselves."""


def read(program: Program) -> Reading:
    """What the only plugin of this kind says that the program may build."""
    if not any(_CLASS in module.source.text for module in program.modules.values()):
        return Reading(LAYER)
    found = standing(program, _NAMES)
    if len(found) != 1:
        return Reading(LAYER)
    return Reading(LAYER, found[0].head, tuple(_claims(found[0])), framework="pytorch")


def _claims(plugin: Call) -> Iterator[Claim]:
    for setting, (name, position) in _SIZES.items():
        value = argument(plugin, name, position)
        yield Claim(setting, value if value is not None else _hidden(setting), name)
    yield Claim("sharding.stage", _given(plugin, "zero_stage", 0, "sharding.stage"), "zero_stage")
    yield from _precision(plugin)
    yield Claim("schedule.kind", _worded(plugin, "pp_style", "1f1b", _KINDS, "schedule.kind"), "pp_style")
    chunks = _given(plugin, "num_model_chunks", 1, "parallel.virtual_pipeline")
    yield Claim("parallel.virtual_pipeline", chunks, "num_model_chunks")
    yield from _sequence(plugin)
    stages = argument(plugin, *_SIZES["parallel.pipeline"])
    if isinstance(stages, Value) and isinstance(stages.value, int) and stages.value > 1:
        yield from _microbatches(plugin)


def _precision(plugin: Call) -> Iterator[Claim]:
    """Weights and gradients have the narrow format, beside masters of the optimizer (HybridParallelAMPOptimizer)."""
    narrow = _worded(plugin, "precision", "fp16", _FORMATS, "precision.compute")
    yield Claim("precision.compute", narrow, "precision")
    if isinstance(narrow, Value) and narrow.value != "fp32":
        yield Claim("precision.gradients", narrow, "precision")
        yield Claim("precision.master", default("fp32", _TOOL), "precision")


def _given(call: Call, name: str, otherwise: int, setting: str) -> Setting:
    """An argument, or the library's default where nothing may hide it."""
    value = argument(call._replace(open=""), name)
    if value is None:
        return _hidden(setting) if call.open else default(otherwise, _TOOL)
    return value


def _worded(call: Call, name: str, otherwise: str, words: Mapping[object, str], setting: str) -> Setting:
    value = argument(call._replace(open=""), name)
    if value is None:
        return _hidden(setting) if call.open else default(otherwise, _TOOL)
    if not isinstance(value, Value):
        return value
    return value._replace(value=words[value.value]) if value.value in words else _hidden(setting)


def _hidden(setting: str) -> Unknown:
    return Unknown("the program builds ColossalAI's plugin, and what it is told is not known", f"--set {setting}=...")


def _sequence(plugin: Call) -> Iterator[Claim]:
    """How the sequence is split, if at all: among the tensor-parallel ranks, or over ranks of its own."""
    asked = argument(plugin, "enable_sequence_parallelism")
    way = argument(plugin, "sequence_parallelism_mode")
    if asked is None and not plugin.open:
        yield Claim("parallel.sequence", default(False, _TOOL), "enable_sequence_parallelism")
        return
    if isinstance(asked, Value) and not asked.value:
        yield Claim("parallel.sequence", asked._replace(value=False), "enable_sequence_parallelism")
        return
    if isinstance(asked, Value) and isinstance(way, Value) and way.value in _IN_TENSOR_RANKS:
        yield Claim("parallel.sequence", asked._replace(value=True), "enable_sequence_parallelism")
        return
    for setting in ("parallel.sequence", "parallel.context", "parallel.ulysses"):
        yield Claim(setting, _hidden(setting), "sp_size")


def _microbatches(plugin: Call) -> Iterator[Claim]:
    """What the schedule cuts each batch of the loader into: a number of micro-batches, or such of one size."""
    count, size = argument(plugin, "num_microbatches"), argument(plugin, "microbatch_size")
    batch = _batch(plugin)
    if isinstance(count, Value) and count.value is not None:
        yield from _cut(count, _quotient(batch, count))
    elif isinstance(size, Value) and size.value is not None:
        yield from _cut(_quotient(batch, size), size)


def _cut(count: Setting, size: Setting) -> Iterator[Claim]:
    yield Claim("schedule.microbatches", count, "num_microbatches")
    yield Claim("batch.accumulation", count, "num_microbatches")
    yield Claim("batch.micro", size, "microbatch_size")


def _quotient(batch: Setting, by: Setting) -> Setting:
    """The batch in so many parts, at the place where its size is written."""
    numbers = [each.value for each in (batch, by) if isinstance(each, Value) and isinstance(each.value, int)]
    if not isinstance(batch, Value) or len(numbers) != 2 or numbers[1] < 1 or numbers[0] % numbers[1]:
        return Unknown("how large the loader's batches are is not known", "--set schedule.microbatches=N")
    return batch._replace(value=numbers[0] // numbers[1])


def _batch(plugin: Call) -> Setting:
    """The size of the batches of the only loader that the plugin makes for training."""
    program = plugin.place.program
    found = []
    for module, site in called_by_name(program, "prepare_dataloader"):
        place = place_of(program, module, site)
        call = call_at(place, "prepare_dataloader")
        if stands(place) is not False and passed(call, "batch_size", 1):
            found.append(call)
    size = argument(found[0], "batch_size", 1) if len(found) == 1 else None
    return size if size is not None else Unknown("the program makes no one loader by its plugin")
