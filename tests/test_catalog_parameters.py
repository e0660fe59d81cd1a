"""The shape of every model of the catalog counts to its published number of parameters.

Within 2.5%: norms, biases and learned positions are not counted. Where only the rounded name is published ("8B"), within
15%; where the shape is not the whole model, data/parameter_counts.yaml says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import yaml

from dtlint.catalog import model
from dtlint.catalog.build import _rows
from dtlint.catalog.models import MODEL_FILES, Model
from dtlint.plan import Plan
from dtlint.plan.parameters import count_parameters
from dtlint.value import Plain, given

EXACT, ROUNDED = 0.025, 0.15
ROWS = {row["name"]: row for row in _rows(MODEL_FILES[0])}
FIELDS = (
    "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "gated_mlp", "tied_embeddings", "experts",
    "experts_per_token", "expert_ffn", "shared_expert_ffn", "moe_layers", "latent_attention",
)  # fmt: skip


def exceptions() -> dict[str, str]:
    text = (Path(__file__).parent / "data" / "parameter_counts.yaml").read_text()
    causes = cast("dict[str, list[list[str]]]", yaml.safe_load(text))
    return {name: cause for cause, groups in causes.items() for group in groups for name in group}


def counted(found: Model) -> int | None:
    """What the plan makes of the shape alone, without the model's name."""
    shape = {f"model.{field}": getattr(found, field) for field in FIELDS if getattr(found, field)}
    return count_parameters(Plan({name: given(cast("Plain", value)) for name, value in shape.items()}))


def published(name: str) -> float | None:
    billions = ROWS[name]["published_parameters_billion"]
    return float(billions) * 1e9 if billions else None


def tolerance(name: str) -> float:
    return ROUNDED if ROWS[name]["published_basis"] == "nominal" else EXACT


@pytest.mark.parametrize("name", sorted(ROWS.keys() - exceptions().keys()))
def test_shape_counts_to_the_published_number(name: str) -> None:
    found, number = model(name), published(name)
    assert found is not None
    count = counted(found)
    assert count is not None
    if number is not None:
        assert count == pytest.approx(number, rel=tolerance(name))


@pytest.mark.parametrize("name", sorted(exceptions()))
def test_an_exception_is_one(name: str) -> None:
    found, number = model(name), published(name)
    assert found is not None and number is not None
    count = counted(found)
    assert count is None or abs(count / number - 1) > tolerance(name) or ROWS[name]["published_basis"] == "nominal"


def test_most_rows_have_a_published_number() -> None:
    told = [name for name in ROWS if published(name) is not None]
    assert len(told) / len(ROWS) > 0.9
