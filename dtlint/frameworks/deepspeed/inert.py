"""How much it matters that a key of a DeepSpeed config has no effect."""

from __future__ import annotations

import json

from dtlint.catalog import deepspeed_keys
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.languages.json_tree import Node, member
from dtlint.value import Origin, Plain, Value

_SAVERS = ("offload", "hpz", "quantized", "mics", "reads it as", "main memory")
"""What names or explains a key that was meant to save memory or bandwidth."""


_ASKED = "asks for the same already"
"""What explains a misplaced key that nothing else would come of at its home."""


def misplacement(home: str, node: Node, root: Node) -> str:
    """Why a key that stands elsewhere than at its home has no effect; of a value that DeepSpeed takes unasked too, or
    that the config asks for in its place, that nothing else would come of it there.
    """
    if _is_default(home, node.value):
        return f"that is what DeepSpeed takes for {home} unasked"
    other = _asking(home, node, root)
    return f"{other} {_ASKED}" if other else f"DeepSpeed reads it as {home} only"


def _asking(home: str, node: Node, root: Node) -> str:
    """The key that asks for what a misplaced one does: its home, or an older name of that; "" where none does."""
    section, _, name = home.rpartition(".")
    older = (row.name for row in deepspeed_keys() if (row.section, row.instead) == (section, name))
    paths = (home, *(f"{section}.{each}".lstrip(".") for each in older))
    return next((path for path in paths if _asks_for(member(root, *path.split(".")), node)), "")


def _asks_for(found: Node | None, node: Node) -> bool:
    """Whether a value asks for what another does; `cpu_offload: true` for an offload to the CPU."""
    if found is None:
        return False
    device = member(node, "device")
    if device is not None:
        there = member(found, "device")
        return found.value is True if device.value == "cpu" and there is None else _are_equal(there, device)
    return _are_equal(found, node)


def _are_equal(one: Node | None, other: Node) -> bool:
    return one is not None and one.kind == other.kind and one.value is not None and one.value == other.value


def _is_default(home: str, value: Plain) -> bool:
    section, _, name = home.rpartition(".")
    row = next((row for row in deepspeed_keys() if (row.section, row.name) == (section, name)), None)
    if row is None or not row.default or value is None:
        return False
    default: object = json.loads(row.default)
    return isinstance(value, bool) is isinstance(default, bool) and bool(value == default)


def weighed(members: list[Member]) -> list[Member]:
    """The members of `config.inert` with two more fields.

    `matters` is "yes" where memory or bandwidth was meant to be saved, "no" for the first key that is left over from
    another stage, "" for those others and for keys that nothing reads. `others` is how many the first one speaks for
    beside itself, else 0.
    """
    light = [member for member in members if not _is_meant(member) and not _is_usual(member)]
    return [_with_weight(member, light) for member in members]


def _with_weight(found: Member, light: list[Member]) -> Member:
    first = bool(light) and found is light[0]
    matters = "yes" if _is_meant(found) else "no" if first else ""
    others = Value(len(light) - 1 if first else 0, Origin("written", found.place))
    return found._replace(fields={**found.fields, **texts(found.place, matters=matters), "others": others})


def _is_meant(found: Member) -> bool:
    words = f"{_word(found, 'key')} {_word(found, 'reason')}"
    return any(saver in words for saver in _SAVERS) and not _is_usual(found) and not _is_spare(found)


def _is_spare(found: Member) -> bool:
    """A key that would change little or nothing in its place either."""
    return _is_buffer(found) or _word(found, "reason").endswith(_ASKED)


def _is_buffer(found: Member) -> bool:
    """A size of the buffers that messages travel in: another than the default's changes little."""
    return _word(found, "key").endswith("bucket_size")


def _is_usual(found: Member) -> bool:
    """A key that nothing reads: templates carry them along with their defaults."""
    return _word(found, "reason").startswith("nothing")


def _word(found: Member, field: str) -> str:
    value = found.fields[field]
    return str(value.value) if isinstance(value, Value) else ""
