"""What a Python file holds, as far as readers of training scripts ask: scopes, bindings, and the places that matter."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Literal

from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span
from dtlint.value import Setting

HERE = "<here>"
"""First part of a qualified name that this file itself defines (`<here>.Trainer.fit`)."""

_LINE_END = re.compile(r"\r\n?|\n")

ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.expr
BindingKind = Literal["value", "loop", "import", "parameter", "definition", "opaque"]


class Guard(NamedTuple):
    """A condition on the way to a statement; `holds` is its outcome there. No test: an exception, or a `match`.

    `raises`: where the outcome is another, the program raises an error that nothing around it catches.
    """

    test: ast.expr | None
    holds: bool
    raises: bool = False


class Binding(NamedTuple):
    """One place where a name gets a value.

    `node` is the expression bound (value), the iterable (loop), the default (parameter), or the definition. `path`
    leads into it when a tuple is unpacked. `target` is the qualified name of an import. `method` is the scope that
    binds an attribute of an object, `loops` are the loops around the place.
    """

    kind: BindingKind
    place: ast.AST
    node: ast.AST | None = None
    guards: tuple[Guard, ...] = ()
    path: tuple[int, ...] = ()
    target: str = ""
    method: Scope | None = None
    loops: tuple[ast.AST, ...] = ()


class Site(NamedTuple):
    """A call, a scaling or a return, with the scope, guards and loops (outermost first) that it stands in."""

    node: ast.AST
    scope: Scope
    guards: tuple[Guard, ...]
    loops: tuple[ast.AST, ...]


class Scope:
    """A module, function, class, lambda or comprehension: the names that it binds, and the sites in it."""

    __slots__ = ("bindings", "inner", "name", "node", "parent", "sites")

    def __init__(self, name: str, node: ScopeNode, parent: Scope | None) -> None:
        self.name = name
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = {}
        self.sites: list[Site] = []
        self.inner: list[Scope] = []
        if parent is not None:
            parent.inner.append(self)

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"


class Argument(NamedTuple):
    """A command-line argument that a script declares: its flags, default and where it stands.

    `action` is argparse's ("store", "store_true", ...); `kind` the name of the type that its text is converted with;
    `many`: it takes several words (`nargs="+"`).
    """

    flags: tuple[str, ...]
    default: Setting
    place: Span
    action: str = "store"
    kind: str = ""
    many: bool = False


def is_start(test: ast.AST | None) -> bool:
    """Whether a condition is `__name__ == "__main__"`, which holds in the file alone that is started."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
        return False
    sides = (test.left, test.comparators[0])
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return named and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


class Module(NamedTuple):
    """A Python file read. `name` is its dotted name in a Program ("" alone). `scopes` holds every scope, the
    module's first.

    `line_starts` are the offsets of the lines as Python counts them. `definitions` are its functions and classes by
    name in the module (`Trainer.fit`); `called` its calls by the last word of what they call, other names that the
    file gives to it included. `started` are the imports that run only where the file itself is started.
    """

    source: Source
    scopes: tuple[Scope, ...]
    problems: tuple[Problem, ...] = ()
    imports: tuple[str, ...] = ()
    stars: tuple[str, ...] = ()
    arguments: Mapping[str, Argument] = {}
    definitions: Mapping[str, Scope] = {}
    called: Mapping[str, tuple[Site, ...]] = {}
    line_starts: tuple[int, ...] = (0,)
    name: str = ""
    started: frozenset[str] = frozenset()

    @property
    def followed(self) -> tuple[str, ...]:
        """The imports that run where the module is imported; all of one that hands names out when they are asked for (a
        function `__getattr__`, PEP 562), which lists under its own start for checkers what those are.
        """
        if "__getattr__" in self.definitions:
            return self.imports
        return tuple(name for name in self.imports if name not in self.started)

    @property
    def top(self) -> Scope:
        """The scope of the module itself."""
        return self.scopes[0]

    @property
    def package(self) -> str:
        """The package that relative imports of the module start from: itself, if it is an `__init__.py`."""
        if self.source.path.endswith("__init__.py"):
            return self.name
        return self.name.rpartition(".")[0]

    def span(self, node: ast.AST) -> Span:
        """Where a node is written. Python counts columns in UTF-8 bytes; a span counts code points."""
        start = self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        if end_line is None or end_column is None:
            return self.source.span(start, start)
        return self.source.span(start, self._offset(end_line, end_column))

    def text(self, node: ast.AST, limit: int = 80) -> str:
        """The source text of a node on one line, at most `limit` code points."""
        start, end = self.span(node)[1:]
        text = " ".join(self.source.text[start : min(end, start + 4 * limit)].split())
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def _offset(self, line: int, column: int) -> int:
        start = self.line_starts[min(line, len(self.line_starts)) - 1]
        if self.source.text.isascii():
            return start + column
        prefix = self.source.text[start : start + column]
        if prefix.isascii():
            return start + len(prefix)
        return start + len(prefix.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


def line_starts(text: str) -> tuple[int, ...]:
    """The offsets at which lines begin as Python's tokenizer counts them: after `\\n`, `\\r\\n` and a lone `\\r`."""
    return (0, *(match.end() for match in _LINE_END.finditer(text)))
