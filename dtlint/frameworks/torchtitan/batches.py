"""The batches of torchtitan's configs: samples or tokens of a rank and of a step, and a pipeline's parts of them."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.deepspeed.values import known, whole_number
from dtlint.frameworks.dotted_keys import Keys, Read, one, whole
from dtlint.frameworks.torchtitan.spelling import NAMES, PART, STEP_TOKENS, TOKENS
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Plain, Setting, Unknown, default

_TOOL = "torchtitan"
_PARTS = ("experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches")
"""The keys of earlier releases for the number of a pipeline's micro-batches."""
_OF_FORKS = "training.gradient_accumulation_steps"
"""The key of forks (flame) for the local batches of a step."""
_CONTEXT = "training.max_context_length"
_MICROBATCHES = "parallelism.num_pp_microbatches"
_LOCAL = 8
"""The local batch where none is written (v0.2.2 config/job_config.py)."""


def degree(keys: Keys, setting_name: str) -> int | None:
    """A degree, 1 where it is not written; None where it is not known."""
    node = keys.node(*NAMES[setting_name])
    return 1 if node is None else whole(whole_number(node))


def standing_for(value: Plain) -> Read:
    """A reader that takes a written value for another one, which follows from it."""

    def read(node: Node) -> Setting:
        return setting(node, value)

    return read


def batch_claims(keys: Keys) -> Iterator[Claim]:
    """A global batch of -1 is the local batch times the data-parallel ranks. A pipeline computes parts of the local
    batch at once, one sample each where no other size is written.
    """
    if keys.node(TOKENS, _CONTEXT) is not None:
        yield from _batch_of_tokens(keys)
        return
    for claim in one(keys, NAMES["batch.global"], "batch.global", whole_number):
        if known(claim.value) != -1:
            yield claim
    stages = degree(keys, "parallel.pipeline")
    if stages is None:
        yield Claim("batch.micro", Unknown("a pipeline would cut the local batch", "--set batch.micro=N"), PART)
    elif stages == 1:
        yield from one(keys, NAMES["batch.micro"], "batch.micro", whole_number)
        yield from one(keys, (_OF_FORKS,), "batch.accumulation", whole_number)
    else:
        yield from _parts(keys)


def _batch_of_tokens(keys: Keys) -> Iterator[Claim]:
    """Main counts a batch in tokens (b5bcd76 torchtitan/trainer.py): of each rank and forward pass, and of a step, -1
    for one local batch of each rank; a pipeline computes so many of the first at once as its key says.
    """
    length, tokens = (
        whole(_written_or(keys, name, default_)) for name, default_ in ((_CONTEXT, 2048), (TOKENS, 16384))
    )
    yield Claim("batch.micro", _sequences(keys, TOKENS, tokens, length), keys.spelled.get(TOKENS, TOKENS))
    step = keys.known(STEP_TOKENS)
    if keys.node(STEP_TOKENS) is not None and step != -1:
        total = step if isinstance(step, int) else None
        yield Claim("batch.global", _sequences(keys, STEP_TOKENS, total, length), STEP_TOKENS)
    if degree(keys, "parallel.pipeline") not in (None, 1):
        name = "batch.accumulation" if step in (None, -1) else "schedule.microbatches"
        count = keys.node(_MICROBATCHES)
        yield Claim(name, default(1, _TOOL) if count is None else whole_number(count), _MICROBATCHES)


def _written_or(keys: Keys, name: str, unasked: int) -> Setting:
    node = keys.node(name)
    return default(unasked, _TOOL) if node is None else whole_number(node)


def _sequences(keys: Keys, name: str, tokens: int | None, length: int | None) -> Setting:
    """A number of tokens as so many sequences."""
    node = keys.node(name) or keys.node(_CONTEXT)
    if node is None or not tokens or not length or tokens % length:
        return Unknown("the batch is counted in tokens", "--set batch.micro=N")
    return setting(node, tokens // length)


def _parts(keys: Keys) -> Iterator[Claim]:
    """The micro-batches of a pipeline (v0.2.2 distributed/pipeline_parallel.py): all of a step, where no larger global
    batch is written.
    """
    local_node, size_node = keys.node(*NAMES["batch.micro"]), keys.node(PART)
    local = _LOCAL if local_node is None else whole(whole_number(local_node))
    size = _part(keys, local)
    steps = "schedule.microbatches" if (keys.known(*NAMES["batch.global"]) or -1) != -1 else "batch.accumulation"
    if not local or not size or local % size:
        yield from _no_whole_parts(keys, local, size, steps)
        return
    part = default(size, _TOOL) if size_node is None else whole_number(size_node)
    yield Claim("batch.micro", part, keys.spelled.get(PART, PART))
    if local_node is None:
        yield Claim(steps, default(local // size, _TOOL), NAMES["batch.micro"][0])
    yield from one(keys, NAMES["batch.micro"], steps, standing_for(local // size))


def _no_whole_parts(keys: Keys, local: int | None, size: int | None, steps: str) -> Iterator[Claim]:
    """A pipeline whose parts are not known, or do not make up the local batch, so that there is no number of them."""
    yield Claim(steps, Unknown("the pipeline cuts the local batch", f"--set {steps}=N"), PART)
    if local and size:
        yield from one(keys, NAMES["batch.micro"], "batch.local", whole_number)
        yield from one(keys, (PART,), "batch.micro", whole_number)
    else:
        yield Claim("batch.micro", Unknown("the pipeline cuts the local batch", "--set batch.micro=N"), PART)


def _part(keys: Keys, local: int | None) -> int | None:
    """The samples of a micro-batch: as written, else one; releases that had the pipeline among `experimental` cut the
    local batch into as many parts as there are stages, or as their key says.
    """
    size, count = keys.node(PART), keys.node(*_PARTS)
    if size is not None:
        return whole(whole_number(size))
    stages = keys.first(*NAMES["parallel.pipeline"])
    if count is None and (stages is None or not stages[0].startswith("experimental.")):
        return 1
    parts = degree(keys, "parallel.pipeline") if count is None else whole(whole_number(count))
    return local // parts if local and parts and local % parts == 0 else None
