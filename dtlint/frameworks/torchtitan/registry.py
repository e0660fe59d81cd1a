"""torchtitan's configs as main has them: functions that build `Trainer.Config`, named by `--module` and `--config`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Reading
from dtlint.frameworks.torchtitan.config import read_tree
from dtlint.frameworks.torchtitan.spelling import spell_in
from dtlint.languages.python.building import Run
from dtlint.languages.python.building_values import built_by
from dtlint.languages.python.built import LIST, Built, Part, leaf, node_of
from dtlint.languages.python.program import Definition, Program, definition
from dtlint.languages.python.tree import HERE, Module
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Unknown, Value, written

__all__ = ["functions", "module_files", "read", "spell_in"]

LAYER = "torchtitan-python"
MARK = "Trainer.Config"
"""What stands in every file of configs."""
_SHORT = ("torchtitan.models", "torchtitan.experiments", "torchtitan.experiments.rl.examples")
"""Packages whose modules go by their last name (b5bcd76 torchtitan/config/manager.py)."""
_REGISTRY = "config_registry"
_MODEL = "model_registry"
"""The function that makes a model of a flavor; it is not followed, the catalog knows what the flavor means."""
_MODES = {"FullAC": "full", "SelectiveAC": "selective"}
"""Classes of activation checkpointing (b5bcd76 torchtitan/distributed/activation_checkpoint.py)."""
_CONVERTERS = {
    "Float8LinearConverter": "quantize.linear.float8", "MXFP8LinearConverter": "quantize.linear.mx",
    "NVFP4LinearConverter": "quantize.linear.nvfp4",
}  # fmt: skip


def module_files(module: str) -> tuple[str, ...]:
    """The files that a module's name can mean, in the order in which torchtitan tries them."""
    dotted = [f"{package}.{module}.{_REGISTRY}" for package in _SHORT] if "." not in module else []
    names = [*dotted, f"{module}.{_REGISTRY}", module]
    paths = [name.replace(".", "/") for name in names]
    return tuple(file for path in paths for file in (f"{path}.py", f"{path}/__init__.py"))


def functions(module: Module) -> tuple[str, ...]:
    """The functions of a file that are annotated to return a config, and take nothing."""
    return tuple(_annotated(module.top.node))


def _annotated(tree: ast.AST) -> Iterator[str]:
    for node in tree.body if isinstance(tree, ast.Module) else ():
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
            continue
        takes = len(node.args.args) > len(node.args.defaults)
        if not takes and ast.unparse(node.returns).strip("'\"").endswith(MARK):
            yield node.name


def read(program: Program, function: str, words: Sequence[Word] = ()) -> Reading | None:
    """What a config function claims, with the options of the command line over it; None for a file without it."""
    found = definition(program, program.main, f"{HERE}.{function}")
    if found is None:
        return None
    place = found.module.span(found.scope.node)
    built = built_by(found, Run(program, (_MODEL,)))
    if not isinstance(built, Built) or not built.name:
        return None
    _in_words_of_keys(built)
    root = node_of(built, place)
    return None if root is None else read_tree(root, words, built.open)._replace(layer=LAYER, place=_head(found))


def _head(found: Definition) -> Span:
    node = found.scope.node
    span = found.module.span(node)
    return span.source.span(span.start, span.start + len(span.text.split("\n", 1)[0]))


def _in_words_of_keys(built: Built) -> None:
    """What the config says by the class of an object, as the keys of earlier releases say it."""
    _checkpointing(built)
    _model(built)
    _optimizer(built)


def _checkpointing(built: Built) -> None:
    found = built.fields.get("activation_checkpoint")
    if isinstance(found, Value) and found.value is None:
        built.fields["activation_checkpoint"] = Built("", built.span, {"mode": found._replace(value="none")})
    if not isinstance(found, Built) or "mode" in found.fields or not found.name:
        return
    kind = _class(found)
    if kind in _MODES:
        found.fields["mode"] = written(_MODES[kind], found.span)
    elif kind != "ActivationCheckpointing":
        found.fields["mode"] = Unknown(f"how much {kind} recomputes is not known")


def _class(built: Built) -> str:
    """The class whose config an object is (`FullAC.Config`)."""
    return built.name.removesuffix(".Config").rpartition(".")[2]


def _model(built: Built) -> None:
    """The model's family is the folder of its registry, the flavor what the registry is asked for."""
    spec = built.fields.get("model_spec")
    if not isinstance(spec, Built) or not spec.name.endswith(f".{_MODEL}"):
        return
    family = spec.name.removesuffix(f".{_MODEL}").rpartition(".")[2]
    flavor = spec.given.get("0", spec.given.get("flavor"))
    if flavor is None or not family:
        return
    model = Built("", spec.span, {"name": written(family, spec.span), "flavor": leaf(flavor)})
    converters = spec.given.get("converters", built.fields.get("model_converters"))
    model.fields["converters"] = _converters(converters, spec.span)
    built.fields["model"] = model


def _converters(part: Part | None, span: Span) -> Part:
    if isinstance(part, Built) and "converters" in part.fields:
        part = part.fields["converters"]
    items = part.fields.values() if isinstance(part, Built) and part.name == LIST else ()
    names = [_CONVERTERS.get(_class(item), _class(item)) for item in items if isinstance(item, Built)]
    return Built(LIST, span, {str(number): written(name, span) for number, name in enumerate(names)})


def _optimizer(built: Built) -> None:
    """The optimizer of all parameters, where they are one group."""
    found = built.fields.get("optimizer")
    groups = found.fields.get("param_groups") if isinstance(found, Built) else None
    if not isinstance(found, Built) or not isinstance(groups, Built) or "name" in found.fields:
        return
    names = [item.fields.get("optimizer_name") for item in groups.fields.values() if isinstance(item, Built)]
    if len(names) == 1 and names[0] is not None:
        found.fields["name"] = names[0]
