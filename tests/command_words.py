"""Words for tests of readers of commands: `$X` may be any number of words, `"$X"` is one that is not known."""

from __future__ import annotations

import re

from dtlint.frameworks import Reading
from dtlint.frameworks.megatron import read_arguments
from dtlint.languages.traced import Piece, Word
from dtlint.source import Source
from dtlint.value import Plain, Unknown, Value

MEANINGS = {"SLURM_NNODES": "cluster.nodes", "SLURM_GPUS_ON_NODE": "cluster.gpus_per_node"}
PART = re.compile(r"\$(\w+)|\$(@)|([^$]+)")


def words(text: str) -> tuple[Word, ...]:
    """The words of a command line without quotes, continuations and expansions."""
    source = Source("run.sh", text)
    return tuple(word(source, match.start(), match.group()) for match in re.finditer(r'"[^"]*"|[^\s\\]+', text))


def word(source: Source, start: int, text: str) -> Word:
    """One word; `$NAME` in it is unknown."""
    quoted = text.startswith('"') and text.endswith('"') and len(text) > 1
    first = start + 1 if quoted else start
    bare = text[1:-1] if quoted else text
    pieces = tuple(piece(source, first + match.start(), match) for match in PART.finditer(bare))
    many = "$@" in bare or (not quoted and "$" in bare)
    return Word(pieces, source.span(start, start + len(text)), many)


def piece(source: Source, start: int, match: re.Match[str]) -> Piece:
    name = match[1] or match[2]
    span = source.span(start, start + len(match.group()))
    if name is None:
        return Piece(match.group(), span)
    return Piece(None, span, unknown=f"${name} is not set", how=f"--env {name}=", means=MEANINGS.get(name, ""))


def megatron(arguments: str) -> Reading:
    """What Megatron's reader makes of the arguments of a training script."""
    return read_arguments(words(arguments), Source("run.sh", arguments).span(0, len(arguments)))


def claims(reading: Reading) -> dict[str, Plain]:
    """The claims by setting: values, and the reason of an unknown after `?`."""
    found: dict[str, Plain] = {}
    for claim in reading.claims:
        value = claim.value
        found[claim.setting] = f"?{value.reason}" if isinstance(value, Unknown) else getattr(value, "value", None)
    return found


def fields(reading: Reading, collection: str) -> list[dict[str, Plain]]:
    """The known fields of each member of a collection."""
    return [
        {name: value.value for name, value in member.fields.items() if isinstance(value, Value)}
        for member in reading.collections.get(collection, ())
    ]


def texts(found: tuple[Word, ...]) -> list[str]:
    """The words as people see them."""
    return [each.shown for each in found]
