"""Cuts of a model's layers into pipeline stages that are not all equal, by the fields of Megatron-Core's config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim
from dtlint.frameworks.dotted_keys import Keys, unread, whole
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Setting, Value

_FIRST = ("num_layers_in_first_pipeline_stage", "first_pipeline_num_layers")
_LAST = ("num_layers_in_last_pipeline_stage", "last_pipeline_num_layers")
_EXTRAS = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
_LAYOUT = ("pipeline_model_parallel_layout",)
CUTS = (*_FIRST, *_LAST, *_EXTRAS, *_LAYOUT)
"""Fields of TransformerConfig and ModelParallelConfig, with the names that they had in 0.9 and before
(megatron/core/transformer/transformer_config.py, core_v0.9 to 0.19).
"""

MOST_LAYERS = 20_000
"""Longest layout or pattern that is unrolled; no model has as many layers."""
_GROUP = r"\(([^()]{1,200})\)\*(\d{1,4})"
_LETTER = r"([A-Za-z|])\*(\d{1,4})"


def keyed_cut(keys: Keys, section: str, layers: int | None, stages: int | None) -> Iterator[Claim]:
    """The layers of each stage by the keys below `section`; unknown, with the place of the key, where the layers of the
    model or the stages are not known.
    """
    asked = [name for name in CUTS if keys.known(f"{section}.{name}") is not False]
    found = keys.first(*(f"{section}.{name}" for name in asked))
    if found is None:
        return
    name, node = found
    value = _stages(keys, section, layers, stages, node) if layers and stages and stages > 1 else _untold(node)
    yield Claim("parallel.stage_layers", value, keys.spelled.get(name, name))


def _untold(node: Node) -> Setting:
    return unread(node, "the sizes of the stages hang on a number that is not known")


def _stages(keys: Keys, section: str, layers: int, stages: int, node: Node) -> Setting:
    ends = [keys.node(*(f"{section}.{name}" for name in names)) for names in (_FIRST, _LAST)]
    sizes = [None if end is None else whole(setting(end)) for end in ends]
    extras = [keys.known(f"{section}.{name}") is True for name in _EXTRAS]
    told = setting(node)
    if not isinstance(told, Value):
        return _untold(node)
    if (layout := keys.node(*(f"{section}.{name}" for name in _LAYOUT))) is not None:
        return _laid_out(layout, layers, stages)
    if any(end is not None and size is None for end, size in zip(ends, sizes, strict=True)):
        return _untold(node)
    found = with_extras(layers, stages, *extras) if any(extras) else with_ends(layers, stages, *sizes)
    return told._replace(value=found) if found else unread(node, "the stages do not come out whole")


def _laid_out(node: Node, layers: int, stages: int) -> Setting:
    told = setting(node)
    layout = unrolled_layout(told.value) if isinstance(told, Value) and isinstance(told.value, str) else None
    if not isinstance(told, Value) or layout is None:
        return _untold(node)
    found = layers_of(layout, stages) if len(layout) % stages == 0 else ()
    return told._replace(value=found) if sum(found) == layers else unread(node, "the stages do not come out whole")


def unrolled_layout(text: str) -> list[str] | None:
    """The stages of `Et*3|(tt|)*29m|L`, each a run of letters (E embedding, t layer, m MTP, L loss).

    None if the text is not of that form or longer than MOST_LAYERS.
    """
    unrolled = text.replace(",", "").replace(" ", "")
    for pattern in (_GROUP, _LETTER):
        if _length(unrolled, pattern) > MOST_LAYERS:
            return None
        unrolled = re.sub(pattern, lambda match: match[1] * int(match[2]), unrolled)
    return unrolled.split("|") if re.fullmatch(r"[EtmL|]+", unrolled) else None


def _length(text: str, pattern: str) -> int:
    return len(text) + sum(len(match[1]) * int(match[2]) for match in re.finditer(pattern, text))


def layers_of(layout: Sequence[str], stages: int) -> tuple[int, ...]:
    """The layers of each rank's stage, whose chunks lie as many ranks apart as there are stages."""
    return tuple(sum(chunk.count("t") for chunk in layout[rank::stages]) for rank in range(stages))


def with_ends(layers: int, stages: int, first: int | None, last: int | None) -> tuple[int, ...]:
    """Stage sizes when the first or the last stage has a size of its own; () if the rest does not divide."""
    between = stages - (first is not None) - (last is not None)
    left = layers - (first or 0) - (last or 0)
    if between < 1 or left < 0 or left % between:
        return ()
    head = () if first is None else (first,)
    tail = () if last is None else (last,)
    return (*head, *[left // between] * between, *tail)


def with_extras(layers: int, stages: int, embedding: bool, loss: bool) -> tuple[int, ...]:
    """Stage sizes when embedding and loss count as a layer each; () if the sum does not divide."""
    size, left = divmod(layers + embedding + loss, stages)
    if left:
        return ()
    return (size - embedding, *[size] * (stages - 2), size - loss)
