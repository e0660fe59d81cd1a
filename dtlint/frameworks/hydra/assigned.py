"""What a program writes into the config that hydra hands it, before the config is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks.hydra.programs import handed
from dtlint.languages.json_tree import Entry, Node, entry
from dtlint.record import NamedTuple
from dtlint.value import Origin, Unknown

MOST_ENTERED = 100
"""Most functions of a file that are followed, each once for every way in which sections are handed to it."""
_Paths = Mapping[str, str]


class Assigned(NamedTuple):
    """A key that is assigned, by its dotted path, and the line. `unwritten`: only where the config leaves it empty;
    `kept`: the new value is made of the old one.
    """

    key: str
    line: int
    unwritten: bool = False
    kept: bool = False


class _Helpers(NamedTuple):
    """The functions of a file by name, and those that were entered, with what their parameters stood for."""

    functions: Mapping[str, ast.FunctionDef]
    entered: set[tuple[str, frozenset[tuple[str, str]]]]

    def enters(self, name: str, given: _Paths) -> bool:
        """Whether a function is to be entered, which it is once for one reading of its parameters."""
        key = name, frozenset(given.items())
        if not given or key in self.entered or len(self.entered) >= MOST_ENTERED:
            return False
        self.entered.add(key)
        return True


def assigned_in(text: str) -> tuple[Assigned, ...]:
    """The keys that the function which hydra calls assigns, or functions of the file that it hands the config to."""
    try:
        return _assigned_by(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _assigned_by(tree: ast.Module) -> tuple[Assigned, ...]:
    helpers = _Helpers({node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}, set())
    called = [(node, {node.args.args[0].arg: ""}) for node in handed(tree) if node.args.args]
    found = (each for node, paths in called for each in _in_body(node.body, paths, (), helpers))
    return tuple(dict.fromkeys(found))


def with_assigned(root: Node, assigned: Sequence[Assigned], path: str) -> Node:
    """A config in which the keys that the program at `path` assigns are not known."""
    for each in assigned:
        reason = f"{path}:{each.line} sets {each.key} anew"
        root = _with_key(root, each.key.split("."), each, reason)
    return root


def _in_body(
    body: Sequence[ast.stmt],
    paths: dict[str, str],
    tests: tuple[ast.expr, ...],
    helpers: _Helpers,
) -> Iterator[Assigned]:
    """The assignments of some statements; `paths` are the sections of the config by the names that stand for them."""
    for statement in body:
        yield from _of_statement(statement, paths, tests)
        for node in (statement,) if _is_simple(statement) else ():
            yield from _of_calls(node, paths, helpers)
        inner = (*tests, statement.test) if isinstance(statement, ast.If) else tests
        for block in ("body", "orelse", "finalbody"):
            below = getattr(statement, block, ())
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                yield from _in_body(below, paths, inner, helpers)


def _is_simple(statement: ast.stmt) -> bool:
    return not hasattr(statement, "body")


def _of_statement(statement: ast.stmt, paths: dict[str, str], tests: tuple[ast.expr, ...]) -> Iterator[Assigned]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AugAssign):
        targets, value = [statement.target], statement.target
    else:
        return
    for target in targets:
        key, section = _path(target, paths), _path(value, paths)
        if isinstance(target, ast.Name):
            if section is not None:
                paths[target.id] = section
        elif key:
            empty = any(_asks_for_nothing(node, key, paths) for test in tests for node in ast.walk(test))
            yield Assigned(key, statement.lineno, empty or _falls_back(value, key, paths), _reads(value, key, paths))


def _of_calls(statement: ast.stmt, paths: _Paths, helpers: _Helpers) -> Iterator[Assigned]:
    """`OmegaConf.update(cfg, "a.b", 1)`, and functions of the file that are given a section."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "update" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            section = _path(node.args[0], paths)
            if section is not None:
                yield Assigned(".".join(filter(None, (section, str(node.args[1].value)))), node.lineno)
        elif isinstance(node.func, ast.Name) and name in helpers.functions:
            given = _given(helpers.functions[name], node, paths)
            if helpers.enters(name, given):
                yield from _in_body(helpers.functions[name].body, given, (), helpers)


def _given(function: ast.FunctionDef, call: ast.Call, paths: _Paths) -> dict[str, str]:
    """The parameters of a function that are sections of the config in a call."""
    named = dict(zip((each.arg for each in function.args.args), call.args, strict=False))
    named.update({word.arg: word.value for word in call.keywords if word.arg is not None})
    found = {name: _path(value, paths) for name, value in named.items()}
    return {name: section for name, section in found.items() if section is not None}


def _path(node: ast.expr, paths: _Paths) -> str | None:
    """The key that an expression stands for (`cfg.model["tp"]` as model.tp; "" for the config itself), else None."""
    if isinstance(node, ast.Name):
        return paths.get(node.id)
    if isinstance(node, ast.Attribute):
        above, name = _path(node.value, paths), node.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        above, name = _path(node.value, paths), str(node.slice.value)
    else:
        return None
    return None if above is None else ".".join(filter(None, (above, name)))


def _reads(value: ast.expr, key: str, paths: _Paths) -> bool:
    return any(isinstance(node, ast.expr) and _path(node, paths) == key for node in ast.walk(value))


def _falls_back(value: ast.expr, key: str, paths: _Paths) -> bool:
    """`cfg.a or 1`: the new value is the old one, where there is one."""
    return isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or) and _path(value.values[0], paths) == key


def _asks_for_nothing(node: ast.AST, key: str, paths: _Paths) -> bool:
    """Whether a condition asks that a key be empty: `cfg.a is None`, `not cfg.a`, `"a" not in cfg`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _path(node.operand, paths) == key
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if isinstance(node.ops[0], ast.NotIn) and isinstance(node.left, ast.Constant):
        section = _path(node.comparators[0], paths)
        return section is not None and ".".join(filter(None, (section, str(node.left.value)))) == key
    is_none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
    return is_none and isinstance(node.ops[0], ast.Is | ast.Eq) and _path(node.left, paths) == key


def _with_key(node: Node, path: Sequence[str], each: Assigned, reason: str) -> Node:
    """A section with a key below it not known; itself where the section of the key is not written."""
    found = entry(node, path[0])
    if found is None:
        new = Entry(path[0], node.span, _untold(node, reason))
        return node._replace(entries=(*node.entries, new)) if len(path) == 1 and node.kind == "object" else node
    value = _with_key(found.node, path[1:], each, reason) if len(path) > 1 else _assigned(found.node, each, reason)
    return node._replace(entries=tuple(old._replace(node=value) if old is found else old for old in node.entries))


def _assigned(node: Node, each: Assigned, reason: str) -> Node:
    if (each.unwritten and node.kind != "null") or (each.kept and node.kind == "object"):
        return node
    if node.kind != "object":
        return _untold(node, reason)
    entries = (inner._replace(node=_assigned(inner.node, each, reason)) for inner in node.entries)
    return node._replace(entries=tuple(entries))


def _untold(node: Node, reason: str) -> Node:
    return Node("unknown", None, node.span, told=Unknown(reason, "", Origin("written", node.span)))
