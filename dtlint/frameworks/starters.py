"""Commands that start a launch on other machines: srun, mpirun, ssh and their like."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.interpreter import LAUNCHERS, program_name, python_program
from dtlint.languages.traced import Command, Word, setting_of
from dtlint.source import Span

STARTERS = frozenset(
    (
        "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun", "ssh", "pdsh", "clush", "dsh",
        "parallel", "jsrun", "aprun", "ray", "kubectl", "xargs", "blaunch", "pbsdsh", "pbs_tmrsh",
    )
)  # fmt: skip
CARRIED = "launch.carried"
"""The collection of what other machines run beside a launch."""
_REMOTE = frozenset(
    (
        "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "ssh", "pdsh", "clush", "dsh", "jsrun", "aprun",
        "blaunch", "pbsdsh", "pbs_tmrsh",
    )
)  # fmt: skip
"""Starters of commands on machines of the same job."""
_SHELLS = frozenset(("bash", "sh", "zsh"))
_LOOKING = frozenset(
    (
        "hostname", "nvidia-smi", "rocm-smi", "mkdir", "cp", "rm", "mv", "ls", "cat", "rsync", "tar", "df", "free",
        "kill", "pkill", "killall", "uptime", "date", "ip", "ifconfig", "printenv", "touch", "chmod", "ln", "sleep",
        "true", "awk", "grep", "ping", "which", "cd", "export", "echo", "lscpu", "ss", "netstat", "ibstat", "wget",
        "curl", "pip", "sbcast", "test", "[", "getent", "nproc", "ulimit", "uname", "ps",
    )
)  # fmt: skip
"""Commands that look at a machine, or make it ready, and start nothing that stays."""
_RANK_FLAGS = ("--node-rank", "--machine-rank")
_BACKEND_FLAG, _TOLD_RANKS = "--rdzv-backend", "static"
_PORT_FLAGS = ("--master-port", "--rdzv-endpoint", "--main-process-port")
_UNASKED_PORT = "29500"
"""The port where deepspeed is given none (deepspeed/launcher/runner.py), and torchrun on one node before torch 2.13."""
_FREE_SINCE = "2.13"
_OWN_NETWORK = frozenset(("docker", "podman", "nvidia-docker"))
"""Programs whose containers have ports of their own, unless they are given the network of the machine."""
_MEETS = ("--standalone", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-conf", "--master-port", "--nnodes")
_WORDS_BEFORE = 4
"""Words of a command among which the launcher is named: `python3 -u -m torch.distributed.run`."""
_OF_TORCH = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_RUN_NAME = "--rdzv-id"
_HOST_FLAGS = ("--rdzv-endpoint", "--master-addr", "--main-process-ip")
_THIS_HOST = "cluster.this_host"
_PER_TASK = {
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "OMPI_COMM_WORLD_RANK": "nothing",
    "OMPI_COMM_WORLD_NODE_RANK": "nothing",
    "PMIX_RANK": "nothing",
    "PMI_RANK": "nothing",
}
"""Variables that every task has a value of its own for, and what they are in the script that starts the tasks."""
_OF_TASKS = frozenset(("srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun"))
"""Starters of tasks that have such variables."""


def read(command: Command) -> Reading:
    """What starts a command on other machines.

    Collections: `launch.starters` (`name`), and `launch.same_rank` (`name`, `variable`, `cause`, `got`): a node rank
    that is a number (constant), or a variable that the script that calls srun or mpirun expands (early): every task
    gets the same, `got`; `launch.own_hosts` (`name`): an address that each task asks its own machine for; and
    `launch.ports` (`port`, `until`, `stays`): a port of this machine on which the launch listens, the release of torch
    that takes a free one instead, "" for none, and whether the script goes on meanwhile (yes, no).
    """
    words = [(wrapper.argv[0], wrapper) for wrapper in (*command.wrapper, command) if wrapper.argv]
    starters = tuple(_starter(word) for word, _ in words if program_name(word) in STARTERS)
    collections = {
        "launch.starters": starters,
        "launch.same_rank": tuple(_same_rank(command)),
        "launch.own_hosts": tuple(_own_hosts(command)),
        "launch.ports": () if starters or _has_own_ports(command) else tuple(_ports(command)),
    }
    return Reading("starters", collections={name: found for name, found in collections.items() if found})


def carried(commands: Sequence[Command], background: bool) -> tuple[Member, ...]:
    """What a script has other machines run beside a launch of its own, which may await it; `background`: whether the
    script goes on behind the launch.
    """
    return tuple(Member(each.place, {}) for each in commands if _may_accompany(each, background))


def _may_accompany(command: Command, background: bool) -> bool:
    """Whether a command of other machines may run at the same time as a launch. A launcher or a program that the script
    waits for has ended before; a script may leave something behind.
    """
    around = _started_by(command, _REMOTE)
    if around is None:
        return False
    names = {posixpath.basename(part) for word in command.argv for part in word.shown.split()}
    starts = bool(names & (LAUNCHERS | _SHELLS))
    if names & _LOOKING and not starts:
        return False
    together = background or any(each.background for each in (command, *command.wrapper))
    left = any(word.shown in ("-f", "&") or word.shown.endswith("&") for word in (*around.argv, *command.argv))
    waits = names & LAUNCHERS or python_program(command.argv) is not None or any(map(_is_interpreter, names))
    return together or left or not waits


def _is_interpreter(name: str) -> bool:
    return name.startswith("python")


def _starter(word: Word) -> Member:
    return Member(word.place, {"name": setting_of(word, program_name(word))})


def _same_rank(command: Command) -> Iterator[Member]:
    """Ranks of a launch that srun starts on all nodes, or mpirun: numbers (srun's alone, which needs no list of nodes),
    and variables that the batch script expands.
    """
    starter = _started_by(command, _OF_TASKS)
    if starter is None or any(_picks_nodes(word.shown) for word in starter.argv):
        return
    if numbers_nodes_itself(command.argv):
        return
    given = [*ranks(command.argv)]
    for flag, value in given[-1:]:
        variable = _expanded_early(value, starter)
        number = value.text if value.text is not None and value.text.isdecimal() and _srun(command) is not None else ""
        if variable or number:
            fields = texts(value.place, name=flag, variable=variable or number, got=_PER_TASK.get(variable, number))
            fields |= texts(value.place, cause="early" if variable else "constant")
            before = tuple((word.place, "written before, without effect") for _, word in given[:-1])
            yield Member(value.place, fields, before)


def _srun(command: Command) -> Command | None:
    """The srun that starts a launch: the command itself, or what its text is handed to (`srun bash -c '...'`)."""
    return _started_by(command, frozenset(("srun",)))


def _started_by(command: Command, starters: frozenset[str]) -> Command | None:
    """The command itself or what its text is handed to, where that is one of some starters."""
    return next(
        (each for each in (command, *command.wrapper) if each.argv and program_name(each.argv[0]) in starters), None
    )


def _own_hosts(command: Command) -> Iterator[Member]:
    """Addresses that are the output of `hostname` in a text or script which srun hands to every task."""
    srun = _srun(command)
    if srun is None:
        return
    for flag, value in _valued(command.argv):
        own = [piece.span for piece in value.pieces if piece.text is None and piece.means == _THIS_HOST]
        if flag.replace("_", "-") in _HOST_FLAGS and any(_is_asked_by_tasks(span, command, srun) for span in own):
            yield Member(value.place, texts(value.place, name=flag))


def _is_asked_by_tasks(asked: Span, command: Command, srun: Command) -> bool:
    """Whether every task of an srun asks: in a text that it is handed, or in the script that it starts, beside the
    launch.
    """
    script = command.argv[0].place.source
    if asked.source is script and script is not srun.argv[0].place.source:
        return True
    handed = (piece.span for word in srun.argv for piece in word.pieces if piece.text is not None)
    return any(_holds(span, asked) for span in handed)


def _holds(outer: Span, inner: Span) -> bool:
    return outer.source is inner.source and outer.start <= inner.start < outer.end


def _picks_nodes(word: str) -> bool:
    """Whether an option of srun picks one node."""
    return word in ("-w", "-N1") or word.startswith(("--nodelist", "--nodes=1", "-w", "--relative"))


def _expanded_early(value: Word, starter: Command) -> str:
    """The variable of a task that stands for a rank and that a starter's own words, or the variables that it hands on,
    hold no more; "" if it is none.
    """
    words = (*starter.argv, *starter.env.values())
    early = {(piece.span.path, piece.span.start) for word in words for piece in word.pieces if piece.text is None}
    for piece in value.pieces:
        if piece.text is None and (piece.span.path, piece.span.start) in early:
            return next((name for name in _PER_TASK if name in piece.span.text), "")
    return ""


def _ports(command: Command) -> Iterator[Member]:
    """The port that the words name, the last one counting; else the one that the launcher takes. Runs of c10d share a
    port where each has a name of its own.
    """
    if any(flag.replace("_", "-") == _RUN_NAME for flag, _ in _valued(command.argv)):
        return
    found = [word for flag, word in _valued(command.argv) if flag.replace("_", "-") in _PORT_FLAGS]
    if not found and command.argv:
        yield from _unasked_port(command)
    for word in found[-1:]:
        port = (word.text or "").rpartition(":")[2]
        if port.isdecimal() and port != "0":
            yield _port(command, word, port, "")


def _has_own_ports(command: Command) -> bool:
    """Whether a container with a network of its own runs the command."""
    words = [word.shown for each in (*command.wrapper, command) for word in each.argv]
    inside = any(word.rpartition("/")[2] in _OWN_NETWORK for word in words)
    return inside and not any(word in ("host", "--net=host", "--network=host") for word in words)


def _unasked_port(command: Command) -> Iterator[Member]:
    """The port of deepspeed, and of torchrun on one node where nothing says how its processes meet."""
    first = command.argv[0]
    if program_name(first) == "deepspeed":
        yield _port(command, first, _UNASKED_PORT, "")
        return
    words = [word.shown for word in command.argv[:_WORDS_BEFORE]]
    launcher = program_name(first) if len(words) > 1 and program_name(first) == "torchrun" else ""
    launcher = launcher or next((name for name in words if name in _OF_TORCH), "")
    flags = {word.shown.partition("=")[0].replace("_", "-") for word in command.argv}
    hidden = any(word.many or (word.text is None and not word.shown.startswith("--")) for word in command.argv)
    if launcher and not hidden and flags.isdisjoint(_MEETS):
        yield _port(command, first, _UNASKED_PORT, _FREE_SINCE)


def _port(command: Command, word: Word, port: str, until: str) -> Member:
    return Member(word.place, texts(word.place, port=port, until=until, stays="yes" if command.background else "no"))


def ranks(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """The flags of a launch that give the node its number, each with its value."""
    return ((flag, word) for flag, word in _valued(words) if flag.replace("_", "-") in _RANK_FLAGS)


def numbers_nodes_itself(words: Sequence[Word]) -> bool:
    """Whether a launch's rendezvous gives the nodes their numbers: every backend but the static one takes no node rank
    (config_from_args of torch/distributed/run.py). One that is not known may.
    """
    given = [word for flag, word in _valued(words) if flag.replace("_", "-") == _BACKEND_FLAG]
    return bool(given) and given[-1].text != _TOLD_RANKS


def _valued(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Each long option with its value, behind it or behind its `=`."""
    for index, word in enumerate(words):
        head, equals, _ = word.shown.partition("=")
        if not head.startswith("--"):
            continue
        if equals:
            yield head, word.part(len(head) + 1)
        elif index + 1 < len(words):
            yield head, words[index + 1]
