"""Reads torch's DistributedDataParallel out of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.process_groups import group_claims
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.frameworks.pytorch.trained_wraps import agreed, trained
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Origin, Setting, Value, written

LAYER = "ddp-python"
BYTES_PER_MIB = 1 << 20
_STATIC = "_set_static_graph"


def read(program: Program) -> Reading:
    """What the program's DDP call claims; no framework if there is none, or if FSDP may wrap the model instead."""
    found = standing(program, DDP)
    if not found:
        return Reading(LAYER)
    certain = next((item for item in found if stands(item.place)), None)
    if certain is None and any(stands(item.place) is not False for item in calls(program, (*FSDP1, *FSDP2))):
        return Reading(LAYER, found[-1].head)
    return agreed([_of_model(program, _chosen(wraps)) for wraps in reversed(trained(program, found))])


def _chosen(wraps: list[Call]) -> Call:
    return next((wrap for wrap in wraps if stands(wrap.place)), wraps[-1])


def _of_model(program: Program, call: Call) -> Reading:
    claims = [Claim("sharding.stage", Value(0, Origin("written", call.head)), "DistributedDataParallel")]
    unused = argument(call, "find_unused_parameters")
    if unused is not None:
        claims.append(Claim("communication.find_unused", unused, "find_unused_parameters"))
    claims.extend(_static_graph(program, call))
    bucket = argument(call, "bucket_cap_mb")
    if bucket is not None:
        claims.append(Claim("communication.bucket_bytes", _bytes(bucket), "bucket_cap_mb"))
    claims.extend(group_claims(program))
    lone = tuple(_lone_device(call))
    collections = {"code.lone_devices": lone} if lone else {}
    return Reading(LAYER, call.head, tuple(claims), framework="ddp", open=call.open, collections=collections)


def _lone_device(call: Call) -> Iterator[Member]:
    """`device_ids=[...]` of one device: each process has the whole model there, and no other GPU."""
    for given in passed(call, "device_ids", 1):
        node = given.place.node
        if isinstance(node, ast.List) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred):
            place = given.place.module.span(node)
            yield Member(place, {"devices": written(1, place)})


def _static_graph(program: Program, call: Call) -> Iterator[Claim]:
    """`static_graph=True`, or the method that says so later."""
    static = argument(call, "static_graph")
    if static is not None:
        yield Claim("communication.static_graph", static, "static_graph")
        return
    sites = ((module, site) for module in program.modules.values() for site in module.called.get(_STATIC, ()))
    for module, site in sites:
        yield Claim("communication.static_graph", written(True, module.span(site.node)), _STATIC)
        return


def _bytes(value: Setting) -> Setting:
    """A bucket size, written in MiB, in bytes."""
    if isinstance(value, Value) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return value._replace(value=int(value.value * BYTES_PER_MIB))
    return value


def spell(setting: str, value: object) -> str | None:
    """How a DDP call is told this value, None if it is not."""
    if setting == "communication.find_unused":
        return f"find_unused_parameters={bool(value)}"
    if setting == "communication.bucket_bytes" and isinstance(value, int | float):
        return f"bucket_cap_mb={value / BYTES_PER_MIB:g}"
    return None
