"""Finds mean losses that are multiplied by the number of ranks where the wrapper averages: `code.overscaled_losses`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.loss_factors import Factor, counts_ranks, factors, is_averaged, loss_of, without
from dtlint.frameworks.code.mean_losses import is_accumulation, is_mean
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.scaled_gradients import scales_gradients
from dtlint.frameworks.pytorch.device_mesh import DATA_AXES, meshes
from dtlint.frameworks.pytorch.exchange import ALL_REDUCE
from dtlint.frameworks.pytorch.names import DEVICE_MESH
from dtlint.languages.python.calls import called, calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import enclosing_function, stands

_REASONS = re.compile(
    r"gather|\w_all_reduce|all_reduce_\w|reduction\s*=(?!\s*[\"'](?:batch)?mean[\"'])|size_average|num_items_in_batch|comm_hook"
    r"|divide_factor|predivide|tensor_parallel|context_parallel|sequence_parallel|(\blr|learning_rate)\b[^\n]{0,200}world|world_size\s*\*\s*\w{0,60}batch"
    r"|batch\w{0,60}\s*\*\s*\w{0,60}\.?(get_)?world|nbs\b|autograd\.Function"
)
"""Words of programs that may have a reason: features gathered from all ranks without gradients, sums, global counts,
another learning rate, partial gradients.
"""

_PASSES = ("forward", "backward", "__call__")
_HANDLES_GRADIENTS = re.compile(r"\.grad\b|(?<!no_)\bgrads?\b|gradients")


def overscaled_losses(program: Program) -> tuple[Member, ...]:
    """The collection `code.overscaled_losses`: `factor`, the number of ranks as the program writes it, that a loss
    which certainly is a mean over this rank's samples is multiplied by, and by nothing else. Edit: `drop`.
    """
    if mentions(program, _REASONS) or any(map(_goes_into_gradients, _sums(program))) or _splits_more(program):
        return ()
    found: dict[tuple[str, int], Member] = {}
    for module in program.modules.values():
        for site in module.called.get("backward", ()):
            place = place_of(program, module, site)
            member = _member(place)
            if member is not None and stands(place) is not False:
                found.setdefault((member.place.path, member.place.start), member)
    return tuple(found.values()) if found and not scales_gradients(program) else ()


def _splits_more(program: Program) -> bool:
    """Whether a mesh of the program may have an axis beside data parallelism, over which gradients are partial."""
    named = [dimension.axis in DATA_AXES for mesh in meshes(program) for dimension in mesh.dimensions]
    return len(meshes(program)) < sum(1 for _ in calls(program, DEVICE_MESH)) or not all(named)


def _sums(program: Program) -> Iterator[Place]:
    for module in program.modules.values():
        yield from (place_of(program, module, site) for site in module.called.get("all_reduce", ()))


def _goes_into_gradients(sum_: Place) -> bool:
    """Whether what all_reduce sums may go into a loss or into gradients: unless it is torch's, outside of forward
    passes and of what handles gradients, and behind the backward pass of its own function.
    """
    function = enclosing_function(sum_.scope)
    if called(sum_) not in ALL_REDUCE or function is None or function.name.rpartition(".")[2] in _PASSES:
        return True
    if _HANDLES_GRADIENTS.search(sum_.module.text(function.node)):
        return True
    passes = [site.node for site in sum_.module.called.get("backward", ()) if site.scope is sum_.scope]
    return any(getattr(node, "lineno", 0) > getattr(sum_.node, "lineno", 0) for node in passes)


def _member(backward: Place) -> Member | None:
    loss = loss_of(backward)
    parts = list(factors(loss)) if loss is not None else []
    ranks = [part for part in parts if counts_ranks(part.place) is True]
    if loss is None or len(ranks) != 1 or any(_undoes(part) for part in parts) or not is_mean(loss):
        return None
    whole = ranks[0].whole
    if not is_averaged(backward.program, backward, whole):
        return None
    span = whole.module.span(whole.node)
    factor = ranks[0].place.module.text(ranks[0].place.node, 40)
    related = ((backward.module.span(backward.node), "goes backward here"),)
    return Member(span, texts(span, factor=factor), related, {"drop": without(ranks[0])})


def _undoes(part: Factor) -> bool:
    """Whether a divisor may take the factor back: any but the number of accumulated batches."""
    return part.divides and not is_accumulation(part.place)
