"""Values of calls that scripts make for their settings: environment variables, conversions, getattr, world size."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dtlint.languages.python.arithmetic import as_sure_as, computed
from dtlint.languages.python.command_words import count_of_words
from dtlint.languages.python.devices import accelerator
from dtlint.languages.python.names import qualified
from dtlint.languages.python.objects import Evaluate
from dtlint.languages.python.places import Place, unknown
from dtlint.value import Origin, Plain, Setting, Unknown, Value

MEANINGS: Mapping[str, str] = {
    "torch.distributed.get_world_size": "parallel.world_size",
    "torch.cuda.device_count": "cluster.gpus_per_node",
    "torch.accelerator.device_count": "cluster.gpus_per_node",
    "env:WORLD_SIZE": "parallel.world_size",
    "env:LOCAL_WORLD_SIZE": "launch.processes_per_node",
    "env:SLURM_NTASKS": "parallel.world_size",
    "env:SLURM_NNODES": "cluster.nodes",
    "env:SLURM_JOB_NUM_NODES": "cluster.nodes",
    "env:SLURM_GPUS_ON_NODE": "cluster.gpus_per_node",
}
"""Which setting an expression of the run-time world stands for."""

_READ = frozenset(
    {"os.environ.get", "os.getenv", "getattr", "max", "min", "int", "float", "str", "bool", "tuple", "list"}
)
_TEXT_METHODS: Mapping[str, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, "strip": str.strip}


def call_value(place: Place, node: ast.AST, evaluate: Evaluate) -> Setting:
    """The value of a call, or of an expression of a kind that has no value here."""
    opaque = unknown(place, f"{place.module.text(node, 40)} is computed when the script runs")
    if not isinstance(node, ast.Call):
        return opaque
    names = qualified(place.module, node.func, place.scope)
    name = names[0] if len(names) == 1 else ""
    if name in MEANINGS and not node.args and not node.keywords:
        return opaque._replace(means=MEANINGS[name])
    device = accelerator(place, name)
    if device is not None:
        return device
    if name == "len" and len(node.args) == 1:
        return count_of_words(place.inner(node.args[0])) or opaque
    arguments = [evaluate(place.inner(item)) for item in node.args] if name in _READ and not node.keywords else []
    if name in ("os.environ.get", "os.getenv") and arguments:
        return environment_value(place, arguments[0], arguments[1] if len(arguments) > 1 else None)
    if name == "getattr" and len(arguments) >= 2:
        found = _attribute(place, node, arguments[1], evaluate)
        return _or_default(found, arguments[2]) if len(arguments) > 2 else found
    if name in ("max", "min") and len(arguments) > 1:
        return _extreme(place, name, arguments)
    if len(arguments) == 1:
        return _converted(place, name, arguments[0])
    if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS and not node.args:
        return _text_method(place, node.func.attr, evaluate(place.inner(node.func.value)))
    return opaque


def _extreme(place: Place, name: str, values: list[Setting]) -> Setting:
    known = [value for value in values if isinstance(value, Value)]
    numbers = [value.value for value in known if isinstance(value.value, int | float)]
    shares = [value for value in values if isinstance(value, Unknown) and value.means]
    if name == "max" and len(shares) == 1 and len(numbers) == len(values) - 1 and max(numbers) <= 1:
        return shares[0]  # a share that comes out even is not less
    if len(numbers) < len(values):
        return unknown(place, "computed when the script runs")
    return computed(place, max(numbers) if name == "max" else min(numbers), *known)


def _text_method(place: Place, method: str, value: Setting) -> Setting:
    if isinstance(value, Value) and isinstance(value.value, str):
        return Value(_TEXT_METHODS[method](value.value), value.origin)
    return value if isinstance(value, Unknown) else unknown(place, "computed when the script runs")


def _attribute(place: Place, node: ast.Call, key: Setting, evaluate: Evaluate) -> Setting:
    """`getattr(torch, "bfloat16")` is `torch.bfloat16`."""
    if isinstance(key, Value) and isinstance(key.value, str) and key.value.isidentifier():
        attribute = ast.Attribute(value=node.args[0], attr=key.value, ctx=ast.Load())
        return as_sure_as(evaluate(place.inner(ast.copy_location(attribute, node))), key)
    return unknown(place, f"{place.module.text(node, 40)} is looked up when the script runs")


def _or_default(found: Setting, default: Setting) -> Setting:
    """`getattr(args, "size", 8)`: where the files do not tell the attribute, the default is assumed."""
    if not isinstance(found, Unknown) or found.means or not isinstance(default, Value):
        return found
    return default._replace(origin=default.origin._replace(kind="assumed", note="the object may have another value"))


def environment_value(place: Place, name: Setting, fallback: Setting | None) -> Setting:
    """An environment variable: unknown, with what it stands for; the fallback in the text is only assumed."""
    word = name.value if isinstance(name, Value) and isinstance(name.value, str) else ""
    means = MEANINGS.get(f"env:{word}", "")
    how = f"--env {word}=VALUE" if word else ""
    if isinstance(fallback, Value) and not means:
        return fallback._replace(
            origin=fallback.origin._replace(kind="assumed", note=f"the environment may set {word}", how=how)
        )
    origin = Origin("written", place.module.span(place.node), place.chain)
    return Unknown(f"the environment variable {word or '?'} is not known", how, origin, means)


def _converted(place: Place, name: str, value: Setting) -> Setting:
    """`int(x)`, `float(x)`, `str(x)`, `bool(x)`, `tuple(x)`: also of what is not known, with what it stands for."""
    if name in ("tuple", "list") or not isinstance(value, Value):
        return value
    try:
        return Value(_convert(name, value.value), value.origin)
    except (ValueError, OverflowError, TypeError):
        return unknown(place, f"{value.value!r} is not a number")


def _convert(name: str, value: Plain) -> Plain:
    if name == "bool":
        return bool(value)
    if name == "str":
        return str(value)
    if not isinstance(value, int | float | str):
        raise TypeError(name)
    return int(value) if name == "int" else float(value)
