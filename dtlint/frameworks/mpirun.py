"""mpirun, mpiexec and horovodrun: how many processes they start, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.options import Grammar, Split, integer, split_options
from dtlint.frameworks.tasks import are_processes
from dtlint.languages.traced import Word, setting_of
from dtlint.source import Source
from dtlint.value import Origin, Value

_ONE = (
    "np n c N npernode n-per-node ppn perhost ntasks-per-node map-by bind-to rank-by H host hosts hostfile machinefile "
    "f x wdir wd app output-filename rankfile path prefix tag-output-to report-pid cpus-per-proc cpus-per-rank "
    "start-timeout network-interfaces p ssh-port hosts-file bootstrap iface launcher genvlist envlist cpu-set "
    "cpu-list timeout stdin dvm personality"
)
_TWO = "mca gmca pmixmca prtemca omca genv env"
_NONE = (
    "allow-run-as-root oversubscribe nooversubscribe bind-to-core bind-to-socket bind-to-none bycore bysocket bynode "
    "byslot display-map display-allocation report-bindings tag-output timestamp-output v verbose q quiet h help V "
    "version genvall gloo mpi use-gloo use-mpi disable-cache l nolocal pernode s"
)
_NAMES = {**dict.fromkeys(_ONE.split(), 1), **dict.fromkeys(_TWO.split(), 2), **dict.fromkeys(_NONE.split(), 0)}
GRAMMAR = Grammar(_NAMES, dashed=frozenset(_NAMES), pairs=frozenset(("env", "genv")))
_OVER = ("oversubscribe", "map-by", "app", "rankfile")
_OF_MPICH = ("ppn", "perhost", "hosts", "f", "genv", "genvlist", "genvall", "bootstrap", "iface")
"""Options by which more processes than slots may start: told so, laid out in a way that is not read, or by MPICH."""
_HOST_LINE = r"(?m)^[ \t]*(?P<name>[\w.-]+)(?:(?::|[ \t]+slots[ \t]*=[ \t]*)(?P<slots>\d{1,6}))?\b"
_PER_RESOURCE = r"ppr:(\d+):node"


def read_launch(words: Sequence[Word]) -> Reading:
    """What the launcher claims; `rest` is the command that each process runs.

    The number of processes is claimed only where they are the training's: no launcher starts further ones.
    """
    split = split_options(words[1:], GRAMMAR)
    claims = (*_processes(words[0], split), *_per_node(split), *_hosts(split))
    place = stretch(words[: len(words) - len(split.rest)], words[0].place)
    over = "yes" if any(split.last(name) is not None for name in (*_OVER, *_OF_MPICH)) else "no"
    tasks = {"launch.tasks": (Member(words[0].place, texts(words[0].place, limited="no", over=over)),)}
    return Reading("mpirun", place, claims, _hostfile(split), split.rest, open=split.open, collections=tasks)


def read_hostfile(source: Source, launch: Sequence[Claim]) -> Reading:
    """What a host file tells of an mpirun, beside what its words claim: the machines, and the processes on each.

    Lines are `NAME slots=N` (Open MPI) or `NAME:N` (MPICH). Without a number Open MPI counts cores, and how the
    processes spread stays open.
    """
    hosts = [found for line in re.finditer(_HOST_LINE, source.text) if (found := line.group("name", "slots"))]
    place = source.span(0, len(source.text))
    told = {claim.setting: claim.value for claim in launch}
    counts = {slots for _, slots in hosts}
    if not hosts or (None in counts and "launch.tasks_per_node" not in told):
        return Reading("mpirun-hostfile", place)
    origin = Origin("written", place)
    claims = [Claim("cluster.nodes", Value(len({name for name, _ in hosts}), origin), "--hostfile")]
    if "launch.tasks_per_node" not in told and len(counts) == 1:
        each, total = int(counts.pop() or 0), told.get("launch.processes")
        most = total.value if isinstance(total, Value) and isinstance(total.value, int) else each
        claims.append(Claim("launch.tasks_per_node", Value(min(each, most), origin), "--hostfile"))
    return Reading("mpirun-hostfile", place, tuple(claims))


def _processes(name: Word, split: Split) -> list[Claim]:
    """The claims of an mpirun whose processes train."""
    if not are_processes(split.rest):
        return []
    launcher, count = Claim("launch.launcher", setting_of(name, "mpi"), name.shown), _first(split, "np", "n", "c")
    return [launcher] if count is None else [launcher, Claim("launch.processes", integer(count), "-np")]


def _first(split: Split, *names: str) -> Word | None:
    return next((option.value for name in names if (option := split.last(name)) is not None), None)


def _per_node(split: Split) -> list[Claim]:
    word = _first(split, "N", "npernode", "n-per-node", "ppn", "perhost", "ntasks-per-node")
    if word is not None:
        return [Claim("launch.tasks_per_node", integer(word), "--npernode")]
    mapping = _first(split, "map-by")
    match = re.match(_PER_RESOURCE, mapping.text or "") if mapping is not None else None
    if mapping is None or match is None:
        return []
    return [Claim("launch.tasks_per_node", integer(mapping.part(*match.span(1))), "--map-by")]


def _hosts(split: Split) -> list[Claim]:
    """`-H a:8,b:8`: two nodes, eight processes each."""
    word = _first(split, "H", "host", "hosts")
    if word is None:
        return []
    if word.text is None:
        return [Claim("cluster.nodes", integer(word), "-H")]
    hosts = [host for host in word.text.split(",") if host]
    names = {host.partition(":")[0] for host in hosts}
    claims = [Claim("cluster.nodes", setting_of(word, len(names)), "-H")]
    slots = {host.partition(":")[2] for host in hosts}
    count = _slots(slots)
    if count is not None and len(names) == len(hosts):
        claims.append(Claim("launch.tasks_per_node", setting_of(word, count), "-H"))
    return claims


def _slots(slots: set[str]) -> int | None:
    only = next(iter(slots)) if len(slots) == 1 else ""
    return int(only) if only.isdecimal() and len(only) < 6 else None


def _hostfile(split: Split) -> tuple[NamedFile, ...]:
    word = _first(split, "hostfile", "machinefile", "f")
    return (NamedFile("hostfile", word),) if word is not None else ()
