"""Numbers about hardware, models and frameworks, each with its source: the tables in data/, and how to ask them."""

from __future__ import annotations

from dtlint.catalog.frameworks import (
    DeepSpeedKey,
    Default,
    Refusal,
    ShippedConfig,
    deepspeed_keys,
    deepspeed_refusals,
    defaults,
    display_name,
    in_time,
    package_of,
    shipped_config,
)
from dtlint.catalog.hardware import Gpu, Instance, gpu, instance
from dtlint.catalog.models import LatentAttention, Model, model, models_of_size
from dtlint.catalog.searches import (
    Combination,
    Searched,
    combinations,
    largest,
    least_tokens,
    searched,
    searched_frameworks,
)

__all__ = [
    "Combination",
    "DeepSpeedKey",
    "Default",
    "Gpu",
    "Instance",
    "LatentAttention",
    "Model",
    "Refusal",
    "Searched",
    "ShippedConfig",
    "combinations",
    "deepspeed_keys",
    "deepspeed_refusals",
    "defaults",
    "display_name",
    "gpu",
    "in_time",
    "instance",
    "largest",
    "least_tokens",
    "model",
    "models_of_size",
    "package_of",
    "searched",
    "searched_frameworks",
    "shipped_config",
]
