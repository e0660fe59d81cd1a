"""Reads one Python file into scopes, bindings and sites, without running or importing anything."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Sequence

from dtlint.languages.python.bindings import (
    BINDERS,
    bind,
    bind_imports,
    bind_parameters,
    bind_target,
    dotted,
    imported_by,
    inner_name,
)
from dtlint.languages.python.called import calls_by_name
from dtlint.languages.python.tree import Binding, Guard, Module, Scope, Site, is_start, line_starts
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source

_EXITS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_ENDS = frozenset(("exit", "quit", "sys.exit", "os._exit", "os.abort"))
"""Functions that end the program."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_IMPORTS = (ast.Import, ast.ImportFrom)
_SITES = (ast.Call, ast.AugAssign, ast.Return, ast.BinOp, ast.Assign)
_STRUCTURES = (
    *_FUNCTIONS,
    *_COMPREHENSIONS,
    ast.ClassDef,
    ast.Lambda,
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Match,
)
"""Nodes that open a scope, a loop or a condition for what is below them; all others pass theirs on."""
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop, ast.alias)
"""Nodes below which nothing is of interest; to skip them halves the time of a walk."""
_WITHOUT_NODES = frozenset(
    ("arg", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "name", "op", "ops", "simple")
)
"""Fields of syntax nodes that hold words, numbers and operators."""

_BODIES = frozenset(("body", "orelse", "finalbody"))
"""Fields that hold statements, one after the other."""

_Task = tuple[ast.AST, Scope, tuple[Guard, ...], tuple[ast.AST, ...]]
"""A node still to be visited, with the scope, guards and loops around it: a bare tuple, for a file has thousands."""


class _Kind(NamedTuple):
    """What the walk does at nodes of one class."""

    is_leaf: bool
    is_import: bool
    binds: bool
    is_site: bool
    is_structure: bool
    fields: tuple[str, ...]


class _Kinds(dict[type[ast.AST], _Kind]):
    """The kind of each class of nodes; `isinstance` for every node took half of the walk."""

    def __missing__(self, node: type[ast.AST]) -> _Kind:
        fields = tuple(field for field in node._fields if field not in _WITHOUT_NODES)
        found = self[node] = _Kind(
            issubclass(node, _LEAVES),
            issubclass(node, _IMPORTS),
            issubclass(node, BINDERS),
            issubclass(node, _SITES),
            issubclass(node, _STRUCTURES),
            fields,
        )
        return found


_KINDS = _Kinds()


def parse_module(source: Source) -> Module:
    """The scopes of a file; a file that Python cannot parse has one fatal problem and an empty scope."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except SyntaxError as error:
        return _broken(source, error.msg, error.lineno or 1, error.offset or 1)
    except (ValueError, RecursionError, MemoryError) as error:
        return _broken(source, str(error) or "nested too deeply", 1, 1)
    scopes, imports, stars, started = _walk(tree)
    return Module(
        source,
        scopes,
        imports=imports,
        stars=stars,
        definitions={
            scope.name: scope for scope in reversed(scopes) if isinstance(scope.node, (*_FUNCTIONS, ast.ClassDef))
        },
        called=calls_by_name(scopes),
        line_starts=line_starts(source.text),
        started=started,
    )


def _broken(source: Source, message: str, line: int, column: int) -> Module:
    starts = line_starts(source.text)
    start = min(starts[min(max(line, 1), len(starts)) - 1] + max(column - 1, 0), len(source.text))
    problem = Problem(source.span(start, min(start + 1, len(source.text))), f"not valid Python: {message}")
    return Module(source, (Scope("", ast.Module(body=[], type_ignores=[]), None),), (problem,), line_starts=starts)


def _walk(tree: ast.Module) -> tuple[tuple[Scope, ...], tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """Visit every node in text order, with a stack of its own: hostile nesting must not exhaust Python's."""
    top = Scope("", tree, None)
    scopes, imports, stars = [top], [], []
    always: set[str] = set()
    stack = list(reversed(_block(tree.body, top, (), ())))
    while stack:
        node, scope, guards, loops = task = stack.pop()
        kind = _KINDS[type(node)]
        if kind.is_import:
            assert isinstance(node, ast.Import | ast.ImportFrom)
            imports.extend(found := imported_by(node))
            always.update(() if any(guard.holds and is_start(guard.test) for guard in guards) else found)
            stars.extend(bind_imports(node, scope, guards))
            continue
        if kind.binds:
            bind(node, scope, guards, loops)
        if kind.is_site:
            scope.sites.append(Site(node, scope, guards, loops))
        children, opened = _children(task) if kind.is_structure else (_plain(task, kind.fields), ())
        scopes.extend(opened)
        children.reverse()
        stack.extend(children)
    return tuple(scopes), tuple(dict.fromkeys(imports)), tuple(dict.fromkeys(stars)), frozenset(imports) - always


