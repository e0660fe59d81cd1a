"""How Megatron's flags cut the layers into pipeline stages and chunks."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.options import literal_place
from dtlint.frameworks.stage_cuts import MOST_LAYERS, layers_of, unrolled_layout, with_ends, with_extras
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Unknown

ENDS = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
_OLD_WAYS, _OLD_STAGES = "model-parallel-size", "pipe-parallel-size"
"""The degrees of the programs of 2019 and 2020."""
EXTRAS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")


def pipeline_claims(given: Given) -> Iterator[Claim]:
    """Chunks per rank and layers per stage, from whichever of the flags is given."""
    yield from _old_engine(given)
    yield from _chunks_of_layers(given)
    yield from _layout(given)
    yield from _hybrid(given)
    yield from _uneven(given)


def _old_engine(given: Given) -> Iterator[Claim]:
    """What the examples of DeepSpeed before Megatron-DeepSpeed built: with --pipe-parallel-size 0, or without it, no
    pipeline (DeepSpeedExamples, Megatron-LM-v1.1.5-3D_parallelism: "Disable with 0").
    """
    size = given.anchor(_OLD_STAGES)
    if size is None:
        own = given.anchor(_OLD_WAYS)
        if own is not None and not given.open and not given.has("pipeline-model-parallel-size"):
            yield Claim("parallel.pipeline_engine", setting_of(own, False), "--" + _OLD_WAYS)
    elif given.number(_OLD_STAGES) == 0:
        yield Claim("parallel.pipeline", setting_of(size, 1), "--" + _OLD_STAGES)
        yield Claim("parallel.pipeline_engine", setting_of(size, False), "--" + _OLD_STAGES)


def _chunks_of_layers(given: Given) -> Iterator[Claim]:
    """--num-layers-per-virtual-pipeline-stage L: a rank's layers/stages layers in chunks of L. The number of chunks is
    told by the flag, for L is another number."""
    flag = "num-layers-per-virtual-pipeline-stage"
    word = given.word(flag)
    if word is None:
        return
    layers, stages, size = given.number("num-layers"), given.number("pipeline-model-parallel-size"), given.number(flag)
    if not layers or not stages or not size:
        reason = f"the number of chunks is layers / stages / {word.shown}, and one of them is not known"
        how = "--set parallel.virtual_pipeline=N"
        yield Claim("parallel.virtual_pipeline", Unknown(reason, how, _origin(word)), "--" + flag)
        return
    chunks = setting_of(given.flags[flag].flag, max(1, layers // stages // size))
    yield Claim("parallel.virtual_pipeline", chunks, "--" + flag)


def _layout(given: Given) -> Iterator[Claim]:
    flag = "pipeline-model-parallel-layout"
    word, stages = given.word(flag), given.number("pipeline-model-parallel-size")
    if word is None:
        return
    layout = unrolled_layout(word.text) if word.text else None
    if layout is None or not stages or stages < 1 or len(layout) % stages:
        unknown = Unknown("the layout of the stages is not known", "", _origin(word))
        yield Claim("parallel.virtual_pipeline", unknown, "--" + flag)
        yield Claim("parallel.stage_layers", unknown, "--" + flag)
        return
    yield Claim("parallel.virtual_pipeline", setting_of(word, len(layout) // stages), "--" + flag)
    yield Claim("parallel.stage_layers", setting_of(word, layers_of(layout, stages)), "--" + flag)


def _hybrid(given: Given) -> Iterator[Claim]:
    """A pattern of layer letters; bars cut it into stages, and it overrides --num-layers. What follows `/` is MTP's."""
    flag = "hybrid-layer-pattern" if given.word("hybrid-layer-pattern") else "hybrid-override-pattern"
    word, stages = given.word(flag), given.number("pipeline-model-parallel-size") or 1
    if word is None or not word.text:
        return
    pattern = word.text.partition("/")[0]
    yield Claim("model.architecture", setting_of(word, "hybrid"), "--" + flag)
    yield Claim("model.layers", setting_of(word, len(pattern.replace("|", ""))), "--" + flag)
    segments = pattern.split("|")
    if len(segments) > 1 and len(segments) % stages == 0:
        yield Claim("parallel.virtual_pipeline", setting_of(word, len(segments) // stages), "--" + flag)


def _uneven(given: Given) -> Iterator[Claim]:
    """First and last stages of their own size, or with embedding and loss counted as a layer each."""
    anchor = next((word for flag in (*ENDS, *EXTRAS) if given.has(flag) and (word := given.anchor(flag))), None)
    if anchor is None:
        return
    numbers = [given.number(flag) for flag in ("num-layers", "pipeline-model-parallel-size", *ENDS)]
    layers, stages, first, last = numbers
    if not layers or not stages or (first is None and given.has(ENDS[0])) or (last is None and given.has(ENDS[1])):
        unknown = Unknown("the sizes of the stages hang on a number that is not known", "", _origin(anchor))
        yield Claim("parallel.stage_layers", unknown, anchor.shown)
        return
    if 1 < stages <= MOST_LAYERS:
        extras = [given.has(flag) for flag in EXTRAS]
        cut = with_extras(layers, stages, *extras) if first is last is None else with_ends(layers, stages, first, last)
        value = setting_of(anchor, cut) if cut else Unknown("the stages do not come out whole", "", _origin(anchor))
        yield Claim("parallel.stage_layers", value, anchor.shown)


def _origin(word: Word) -> Origin:
    return Origin("written", literal_place(word))
