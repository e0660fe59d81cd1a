"""Finds training loops over shards that ranks cut for themselves, of lengths that differ: `code.shards`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.blocks import block_of, is_number_of_ranks
from dtlint.frameworks.code.how_many import how_many
from dtlint.frameworks.code.loss_factors import AVERAGING
from dtlint.frameworks.code.mentions import mentions, passes, turned_over
from dtlint.frameworks.code.ranks import is_rank
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import Call, call_at, called, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.python.tree import Module, Scope, Site
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Setting, Unknown, Value, written

_EQUALISED = re.compile(
    r"drop_last(?!\s?=\s?False)|\bJoin\b|\.join\(\[|cycle|while True|\.repeat\(|infinite|StopIteration"
    r"|itertools\.repeat"
    r"|pad(ded|ding)?_?\(|even_batches|(max|total|num|train)_(train_)?(steps|iters|iterations|batches|updates)"
    r"|(steps|iters|iterations|batches)_per_epoch|epoch_length"
    r"|with_epoch|resampled\s*=\s*True|ddp_equalize|ResampledShards"
    r"|ReduceOp\.MIN|%\s*(\w+\.)*(get_)?world|(?<!1\) )//\s*(\w+\.)*(get_)?world|[Mm]in\(len"
)
"""Words of programs that may make the shards equal, or stop at a number of steps."""
_LOADERS: Mapping[str, tuple[str, int]] = {
    "torch.utils.data.DataLoader": ("dataset", 0),
    "torch.utils.data.dataloader.DataLoader": ("dataset", 0),
    "torch.utils.data.TensorDataset": ("", 0),
    "torchdata.stateful_dataloader.StatefulDataLoader": ("dataset", 0),
    "webdataset.WebLoader": ("dataset", 0),
    "dgl.dataloading.DataLoader": ("indices", 1),
    "dgl.dataloading.NodeDataLoader": ("nids", 1),
    "dgl.dataloading.EdgeDataLoader": ("eids", 1),
    "torch_geometric.loader.DataLoader": ("dataset", 0),
    "torch_geometric.loader.NeighborLoader": ("input_nodes", 2),
    "torch_geometric.loader.NeighborSampler": ("node_idx", 2),
}
"""What reads samples, or samples around what it is given, to the end, each with the parameter that holds them."""
_STREAMS = ("webdataset.WebDataset",)
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
_SPLIT_FILES = "webdataset.split_by_node"
_PASSED_THROUGH = frozenset(
    (
        "shuffle", "decode", "to_tuple", "to_dict", "map", "map_dict", "map_tuple", "select", "rename", "batched",
        "unbatched", "compose", "with_length", "log_keys",
    )
)  # fmt: skip
"""Methods of webdataset's streams that return the stream with one more step, whatever its length."""
_PASSED_BY_DATASETS = frozenset(
    (
        "shuffle", "map", "filter", "batch", "flatten", "with_format", "with_transform", "cast", "cast_column",
        "remove_columns", "rename_column", "rename_columns", "select_columns", "flatten_indices", "to_iterable_dataset",
    )
)  # fmt: skip
"""The same of datasets: a few of its methods pick samples by number (`select`, `take`), and these do not."""
_SPLITS = ("datasets.distributed.split_dataset_by_node", "datasets.split_dataset_by_node")
_MAX_STEPS = 6
_LONG = 40
"""Characters from which an expression is told by the name that it is bound to."""


class Shard(NamedTuple):
    """What a rank takes of the samples, and the loaders and datasets on the way to it, the outermost first."""

    place: Place
    through: tuple[Place, ...] = ()


def shards(program: Program) -> tuple[Member, ...]:
    """The collection `code.shards`: `shard`, what each rank takes of the samples, `joinable`, whether DDP wraps the
    model, whose exchanges Join can answer, `files`, whether the ranks deal out whole files, `last`, whether the last
    rank alone gets less, `stream`, whether a stream of datasets is split, `count`, how many things are dealt,
    `evaluates`, whether the loop evaluates, and `needs`, what its model needs to be sharded (evaluated_shards).

    Only where a loop that goes backward certainly runs to the end of what the rank took.
    """
    wraps = standing(program, AVERAGING)
    if not wraps or mentions(program, _EQUALISED):
        return ()
    found: dict[tuple[str, int], Member] = {}
    for place, site in passes(program):
        for shard in _shards_of(place, site):
            member = shard_member(shard.place, wraps[0].head, joinable=wraps[0].name in DDP)
            found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values())