def _children(task: _Task) -> tuple[list[_Task], Sequence[Scope]]:
    """The nodes below a node that opens something, each with what encloses it, and the scope that it opens, if any."""
    node, scope, guards, loops = task
    if isinstance(node, _FUNCTIONS):
        return _function(task, node)
    if isinstance(node, ast.ClassDef):
        inner = Scope(inner_name(scope, node.name), node, scope)
        heads = _expressions([*node.decorator_list, *node.bases, *node.keywords], task)
        return heads + _block(node.body, inner, guards, ()), [inner]
    if isinstance(node, ast.Lambda):
        inner = Scope(inner_name(scope, "<lambda>"), node, scope)
        bind_parameters(inner, node.args)
        return [(node.body, inner, guards, loops)], [inner]
    if isinstance(node, _COMPREHENSIONS):
        return _comprehension(task, node)
    return _statement(task), ()


def _function(task: _Task, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[list[_Task], Sequence[Scope]]:
    scope = Scope(inner_name(task[1], node.name), node, task[1])
    bind_parameters(scope, node.args)
    heads = [*node.decorator_list, *node.args.defaults, *(item for item in node.args.kw_defaults if item)]
    return _expressions(heads, task) + _block(node.body, scope, (), ()), [scope]


def _comprehension(
    task: _Task, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> tuple[list[_Task], Sequence[Scope]]:
    _, around, guards, loops = task
    scope = Scope(around.name, node, around)
    children: list[_Task] = []
    for part in node.generators:
        children.append((part.iter, scope, guards, loops))
        bind_target(scope, part.target, Binding("loop", part.target, part.iter, ()))
        children.extend((test, scope, guards, loops) for test in part.ifs)
        guards = (*guards, *(Guard(test, True) for test in part.ifs))
    inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    children.extend((child, scope, guards, (*loops, node)) for child in inner)
    return children, [scope]


def _statement(task: _Task) -> list[_Task]:
    node, scope, guards, loops = task
    if isinstance(node, ast.If):
        yes, no = (*guards, Guard(node.test, True)), (*guards, Guard(node.test, False))
        head = (node.test, scope, guards, loops)
        return [head, *_block(node.body, scope, yes, loops), *_block(node.orelse, scope, no, loops)]
    if isinstance(node, ast.IfExp):
        yes, no = (*guards, Guard(node.test, True)), (*guards, Guard(node.test, False))
        return [(node.test, scope, guards, loops), (node.body, scope, yes, loops), (node.orelse, scope, no, loops)]
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        head = (node.test if isinstance(node, ast.While) else node.iter, scope, guards, loops)
        inside = _block(node.body, scope, guards, (*loops, node))
        return [head, *inside, *_block(node.orelse, scope, guards, loops)]
    if isinstance(node, ast.Match):
        return _match(task, node)
    assert isinstance(node, ast.ExceptHandler)
    return _block(node.body, scope, (*guards, Guard(None, True)), loops)


def _match(task: _Task, node: ast.Match) -> list[_Task]:
    """The cases of a `match`, each under its own comparison and with those before it denied."""
    _, scope, guards, loops = task
    children = _expressions([node.subject], task)
    denied: tuple[Guard, ...] = ()
    for case in node.cases:
        test = _case_test(node.subject, case)
        own = (Guard(test, True),) if test is not None or not _takes_all(case) else ()
        inside = (*guards, *denied, *own)
        children.extend(_expressions([case.guard], (node, scope, inside, loops)))
        children.extend(_block(case.body, scope, inside, loops))
        denied = (*denied, Guard(test, test is None))
    return children


def _takes_all(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def _case_test(subject: ast.expr, case: ast.match_case) -> ast.expr | None:
    """`case "a":` of `match x:` as `x == "a"`; None for a pattern that is no plain value."""
    patterns = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
    if case.guard is not None or not all(isinstance(item, ast.MatchValue) for item in patterns):
        return None
    tests: list[ast.expr] = [
        ast.copy_location(ast.Compare(subject, [ast.Eq()], [item.value]), item)
        for item in patterns
        if isinstance(item, ast.MatchValue)
    ]
    return tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), tests), case.pattern)


