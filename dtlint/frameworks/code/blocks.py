"""Finds blocks into which ranks cut what they share, of lengths that may differ: `torch.split(ids, n)[rank]`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Literal

from dtlint.frameworks.code.loss_factors import counts_ranks
from dtlint.frameworks.code.ranks import is_rank, is_told_to_group
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.calls import called
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.reach import enclosing_function
from dtlint.record import NamedTuple

Shorter = Literal["last", "some"]
"""Which ranks have less: the last alone, by up to a sample for each other rank, or some of them, by one sample."""

_SPLITS = ("split",)
"""Functions that are told how long a block is."""
_CHUNKS = ("chunk",)
"""Functions that are told how many blocks to make, and round their length up (torch.chunk)."""
_EVEN_CHUNKS = ("array_split", "tensor_split")
"""The same, with blocks that differ by one."""
_SAME_NUMBER = frozenset({"int", "float"})
_TOLD = ("chunks", "split_size", "split_size_or_sections", "indices_or_sections")
"""Parameters of these that say how long a block is, or how many there are."""
_GROWING = frozenset({"extend", "append", "insert"})
"""Methods that make a list longer."""
_JOINING = frozenset({"cat", "concat", "concatenate", "append", "pad", "resize", "tile", "repeat", "hstack"})
"""Functions whose result may be longer than what they are given."""


class Block(NamedTuple):
    """What the blocks are cut from, and which ranks get less."""

    whole: ast.expr
    shorter: Shorter


def block_of(place: Place) -> Block | None:
    """The block that an expression takes for the rank, None for any other expression, and for blocks of one length."""
    node = place.node
    if not isinstance(node, ast.Subscript):
        return None
    if isinstance(node.slice, ast.Slice):
        found = _of_slice(place, node.value, node.slice)
    else:
        found = _of_parts(place.at(node.value)) if is_rank(place.at(node.slice), 0) else None
    return found if found is not None and not _may_be_filled_up(place, found) else None


def is_number_of_ranks(place: Place) -> bool:
    """Whether an expression is the number of ranks: by its name, or as what the process group is told."""
    return counts_ranks(place) is True or is_told_to_group(place, "world_size")


def _may_be_filled_up(place: Place, block: Block) -> bool:
    """Whether the function around makes what is cut, or what a name of the block stands for, longer."""
    around = enclosing_function(place.scope) or place.module.top
    nodes = [*ast.walk(around.node)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and place.node in ast.walk(node.value)]
    names = {dotted(block.whole), *(dotted(target) for node in assigned for target in node.targets)} - {""}
    return any(_grows(node, names) for node in nodes)


def _grows(node: ast.AST, names: set[str]) -> bool:
    """`ids += ids[:rest]`, `ids.extend(...)`, `ids = torch.cat([ids, ...])`"""
    if isinstance(node, ast.AugAssign):
        return dotted(node.target) in names
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
        return dotted(node.func.value) in names
    if not isinstance(node, ast.Assign) or names.isdisjoint(map(dotted, node.targets)):
        return False
    return any(isinstance(part, ast.Call) and last_word(part.func) in _JOINING for part in ast.walk(node.value))


def _of_slice(place: Place, whole: ast.expr, cut: ast.Slice) -> Block | None:
    """`ids[rank * n : (rank + 1) * n]` with n rounded up."""
    starts = cut.upper is not None and cut.lower is not None and _only(place.at(cut.lower), _is_start)
    return Block(whole, "last") if starts and cut.step is None else None


def _is_start(place: Place) -> bool:
    """`rank * n`"""
    node = place.node
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    pairs = ((node.left, node.right), (node.right, node.left))
    return any(is_rank(place.at(one), 0) and _only(place.at(other), _is_rounded_up) for one, other in pairs)


def _of_parts(place: Place) -> Block | None:
    """What a call cuts: `torch.split(ids, n)`, `ids.chunk(world)`, `np.array_split(ids, world)`."""
    ends = [way.end for way in ways(place)]
    end = ends[0] if len(ends) == 1 else None
    node = end.node if isinstance(end, Place) else None
    if not isinstance(end, Place) or not isinstance(node, ast.Call):
        return None
    whole, told = _arguments(end, node)
    if whole is None or told is None:
        return None
    shorter = _shorter(last_word(node.func), end.at(told))
    return Block(whole, shorter) if shorter else None


def _arguments(place: Place, node: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """What is cut, and the length or number of the blocks, of a function of torch or numpy, or of a method."""
    named = [each.value for each in node.keywords if each.arg in _TOLD]
    given = [*node.args, *named]
    if len(named) < len(node.keywords):
        return None, None
    of_package = called(place).startswith(("torch.", "numpy."))
    if not of_package and isinstance(node.func, ast.Attribute):
        given = [node.func.value, *given]
    return (given[0], given[1]) if len(given) == 2 else (None, None)


def _shorter(function: str, told: Place) -> Shorter | None:
    if function in _SPLITS:
        return "last" if _only(told, _is_rounded_up) else None
    if function in _CHUNKS:
        return "last" if is_number_of_ranks(told) else None
    return "some" if function in _EVEN_CHUNKS and is_number_of_ranks(told) else None


def _only(place: Place, holds: Callable[[Place], bool]) -> bool:
    """Whether something holds of all that an expression can stand for."""
    ends = [way.end for way in ways(place)]
    return all(isinstance(end, Place) and holds(end) for end in ends)


def _is_rounded_up(place: Place) -> bool:
    """`math.ceil(n / ranks)`, `-(-n // ranks)`, `(n + ranks - 1) // ranks`, `n // ranks + 1`."""
    node = place.node
    if isinstance(node, ast.Call) and len(node.args) == 1:
        inner = node.args[0]
        return _is_share(place, inner) if last_word(node.func) == "ceil" else _is_same(place, node, inner)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return (
            isinstance(node.operand, ast.BinOp) and _is_negative(node.operand.left) and _is_share(place, node.operand)
        )
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Add):
        return isinstance(node.right, ast.Constant) and node.right.value == 1 and _is_share(place, node.left)
    filled = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add | ast.Sub)
    return filled and "-" in place.module.text(node.left) and _is_share(place, node)


def _is_same(place: Place, node: ast.Call, inner: ast.expr) -> bool:
    return dotted(node.func) in _SAME_NUMBER and _is_rounded_up(place.at(inner))


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_share(place: Place, node: ast.expr) -> bool:
    """`n / ranks`, `n // ranks`"""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.FloorDiv):
        return False
    divisor = node.right
    if isinstance(divisor, ast.Call) and dotted(divisor.func) == "float" and len(divisor.args) == 1:
        divisor = divisor.args[0]
    return is_number_of_ranks(place.at(divisor))
