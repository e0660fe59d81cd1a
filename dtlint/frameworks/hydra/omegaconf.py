"""What OmegaConf puts in the place of a value: `${a.b}`, `${.b}`, texts around them, its own resolvers
(`${oc.env:NAME,default}`, `${oc.select:a.b,default}`), and `???` for a value that has to be given.

OmegaConf 2.3 omegaconf/grammar/OmegaConfGrammarParser.g4 and omegaconf/resolvers/oc/. What another resolver gives is
the program's own affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks.dotted_keys import Keys, flat, node_of
from dtlint.languages.json_tree import Node, setting
from dtlint.languages.traced import Word
from dtlint.languages.yaml_scalars import plain_scalar
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Step, Unknown, Value, assumed

MISSING = "???"
"""The word for a value that has to be given on the command line."""
_PATH = re.compile(r"(\.*)([\w$@-]+(?:\.[\w$@-]+|\[[\w$@-]+\])*)")
_RESOLVER = re.compile(r"\s*([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)\s*:(.*)", re.DOTALL)
_MOST_STEPS = 10
"""References that lead to one value at most; a circle is longer."""
_MOST_LOOKUPS = 20_000
"""References that one config follows at most: texts that hold each other twice would grow without end."""
_LONGEST = 4_000
_SCALARS = ("number", "string", "bool")
_QUOTES = "'\""


class _Look(NamedTuple):
    """Where references are looked up, and how many may still be."""

    keys: Keys
    left: Iterator[int]


def resolved(keys: Keys) -> Keys:
    """The keys with what their references lead to; a section that a reference names brings its keys along."""
    look = _Look(keys, iter(range(_MOST_LOOKUPS)))
    places = {id(node): name for name, node in keys.nodes.items()}
    nodes: dict[str, Node] = {}
    for name, node in keys.nodes.items():
        nodes[name] = found = _resolved(name, node, look, 0)
        if found.kind == "object" and node.kind == "bare":
            own = places.get(id(found), name)
            inner = ((path, _resolved(path, each, look, 0)) for path, each in flat(own, found))
            nodes.update((name + path.removeprefix(own), each) for path, each in inner)
    return keys._replace(nodes=nodes)


def with_variables(node: Node, variables: Mapping[str, Word]) -> Node:
    """A tree in which `${oc.env:NAME}` stands for what a launch sets the variable to."""
    if node.kind == "bare":
        told = _of_launch(str(node.value), variables)
        return node if told is None else _read(told, node)
    if not node.entries and not node.items:
        return node
    entries = tuple(each._replace(node=with_variables(each.node, variables)) for each in node.entries)
    return node._replace(entries=entries, items=tuple(with_variables(item, variables) for item in node.items))


def _of_launch(text: str, variables: Mapping[str, Word]) -> Word | None:
    found = re.fullmatch(r"\$\{\s*oc\.env\s*:\s*(\w+)\s*(?:,[^{}]*)?\}", text)
    return variables.get(found[1]) if found is not None else None


def _read(word: Word, node: Node) -> Node:
    found = node_of(word)
    told = found.told
    if isinstance(told, Value):
        chain = (Step(node.span, f"it is {node.value}"), *told.origin.chain)
        told = told._replace(origin=told.origin._replace(chain=chain))
    return found._replace(told=told)


def _resolved(name: str, node: Node, look: _Look, depth: int) -> Node:
    """What a value comes to; the node itself for a reference that leads nowhere."""
    if node.value == MISSING and node.kind == "string":
        return _untold(node, f"{MISSING} has to be given on the command line", f"{name}=...")
    if node.kind == "string" and node.told is None and node.span.text == node.value:
        return _number(node)
    if node.kind == "array":
        return node._replace(items=tuple(_inside(f"{name}.{at}", item, look) for at, item in enumerate(node.items)))
    if node.kind != "bare" or "${" not in str(node.value):
        return node
    if depth > _MOST_STEPS or next(look.left, None) is None:
        return node
    text = str(node.value)
    parts = _parts(text)
    if len(parts) == 1:
        return _interpolated(name, parts[0][2:-1], node, look, depth)
    return _text(name, parts, node, look, depth)


def _inside(name: str, node: Node, look: _Look) -> Node:
    """An item of a list with what its references lead to; the keys of its mappings have no path of their own."""
    if node.kind != "object":
        return _resolved(name, node, look, 0)
    entries = (each._replace(node=_inside(f"{name}.{each.key}", each.node, look)) for each in node.entries)
    return node._replace(entries=tuple(entries))


def _text(name: str, parts: list[str], node: Node, look: _Look, depth: int) -> Node:
    """A text with what stands for its references."""
    told, steps = [], []
    for part in parts:
        if not part.startswith("${"):
            told.append(part)
            continue
        found = _interpolated(name, part[2:-1], node._replace(value=part), look, depth)
        if found.kind not in (*_SCALARS, "null"):
            return found if found.kind == "unknown" else node
        told.append(str(found.value))
        steps.append(Step(found.span, f"{part} is {found.value}"))
    whole = "".join(told)
    if len(whole) > _LONGEST:
        return node
    origin = Origin("written", node.span, tuple(step for step in steps if step.span != node.span))
    return Node("string", whole, node.span, told=Value(whole, origin))


def _interpolated(name: str, inner: str, node: Node, look: _Look, depth: int) -> Node:
    """What `${inner}` stands for: a resolver's result, or the value at a path, which other references may make up."""
    call = _RESOLVER.fullmatch(inner)
    if call is not None:
        return _of_resolver(name, call[1], call[2], node, look, depth)
    if "${" in inner:
        filled = _text(name, _parts(inner), node, look, depth + 1)
        inner = str(filled.value) if filled.kind == "string" else ""
    path = _target(name, inner)
    found = _at(path, look, depth) if path is not None and not name.startswith(f"{path}.") else None
    return node if found is None else _behind(*found, name, node, look, depth)


