"""Facts about the shapes of a model that the program builds itself."""

from __future__ import annotations

from dtlint.facts.registry import FactValue, register
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.value import Unknown, Value


@register("model.projection", "number", "columns", (), "nvidia-shapes")
def projection(plan: Plan) -> FactValue:
    """Columns of the output projection of a model that the program builds itself, and no checkpoint shapes."""
    for member in plan.collection("code.projections"):
        width = member.fields["width"] if isinstance(member, Member) else None
        if isinstance(width, Value) and isinstance(width.value, int):
            return width.value
    return Unknown("the program builds no output projection of a known width")


@register("model.unchecked_positions", "flag", "", (), "megatron-arguments")
def unchecked_positions(plan: Plan) -> FactValue:
    """Whether a copy of the framework in the tree takes samples that are longer than the model's positions."""
    return bool(plan.collection("model.unchecked_positions"))
