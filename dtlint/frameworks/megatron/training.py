"""What Megatron's flags say together about the training: precision, sharding, recomputation, batches, lengths."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.keys import EXCHANGES
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.megatron.known import known_flag
from dtlint.frameworks.options import integer, literal_place, whole
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Setting, Unknown, Value, written

_STAGES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_FSDP = ("use-megatron-fsdp", "use-custom-fsdp")
_PRECISIONS = ("bf16", "fp16", "fp8-format", "fp4-format", "fp8-e4m3", "fp8-hybrid")
_BYTES = {"fp32": 4, "bf16": 2}
_METHODS = (
    ("activations-checkpoint-method", "activations-checkpoint-num-layers"),
    ("recompute-method", "recompute-num-layers"),
)
_COUNTED = {"block": "checkpointing.layers", "uniform": "checkpointing.unit"}
"""What the number of layers beside a method is."""
_OLD_UNIT = "checkpoint-num-layers"
OLD_MICRO_BATCH = "--batch-size"
"""The micro batch of releases before core_v0.1 (2019 and 2020), whose other flags say what a rank is."""
MOST_SIZES = 200
"""Longest ramp of batch sizes that is listed."""


def training_claims(given: Given) -> Iterator[Claim]:
    """Claims that hang on more than one flag, or on a flag that is not a plain value."""
    yield from _compute_precision(given)
    yield from _gradient_precision(given)
    yield from _optimizer_precision(given)
    yield from _sharding(given)
    yield from _sequence_parallelism(given)
    yield from _recomputation(given)
    yield from _context_exchange(given)
    yield from _buckets(given)
    yield from _old_micro_batch(given)
    yield from _ramp(given)
    yield from _schedule_of_batches(given)
    yield from _tokens(given)


def _compute_precision(given: Given) -> Iterator[Claim]:
    """The narrowest format that is asked for: FP4, then FP8 (by its recipe), then the 16-bit one."""
    for flag, value in (("bf16", "bf16"), ("fp16", "fp16"), ("fp8-format", "fp8"), ("fp4-format", "nvfp4")):
        anchor = given.anchor(flag)
        if anchor is None or not given.has(flag):
            continue
        recipe = given.word("fp8-recipe")
        exact = "mxfp8" if value == "fp8" and recipe is not None and recipe.text == "mxfp8" else value
        yield Claim("precision.compute", setting_of(anchor, exact), "--" + flag)
    for flag in ("fp8-e4m3", "fp8-hybrid"):
        if given.has(flag):
            yield Claim("precision.compute", setting_of(given.flags[flag].flag, "fp8"), "--" + flag)
    if not any(map(given.has, _PRECISIONS)):
        yield from _foreign_precision(given)


def _foreign_precision(given: Given) -> Iterator[Claim]:
    """A flag of no Megatron that speaks of the format: what it chooses, its own parser knows."""
    for option in given.flags.values():
        if "precision" in option.name and known_flag(option.spelled) is None:
            unknown = Unknown(f"{option.spelled} may set it", "--set precision.compute=bf16")
            yield Claim("precision.compute", unknown, option.spelled)


def _gradient_precision(given: Given) -> Iterator[Claim]:
    """The gradient buffer is also what travels."""
    for flag, value in (("accumulate-allreduce-grads-in-fp32", "fp32"), ("grad-reduce-in-bf16", "bf16")):
        if given.has(flag):
            setting = setting_of(given.flags[flag].flag, value)
            yield Claim("precision.gradients", setting, "--" + flag)
            yield Claim("precision.reduce", setting, "--" + flag)
    word = given.word("main-grads-dtype")
    if word is not None and word.text in _BYTES:
        yield Claim("precision.gradients", setting_of(word), "--main-grads-dtype")


def _optimizer_precision(given: Given) -> Iterator[Claim]:
    word = given.word("exp-avg-dtype")
    if word is not None and word.text != "fp8":
        yield Claim("optimizer.state_dtype", setting_of(word), "--exp-avg-dtype")


def _sharding(given: Given) -> Iterator[Claim]:
    """Megatron's FSDP shards by --data-parallel-sharding-strategy, everything if it is not given."""
    if given.has("use-torch-fsdp2"):
        implementation = setting_of(given.flags["use-torch-fsdp2"].flag, "torch-fsdp2")
        yield Claim("sharding.implementation", implementation, "--use-torch-fsdp2")
    flag = next((name for name in _FSDP if given.has(name)), None)
    if flag is None:
        return
    yield Claim("sharding.implementation", setting_of(given.flags[flag].flag, "megatron-fsdp"), "--" + flag)
    strategy = given.word("data-parallel-sharding-strategy")
    if strategy is None:
        yield Claim("sharding.stage", setting_of(given.flags[flag].flag, 3), "--" + flag)
    elif strategy.text is None or strategy.text in _STAGES:
        stage = setting_of(strategy, _STAGES.get(strategy.text or ""))
        yield Claim("sharding.stage", stage, "--data-parallel-sharding-strategy")


def _sequence_parallelism(given: Given) -> Iterator[Claim]:
    """--sequence-parallel, which Megatron turns off where there is one tensor-parallel rank."""
    option = given.flags.get("sequence-parallel")
    alone = given.number("tensor-model-parallel-size") == 1 or not (
        given.open or given.has("tensor-model-parallel-size")
    )
    if option is not None and given.has("sequence-parallel") and alone:
        yield Claim("parallel.sequence", setting_of(option.flag, False), option.spelled)


