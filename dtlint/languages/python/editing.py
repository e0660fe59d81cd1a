"""Edits of Python code: a statement dropped, added or moved, a factor taken out of a product.

Each is None where the text is not plain enough for certainty: several statements on a line, a line that is continued,
code that stands in a file of another language.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.languages.python.tree import Module
from dtlint.record import NamedTuple
from dtlint.source import Edit

_REST = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)")
"""What may follow a statement that has its lines to itself."""
_BLOCKS = ("body", "orelse", "finalbody")


class Standing(NamedTuple):
    """A statement in the block that it stands in; `owner` is the statement that has the block."""

    statement: ast.stmt
    block: tuple[ast.stmt, ...]
    owner: ast.AST

    @property
    def is_last(self) -> bool:
        """Whether it ends a block that has others."""
        return len(self.block) > 1 and self.block[-1] is self.statement


def standing(module: Module, node: ast.AST) -> Standing | None:
    """The statement that is `node`, or a call that is nothing but `node`."""
    for owner in ast.walk(module.top.node) if _is_file(module) else ():
        for block in _blocks(owner):
            for statement in block:
                if statement is node or (isinstance(statement, ast.Expr) and statement.value is node):
                    return Standing(statement, block, owner)
    return None


def dropped(module: Module, found: Standing) -> Edit | None:
    """The edit that takes a statement's lines out; none for the only one of a block."""
    start, end = _first(module, found.statement), module.span(found.statement).end
    rest = _REST.match(module.source.text, end)
    if len(found.block) < 2 or start is None or rest is None:
        return None
    return Edit(module.source.span(start, rest.end()), "")


def moved_behind(module: Module, found: Standing) -> Edit | None:
    """The edit that moves the last statement of an `if` behind it, for all to reach; none where there is an `else`."""
    owner = found.owner
    if not isinstance(owner, ast.If) or owner.orelse or found.block[-1] is not found.statement or not found.is_last:
        return None
    start, outer = _first(module, found.statement), _first(module, owner)
    if start is None or outer is None or not _REST.match(module.source.text, module.span(found.statement).end):
        return None
    indent = module.source.text[outer : module.span(owner).start]
    return Edit(module.source.span(start, module.span(found.statement).start), indent)


def put_first(module: Module, loop: ast.For | ast.While, line: str) -> Edit | None:
    """The edit that makes `line` the first statement of a loop's body."""
    first = loop.body[0]
    start = _first(module, first)
    if start is None or getattr(first, "decorator_list", None) or not _is_file(module):
        return None
    text = module.source.text
    newline = "\r\n" if text[:start].endswith("\r\n") else "\n"
    return Edit(module.source.span(start, start), f"{text[start : module.span(first).start]}{line}{newline}")


def without_factor(module: Module, product: ast.BinOp, factor: ast.expr) -> Edit | None:
    """The edit that leaves of `loss / n` or `n * loss` the loss."""
    whole, text = module.span(product), module.source.text
    left, right = module.span(product.left), module.span(product.right)
    gap = text[left.end : right.start]
    sign = "/" if isinstance(product.op, ast.Div) else "*"
    if gap.count(sign) != 1 or re.search(r"[#\\\n]", gap) or not _is_file(module):
        return None
    before, _, after = gap.partition(sign)
    if factor is product.right:
        return Edit(module.source.span(left.end + len(before.rstrip()), whole.end), "")
    if factor is product.left and sign == "*":
        return Edit(module.source.span(whole.start, right.start - len(after.lstrip())), "")
    return None


def as_method(module: Module, call: ast.Call, method: str) -> Edit | None:
    """The edit that makes `f(owner.part(), x)` the call `owner.f(x)`, which `method` spells (`owner.f`)."""
    given = [*call.args[1:], *call.keywords]
    if not call.args or not given or not _is_file(module):
        return None
    first, start = module.span(call.args[0]), module.span(given[0]).start
    if not re.fullmatch(r"\s*,\s*", module.source.text[first.end : start]):
        return None
    return Edit(module.source.span(module.span(call).start, start), f"{method}(")


def inserted_behind(module: Module, node: ast.expr, text: str) -> Edit | None:
    """The edit that writes a text behind an expression."""
    end = module.span(node).end
    return Edit(module.source.span(end, end), text) if _is_file(module) else None


def _is_file(module: Module) -> bool:
    """Whether a module is all that a file holds: no cells of a notebook, no lines of a script."""
    start = module.source.span(0, 0)
    return start.original() == start


def _blocks(owner: ast.AST) -> Iterator[tuple[ast.stmt, ...]]:
    for field in _BLOCKS:
        block = getattr(owner, field, None)
        if isinstance(block, list):
            yield tuple(block)


def _first(module: Module, statement: ast.AST) -> int | None:
    """The offset at which the line begins that a statement begins; None where anything stands before it."""
    start = module.line_starts[getattr(statement, "lineno", 1) - 1]
    text = module.source.text
    alone = not text[start : module.span(statement).start].strip(" \t")
    return start if alone and not text[:start].rstrip("\r\n").endswith("\\") else None
