"""Reads pipelines of torch.distributed.pipelining: the schedule, its micro-batches and its stages (torch
distributed/pipelining/schedules.py and stage.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim
from dtlint.languages.python.calls import Call, argument, call_at, called, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import stands
from dtlint.value import Origin, Unknown, Value

_PACKAGE = "torch.distributed.pipelining"
_OF_ONE_STAGE: Mapping[str, str] = {"ScheduleGPipe": "gpipe", "Schedule1F1B": "1f1b"}
"""Schedules of one stage on each rank, which have as many ranks as stages."""
_KINDS: Mapping[str, str] = {
    **_OF_ONE_STAGE,
    "ScheduleInterleaved1F1B": "interleaved",
    "ScheduleZBVZeroBubble": "zbv",
    "ScheduleDualPipeV": "dualpipe",
}
"""Schedules by their classes, those for which the plan has a word."""
_FINDERS = frozenset((f"{_PACKAGE}.schedules.get_schedule_class", f"{_PACKAGE}.get_schedule_class"))
"""Functions that return the class of a schedule by its name without `Schedule`, in any case."""
_STAGES = frozenset((f"{_PACKAGE}.PipelineStage", f"{_PACKAGE}.stage.PipelineStage"))
_BUILDS = "build_stage"
"""The method by which what a tracer has cut makes the stage of a rank."""
_COUNT = "n_microbatches"
_ALL_RANKS = "parallel.world_size"


def pipeline_claims(program: Program) -> tuple[Claim, ...]:
    """What the only schedule that a program builds says of the plan; one without a loss goes forward alone."""
    found = list(_schedules(program))
    call, name = found[0] if len(found) == 1 else (None, "")
    if call is None or not passed(call, "loss_fn", 2):
        return ()
    claims = [Claim("schedule.kind", Value(_KINDS[name], Origin("written", call.head)), name)] if name in _KINDS else []
    count = argument(call, _COUNT, 1)
    claims += [Claim("schedule.microbatches", count, _COUNT)] if isinstance(count, Value) else []
    stages = _stages(call) if name in _OF_ONE_STAGE else None
    return (*claims, *([Claim("parallel.pipeline", stages, "num_stages")] if stages is not None else []))


def _schedules(program: Program) -> Iterator[tuple[Call, str]]:
    """The calls that build a schedule, each with the name of its class, "" where the files do not tell it."""
    for module in program.modules.values():
        if _PACKAGE not in module.source.text:
            continue
        for site in sites(module):
            place = place_of(program, module, site)
            name = _class_of(place) if isinstance(site.node, ast.Call) else None
            if name is not None and stands(place) is not False:
                yield call_at(place, ""), name


def _class_of(place: Place) -> str | None:
    """The class of the schedule that a call builds: by its name, or by what a choice among classes comes to."""
    assert isinstance(place.node, ast.Call)
    known = _named(place.at(place.node.func))
    if known is not None:
        return known
    if not any(keyword.arg == _COUNT for keyword in place.node.keywords):
        return None
    names = {_chosen(end) for way in ways(place.at(place.node.func)) for end in [way.end] if isinstance(end, Place)}
    return names.pop() if len(names) == 1 else ""


def _named(place: Place) -> str | None:
    """The name of a class of schedules that an expression names."""
    found = (name.rpartition(".") for name in qualified(place.module, place.node, place.scope))
    return next((last for package, _, last in found if package.startswith(_PACKAGE) and last.startswith("Sch")), None)


def _chosen(place: Place) -> str:
    """The class that `get_schedule_class("1F1B")` and `SCHEDULES[args.schedule]` come to."""
    node, name = place.node, _named(place)
    if name is not None:
        return name
    if isinstance(node, ast.Call) and called(place) in _FINDERS:
        word = argument(call_at(place, ""), "schedule_name", 0)
        return _by_word(word.value) if isinstance(word, Value) else ""
    entry = _entry(place, node) if isinstance(node, ast.Subscript) else None
    return (_named(entry) or "") if entry is not None else ""


def _by_word(word: object) -> str:
    return next((name for name in _KINDS if name.lower() == f"schedule{word}".lower()), "")


def _entry(place: Place, node: ast.Subscript) -> Place | None:
    """The value of a written dictionary under the key that the files tell."""
    key = evaluate(place.at(node.slice)._replace(budget=Budget()))
    ends = [way.end for way in ways(place.at(node.value))]
    held = ends[0] if len(ends) == 1 else None
    if not isinstance(held, Place) or not isinstance(held.node, ast.Dict) or not isinstance(key, Value):
        return None
    pairs = zip(held.node.keys, held.node.values, strict=True)
    return next((held.at(value) for each, value in pairs if _is_key(each, key.value)), None)


def _is_key(node: ast.expr | None, key: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _stages(schedule: Call) -> Value | Unknown | None:
    """How many stages the pipeline has: as many as its only stage is told; what is cut by a tracer has one on each rank
    of its group, which is all ranks where none is given.
    """
    given = passed(schedule, "stage", 0)
    ends = [way.end for way in ways(given[0].place)] if len(given) == 1 else []
    stage = ends[0] if len(ends) == 1 else None
    if not isinstance(stage, Place) or not isinstance(stage.node, ast.Call):
        return None
    call = call_at(stage, "")
    if isinstance(stage.node.func, ast.Attribute) and stage.node.func.attr == _BUILDS:
        grouped = call.open or passed(call, "group", 2)
        return None if grouped else Unknown("each rank has a stage", "", Origin("written", call.head), _ALL_RANKS)
    count = argument(call, "num_stages", 2) if called(stage) in _STAGES else None
    if isinstance(count, Value):
        return count
    return count if isinstance(count, Unknown) and count.means else None
