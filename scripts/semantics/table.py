"""The page of facts: what was run, on what, with which outcome."""

from __future__ import annotations

from collections.abc import Mapping

from semantics import Fact
from semantics.pair import TIMEOUT, Outcome

READ_ONLY: Mapping[str, str] = {
    "clipping-left-out": "which of Transformers and DeepSpeed clips, by release: read in their sources",
    "optimizer-exchanged": "what Accelerate puts in the place of an optimizer under offload: read in its source",
}
"""Rules about gradients that rest on sources which were read, for there is nothing to run without a GPU."""

_HEAD = """\
# What the rules about gradients rest on

Each row was run by `python scripts/ask_torch.py`, which writes this page: two gloo processes on a CPU, {versions}.
The models have weights of 1 and losses of weight times input, so that gradients are known by hand: 1 on rank 0 and 2
on rank 1 where nothing else is said. A collective that nobody joins was given {seconds:g} seconds.

| fact | what was run | rank 0 | rank 1 | rules |
|---|---|---|---|---|
"""


def page(rows: list[tuple[Fact, Outcome]], versions: Mapping[str, str]) -> str:
    """The page as Markdown; a row whose outcome is not the one that the fact says is marked."""
    named = ", ".join(f"{package} {version}" for package, version in versions.items())
    lines = [_row(fact, outcome) for fact, outcome in rows]
    read = [f"- {rule}: {why}" for rule, why in READ_ONLY.items()]
    head = _HEAD.format(versions=named, seconds=TIMEOUT.total_seconds())
    return "\n".join((head + "\n".join(lines), "", "Not run:", "", *read)) + "\n"


def _row(fact: Fact, outcome: Outcome) -> str:
    says = fact.says if outcome == fact.expected else f"NOT BORNE OUT: {fact.says}"
    ran = " ".join((fact.run.__doc__ or "").split())
    return f"| {says} | {ran} | {outcome[0]} | {outcome[1]} | {', '.join(fact.rules)} |"
