"""Reads what any torch script may write: the device mesh, recomputation, timeouts, hand-made gradient exchange."""

from __future__ import annotations

from dtlint.frameworks import Claim, Member, Reading, code
from dtlint.frameworks.process_groups import group_claims
from dtlint.frameworks.pytorch.checkpointing import checkpointing_claims, variant_claims
from dtlint.frameworks.pytorch.device_mesh import mesh_claims, meshes
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.frameworks.pytorch.pipelines import pipeline_claims
from dtlint.frameworks.pytorch.projections import projections, vocabulary_claims
from dtlint.languages.python.program import Program
from dtlint.source import Edit
from dtlint.value import Origin, Value

LAYER = "pytorch-python"


def read(program: Program) -> Reading:
    """Claims of the device mesh, of pipelines and of activation checkpointing, and the collections about code.

    A program that exchanges all gradients by hand and wraps the model in nothing is plain data parallelism of torch.
    """
    wide, staged = projections(program), pipeline_claims(program)
    claims = (
        *mesh_claims(program),
        *checkpointing_claims(program),
        *variant_claims(program),
        *vocabulary_claims(wide),
        *staged,
    )
    built = meshes(program)
    place = built[0].place if built else None
    members = collectives(program)
    collections = {"code.collectives": members, "code.projections": wide, **code.collections(program)}
    by_hand = next((member for member in members if _is_whole_exchange(member)), None)
    if by_hand is None:
        framework = "pytorch" if staged else ""
        return Reading(LAYER, place, claims, framework=framework, collections=collections)
    unsharded = Claim("sharding.stage", Value(0, Origin("written", by_hand.place)), "all_reduce")
    claims = (*claims, unsharded, *group_claims(program))
    return Reading(LAYER, place or by_hand.place, claims, framework="pytorch", collections=collections)


def spell(setting: str, value: object) -> str | None:
    """A program's own calls have no word for a setting that is not in them."""
    return None


def spell_as_stated(reading: Reading, setting: str, value: object) -> str | None:
    """A call that turns recomputation on is taken out; a flag beside it does not turn it off."""
    if setting != "checkpointing.activations" or value != "none":
        return None
    stated = next((claim for claim in reading.claims if claim.setting == setting), None)
    return None if stated is None else f"without {stated.name}"


def edits(reading: Reading, setting: str, value: object) -> tuple[Edit, ...]:
    """None: a call is taken out by hand, with what it is part of."""
    return ()


def _is_whole_exchange(member: Member) -> bool:
    whole, wrapper = member.fields["over_gradients"], member.fields["wrapper"]
    return isinstance(whole, Value) and isinstance(wrapper, Value) and wrapper.value == "none"
