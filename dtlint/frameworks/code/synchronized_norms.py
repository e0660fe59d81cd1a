"""Finds batch norms that ask all ranks for their statistics, in every layer of each forward and backward pass."""

from __future__ import annotations

import ast

from dtlint.frameworks import Member
from dtlint.frameworks.code.ranks import asks_for_ranks, is_alone
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Guard

_CONVERSIONS = ("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "apex.parallel.convert_syncbn_model")


def synchronized_norms(program: Program) -> tuple[Member, ...]:
    """The collection `code.synchronized_norms`: the conversions that run wherever there are several ranks."""
    return tuple(Member(call.head, {}) for call in calls(program, _CONVERSIONS) if _runs(call))


def _runs(call: Call) -> bool:
    """Whether a call is reached: for certain, or under no other condition than that there are several ranks."""
    verdict, guards = stands(call.place), call.place.guards
    if verdict is not None:
        return verdict
    return bool(guards) and all(_only_asks_for_ranks(call.place, guard) for guard in guards)


def _only_asks_for_ranks(place: Place, guard: Guard) -> bool:
    joined = isinstance(guard.test, ast.BoolOp)
    return not joined and asks_for_ranks(place, guard) and not is_alone(place, guard)
