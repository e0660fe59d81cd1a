"""How much it matters that a key of a DeepSpeed config has no effect."""

from __future__ import annotations

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.value import Origin, Value

_SAVERS = ("offload", "hpz", "quantized", "mics", "reads it as", "main memory")
"""What names or explains a key that was meant to save memory or bandwidth."""


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
    return any(saver in words for saver in _SAVERS) and not _is_usual(found)


def _is_usual(found: Member) -> bool:
    """A key that nothing reads: templates carry them along with their defaults."""
    return _word(found, "reason").startswith("nothing")


def _word(found: Member, field: str) -> str:
    value = found.fields[field]
    return str(value.value) if isinstance(value, Value) else ""