def _plain(task: _Task, fields: tuple[str, ...]) -> list[_Task]:
    node, scope, guards, loops = task
    children: list[_Task] = []
    caught = isinstance(node, ast.Try)
    for name in fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            children += _block(value, scope, guards, loops, caught) if name in _BODIES else _expressions(value, task)
        elif isinstance(value, ast.AST) and not _KINDS[type(value)].is_leaf:
            children.append((value, scope, guards, loops))
    return children


def _expressions(nodes: Iterable[object], task: _Task) -> list[_Task]:
    """Parts of a node under what encloses the node itself."""
    _, scope, guards, loops = task
    parts = (node for node in nodes if isinstance(node, ast.AST))
    return [(node, scope, guards, loops) for node in parts if not _KINDS[type(node)].is_leaf]


def _block(
    body: Iterable[ast.AST],
    scope: Scope,
    guards: tuple[Guard, ...],
    loops: tuple[ast.AST, ...],
    caught: bool = False,
) -> list[_Task]:
    """The statements of a block up to one that always leaves it; what follows `if x: continue` stands under `not x`.

    `caught`: whether errors that the block raises may be caught.
    """
    children: list[_Task] = []
    for node in body:
        children.append((node, scope, guards, loops))
        if _ends(node):
            break
        if isinstance(node, ast.If) and not node.orelse and _leaves(node.body):
            guards = (*guards, Guard(node.test, False, not caught and _leaves(node.body, (ast.Raise,))))
    return children


def _ends(node: ast.AST) -> bool:
    """Whether nothing behind a statement in its block is reached: it leaves the block, or ends the program."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return dotted(node.value.func) in _ENDS
    return isinstance(node, _EXITS) or _refuses(node) or (isinstance(node, ast.If) and _leaves([node]))


def _refuses(node: ast.AST | None) -> bool:
    """`assert False`, which raises an error as `raise` does."""
    test = node.test if isinstance(node, ast.Assert) else None
    return isinstance(test, ast.Constant) and not test.value


def _leaves(body: list[ast.stmt], exits: tuple[type[ast.AST], ...] = _EXITS) -> bool:
    """Whether a block ends by leaving what is around it, in each branch of an `if` at its end too."""
    waiting = [body]
    while waiting:
        block = waiting.pop()
        last = next(
            (node for node in block if isinstance(node, _EXITS) or _refuses(node)), block[-1] if block else None
        )
        if isinstance(last, ast.If) and last.orelse:
            waiting.extend((last.body, last.orelse))
        elif not (isinstance(last, exits) or (_refuses(last) and ast.Raise in exits)):
            return False
    return True