def _recomputation(given: Given) -> Iterator[Claim]:
    """--recompute-activations means selective; a number of layers is one of the stage's under method block, and of
    those that are recomputed together otherwise."""
    if given.has("recompute-activations"):
        flag = given.flags["recompute-activations"].flag
        yield Claim("checkpointing.activations", setting_of(flag, "selective"), "--recompute-activations")
    for method, layers in _METHODS:
        told, count = given.word(method), given.word(layers)
        if told is not None and count is not None and told.text in _COUNTED:
            yield Claim(_COUNTED[told.text], integer(count), "--" + layers)
    old = given.word(_OLD_UNIT)
    if old is not None and given.has("checkpoint-activations"):
        yield Claim("checkpointing.unit", integer(old), "--" + _OLD_UNIT)


def _context_exchange(given: Given) -> Iterator[Claim]:
    """--cp-comm-type, one for all layers or one for each."""
    option = given.flags.get("cp-comm-type")
    kinds = {word.text for word in option.values} if option is not None else set()
    kind = EXCHANGES.get(kinds.pop() or "") if len(kinds) == 1 else None
    if option is not None and option.value is not None and kind is not None:
        yield Claim("parallel.context_exchange", setting_of(option.value, kind), option.spelled)


def _buckets(given: Given) -> Iterator[Claim]:
    """--ddp-bucket-size counts elements of the gradient buffer: 4 bytes each unless gradients are reduced in bf16."""
    word, elements = given.word("ddp-bucket-size"), given.number("ddp-bucket-size")
    if word is not None and elements is not None:
        size = _BYTES["bf16" if given.has("grad-reduce-in-bf16") else "fp32"]
        yield Claim("communication.bucket_bytes", setting_of(word, elements * size), "--ddp-bucket-size")


def _old_micro_batch(given: Given) -> Iterator[Claim]:
    """What the loader takes; a DeepSpeed config beside it may say otherwise, and is not held to it."""
    anchor = given.anchor(OLD_MICRO_BATCH.lstrip("-"))
    if anchor is not None and not given.has("micro-batch-size"):
        reason = f"{OLD_MICRO_BATCH} is the micro batch of older releases"
        unknown = Unknown(reason, "--set batch.micro=N", Origin("written", literal_place(anchor)))
        yield Claim("batch.micro", unknown, OLD_MICRO_BATCH)


def _ramp(given: Given) -> Iterator[Claim]:
    """`--rampup-batch-size START STEP SAMPLES`: the sizes below the global batch."""
    option = given.flags.get("rampup-batch-size")
    if option is None or option.value is None:
        return
    numbers = [whole(word.text or "") for word in option.values[:2]]
    start, step = (numbers[0], numbers[1]) if len(numbers) == 2 else (None, None)
    yield Claim("batch.rampup", _sizes(option.value, start, step, given.number("global-batch-size")), option.spelled)


def _sizes(word: Word, start: int | None, step: int | None, full: int | None) -> Setting:
    if start is None or step is None or step < 1:
        return Unknown("the batch sizes of the ramp are not known", "", Origin("written", literal_place(word)))
    end = full if full is not None else start + 1
    return setting_of(word, tuple(range(start, end, step)[:MOST_SIZES]))


def ramp_members(given: Given) -> Iterator[Member]:
    """Members of `batch.ramps`, one for each flag that lets the batch grow: `name`, and whether --global-batch-size
    stands beside it (`full_batch`).
    """
    for flag in ("rampup-batch-size", "step-batch-size-schedule"):
        option = given.flags.get(flag)
        if option is not None:
            beside = written(given.has("global-batch-size"), option.place)
            yield Member(option.place, {**texts(option.place, name=option.spelled), "full_batch": beside})


def _schedule_of_batches(given: Given) -> Iterator[Claim]:
    """`--step-batch-size-schedule "0:768 250B:1536"`: the last size is the global batch, those before it the ramp."""
    option = given.flags.get("step-batch-size-schedule")
    text = " ".join(word.text or "?" for word in option.values) if option is not None else ""
    sizes = [whole(step.partition(":")[2]) for step in text.split()]
    known = [size for size in sizes if size is not None]
    if option is None or option.value is None or not known or len(known) < len(sizes):
        return
    yield Claim("batch.rampup", setting_of(option.value, tuple(known[:-1][:MOST_SIZES])), option.spelled)
    if not given.has("global-batch-size"):
        yield Claim("batch.global", setting_of(option.value, known[-1]), option.spelled)


def _tokens(given: Given) -> Iterator[Claim]:
    """--train-samples counts samples of the full sequence length."""
    samples, length = given.word("train-samples"), given.number("seq-length")
    if samples is None or given.has("train-tokens"):
        return
    value = integer(samples)
    if isinstance(value, Value) and isinstance(value.value, int):
        unknown = Unknown("the sequence length is not known", "--set run.tokens=N", value.origin)
        value = unknown if length is None else value._replace(value=value.value * length)
    yield Claim("run.tokens", value, "--train-samples")
