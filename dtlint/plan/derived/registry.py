"""The table of what follows for each setting, and what its functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dtlint.catalog import Gpu, gpu
from dtlint.value import Unknown, Value, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan

Rule = Callable[["Plan"], "Value | Unknown | None"]
RULES: dict[str, Rule] = {}
"""By setting: what follows for it from others, None where nothing does."""

TRAINERS = ("transformers", "trl", "llama-factory", "axolotl", "ms-swift")
"""Front ends that are the Hugging Face Trainer, or stand on it."""


def rule(name: str) -> Callable[[Rule], Rule]:
    """Registers a function as what follows for a setting."""

    def register(found: Rule) -> Rule:
        RULES[name] = found
        return found

    return register


def card(plan: Plan) -> Gpu | None:
    """The catalog's GPU of the cluster, None where it is not known."""
    name = plan.word("cluster.gpu")
    return gpu(name) if name is not None else None


def is_megatron(plan: Plan) -> bool:
    """Whether Megatron's own defaults of the model hold."""
    return plan.word("framework") in ("megatron", "megatron-deepspeed", "nemo")


def stated_integer(plan: Plan, name: str) -> int | None:
    """A whole number that the files or the user state, None where they do not."""
    found = plan.stated(name)
    return found.value if found is not None and isinstance(found.value, int) else None


def same(plan: Plan, name: str) -> Value | None:
    """The value of another setting, derived from it."""
    found = plan.get(name)
    return derived(found.value, name) if isinstance(found, Value) else None


def quotient(total: int | None, part: int | None, *names: str) -> Value | None:
    """`total / part` where it is whole, derived from the settings `names`."""
    if total is None or not part or total % part:
        return None
    return derived(total // part, *names)