def _behind(path: str, found: Node, name: str, node: Node, look: _Look, depth: int) -> Node:
    """What stands at a path, with the way there; the node itself where that leads nowhere."""
    if found.value == MISSING and found.kind == "string":
        return _untold(node, f"{path} has to be given on the command line", f"{path}=...")
    after = _resolved(path, found, look, depth + 1)
    if after.kind == "bare":
        return node
    if after.kind not in _SCALARS:
        return after
    return after._replace(told=_with_way(setting(after), Step(node.span, f"{name} is {node.value}")))


def _with_way(value: Setting, step: Step) -> Setting:
    if not isinstance(value, Value):
        return value
    return value._replace(origin=value.origin._replace(chain=(step, *value.origin.chain)))


def _of_resolver(name: str, resolver: str, text: str, node: Node, look: _Look, depth: int) -> Node:
    given = [part.strip() for part in at_commas(text, "{[", "}]")] if text.strip() else []
    if resolver in ("oc.env", "env") and given and re.fullmatch(r"\w+", given[0]):
        return _of_variable(name, given, node, look, depth)
    if resolver == "oc.select" and given:
        return _selected(name, given, node, look, depth)
    if resolver == "oc.decode" and len(given) == 1 and given[0].startswith("${"):
        return _decoded(_resolved(name, node._replace(value=given[0]), look, depth + 1))
    if resolver == "mul" and len(given) == 2:
        return _product(name, given, node, look, depth)
    reason = f"{node.value} is what the program's resolver {resolver} makes of it"
    return _untold(node, reason, "")


def _product(name: str, given: list[str], node: Node, look: _Look, depth: int) -> Node:
    """The product that the resolver `mul` of NeMo-RL makes of two whole numbers (NVIDIA-NeMo/RL 7ea279a
    nemo_rl/utils/config.py)."""
    parts = [_argument(name, text, node, look, depth) for text in given]
    numbers = [part.value for part in parts if isinstance(part.value, int) and part.kind == "number"]
    if len(numbers) < 2:
        return _untold(node, f"{node.value} multiplies what is not known", "")
    product = numbers[0] * numbers[1]
    steps = tuple(Step(part.span, f"{part.value}") for part in parts)
    return Node("number", product, node.span, told=Value(product, Origin("written", node.span, steps)))


def _of_variable(name: str, given: list[str], node: Node, look: _Look, depth: int) -> Node:
    """An environment variable, which is not known; its default is what holds where nobody sets it."""
    variable = given[0]
    if len(given) < 2:
        return _untold(node, f"the environment sets {variable}", f"--env {variable}=...")
    found = _argument(name, given[1], node, look, depth)
    if found.kind not in (*_SCALARS, "null"):
        return found if found.kind in ("bare", "unknown") else _untold(node, f"{variable} may be set", "")
    told = assumed(found.value, f"{variable} may be set", f"--env {variable}=...", node.span)
    return Node(found.kind, found.value, node.span, told=told)