def shard_member(shard: Place, wrap: Span, *, joinable: bool) -> Member:
    """The member of `code.shards` for what a rank takes of the samples, of a model that is wrapped at a place."""
    span = shard.module.span(shard.node)
    dealt, block = _dealt(shard), block_of(shard)
    count = how_many(dealt) if dealt is not None else None
    fields: dict[str, Setting] = {
        **texts(span, shard=_name_of(shard)),
        "joinable": written(joinable, span),
        "files": written(called(shard) in _STREAMS, span),
        "stream": written(_is_split_of_stream(shard), span),
        "evaluates": written(False, span),
        "needs": written("", span),
        "last": written(block is not None and block.shorter == "last", span),
        "count": written(count, span) if count is not None else Unknown("how many are dealt is not told"),
    }
    return Member(span, fields, ((wrap, "every rank must exchange as often as the others"),))


def _is_split_of_stream(shard: Place) -> bool:
    """`split_dataset_by_node(load_dataset(..., streaming=True), rank, world)`"""
    split = passed(call_at(shard, called(shard)), "dataset", 0) if called(shard) in _SPLITS else ()
    starts = [_start_of(way.end) for item in split for way in ways(item.place) if isinstance(way.end, Place)]
    loaded = [end for start in starts for way in ways(start) if isinstance(end := way.end, Place)]
    return any(isinstance(end.node, ast.Call) and _is_streaming(end, end.node) for end in loaded)


def _is_streaming(end: Place, node: ast.Call) -> bool:
    if last_word(node.func) == "to_iterable_dataset":
        return True
    given = next((each.value for each in node.keywords if each.arg == "streaming"), None)
    value = evaluate(end.at(given)) if given is not None else None
    return isinstance(value, Value) and value.value is True


def _name_of(shard: Place) -> str:
    """The name that a long expression is bound to, else its text."""
    text = shard.module.text(shard.node, 60)
    bound = (site.node for site in shard.scope.sites if isinstance(site.node, ast.Assign) and len(text) >= _LONG)
    return next((name for each in bound if each.value is shard.node and (name := dotted(each.targets[0]))), text)


def _dealt(shard: Place) -> Place | None:
    """What the ranks cut their shards from."""
    node, block = shard.node, block_of(shard)
    if block is not None:
        return shard.at(block.whole)
    if isinstance(node, ast.Subscript):
        return shard.at(node.value)
    by_name = isinstance(node, ast.Call) and called(shard) in (*_STREAMS, "itertools.islice")
    return shard.at(node.args[0]) if isinstance(node, ast.Call) and by_name and node.args else None


def _shards_of(backward: Place, site: Site) -> Iterator[Shard]:
    """The shards that the loops around a backward pass, or a call that leads to one, turn over."""
    if stands(backward) is False or any(_may_end_early(loop) for loop in site.loops):
        return
    for iterable in turned_over(site):
        yield from shards_in(backward.at(iterable))


def _may_end_early(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))


def shards_in(place: Place, depth: int = 0) -> Iterator[Shard]:
    """The shards that an iterable reads: itself, the dataset of a loader, what a dataset in sight slices."""
    for end in (way.end for way in ways(place)) if depth < _MAX_STEPS else ():
        if isinstance(end, Place):
            start = _start_of(end)
            if start is not end:
                yield from shards_in(start, depth + 1)
            elif is_shard(end):
                yield Shard(end)
            else:
                yield from _shards_behind(end, depth)


def _shards_behind(end: Place, depth: int) -> Iterator[Shard]:
    """Those that what is built at a place reads: a loader its dataset, a dataset what its class slices."""
    if called(end) in _LOADERS:
        found = (shard for item in _read_by(call_at(end, called(end))) for shard in shards_in(item, depth + 1))
    else:
        found = (Shard(place) for place in _shards_of_class(end))
    yield from (shard._replace(through=(end, *shard.through)) for shard in found)


def _read_by(call: Call) -> tuple[Place, ...]:
    """What a loader reads, unless it deals that to the ranks itself."""
    given = () if passed(call, "use_ddp") else passed(call, *_LOADERS[call.name])
    return tuple(item.place for item in given)


