"""Texts in a DeepSpeed config where the Trainer compares a switch or a number with its own: no text equals one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.runs.claimed import text_in
from dtlint.runs.settle import starts_engine
from dtlint.value import Value

_SWITCH = "true or false without quotes"
_NUMBER = "a number without quotes"
_COMPARED: Mapping[str, str] = {
    **dict.fromkeys(("bf16.enabled", "fp16.enabled", "amp.enabled"), _SWITCH),
    **dict.fromkeys(
        (
            "optimizer.params.lr", "optimizer.params.weight_decay", "optimizer.params.eps",
            "scheduler.params.warmup_max_lr", "scheduler.params.warmup_num_steps", "scheduler.params.total_num_steps",
        ),
        _NUMBER,
    ),
}  # fmt: skip
"""What the Trainer compares (transformers 4.46.3 integrations/deepspeed.py, fill_match) and DeepSpeed takes as a text,
or does not look at; its batch and its clipping DeepSpeed itself refuses in quotes."""


def quoted(readings: Sequence[Reading], config: Reading) -> tuple[Member, ...]:
    """The members of `config.invalid` for texts that the Trainer refuses, one for all that want the same."""
    if starts_engine(readings):
        return ()
    found = list(_texts(config))
    kinds = dict.fromkeys(expected for _, expected, _ in found)
    return tuple(_member([each for each in found if each[1] == kind]) for kind in kinds)


def _texts(config: Reading) -> Iterator[tuple[str, str, Member]]:
    """The path of each text, what belongs there, and its key."""
    for key in config.collections.get("config.keys", ()):
        path, value = text_in(key.fields["path"]), key.fields["value"]
        if path in _COMPARED and isinstance(value, Value) and isinstance(value.value, str) and value.value != "auto":
            yield path, _COMPARED[path], key


def _member(found: Sequence[tuple[str, str, Member]]) -> Member:
    (path, expected, first), *others = found
    fields = texts(first.place, key=path, section="", expected=expected, effect="compared")
    related = tuple((key.place, "a text too") for _, _, key in others)
    return Member(first.place, {**fields, "value": first.fields["value"]}, related)
