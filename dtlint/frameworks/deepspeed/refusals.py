"""Settings of a DeepSpeed config that are refused together, each allowed alone, by the catalog's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dtlint.catalog import DeepSpeedKey, Refusal, deepspeed_refusals
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import flag, number, whole_number
from dtlint.languages.json_tree import Node, setting
from dtlint.record import NamedTuple
from dtlint.value import Plain, Setting, Unknown, Value

Rows = Mapping[tuple[str, str], DeepSpeedKey]


class Written(NamedTuple):
    """The values that stand in a config, by the dotted paths that DeepSpeed has for them, and the table of all keys.

    `hides` says that further keys may stand there that are not seen.
    """

    nodes: Mapping[str, Node]
    rows: Rows
    hides: bool


def refused_together(written: Written) -> Iterator[Member]:
    """A member of `config.invalid` for each row of the table that holds, at the key that is to change; where that is
    not written, at the first one that is.
    """
    for refusal in deepspeed_refusals():
        if _holds(refusal, written):
            yield from _member(refusal, written.nodes)


def forbidden_by(written: Written, path: str, node: Node) -> str:
    """The other key, if any, beside which DeepSpeed would refuse a key with a value that is not written there yet."""
    then = written._replace(nodes={**written.nodes, path: node})
    for refusal in deepspeed_refusals():
        others = [other for other in (*refusal.when, *refusal.below) if other != path]
        if len(others) < len(refusal.when) + len(refusal.below) and _holds(refusal, then):
            return next((other for other in others if other in written.nodes), "")
    return ""


def _holds(refusal: Refusal, written: Written) -> bool:
    met = all(_value(path, written) in wanted for path, wanted in refusal.when.items())
    return met and all(_is_below(_value(path, written), limit) for path, limit in refusal.below.items())


def _is_below(value: Plain | Unknown, limit: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value < limit


def _value(path: str, written: Written) -> Plain | Unknown:
    """What a key holds: what is written, else its default; Unknown where that is not known."""
    node = written.nodes.get(path)
    section, _, name = path.rpartition(".")
    row = written.rows.get((section, name))
    if node is None or node.kind == "null":
        return _UNSEEN if node is None and written.hides else _default(row)
    if node.kind in ("object", "array"):
        return "present"
    told = _READERS.get(row.type.split()[0] if row is not None else "", setting)(node)
    value = told.value if isinstance(told, Value) else _UNSEEN
    return value.lower() if isinstance(value, str) else value


_UNSEEN = Unknown("the files do not tell")


def _default(row: DeepSpeedKey | None) -> Plain:
    from json import loads

    value: Plain = loads(row.default) if row is not None and row.default else None
    return value


def _member(refusal: Refusal, nodes: Mapping[str, Node]) -> Iterator[Member]:
    written = [(path, nodes[path]) for path in (refusal.key, *refusal.when) if path in nodes]
    others = tuple((node.span, f"{path} stands here") for path, node in written[1:] if path != refusal.key)
    for path, node in written[:1]:
        section, _, name = path.rpartition(".")
        expected = refusal.expected if path == refusal.key else f"{refusal.expected} for {refusal.key}"
        words = texts(node.span, key=name, section=section, expected=expected, effect="refused")
        since = texts(node.span, since=refusal.since) if refusal.since else {}
        yield Member(node.span, {**words, **since, "value": setting(node)}, others)


_READERS: Mapping[str, Callable[[Node], Setting]] = {
    "bool": flag,
    "stage": whole_number,
    "int": whole_number,
    "int,": whole_number,
    "float": number,
    "float,": number,
}
"""How a value is read, by the first word of its key's type."""