def _start_of(place: Place) -> Place:
    """What a stream begins with: `WebDataset(...)` of `WebDataset(...).shuffle(1000).batched(64)`."""
    node, steps = place.node, _steps_of(place.module)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in steps:
        node = node.func.value
    return place if node is place.node else place.at(node)


def _steps_of(module: Module) -> frozenset[str]:
    if "webdataset" in module.source.text:
        return _PASSED_THROUGH
    return _PASSED_BY_DATASETS if "datasets" in module.source.text else frozenset()


def _shards_of_class(end: Place) -> Iterator[Place]:
    """The slices by rank that a dataset's class makes of what it is given."""
    names = qualified(end.module, end.node.func, end.scope) if isinstance(end.node, ast.Call) else ()
    found = definition(end.program, end.module, names[0]) if len(names) == 1 else None
    if found is None or not isinstance(found.scope.node, ast.ClassDef):
        return
    for node in ast.walk(found.scope.node):
        if isinstance(node, ast.Subscript | ast.Call):
            scope = _scope_around(found.scope, node)
            place = end._replace(module=found.module, scope=scope, node=node, guards=(), frames=())
            if is_shard(place):
                yield place


def _scope_around(owner: Scope, node: ast.expr) -> Scope:
    """The method of a class that an expression stands in."""
    inside = (
        scope
        for scope in owner.inner
        if getattr(scope.node, "lineno", 0) <= node.lineno <= getattr(scope.node, "end_lineno", 0)
    )
    return next(inside, owner)


def is_shard(place: Place) -> bool:
    """`data[rank::world]`, `islice(data, rank, None, world)`, `data.shard(num_shards=world, index=rank)`,
    `split_dataset_by_node(data, rank, world)`, `WebDataset(files, nodesplitter=split_by_node)`, and samples that are
    picked by such indices: `Subset(data, range(rank, len(data), world))`, `data.select(indices[rank::world])`; blocks
    of a length that is rounded up, `torch.split(ids, math.ceil(len(ids) / world))[rank]`.
    """
    node = place.node
    if isinstance(node, ast.Subscript):
        cut = node.slice
        strided = isinstance(cut, ast.Slice) and cut.upper is None and _by_rank(place, cut.lower, cut.step)
        return strided or block_of(place) is not None
    if not isinstance(node, ast.Call):
        return False
    if called(place) == "itertools.islice" and len(node.args) == 4:
        return isinstance(node.args[2], ast.Constant) and _by_rank(place, node.args[1], node.args[3])
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    if (indices := _indices(place, node)) is not None:
        return any(strides(way.end) for way in ways(place.at(indices)))
    if isinstance(node.func, ast.Attribute) and node.func.attr == "shard":
        return _by_rank(place, named.get("index"), named.get("num_shards"))
    if called(place) in _STREAMS:
        splitter = named.get("nodesplitter")
        return splitter is not None and qualified(place.module, splitter, place.scope) == (_SPLIT_FILES,)
    if called(place) in _SPLITS:
        given = [*node.args[1:], None, None]
        return _by_rank(place, named.get("rank", given[0]), named.get("world_size", given[1]))
    return False


def _indices(place: Place, node: ast.Call) -> ast.expr | None:
    """The indices by which samples of a data set are picked."""
    if called(place) in _SUBSETS and len(node.args) == 2:
        return node.args[1]
    picks = isinstance(node.func, ast.Attribute) and node.func.attr == "select" and len(node.args) == 1
    return node.args[0] if picks else None


def strides(end: Place | Unknown) -> bool:
    """Whether indices are `range(rank, count, world)`, or a shard of others."""
    node = end.node if isinstance(end, Place) else None
    if not isinstance(end, Place) or node is None:
        return False
    if isinstance(node, ast.Call) and dotted(node.func) in ("list", "range"):
        if dotted(node.func) == "list":
            return len(node.args) == 1 and strides(end.at(node.args[0]))
        return len(node.args) == 3 and _by_rank(end, node.args[0], node.args[2])
    return isinstance(node, ast.Subscript) and is_shard(end)


def _by_rank(place: Place, start: ast.expr | None, step: ast.expr | None) -> bool:
    """Whether a start is the number of this rank and a step the number of ranks."""
    if start is None or step is None:
        return False
    return is_rank(place.at(start), 0) and is_number_of_ranks(place.at(step))
