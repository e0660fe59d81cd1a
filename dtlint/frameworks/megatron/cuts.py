"""Cuts of the layers into stages and chunks that do not come out whole, which Megatron-LM's start-up refuses."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.megatron.given import Given, has_deepspeed
from dtlint.frameworks.megatron.pipeline import ENDS, EXTRAS
from dtlint.frameworks.stage_cuts import unrolled_layout

_CHUNK = "num-layers-per-virtual-pipeline-stage"
_CHUNKS = "num-virtual-stages-per-pipeline-rank"
_LAYOUT = "pipeline-model-parallel-layout"


def misfit_cuts(given: Given) -> Iterator[Member]:
    """Members of `pipeline.misfits`: `key` (the flag that cuts) and `reason`. Nothing where a number is not known, and
    about Megatron-DeepSpeed, which cuts by weight.
    """
    layers, stages = given.number("num-layers"), _stages(given)
    if layers is None or not stages or has_deepspeed(given):
        return
    reasons = {
        _LAYOUT: _layout(given, layers, stages),
        _CHUNK: _chunk(given, layers, stages),
        next((flag for flag in ENDS if given.has(flag)), ""): _ends(given, layers, stages),
        next((flag for flag in EXTRAS if given.has(flag)), ""): _extras(given, layers, stages),
    }
    for flag, reason in reasons.items():
        if flag and reason:
            place = given.flags[flag].place
            yield Member(place, texts(place, key="--" + flag, reason=reason))


def _stages(given: Given) -> int | None:
    absent = not given.has("pipeline-model-parallel-size") and not given.open
    return 1 if absent else given.number("pipeline-model-parallel-size")


def _layout(given: Given, layers: int, stages: int) -> str:
    word = given.word(_LAYOUT)
    layout = unrolled_layout(word.text) if word is not None and word.text else None
    if layout is None:
        return ""
    if len(layout) % stages:
        return f"its {len(layout)} stages are no multiple of PP {stages}"
    held = sum(stage.count("t") for stage in layout)
    return f"it has {held} layers, the model {layers}" if held != layers else ""


def _chunk(given: Given, layers: int, stages: int) -> str:
    """--num-layers-per-virtual-pipeline-stage cuts a stage's layers.

    Where the whole chunks that it makes do not divide equal stages either, that is what layers over stages x chunks
    tell already.
    """
    extras = sum(given.has(flag) for flag in EXTRAS)
    size, counted = given.number(_CHUNK), layers + extras
    if not size or size < 0 or counted % stages or any(given.has(flag) for flag in ENDS):
        return ""
    each = counted // stages
    told = stages > 1 and not extras and not given.has(_LAYOUT) and each % max(1, each // size)
    return f"the {each} layers of a stage do not divide into chunks of {size}" if each % size and not told else ""


def _ends(given: Given, layers: int, stages: int) -> str:
    """The stages between the first and the last share what these leave, and every stage its chunks."""
    if not any(given.has(flag) for flag in ENDS) or any(given.has(flag) for flag in (*EXTRAS, _LAYOUT, _CHUNK)):
        return ""
    sizes = [given.number(flag) for flag in ENDS if given.has(flag)]
    known = [size for size in sizes if size is not None]
    between, left = stages - len(sizes), layers - sum(known)
    if len(known) < len(sizes):
        return ""
    if left < 0 or bool(left) != bool(between) or (between > 0 and left % between):
        return f"{left} of {layers} layers are left for the other {between} stages"
    return _uneven_chunks([*known, left // between] if between else known, given.number(_CHUNKS) or 1)


def _extras(given: Given, layers: int, stages: int) -> str:
    if not any(given.has(flag) for flag in EXTRAS) or any(given.has(flag) for flag in (*ENDS, _LAYOUT)):
        return ""
    counted = layers + sum(given.has(flag) for flag in EXTRAS)
    if counted % stages:
        return f"{layers} layers and what is counted as one make {counted}, no multiple of PP {stages}"
    return _uneven_chunks([counted // stages], given.number(_CHUNKS) or 1)


def _uneven_chunks(sizes: list[int], chunks: int) -> str:
    odd = next((size for size in sizes if size % chunks), None)
    return "" if odd is None else f"a stage of {odd} layers does not divide into {chunks} chunks"
