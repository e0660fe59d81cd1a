"""Reads meshes of devices: the axes of parallelism by the names of their dimensions, and their order over the ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from dtlint.frameworks import Claim
from dtlint.frameworks.pytorch.names import DEVICE_MESH
from dtlint.languages.python.calls import Call, call_at, called, calls, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.grown import grown_items
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value

AXES: Mapping[str, str] = {
    "tp": "tensor",
    "tensor": "tensor",
    "tensor_parallel": "tensor",
    "mp": "tensor",
    "cp": "context",
    "context": "context",
    "context_parallel": "context",
    "ep": "expert",
    "expert": "expert",
    "pp": "pipeline",
    "pipe": "pipeline",
    "pipeline": "pipeline",
    "dp": "data",
    "data": "data",
    "data_parallel": "data",
    "ddp": "data",
    "fsdp": "shard",
    "shard": "shard",
    "dp_shard": "shard",
    "replicate": "replicate",
    "dp_replicate": "replicate",
}
"""Names of mesh dimensions in public code, and the axis that each means; shard times replicate is the data axis."""

DATA_AXES = ("data", "shard", "replicate")
"""The axes over which the batch is dealt out and gradients are averaged."""
_CLASS = ".DeviceMesh"
_SHAPING = ("view", "reshape")


class Dimension(NamedTuple):
    """One dimension of a mesh: the axis that its name means ("" if it has no name that is known) and its size."""

    axis: str
    size: Setting


class Mesh(NamedTuple):
    """One call that builds a mesh: its dimensions, slowest-varying first, as torch lays ranks out row by row."""

    dimensions: tuple[Dimension, ...]
    place: Span


def meshes(program: Program) -> list[Mesh]:
    """The meshes that the program certainly or possibly builds and whose dimensions are written out."""
    found = []
    for call in calls(program, DEVICE_MESH):
        dimensions = _dimensions(call) if stands(call.place) is not False else ()
        if dimensions:
            found.append(Mesh(dimensions, call.head))
    return found


def mesh_claims(program: Program) -> tuple[Claim, ...]:
    """What the mesh says of the plan, if the program builds exactly one with named dimensions. Where another one has a
    data axis too, either may be the one that the batch is dealt out over. Of several, which may be built under
    conditions, none tells the size of an axis that one of them has.
    """
    found = meshes(program)
    named = [mesh for mesh in found if all(dimension.axis for dimension in mesh.dimensions)]
    if len(named) != 1:
        return tuple(_open_axes(named or _possible(program)))
    claims = _claims_of(named[0])
    rivals = any(_deals_out(mesh) for mesh in found if mesh is not named[0])
    return tuple(claim for claim in claims if claim.setting != "parallel.data") if rivals else claims


def _possible(program: Program) -> list[Mesh]:
    """The meshes whose dimensions conditions decide, with all that they may have."""
    unsized = Unknown("a condition decides on the dimensions of the mesh")
    found = []
    for call in calls(program, DEVICE_MESH):
        names = passed(call, "mesh_dim_names", 2) if stands(call.place) is not False else []
        words = [evaluate(name) for name in _grown(names[0].place)] if len(names) == 1 else []
        axes = [AXES.get(str(word.value), "") for word in words if isinstance(word, Value)]
        found.append(Mesh(tuple(Dimension(axis, unsized) for axis in axes), call.head))
    return found


def _open_axes(built: Sequence[Mesh]) -> Iterator[Claim]:
    """The axes beside data parallelism that meshes of a program have, with no size."""
    places = {axis: mesh.place for mesh in built for axis, dimension in _plain_axes(mesh) if not _is_one(dimension)}
    for axis, place in places.items():
        how = f"--set parallel.{axis}=N"
        reason = "the program builds several device meshes, and one of them has this axis"
        yield Claim(f"parallel.{axis}", Unknown(reason, how, Origin("written", place)), axis)


def _is_one(dimension: Dimension) -> bool:
    return isinstance(dimension.size, Value) and dimension.size.value == 1


def _deals_out(mesh: Mesh) -> bool:
    return any(dimension.axis in DATA_AXES for dimension in mesh.dimensions)


def _claims_of(mesh: Mesh) -> tuple[Claim, ...]:
    claims = [Claim(f"parallel.{axis}", dimension.size, axis) for axis, dimension in _plain_axes(mesh)]
    data = next((dimension.size for dimension in mesh.dimensions if dimension.axis == "data"), None)
    if data is not None and _is_known(data):
        claims.append(Claim("parallel.data", data, "dp"))
    return (*claims, *_hybrid_claims(mesh), *_order(mesh))


def shard_group(place: Place) -> list[Claim]:
    """The ranks of one shard group, by the mesh that an FSDP call is given.

    Of two dimensions FSDP replicates over the first and shards over the second. A slice of a mesh counts by its names.
    """
    ends = [way.end for way in ways(place)]
    built = [end for end in ends if isinstance(end, Place) and called(end) in DEVICE_MESH]
    if len(ends) == len(built) == 1:
        dimensions = _dimensions(call_at(built[0], called(built[0])))
        return [Claim("sharding.group", dimensions[1].size, "mesh")] if len(dimensions) == 2 else []
    return [claim for claim in mesh_claims(place.program) if claim.setting == "sharding.group"]


def _plain_axes(mesh: Mesh) -> list[tuple[str, Dimension]]:
    return [
        (dimension.axis, dimension)
        for dimension in mesh.dimensions
        if dimension.axis in ("tensor", "context", "expert", "pipeline")
    ]


def _hybrid_claims(mesh: Mesh) -> list[Claim]:
    """Replicate and shard dimensions: the shard group is the one, the data-parallel degree their product."""
    sizes = {dimension.axis: dimension.size for dimension in mesh.dimensions}
    replicate, shard = sizes.get("replicate"), sizes.get("shard") or sizes.get("data")
    if replicate is None:
        data = sizes.get("shard")
        return [Claim("parallel.data", data, "fsdp")] if data is not None and _is_known(data) else []
    claims = [Claim("sharding.group", shard, "dp_shard")] if shard is not None else []
    if isinstance(replicate, Value) and isinstance(shard, Value) and "data" not in sizes:
        product = _product(replicate, shard)
        claims += [Claim("parallel.data", product, "dp_replicate")] if product is not None else []
    return claims


def _product(first: Value, second: Value) -> Value | None:
    if not isinstance(first.value, int) or not isinstance(second.value, int):
        return None
    return Value(first.value * second.value, first.origin)


def _order(mesh: Mesh) -> list[Claim]:
    """The axes from the fastest-varying on: torch fills a mesh row by row, so neighbouring ranks share the last one.
    Where another axis stands between the two dimensions that are the data axis, no order of axes says it.
    """
    axes = ["data" if item.axis in ("shard", "replicate") else item.axis for item in reversed(mesh.dimensions)]
    words = tuple(axis for axis, _ in groupby(axes))
    if len(words) < 2:
        return []
    origin = Origin("written", mesh.place)
    split = Unknown("another axis of the mesh stands between those of data parallelism", "", origin)
    order = Value(words, origin) if len(words) == len(set(words)) else split
    return [Claim("parallel.order", order, "mesh_dim_names")]


def _is_known(value: Setting) -> bool:
    return isinstance(value, Value) or (isinstance(value, Unknown) and bool(value.means))


def _dimensions(call: Call) -> tuple[Dimension, ...]:
    shape = _shape(call)
    names = _elements(call, "mesh_dim_names", 2)
    words = [evaluate(name) for name in names]
    axes = [AXES.get(str(word.value), "") if isinstance(word, Value) else "" for word in words]
    if not shape and not axes:
        return ()
    if shape and axes and len(shape) != len(axes):
        return ()
    sizes: list[Setting] = [evaluate(size) for size in shape] or [
        Unknown("the size of the mesh dimension is not written out")
    ] * len(axes)
    return tuple(Dimension(axis, size) for axis, size in zip(axes or [""] * len(sizes), sizes, strict=True))


def _shape(call: Call) -> list[Place]:
    """The sizes of the dimensions: `init_device_mesh("cuda", (2, 8))`, or those in which a class of meshes is given all
    ranks (`DeviceMesh("cuda", torch.arange(16).view(2, 8))`).
    """
    if not call.name.endswith(_CLASS):
        return _elements(call, "mesh_shape", 1)
    given = passed(call, "mesh", 1)
    ends = [way.end for way in ways(given[0].place)] if len(given) == 1 else []
    return _dealt(ends[0]) if len(ends) == 1 and isinstance(ends[0], Place) else []


def _dealt(place: Place) -> list[Place]:
    """The sizes of `torch.arange(16).reshape(2, 8)`."""
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _SHAPING:
        return []
    ranks = node.func.value
    if not isinstance(ranks, ast.Call) or called(place.at(ranks)) != "torch.arange" or len(ranks.args) != 1:
        return []
    return [place.inner(size) for size in node.args] if len(node.args) > 1 else _listed(place.inner(node.args[0]))


def _elements(call: Call, name: str, position: int) -> list[Place]:
    found = passed(call, name, position)
    return _listed(found[0].place) if len(found) == 1 else []


def _listed(place: Place) -> list[Place]:
    """The elements of a tuple or list that stands in one place, with what statements add to a list; none if a
    condition decides whether one is added, or what is done to the list is not written out.
    """
    end = _list_at(place)
    if end is None or not isinstance(end.node, ast.Tuple | ast.List):
        return []
    if isinstance(end.node, ast.Tuple):
        return [end.inner(element) for element in end.node.elts]
    grown = grown_items(end) or ()
    return [item.place for item in grown] if not any(item.guards for item in grown) else []


def _grown(place: Place) -> list[Place]:
    """The elements that a list may have, whichever conditions add them."""
    end = _list_at(place)
    return [item.place for item in grown_items(end) or ()] if end is not None and isinstance(end.node, ast.List) else []


def _list_at(place: Place) -> Place | None:
    """The one tuple or list that an expression stands for, be it made a tuple there."""
    if isinstance(place.node, ast.Call) and len(place.node.args) == 1 and isinstance(place.node.func, ast.Name):
        place = place.at(place.node.args[0])
    ends = [way.end for way in ways(place)]
    return ends[0] if len(ends) == 1 and isinstance(ends[0], Place) else None
