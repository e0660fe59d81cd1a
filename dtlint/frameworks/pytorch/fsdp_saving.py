"""Where a program gathers the whole state of an FSDP1 model to save it, and what each rank keeps of it then."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch.names import FSDP1
from dtlint.languages.python.calls import Call, argument, calls
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import outermost_function, stands
from dtlint.languages.python.tree import Module, Scope
from dtlint.value import Setting, Value, default

CONFIGS = ("torch.distributed.fsdp.FullStateDictConfig", "torch.distributed.fsdp.api.FullStateDictConfig")
TYPES = tuple(f"{name}.{method}" for name in FSDP1 for method in ("state_dict_type", "set_state_dict_type"))
_GATHERS = re.compile(r"(?<!load_)(?<!set_)state_dict$")
"""Functions that return a state."""
_WRITES = re.compile(r"save|write|dump|upload|(?<![a-z])put(?![a-z])", re.IGNORECASE)
_SENDS = re.compile(r"^_?(update|load|sync|refit|refresh)_", re.IGNORECASE)
_WEIGHTS = re.compile(r"weights|param", re.IGNORECASE)
"""Words of functions that give weights to an engine which generates with them."""


def full_states(program: Program) -> Iterator[Member]:
    """Members of `code.full_states`, one for each place that asks for a full state: whether the gathered weights go to
    main memory (`offloads`), and whether the first rank alone keeps them (`rank0_only`); neither unless written.
    """
    for call in calls(program, (*CONFIGS, *TYPES)):
        if stands(call.place) is False or not may_write(call.place):
            continue
        if call.name in CONFIGS:
            yield _member(call, argument(call, "offload_to_cpu", 0), argument(call, "rank0_only", 1))
        elif _asks_for_all(call) and argument(call, "state_dict_config", 2) is None and not call.open:
            yield _member(call, None, None)


def may_write(place: Place) -> bool:
    """Whether a state may be gathered to be written: not where it is only loaded, or given to an engine that generates
    with the weights; by what the function around calls, or all of its class where that asks for no state itself.
    """
    function = outermost_function(place.scope)
    owner = function.parent if function is not None else None
    words = _called_in(place.module, function)
    if owner is not None and isinstance(owner.node, ast.ClassDef) and not any(map(_is_of_states, words)):
        words = _called_in(place.module, owner)
    if any(map(_WRITES.search, words)):
        return True
    return not any(map(_sends if any(map(_GATHERS.search, words)) else _is_of_states, words))


def _sends(word: str) -> bool:
    return bool(_SENDS.search(word)) and bool(_WEIGHTS.search(word))


def _is_of_states(word: str) -> bool:
    return word.endswith("state_dict")


def _called_in(module: Module, within: Scope | None) -> list[str]:
    """The last words of what is called in a function or class, or at the level of the module."""
    return [word for word, sites in module.called.items() if any(_lies_in(site.scope, within) for site in sites)]


def _lies_in(scope: Scope | None, within: Scope | None) -> bool:
    if within is None:
        return outermost_function(scope) is None
    while scope is not None and scope is not within:
        scope = scope.parent
    return scope is within


def _asks_for_all(call: Call) -> bool:
    kind = argument(call, "state_dict_type", 1)
    return isinstance(kind, Value) and str(kind.value).endswith("FULL_STATE_DICT")


def _member(call: Call, offloads: Setting | None, rank0_only: Setting | None) -> Member:
    off = default(False, "PyTorch")
    return Member(call.head, {"offloads": offloads or off, "rank0_only": rank0_only or off})
