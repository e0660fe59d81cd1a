"""The figures of a plan as JSON: what `dtlint plan --format json` says beside settings and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.figures import Amount, Axis, Figures, PipelineFigures, StageMemory, StepFigures, Throughput, Topology
from dtlint.report.json import Json, number_json, range_json, unknown_json
from dtlint.value import Unknown

if TYPE_CHECKING:
    from dtlint.cost import Step


def figures_json(found: Figures) -> Json:
    """Each group of figures, or why it is unknown and what would tell."""
    return {
        "assumed": list(found.assumed),
        "topology": unknown_json(found.topology) if isinstance(found.topology, Unknown) else _topology(found.topology),
        "available_bytes": amount_json(found.available),
        "stages": unknown_json(found.stages) if isinstance(found.stages, Unknown) else list(map(_stage, found.stages)),
        "step": unknown_json(found.step) if isinstance(found.step, Unknown) else _step(found.step),
        "throughput": unknown_json(found.throughput)
        if isinstance(found.throughput, Unknown)
        else _throughput(found.throughput),
        "pipeline": unknown_json(found.pipeline) if isinstance(found.pipeline, Unknown) else _pipeline(found.pipeline),
    }


def amount_json(amount: Amount) -> Json:
    """A range, or why it is unknown."""
    return unknown_json(amount) if isinstance(amount, Unknown) else range_json(amount)


def _topology(topology: Topology) -> Json:
    return {
        "world": topology.world,
        "domain": topology.domain,
        "per_node": topology.per_node,
        "axes": {axis.axis: _axis(axis) for axis in topology.axes},
    }


def _axis(axis: Axis) -> Json:
    return {
        "ranks": axis.ranks,
        "stride": axis.stride,
        "domains": axis.domains,
        "inside": axis.inside,
        "sent_bytes": amount_json(axis.sent),
        "bytes_per_second": amount_json(axis.rate),
        "exposed_seconds": amount_json(axis.exposed),
        "hidden_seconds": amount_json(axis.hidden),
    }


def _stage(stage: StageMemory) -> Json:
    return {
        "stage": stage.stage,
        "layers": stage.layers,
        "parts": {name: range_json(size) for name, size in stage.parts.items()},
        "allocated_bytes": range_json(stage.allocated),
        "device_bytes": range_json(stage.device),
        "states_bytes": range_json(stage.states),
        "weights_only_bytes": range_json(stage.weights_only),
    }


def _step(step: StepFigures) -> Json:
    return {
        "seconds": range_json(step.seconds),
        "fastest": _parts(step.fastest),
        "slowest": _parts(step.slowest),
    }


def _parts(step: Step) -> Json:
    exposed = {name: number_json(getattr(step, name)) for name in step._fields if name != "hidden"}
    return {**exposed, "hidden": {axis: number_json(seconds) for axis, seconds in step.hidden.items()}}


def _throughput(found: Throughput) -> Json:
    return {name: amount_json(getattr(found, name)) for name in found._fields}


def _pipeline(found: PipelineFigures | None) -> Json:
    if found is None:
        return None
    return {
        "schedule": found.schedule,
        "stages": found.stages,
        "microbatches": found.microbatches,
        "chunks": found.chunks,
        "bubble": range_json(Interval(found.bubble, found.bubble)),
    }
