"""What tests look at in a reading: claims by setting, and fields of the members of a collection."""

from __future__ import annotations

from dtlint.frameworks import Member, Reading
from dtlint.value import Value


def claims(reading: Reading) -> dict[str, object]:
    """Known values by setting; of an unknown one its reason."""
    return {
        claim.setting: claim.value.value if isinstance(claim.value, Value) else getattr(claim.value, "reason", None)
        for claim in reading.claims
    }


def members(reading: Reading, collection: str, *fields: str) -> list[tuple[object, ...]]:
    return [tuple(_field(member, field) for field in fields) for member in reading.collections.get(collection, ())]


def _field(member: Member, field: str) -> object:
    found = member.fields[field]
    return found.value if isinstance(found, Value) else found
