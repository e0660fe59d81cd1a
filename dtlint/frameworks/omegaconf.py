"""What OmegaConf puts in the place of a value: `${a.b}`, `${.b}`, `${oc.env:NAME,default}`, and `???` for a value that
has to be given.
"""

from __future__ import annotations

import re

from dtlint.frameworks.dotted_keys import Keys
from dtlint.languages.json_tree import Node, setting
from dtlint.languages.yaml_scalars import plain_scalar
from dtlint.source import Span
from dtlint.value import Origin, Setting, Step, Unknown, Value, assumed

MISSING = "???"
"""The word for a value that has to be given on the command line."""
_REFERENCE = re.compile(r"\$\{\s*(\.*)([\w.]+)\s*\}")
_VARIABLE = re.compile(r"\$\{oc\.env:\s*(\w+)\s*(?:,\s*([^{}]*?)\s*)?\}")
_MOST_STEPS = 10
"""References that lead to one value at most; a circle is longer."""


def resolved(keys: Keys) -> Keys:
    """The keys with what their references lead to."""
    return keys._replace(nodes={name: _resolved(name, node, keys) for name, node in keys.nodes.items()})


def _resolved(name: str, node: Node, keys: Keys) -> Node:
    if node.value == MISSING:
        return _untold(node, f"{MISSING} has to be given on the command line", f"{name}=...")
    if node.kind == "string" and node.told is None and node.span.text == node.value:
        return _number(node)
    if node.kind != "bare":
        return node
    variable = _VARIABLE.fullmatch(str(node.value))
    return _of_variable(node, variable[1], variable[2]) if variable is not None else _followed(name, node, keys)


def _followed(name: str, node: Node, keys: Keys) -> Node:
    """What a reference leads to, with the way there; the node itself where it leads nowhere."""
    found, at = node, name
    steps: list[Step] = []
    while found.kind == "bare" and len(steps) < _MOST_STEPS:
        target = _target(at, found)
        after = keys.nodes.get(target) if target is not None else None
        if target is None or after is None:
            return node
        steps.append(Step(found.span, f"{at} is {found.value}"))
        at, found = target, after
    if found.kind == "bare":
        return node
    if found.value == MISSING:
        return _untold(node, f"{at} has to be given on the command line", f"{at}=...")
    found = _number(found)
    return found._replace(told=_behind(setting(found), steps)) if _is_scalar(found) else found


def _number(node: Node) -> Node:
    """A plain text that OmegaConf's loader takes for a number and PyYAML's does not (`1e-5`)."""
    text = node.value if isinstance(node.value, str) else ""
    kind, value = plain_scalar(text, "omegaconf") if node.span.text == text else (node.kind, node.value)
    return node._replace(kind=kind, value=value) if kind == "number" else node


def _is_scalar(node: Node) -> bool:
    return node.kind in ("number", "string", "bool")


def _behind(value: Setting, steps: list[Step]) -> Setting:
    """A value with the places through which it is named."""
    if not isinstance(value, Value):
        return value
    return value._replace(origin=value.origin._replace(chain=(*steps, *value.origin.chain)))


def _target(name: str, node: Node) -> str | None:
    """The dotted path that a value refers to; each dot before it is one level up, the first the key's own section."""
    found = _REFERENCE.fullmatch(str(node.value))
    if found is None:
        return None
    dots, path = found.groups()
    if not dots:
        return path
    above = name.split(".")[: -len(dots)]
    return ".".join([*above, path])


def _of_variable(node: Node, variable: str, fallback: str | None) -> Node:
    """An environment variable, which is not known; its default is what holds where nobody sets it."""
    if fallback is None:
        return _untold(node, f"the environment sets {variable}", f"--env {variable}=...")
    kind, value = plain_scalar(fallback.strip("'\""), "omegaconf")
    told = assumed(value, f"{variable} may be set", f"--env {variable}=...", node.span)
    return Node(kind, value, node.span, told=told)


def _untold(node: Node, reason: str, how: str) -> Node:
    place: Span = node.span
    return Node("unknown", None, place, told=Unknown(reason, how, Origin("written", place)))
