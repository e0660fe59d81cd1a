"""PBS (Professional, OpenPBS, Torque): what the #PBS lines of a script allocate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.options import integer, literal_place
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.value import Origin, Setting, Unknown, Value

LAYER = "pbs"
_CHUNKS, _NODES, _PLACE = "select", "nodes", "place"
_GPUS = r"(?:ngpus|gpus)=(\d{1,4})"
_APART, _WHOLE = frozenset(("scatter", "vscatter")), frozenset(("excl", "exclhost"))
"""Arrangements of `place`: each chunk on a machine of its own, and machines that no other job shares."""


class _Resource(NamedTuple):
    """One `name=value` of a `-l` list."""

    name: str
    value: Word


class _Part(NamedTuple):
    """So many chunks (`2:ncpus=32:ngpus=4`), and the GPUs of each."""

    chunks: Setting
    gpus: Word | None


def read_directives(words: Sequence[Word]) -> Reading:
    """What the words of a script's #PBS lines allocate (pbs_resources(7B)): `select` asks for chunks, of which PBS puts
    several on one machine unless `place` scatters them; `nodes` of older scripts and of Torque asks for machines where
    it counts their GPUs (sites may pack those of processors alone). Parts without GPUs beside others are no place to
    train.

    The collection `launch.allocation` has `nodes`, known where they are certainly machines, and `chunks`.
    """
    told = {each.name: each.value for each in _resources(words)}
    asked = told.get(_CHUNKS) or told.get(_NODES)
    if not words or asked is None:
        return Reading(LAYER)
    every = tuple(_parts(asked))
    parts = tuple(each for each in every if each.gpus is not None) or every
    placed = frozenset(re.split(r"[:=]", told[_PLACE].shown)) if _PLACE in told else frozenset()
    chunks = _total(parts, asked)
    machines = _CHUNKS not in told and any(each.gpus is not None for each in parts)
    apart = machines or bool(placed & _APART) or _is(chunks, 1)
    why = "PBS may put several chunks on one machine; write -l place=scatter"
    nodes = chunks if apart else Unknown(why, "--set cluster.nodes=N", Origin("written", literal_place(asked)))
    claims = [Claim("cluster.nodes", nodes, _CHUNKS if _CHUNKS in told else _NODES), *_gpus(parts, apart)]
    if placed & _WHOLE:
        claims.append(Claim("cluster.exclusive", setting_of(told[_PLACE], True), _PLACE))
    allocation = Member(literal_place(asked), {"nodes": nodes, "chunks": chunks})
    return Reading(
        LAYER, stretch(words, words[0].place), tuple(claims), collections={"launch.allocation": (allocation,)}
    )


def _is(value: Setting, number: int) -> bool:
    return isinstance(value, Value) and value.value == number


def _resources(words: Sequence[Word]) -> Iterator[_Resource]:
    """What the `-l` options list: `-l select=2:ngpus=4 -l place=scatter`, `-l nodes=2:ppn=4,walltime=1:00:00`."""
    for number, word in enumerate(words):
        if not word.shown.startswith("-l"):
            continue
        listed = word.part(2) if len(word.shown) > len("-l") else next(iter(words[number + 1 : number + 2]), None)
        for match in re.finditer(r"(?<!\w)(\w{1,40})=([^,]*)", listed.shown if listed is not None else ""):
            assert listed is not None
            yield _Resource(match[1], listed.part(*match.span(2)))


def _parts(asked: Word) -> Iterator[_Part]:
    """The parts of `2:ngpus=4+1:ngpus=2`."""
    for match in re.finditer(r"[^+]+", asked.shown):
        part = asked.part(*match.span())
        gpus = re.search(_GPUS, match[0])
        yield _Part(_chunks(part), part.part(*gpus.span(1)) if gpus is not None else None)


def _chunks(part: Word) -> Setting:
    """The number before a chunk: one where it begins with a resource or the name of a machine."""
    head = re.match(r"\d{1,6}(?=:|$)", part.shown)
    if head is not None:
        return integer(part.part(*head.span()))
    if re.match(r"[A-Za-z]", part.shown):
        return setting_of(part, 1)
    how = "write the number, or give it to qsub"
    return Unknown(f"{part.shown} tells no number of chunks", how, Origin("written", literal_place(part)))


def _total(parts: Sequence[_Part], asked: Word) -> Setting:
    """How many chunks there are in all."""
    counts = [part.chunks for part in parts]
    unknown = next((each for each in counts if not isinstance(each, Value)), None)
    if unknown is not None or not counts:
        return unknown or Unknown("no chunk is asked for")
    known = [each.value for each in counts if isinstance(each, Value) and isinstance(each.value, int)]
    return counts[0] if len(counts) == 1 else setting_of(asked, sum(known))


def _gpus(parts: Sequence[_Part], apart: bool) -> Iterator[Claim]:
    """The GPUs of a machine, where each chunk has a machine of its own and all have equally many."""
    words = [part.gpus for part in parts]
    first = words[0] if words else None
    if apart and first is not None and all(each is not None and each.shown == first.shown for each in words):
        yield Claim("cluster.gpus_per_node", integer(first), "ngpus")
