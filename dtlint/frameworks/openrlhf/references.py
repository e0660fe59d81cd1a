"""The reference model that OpenRLHF keeps on the GPUs of the model that trains."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.deepspeed.values import known, number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.reference_model import REFERENCE, unknown_reference
from dtlint.languages.json_tree import Node, setting
from dtlint.source import Span
from dtlint.value import Unknown, written

_COMPARING = (".train_dpo", ".train_kto")
_DISTILLING = ".train_kd"
_OWN = ("model.model_name_or_path", "pretrain")
_NAMES = ("ref.model_name_or_path", "ref_pretrain")
_OFFLOADS = ("ref.offload", "ref_offload")
_WITH_ACTOR = ("train.colocate_actor_ref", "colocate_actor_ref")
_TOGETHER = ("train.colocate_all", "colocate_all_models")
_REWARDS = ("reward.model_name_or_path", "reward_pretrain")
_DISTANCE = ("algo.kl.init_coef", "init_kl_coef")


def beside_the_only(keys: Keys, module: str, place: Span) -> Iterator[Claim]:
    """The reference model of cli/train_dpo.py and train_kto.py: loaded in any case, adapters or not, by ref_pretrain or
    as the model that trains (OpenRLHF 0.5 and 0.11.2); the teacher of train_kd.py may be of any size.
    """
    name = f".{module.replace('/', '.')}"
    if _DISTILLING in name:
        yield Claim(REFERENCE, unknown_reference("how large the teacher is is not known", place), module)
    elif any(each in name for each in _COMPARING):
        yield Claim(REFERENCE, _why_open(keys) or written("copy", place), module)


def beside_the_actor(keys: Keys) -> Iterator[Claim]:
    """The reference model of train_ppo_ray.py where the actor's workers and its own share GPUs and the distance from it
    has a weight, 0.01 unless it is written; all models together share those of the reward model too.
    """
    switch = next((node for node in (keys.node(*_WITH_ACTOR), keys.node(*_TOGETHER)) if _is_on(node)), None)
    weight = keys.node(*_DISTANCE)
    if switch is None or (weight is not None and known(number(weight)) == 0):
        return
    further = _is_on(keys.node(*_TOGETHER)) and keys.node(*_REWARDS) is not None
    open_weight = weight is not None and known(number(weight)) is None
    why = unknown_reference("the weight of the distance is not known", switch.span) if open_weight else _why_open(keys)
    yield Claim(REFERENCE, why or setting(switch, "further" if further else "copy"), _WITH_ACTOR[-1])


def _why_open(keys: Keys) -> Unknown | None:
    """Why the reference model may be no copy of the one that trains, or be in main memory while it does not answer."""
    named, own, away = keys.node(*_NAMES), keys.node(*_OWN), keys.node(*_OFFLOADS)
    if away is not None:
        return unknown_reference("the reference model is offloaded", away.span)
    if named is not None and (own is None or named.value != own.value or named.value is None):
        return unknown_reference("the reference model is another than the one that trains", named.span)
    return None


def _is_on(node: Node | None) -> bool:
    return node is not None and node.value is True
