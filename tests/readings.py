"""What tests look at in a reading: claims by setting, and fields of the members of a collection."""

from __future__ import annotations

import json
from pathlib import Path

from dtlint.api import check
from dtlint.frameworks import Member, Reading
from dtlint.report.json import report_json
from dtlint.value import Value


def claims(reading: Reading) -> dict[str, object]:
    """Known values by setting; of an unknown one its reason."""
    return {
        claim.setting: claim.value.value if isinstance(claim.value, Value) else getattr(claim.value, "reason", None)
        for claim in reading.claims
    }


def settings_of_run(folder: Path, **files: str) -> dict[str, object]:
    """The one run of some files (`train__py` is train.py): its settings by name, an unknown one as None."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    runs = json.loads(report_json(check([folder])))["runs"]
    assert len(runs) == 1
    return {name: each.get("value") for name, each in runs[0]["settings"].items()}


def members(reading: Reading, collection: str, *fields: str) -> list[tuple[object, ...]]:
    return [tuple(_field(member, field) for field in fields) for member in reading.collections.get(collection, ())]


def _field(member: Member, field: str) -> object:
    found = member.fields[field]
    return found.value if isinstance(found, Value) else found