def _selected(name: str, given: list[str], node: Node, look: _Look, depth: int) -> Node:
    """The value at a path, else the default that is given with it, else nothing."""
    path = _target(name, str(_argument(name, given[0], node, look, depth).value))
    if path is None:
        return node
    found = _at(path, look, depth)
    if found is not None and not (found[1].value == MISSING and found[1].kind == "string"):
        return _behind(*found, name, node, look, depth)
    if len(given) < 2:
        return Node("null", None, node.span)
    return _argument(name, given[1], node, look, depth)


def _argument(name: str, text: str, node: Node, look: _Look, depth: int) -> Node:
    """An argument of a resolver: a text with references, a quoted one, or a scalar."""
    if "${" in text:
        return _resolved(name, node._replace(value=text), look, depth + 1)
    kind, value = (
        plain_scalar(text, "omegaconf") if text[:1] not in _QUOTES or not text else ("string", _unquoted(text))
    )
    told = Value(value, Origin("written", node.span))
    return Node(kind, value, node.span, told=told if kind in _SCALARS else None)


def _decoded(node: Node) -> Node:
    """A text read as YAML's scalar."""
    if node.kind != "string" or not isinstance(node.value, str):
        return node
    kind, value = plain_scalar(node.value, "omegaconf")
    told = node.told._replace(value=value) if isinstance(node.told, Value) else node.told
    return node._replace(kind=kind, value=value, told=told)


def _number(node: Node) -> Node:
    """A plain text that OmegaConf's loader takes for a number and PyYAML's does not (`1e-5`)."""
    text = node.value if isinstance(node.value, str) else ""
    kind, value = plain_scalar(text, "omegaconf") if node.span.text == text else (node.kind, node.value)
    return node._replace(kind=kind, value=value) if kind == "number" else node


def _target(name: str, path: str) -> str | None:
    """The dotted path that a reference leads to; each dot before it is one level up, the first the key's own section.
    None for what is no path.
    """
    found = _PATH.fullmatch(path.strip())
    if found is None:
        return None
    dots, rest = found[1], found[2].replace("[", ".").replace("]", "")
    above = name.split(".")
    if len(dots) > len(above):
        return None
    return ".".join([*above[: -len(dots)], rest]) if dots else rest


def _at(path: str, look: _Look, depth: int) -> tuple[str, Node] | None:
    """The value at a path, also through a section that a reference stands for or an item of a list; with the path at
    which it is written.
    """
    nodes = look.keys.nodes
    if (found := nodes.get(path) or _item(path, look.keys)) is not None:
        return path, found
    above, _, rest = path.rpartition(".")
    while above and above not in nodes:
        above, _, more = above.rpartition(".")
        rest = f"{more}.{rest}"
    section = nodes.get(above)
    inner = _PATH.fullmatch(str(section.value)[2:-1].strip()) if section and section.kind == "bare" else None
    target = _target(above, inner[0]) if inner is not None else None
    if target is None or depth > _MOST_STEPS or next(look.left, None) is None:
        return None
    return _at(f"{target}.{rest}", look, depth + 1)


def _item(path: str, keys: Keys) -> Node | None:
    """The item of a list that a path ends with (`devices.0`)."""
    above, _, index = path.rpartition(".")
    found = keys.nodes.get(above)
    if found is None or found.kind != "array" or not index.isascii() or not index.isdigit():
        return None
    within = len(index) <= len(str(len(found.items))) and int(index) < len(found.items)
    return found.items[int(index)] if within else None


def _parts(text: str) -> list[str]:
    """A text cut before and behind each `${...}` that stands in no other."""
    found: list[str] = []
    start, at = 0, text.find("${")
    while at != -1:
        end = _closing(text, at)
        if end is None:
            break
        found.extend(part for part in (text[start:at], text[at:end]) if part)
        start, at = end, text.find("${", end)
    return [*found, text[start:]] if text[start:] else found


def _closing(text: str, start: int) -> int | None:
    """The place behind the brace that closes the one of `${` at `start`."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if not depth:
                return index + 1
    return None


def at_commas(text: str, opening: str, closing: str) -> list[str]:
    """A text cut at its commas, but for those within quotes and between brackets of these kinds."""
    found, start, depth, quote = [], 0, 0, ""
    for index, char in enumerate(text):
        if quote or char in _QUOTES:
            quote = "" if char == quote else quote or char
        elif char in opening:
            depth += 1
        elif char in closing:
            depth -= 1
        elif char == "," and not depth:
            found.append(text[start:index])
            start = index + 1
    return [*found, text[start:]]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text


def _untold(node: Node, reason: str, how: str) -> Node:
    place: Span = node.span
    return Node("unknown", None, place, told=Unknown(reason, how, Origin("written", place)))
