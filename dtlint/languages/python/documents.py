"""Values of the config files that a program loads: `OmegaConf.load(path)`, `yaml.safe_load(file)`, `@hydra.main`."""

from __future__ import annotations

import ast
import re
from functools import partial
from posixpath import dirname, join, normpath

from dtlint.languages.json_tree import Node, member, setting
from dtlint.languages.python.arithmetic import as_sure_as
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.command_words import is_whole
from dtlint.languages.python.entered import takes_config
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.objects import Evaluate
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import config_file, given_argument, given_below, of_file, reads_configs
from dtlint.languages.python.program import sites as sites_of
from dtlint.languages.python.tree import Module, Site
from dtlint.record import NamedTuple
from dtlint.value import Setting, Unknown, Value, written

_LOADERS = frozenset(
    (
        *("omegaconf.OmegaConf.load", "yaml.safe_load", "yaml.full_load", "yaml.load", "yaml.unsafe_load"),
        *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads", "toml.load"),
    )
)
_COPIES = frozenset(
    ("omegaconf.OmegaConf.to_container", "omegaconf.OmegaConf.to_object", "dict", "copy.copy", "copy.deepcopy")
)
_HOLDERS = frozenset(
    (
        *("types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "addict.Dict", "box.Box", "munch.Munch"),
        *("ml_collections.ConfigDict", "omegaconf.OmegaConf.create", "munch.munchify"),
    )
)
"""What has the keys of a dict as its attributes."""
_MERGES = frozenset(("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"))
_COMMAND_LINE, _OF_WORDS = "omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist"
_PARSES = ("parse_args", "parse_known_args")
_PATHS = ("pathlib.Path", "str", "os.path.expanduser", "os.path.abspath")
_READS = ("read", "read_text", "open")
"""Methods of a file handle or a path that lead to what the file holds."""
_MAIN = "hydra.main"
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_MOST_KEYS = 12
_MISSING = "???"


class Located(NamedTuple):
    """A part of a config file that the program loads: the file's root, the keys that lead to the part, and the value
    that names the file.
    """

    root: Node
    keys: tuple[str, ...]
    path: Value


def document_value(place: Place, node: ast.AST, evaluate: Evaluate) -> Setting | None:
    """`config.trainer.devices` or `config["trainer"]`: what the file says, or the launch in its stead
    (`trainer.devices=8`); None where the expression leads into no file that is read, or to a key that it lacks.
    """
    if not isinstance(node, ast.Attribute | ast.Subscript) or not reads_configs(place.program):
        return None
    found = _located(place, evaluate, 0)
    if found is None or not found.keys:
        return None
    return _assigned(place, node, found, evaluate) or _as_launched(place, found)


def _assigned(place: Place, node: ast.AST, found: Located, evaluate: Evaluate) -> Setting | None:
    """What a statement before, under no further condition, sets a key to (`config["model"]["depth"] = 8`)."""
    given: Setting | None = None
    sites = of_file(place.program, "assigned keys", place.module.top, partial(_assignments, place.module))
    for site in sites.get(found.keys[-1], ()):
        before = site.scope is place.scope and getattr(site.node, "lineno", 0) < getattr(node, "lineno", 0)
        if not before or not set(site.guards) <= set(place.guards) or not isinstance(site.node, ast.Assign):
            continue
        at = place_of(place.program, place.module, site)
        held = [
            _located(at.inner(each.value), evaluate, 1) for each in site.node.targets if isinstance(each, ast.Subscript)
        ]
        if any(
            each is not None and each.path.value == found.path.value and each.keys == found.keys[:-1] for each in held
        ):
            given = evaluate(at.inner(site.node.value))
    return given


def _assignments(module: Module) -> dict[str, tuple[Site, ...]]:
    """The statements of a module that set a key by its name, by that."""
    kept: dict[str, list[Site]] = {}
    for site in sites_of(module):
        for target in site.node.targets if isinstance(site.node, ast.Assign) else ():
            key = _key(target)
            if key:
                kept.setdefault(key, []).append(site)
    return {key: tuple(found) for key, found in kept.items()}


def _key(target: ast.expr) -> str:
    """The key that a target is of (`config["depth"]`), "" for another target."""
    index = target.slice if isinstance(target, ast.Subscript) else None
    return index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else ""


def document_items(place: Place, evaluate: Evaluate) -> dict[str, Place] | None:
    """The items of a mapping that a config file holds (`Model(**cfg.model)`), each as the expression that looks it up;
    None for anything else, and where files of a defaults list may hold more.
    """
    if not reads_configs(place.program):
        return None
    held = _unwrapped(place)
    found = _located(held, evaluate, 0) if isinstance(held.node, ast.expr) else None
    if found is None or not isinstance(held.node, ast.expr) or member(found.root, "defaults") is not None:
        return None
    node = member(found.root, *found.keys)
    if node is None or node.kind != "object" or node.hidden is not None:
        return None
    prefix = "".join(f"{key}." for key in found.keys)
    passed = (name[len(prefix) : -1] for name in given_below(place.program, prefix) if found.keys)
    keys = dict.fromkeys((*(entry.key for entry in node.entries), *(key for key in passed if "." not in key)))
    return {key: held.inner(ast.copy_location(ast.Attribute(held.node, key, ast.Load()), held.node)) for key in keys}


def _unwrapped(place: Place) -> Place:
    """What a call hands on as a plain dict (`OmegaConf.to_container(cfg.model)`), under whatever name."""
    ends = [way.end for way in ways(place)]
    end = ends[0] if len(ends) == 1 else None
    if not isinstance(end, Place) or not isinstance(end.node, ast.Call) or not end.node.args:
        return place
    names = qualified(end.module, end.node.func, end.scope)
    return end.inner(end.node.args[0]) if any(name in _COPIES for name in names) else place


def _as_launched(place: Place, found: Located) -> Setting | None:
    name = ".".join(found.keys)
    given, certain = given_argument(place.program, f"{name}=")
    if given is not None:
        return given
    certain = certain or is_whole(place)
    node = member(found.root, *found.keys)
    if node is None or node.kind in ("object", "array"):
        return None
    value = as_sure_as(_followed(node, found), found.path)
    if isinstance(value, Value) and not certain:
        note = f"the launch may pass {name}=..."
        return value._replace(origin=value.origin._replace(kind="assumed", note=note, how=f"pass {name}=VALUE"))
    return value


def _followed(node: Node, found: Located) -> Setting:
    """A scalar, or what its one reference (`${a.b}`) leads to."""
    reference = _REFERENCE.fullmatch(node.value) if isinstance(node.value, str) else None
    target = member(found.root, *reference[1].split(".")) if reference is not None else None
    told = target or node
    if isinstance(told.value, str) and ("${" in told.value or told.value == _MISSING):
        return Unknown(f"{'.'.join(found.keys)} is not told by the file", f"pass {'.'.join(found.keys)}=VALUE")
    return setting(told)


def _located(place: Place, evaluate: Evaluate, depth: int) -> Located | None:
    """The part of a file that an expression is, if all ways to it agree on one."""
    if depth > _MOST_KEYS or not place.budget.spend():
        return None
    node = place.node
    if isinstance(node, ast.Attribute | ast.Subscript) and dotted(node) and not _is_followed(place, node):
        return _inside(place, node, evaluate, depth)
    ends = [way.end for way in ways(place)]
    found = [_end(end, evaluate, depth) if isinstance(end, Place) else _parameter(place, evaluate) for end in ends]
    first = found[0]
    return first if first is not None and all(item == first for item in found) else None


def _is_followed(place: Place, node: ast.AST) -> bool:
    """Whether names lead from an attribute to another expression."""
    ends = [way.end for way in ways(place)]
    return len(ends) == 1 and isinstance(ends[0], Place) and ends[0].node is not node


def _end(end: Place, evaluate: Evaluate, depth: int) -> Located | None:
    node = end.node
    if isinstance(node, ast.Attribute | ast.Subscript):
        return _inside(end, node, evaluate, depth)
    if isinstance(node, ast.Call):
        return _loaded(end, node, evaluate)
    return _parameter(end, evaluate)


def _inside(place: Place, node: ast.Attribute | ast.Subscript, evaluate: Evaluate, depth: int) -> Located | None:
    if isinstance(node, ast.Attribute):
        key: str | None = node.attr
    else:
        index = node.slice
        key = index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else None
    holder = _located(place.inner(node.value), evaluate, depth + 1) if key is not None else None
    return holder._replace(keys=(*holder.keys, key)) if holder is not None and key is not None else None


def _loaded(place: Place, node: ast.Call, evaluate: Evaluate) -> Located | None:
    """The file that a call loads: its path is the argument, or that of the `open` behind it."""
    names = qualified(place.module, node.func, place.scope)
    if any(name in _HOLDERS for name in names):
        return _held(place, node, evaluate)
    if any(name in _MERGES for name in names):
        return _merged(place, node, evaluate)
    if any(name in _COPIES for name in names):
        return _located(place.inner(node.args[0]), evaluate, 1) if node.args else None
    if _COMMAND_LINE in names or _OF_WORDS in names:
        return _of_launch(place) if all(map(_are_words, map(place.inner, node.args))) else None
    if not node.args or not any(name in _LOADERS for name in names):
        return None
    opened = _opened(place.inner(node.args[0]))
    path = evaluate(opened)
    return _file(place, path) if isinstance(path, Value) else None


def _merged(place: Place, node: ast.Call, evaluate: Evaluate) -> Located | None:
    """The last of the configs that are merged, which stands over the others; the one before the command line."""
    given = [] if any(isinstance(each, ast.Starred) for each in node.args) else node.args
    last = _located(place.inner(given[-1]), evaluate, 1) if given else None
    if last is None or last.root.hidden is None or len(given) == 1:
        return last
    return _located(place.inner(given[-2]), evaluate, 1) or last


def _are_words(place: Place) -> bool:
    """Whether an expression is words of the command line: `sys.argv[1:]`, what `parse_known_args` leaves over, or an
    argument of the parser (`args.overrides`).
    """
    node = place.node
    if dotted(node.value if isinstance(node, ast.Subscript) else node) == "sys.argv":
        return True
    name = node.value if isinstance(node, ast.Attribute) else node
    bindings = lookup(place.scope, name.id)[1] if isinstance(name, ast.Name) else []
    parsed = (binding.node for binding in bindings)
    return bool(bindings) and all(isinstance(each, ast.Call) and last_word(each.func) in _PARSES for each in parsed)


def _held(place: Place, node: ast.Call, evaluate: Evaluate) -> Located | None:
    """The part of a file whose keys an object is given, and nothing else: `SimpleNamespace(**config)`."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    whole = [keyword.value for keyword in node.keywords if keyword.arg is None] or node.args
    return _located(place.inner(given[0]), evaluate, 1) if len(given) == 1 and given == whole else None


def _opened(place: Place) -> Place:
    """The path that a file handle was opened by; the place itself, if it is no handle."""
    node = place.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
        return _opened(place.inner(node.func.value))
    if isinstance(node, ast.Name):
        holder, bindings = lookup(place.scope, node.id)
        handles = [item.node for item in bindings if isinstance(item.node, ast.Call)]
        if holder is not None and len(handles) == len(bindings) == 1:
            return _opened(place.inner(handles[0]))
    if isinstance(node, ast.Call) and node.args and dotted(node.func) == "open":
        return _opened(place.inner(node.args[0]))
    is_path = isinstance(node, ast.Call) and len(node.args) == 1 and _is_path(place, node)
    return _opened(place.inner(node.args[0])) if isinstance(node, ast.Call) and is_path else place


def _is_path(place: Place, node: ast.Call) -> bool:
    """Whether a call only makes another form of the path that it is given."""
    return any(name in _PATHS for name in qualified(place.module, node.func, place.scope))


def _file(place: Place, path: Value) -> Located | None:
    root = config_file(place.program, path.value) if isinstance(path.value, str) else None
    return Located(root, (), path) if root is not None else None


def _parameter(place: Place, evaluate: Evaluate) -> Located | None:
    """The config that Hydra passes to the function that `@hydra.main(config_path, config_name)` marks."""
    node = place.node
    holder, bindings = lookup(place.scope, node.id) if isinstance(node, ast.Name) else (None, [])
    own = [binding for binding in bindings if len(bindings) == 1 or _stands_at(node, binding.place)]
    if holder is None or len(own) != 1 or not takes_config(holder, own[0]):
        return None
    function = holder.node
    heads = function.decorator_list if isinstance(function, ast.FunctionDef) else []
    outer = place._replace(scope=holder.parent or holder, guards=(), frames=())
    for head in heads:
        if isinstance(head, ast.Call) and qualified(place.module, head.func, outer.scope) == (_MAIN,):
            return _hydra_file(outer, head, evaluate) or _of_launch(place)
    return _of_launch(place)


def _stands_at(node: ast.AST, parameter: ast.AST) -> bool:
    """Whether an expression is a parameter itself, and not what the function binds its name to later."""
    places = ((getattr(each, "lineno", 0), getattr(each, "col_offset", 0)) for each in (node, parameter))
    return isinstance(parameter, ast.arg) and next(places) == next(places)


def _of_launch(place: Place) -> Located:
    """A config of which only the words of the launch are known, which stand over its files."""
    span = place.module.span(place.node)
    return Located(Node("object", None, span, hidden=span), (), written("", span))


def _hydra_file(place: Place, head: ast.Call, evaluate: Evaluate) -> Located | None:
    told = {keyword.arg: keyword.value for keyword in head.keywords}
    folder, name = (_named(place, key, told.get(key), evaluate) for key in ("config_path", "config_name"))
    if not isinstance(name, Value) or not isinstance(name.value, str):
        return None
    below = folder.value if isinstance(folder, Value) and isinstance(folder.value, str) else ""
    path = normpath(join(dirname(place.module.source.path), below, name.value.removesuffix(".yaml") + ".yaml"))
    found = _file(place, name._replace(value=path))
    return found if found is not None and _counts_last(found.root) else None


def _named(place: Place, key: str, declared: ast.expr | None, evaluate: Evaluate) -> Setting | None:
    """What the launch names (`-cn big`), else what the decorator does."""
    given, _ = given_argument(place.program, f"hydra:{key}")
    return given or (evaluate(place.at(declared)) if declared is not None else None)


def _counts_last(root: Node) -> bool:
    """Whether what a file says itself stands over the files of its defaults list."""
    defaults = member(root, "defaults")
    return defaults is None or not defaults.items or defaults.items[-1].value == "_self_"
