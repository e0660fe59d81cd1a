"""Finds calls that stop the GPU, or wait for all ranks, in every training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import called
from dtlint.languages.python.places import place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Site

_STALLS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "empty_cache": (
        ("torch.cuda.empty_cache", "torch.cuda.memory.empty_cache"),
        "the GPU is waited for, its cached memory given back, and asked for again in the next step",
    ),
    "synchronize": (("torch.cuda.synchronize",), "the host waits for the GPU and prepares nothing meanwhile"),
    "barrier": (
        ("torch.distributed.barrier", "torch.distributed.distributed_c10d.barrier"),
        "every rank waits for the slowest, beside the exchange of gradients that makes them wait anyway",
    ),
}
"""Functions by their last word: their full names, and what a call does to a step."""
_OF_CLOCKS = "synchronize"
"""What a loop that measures time calls for its sake."""
_CLOCKS = ("time", "perf_counter", "monotonic", "elapsed_time", "record", "perf_counter_ns", "process_time")
"""Calls by which a loop measures time."""


def stalls(program: Program) -> tuple[Member, ...]:
    """The collection `code.stalls`: `name`, `reason` of the first such call of each kind in a loop that goes backward
    in the same round.
    """
    found = []
    for module in program.modules.values():
        for last, (names, reason) in _STALLS.items():
            for site in _first_of_loops(program, module, last, names):
                span = module.span(site.node)
                name = module.text(site.node, 60)
                found.append(Member(span, texts(span, name=name, reason=reason)))
    return tuple(found)


def _first_of_loops(program: Program, module: Module, last: str, names: tuple[str, ...]) -> Iterator[Site]:
    seen: set[int] = set()
    for site in module.called.get(last, ()):
        if not site.loops or id(site.loops[-1]) in seen or (last == _OF_CLOCKS and _measures(site.loops[-1])):
            continue
        place = place_of(program, module, site)
        if called(place) in names and _in_each_step(module, site) and stands(place) is not False:
            seen.add(id(site.loops[-1]))
            yield site


def _in_each_step(module: Module, site: Site) -> bool:
    """Whether a call runs in every round of the loop in which the model goes backward, or the optimizer steps."""
    steps = (*module.called.get("backward", ()), *(each for each in module.called.get("step", ()) if _optimizes(each)))
    same = (step for step in steps if step.loops and step.loops[-1] is site.loops[-1])
    return any(all(guard in step.guards for guard in site.guards) for step in same)


def _optimizes(site: Site) -> bool:
    """`optimizer.step()`; a schedule steps once an epoch too."""
    node = site.node
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and "optim" in dotted(node.func.value)


def _measures(loop: ast.AST) -> bool:
    inside = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(dotted(function).rpartition(".")[2] in _CLOCKS for function in inside)
