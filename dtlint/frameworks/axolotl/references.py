"""Which model answers for the reference where Axolotl trains on preferences (`rl: dpo`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim
from dtlint.frameworks.deepspeed.values import flag, known, number
from dtlint.frameworks.dotted_keys import Keys, unread
from dtlint.frameworks.reference_model import REFERENCE
from dtlint.languages.json_tree import setting

_KEPT: Mapping[str, str] = {
    "dpo": "adapters-off",
    "ipo": "adapters-off",
    "kto": "adapters-off",
    "grpo": "by-weight",
    "gdpo": "by-weight",
    "orpo": "none",
    "simpo": "none",
}
"""What each kind of `rl` keeps. For DPO and IPO the model is loaded once more unless adapters train
(setup_reference_model of axolotl/train.py), for KTO and GRPO TRL's trainer does as it does elsewhere
(core/builders/rl.py)."""


def reference(keys: Keys) -> Iterator[Claim]:
    """The reference model, and for GRPO the weight of the distance from it."""
    node = keys.node("rl")
    if node is None or node.kind == "null":
        return
    kept = _KEPT.get(str(node.value)) if node.kind == "string" else None
    if kept is None:
        yield Claim(REFERENCE, unread(node, "which model answers for the reference is not known"), "rl")
        return
    yield Claim(REFERENCE, setting(node, "copy" if _has_its_own(keys, str(node.value)) else kept), "rl")
    if kept == "by-weight":
        yield from _weight(keys)


def _has_its_own(keys: Keys, kind: str) -> bool:
    """Whether adapters train beside a reference model of its own (rl_adapter_ref_model)."""
    node = keys.node("rl_adapter_ref_model")
    return kind in ("dpo", "ipo") and node is not None and known(flag(node)) is True


def _weight(keys: Keys) -> Iterator[Claim]:
    """beta of GRPO, where it is written: TRL's own depends on its release."""
    for name in ("trl.beta", "rl_beta"):
        node = keys.node(name)
        if node is not None and node.kind != "null":
            yield Claim("model.reference_weight", number(node), name)
            return
