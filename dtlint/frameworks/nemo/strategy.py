"""The sharding strategy of Megatron's FSDP in NeMo 2 and Megatron-Bridge, where nothing switches that FSDP on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.options import known_head
from dtlint.languages.json_tree import setting
from dtlint.languages.traced import Word
from dtlint.value import Value

BRIDGE_SWITCHES = ("ddp.use_megatron_fsdp", "ddp.use_custom_fsdp", "dist.use_megatron_fsdp")
"""Either of the first and the last sets the other (NVIDIA-NeMo/Megatron-Bridge 067f987
src/megatron/bridge/training/config.py); the second is what Megatron-Core 0.12 calls the first.
"""
NEMO_SWITCHES = (
    "trainer.strategy.fsdp", "trainer.strategy.ddp.use_megatron_fsdp", "trainer.strategy.ddp.use_custom_fsdp",
)  # fmt: skip
_STRATEGIES = ("optim_grads", "optim_grads_params")
"""Those that shard more than the distributed optimizer does without FSDP."""
_TASKS = ("_pretrain_", "_finetune_", "_sft_", "_peft_")
"""How Megatron-Bridge names its recipes; of those in src/megatron/bridge/recipes the ones with FSDP say so by name."""
_ELSEWHERE = re.compile(r"(?i)fsdp|\dgpu_")
"""Names of recipes that may have FSDP: they say so, or are tuned for a machine (src/megatron/bridge/perf_recipes)."""
_MORE = ("--config", "--conf", "--use_megatron_fsdp", "--use-megatron-fsdp")
"""Beginnings of options that bring a config over the recipe, or are the switch."""


def idle_strategy(keys: Keys, ddp: str, switches: Sequence[str]) -> Iterator[Member]:
    """The member of config.inert for a strategy that nothing reads: it is valid with Megatron's FSDP only
    (NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel_config.py). Who writes it on a command line
    means it; configs have it as a matter of course, as Megatron-Bridge's own recipes do.
    """
    key = f"{ddp}.data_parallel_sharding_strategy"
    node, strategy = keys.node(key), keys.known(key)
    if node is None or strategy not in _STRATEGIES or not all(_is_off(keys, switch) for switch in switches):
        return
    switch = f"{switches[0]}={'megatron' if switches is NEMO_SWITCHES else 'true'}"
    reason = f"{strategy} is read by Megatron's FSDP alone, which {switch} switches on"
    matters = "yes" if key in keys.spelled else "no"
    fields = texts(node.span, key=key, section=ddp, reason=reason, setting="", matters=matters)
    yield Member(node.span, fields)


def is_recipe(name: str) -> bool:
    """Whether a name is one that Megatron-Bridge gives to a recipe (`llama3_8b_pretrain_config`)."""
    named = name.isidentifier() and name[0].islower() and name.endswith("_config")
    return named and any(name.find(task) > 0 for task in _TASKS)


def leaves_fsdp_off(recipe: str, words: Sequence[Word]) -> bool:
    """Whether a recipe is by its name one of Megatron-Bridge's without FSDP, and no word beside it may switch that on
    unseen.
    """
    if not is_recipe(recipe) or _ELSEWHERE.search(recipe) is not None:
        return False
    return all((head := known_head(word)) and not head.startswith(_MORE) for word in words)


def _is_off(keys: Keys, switch: str) -> bool:
    node = keys.node(switch)
    found = setting(node) if node is not None else None
    return found is None or (isinstance(found, Value) and not found.value and found.origin.kind != "assumed")
