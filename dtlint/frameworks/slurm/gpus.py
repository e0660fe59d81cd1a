"""The GPUs that Slurm options ask for, per node, and their type."""

from __future__ import annotations

import re

from dtlint.frameworks import Claim
from dtlint.frameworks.cards import card_claims
from dtlint.frameworks.options import Option, Split, integer, literal_place, whole
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.value import Origin, Setting, Unknown

_GPU = r"(?:gres[/:])?gpu(?![\w-])"


class _Request(NamedTuple):
    """A number of GPUs as an option writes it: the stretches of its word that hold the count and the type."""

    option: Option
    amount: Word | None
    kind: Word | None


def gpu_claims(split: Split) -> tuple[Claim, ...]:
    """cluster.gpus_per_node and cluster.gpu, as far as the options tell."""
    claims: list[Claim] = []
    requests = _requests(split)
    if requests:
        count = _per_node(requests[-1], split)
        claims.append(Claim("cluster.gpus_per_node", count, "--" + requests[-1].option.name))
    named = next((found for request in requests if (found := _gpu_type(request))), ()) or _constraint(split)
    return (*claims, *named)


def whole_nodes(split: Split) -> tuple[Claim, ...]:
    """cluster.exclusive: `--exclusive` gives a job all GPUs of its nodes; the number asked for is the least."""
    option = split.last("exclusive")
    if option is None or option.value is not None:
        return ()
    return (Claim("cluster.exclusive", setting_of(option.flag, True), "--exclusive"),)


def _requests(split: Split) -> list[_Request]:
    """Every option that asks for GPUs; those that count per node stand last, as they tell most directly."""
    found: list[_Request] = []
    for name in ("gpus", "gpus-per-task", "tres-per-task", "gres", "gpus-per-node"):
        option = split.last(name)
        if option is not None and option.value is not None:
            listed = name in ("gres", "tres-per-task")
            found.extend(_listed(option, option.value) if listed else [_request(option, option.value)])
    return found


def _listed(option: Option, word: Word) -> list[_Request]:
    """The gpu entries of `gpu:a100:8,shard:2`."""
    found: list[_Request] = []
    start = 0
    for entry in word.shown.split(","):
        match = re.match(_GPU, entry)
        if match:
            rest = start + match.end() + entry.startswith((":", "="), match.end())
            found.append(_request(option, word.part(rest, start + len(entry))))
        start += len(entry) + 1
    return found


def _request(option: Option, word: Word) -> _Request:
    """`8`, `a100:8`, `a100`, with a socket note `(S:0)` behind."""
    shown = word.shown.partition("(")[0]
    kind, colon, _ = shown.rpartition(":")
    if colon:
        return _Request(option, word.part(len(kind) + 1, len(shown)), word.part(0, len(kind)))
    if not shown:
        return _Request(option, None, None)
    if shown[0].isdecimal() or not shown[0].isalpha():
        return _Request(option, word.part(0, len(shown)), None)
    return _Request(option, None, word.part(0, len(shown)))


def _per_node(request: _Request, split: Split) -> Setting:
    """GPUs per node: as counted, or by the totals' own arithmetic."""
    name = request.option.name
    count = integer(request.amount) if request.amount is not None else setting_of(request.option.flag, 1)
    if isinstance(count, Unknown) or request.amount is None or name in ("gres", "gpus-per-node"):
        return count
    total = whole(request.amount.text or "") or 0
    if name == "gpus":
        return _shared_out(request.amount, total, _given(split, "nodes"))
    tasks = _tasks_of_a_node(split)
    if tasks is None:
        why = "GPUs per task are given, but not the tasks of a node"
        return Unknown(why, "--set cluster.gpus_per_node=N", Origin("written", literal_place(request.amount)))
    return setting_of(request.amount, total * tasks)


def _shared_out(word: Word, total: int, nodes: int | None) -> Setting:
    """A total over all nodes."""
    if nodes and total % nodes == 0:
        return setting_of(word, total // nodes)
    origin = Origin("written", literal_place(word))
    spread = f"over {nodes} nodes" if nodes else "over as many nodes as Slurm chooses"
    return Unknown(f"--gpus={total} is the total {spread}", "--set cluster.gpus_per_node=N", origin)


def _tasks_of_a_node(split: Split) -> int | None:
    """Tasks on each node: the total decides; without any number Slurm starts one on each node."""
    total, nodes = _given(split, "ntasks"), _given(split, "nodes")
    if total is not None and nodes:
        return total // nodes if total % nodes == 0 else None
    if split.last("ntasks-per-node") is not None:
        return _given(split, "ntasks-per-node")
    return 1 if split.last("ntasks") is None else total if total == 1 else None


def _given(split: Split, name: str) -> int | None:
    option = split.last(name)
    return whole(option.value.text or "") if option is not None and option.value is not None else None


def _gpu_type(request: _Request) -> tuple[Claim, ...]:
    return card_claims(request.kind, "--" + request.option.name) if request.kind is not None else ()


def _constraint(split: Split) -> tuple[Claim, ...]:
    """`--constraint=a100`, `h100&ib`: the one feature that names a GPU; alternatives tell nothing."""
    option = split.last("constraint")
    if option is None or option.value is None or "|" in option.value.shown:
        return ()
    features = re.finditer(r"[\w.-]+", option.value.shown)
    found = [card_claims(option.value.part(*feature.span()), "--constraint") for feature in features]
    named = [claims for claims in found if claims]
    return named[0] if len(named) == 1 else ()
