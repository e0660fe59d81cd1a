"""Reads Lightning's Trainer out of Python: how many devices and nodes it expects."""

from __future__ import annotations

from dtlint.frameworks import Member, Reading
from dtlint.languages.python.calls import argument, calls
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands

LAYER = "lightning-python"
TRAINERS = tuple(
    f"{package}.{name}"
    for package in ("lightning", "lightning.pytorch", "pytorch_lightning", "lightning.fabric")
    for name in ("Trainer", "Fabric")
)


def read(program: Program) -> Reading:
    """The collection `code.trainers`: calls of the Trainer with `devices` and `nodes` as far as they are passed."""
    found = [call for call in calls(program, TRAINERS) if stands(call.place) is not False]
    trainers = []
    for call in found[:1]:
        passed = {"devices": argument(call, "devices"), "nodes": argument(call, "num_nodes")}
        fields = {name: value for name, value in passed.items() if value is not None}
        trainers.append(Member(call.head, fields))
    return Reading(LAYER, collections={"code.trainers": tuple(trainers)} if trainers else {})
