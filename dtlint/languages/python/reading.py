"""Reads one Python file into scopes, bindings and sites, without running or importing anything."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from dtlint.languages.python.bindings import bind, bind_imports, bind_parameters, bind_target, imported_by, inner_name
from dtlint.languages.python.called import calls_by_name
from dtlint.languages.python.tree import Binding, Guard, Module, Scope, Site, line_starts
from dtlint.record import NamedTuple
from dtlint.source import Problem, Source

_EXITS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
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


class _Task(NamedTuple):
    """A node still to be visited, with what encloses it."""

    node: ast.AST
    scope: Scope
    guards: tuple[Guard, ...]
    loops: tuple[ast.AST, ...]


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
    scopes, imports, stars = _walk(tree)
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
    )


def _broken(source: Source, message: str, line: int, column: int) -> Module:
    starts = line_starts(source.text)
    start = min(starts[min(max(line, 1), len(starts)) - 1] + max(column - 1, 0), len(source.text))
    problem = Problem(source.span(start, min(start + 1, len(source.text))), f"not valid Python: {message}")
    return Module(source, (Scope("", ast.Module(body=[], type_ignores=[]), None),), (problem,), line_starts=starts)


def _walk(tree: ast.Module) -> tuple[tuple[Scope, ...], tuple[str, ...], tuple[str, ...]]:
    """Visit every node in text order, with a stack of its own: hostile nesting must not exhaust Python's."""
    top = Scope("", tree, None)
    scopes, imports, stars = [top], [], []
    stack = list(reversed(_block(tree.body, _Task(tree, top, (), ()))))
    while stack:
        task = stack.pop()
        if isinstance(task.node, _IMPORTS):
            imports.extend(imported_by(task.node))
            stars.extend(bind_imports(task.node, task.scope, task.guards))
            continue
        bind(task.node, task.scope, task.guards, task.loops)
        if isinstance(task.node, _SITES):
            task.scope.sites.append(Site(task.node, task.scope, task.guards, task.loops))
        children, opened = _children(task)
        scopes.extend(opened)
        stack.extend(reversed(children))
    return tuple(scopes), tuple(dict.fromkeys(imports)), tuple(dict.fromkeys(stars))


def _children(task: _Task) -> tuple[list[_Task], list[Scope]]:
    """The nodes below a node, each with what encloses it, and the scope that the node opens, if it opens one."""
    node = task.node
    if not isinstance(node, _STRUCTURES):
        return _plain(task), []
    if isinstance(node, _FUNCTIONS):
        return _function(task, node)
    if isinstance(node, ast.ClassDef):
        scope = Scope(inner_name(task.scope, node.name), node, task.scope)
        heads = [task._replace(node=child) for child in [*node.decorator_list, *node.bases, *node.keywords]]
        return heads + _block(node.body, _Task(node, scope, task.guards, ())), [scope]
    if isinstance(node, ast.Lambda):
        scope = Scope(inner_name(task.scope, "<lambda>"), node, task.scope)
        bind_parameters(scope, node.args)
        return [_Task(node.body, scope, task.guards, task.loops)], [scope]
    if isinstance(node, _COMPREHENSIONS):
        return _comprehension(task, node)
    return _statement(task), []


def _function(task: _Task, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[list[_Task], list[Scope]]:
    scope = Scope(inner_name(task.scope, node.name), node, task.scope)
    bind_parameters(scope, node.args)
    heads = [*node.decorator_list, *node.args.defaults, *(item for item in node.args.kw_defaults if item)]
    return [task._replace(node=child) for child in heads] + _block(node.body, _Task(node, scope, (), ())), [scope]


def _comprehension(
    task: _Task, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> tuple[list[_Task], list[Scope]]:
    scope = Scope(task.scope.name, node, task.scope)
    guards, children = task.guards, []
    for part in node.generators:
        children.append(_Task(part.iter, scope, guards, task.loops))
        bind_target(scope, part.target, Binding("loop", part.target, part.iter, ()))
        children.extend(_Task(test, scope, guards, task.loops) for test in part.ifs)
        guards = (*guards, *(Guard(test, True) for test in part.ifs))
    inner = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    children.extend(_Task(child, scope, guards, (*task.loops, node)) for child in inner)
    return children, [scope]


def _statement(task: _Task) -> list[_Task]:
    node = task.node
    if isinstance(node, ast.If):
        head = [task._replace(node=node.test)]
        return head + _branch(node.body, task, node.test, True) + _branch(node.orelse, task, node.test, False)
    if isinstance(node, ast.IfExp):
        yes, no = (Guard(node.test, True), Guard(node.test, False))
        sides = [
            task._replace(node=node.body, guards=(*task.guards, yes)),
            task._replace(node=node.orelse, guards=(*task.guards, no)),
        ]
        return [task._replace(node=node.test), *sides]
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        inside = task._replace(loops=(*task.loops, node))
        heads = [node.test] if isinstance(node, ast.While) else [node.iter]
        return [task._replace(node=head) for head in heads] + _block(node.body, inside) + _block(node.orelse, task)
    if isinstance(node, ast.ExceptHandler):
        return _block(node.body, task._replace(guards=(*task.guards, Guard(None, True))))
    if isinstance(node, ast.Match):
        return _match(task, node)
    return _plain(task)


def _match(task: _Task, node: ast.Match) -> list[_Task]:
    """The cases of a `match`, each under its own comparison and with those before it denied."""
    children = [task._replace(node=node.subject)]
    denied: tuple[Guard, ...] = ()
    for case in node.cases:
        test = _case_test(node.subject, case)
        own = (Guard(test, True),) if test is not None or not _takes_all(case) else ()
        inside = task._replace(guards=(*task.guards, *denied, *own))
        children.extend([inside._replace(node=case.guard)] if case.guard is not None else [])
        children.extend(_block(case.body, inside))
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


def _plain(task: _Task) -> list[_Task]:
    _, scope, guards, loops = task
    children: list[_Task] = []
    for name in task.node._fields:
        value = getattr(task.node, name, None)
        if isinstance(value, list):
            children.extend(_block((item for item in value if isinstance(item, ast.AST)), task))
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            children.append(_Task(value, scope, guards, loops))
    return children


def _branch(body: list[ast.stmt], task: _Task, test: ast.expr, holds: bool) -> list[_Task]:
    return _block(body, task._replace(guards=(*task.guards, Guard(test, holds))))


def _block(body: Iterable[ast.AST], task: _Task) -> list[_Task]:
    """The statements of a block; what follows `if x: continue` stands under `not x`."""
    _, scope, guards, loops = task
    children = []
    for node in body:
        if isinstance(node, _LEAVES):
            continue
        children.append(_Task(node, scope, guards, loops))
        if isinstance(node, ast.If) and not node.orelse and _leaves(node.body):
            guards = (*guards, Guard(node.test, False))
    return children


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block ends by leaving what is around it, in each branch of an `if` at its end too."""
    waiting = [body]
    while waiting:
        block = waiting.pop()
        last = block[-1] if block else None
        if isinstance(last, ast.If) and last.orelse:
            waiting.extend((last.body, last.orelse))
        elif not isinstance(last, _EXITS):
            return False
    return True
