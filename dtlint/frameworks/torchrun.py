"""torchrun, `python -m torch.distributed.run` and `.launch`: the processes and the program that they start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import behind_program, stretch, texts, unknown_flag, with_options_behind
from dtlint.frameworks.interpreter import program_name, python_program
from dtlint.frameworks.options import Grammar, Option, Split, integer, literal_place, split_options, text_of, whole
from dtlint.frameworks.seen_devices import VISIBLE, seen
from dtlint.frameworks.torchrun_values import invalid_values
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.source import Edit, Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, default

LAYER = "torchrun"

_MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torch.distributed.launch"}
_FILES = {"distributed/run.py": "torchrun", "distributed/launch.py": "torch.distributed.launch"}

# Options of torch/distributed/run.py in torch 2.14.1, and the number of values that each takes; launch.py has one more.
_WITH_VALUE = (
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method "
    "event-log-handler role log-dir redirects tee local-ranks-filter node-rank master-addr master-port local-addr "
    "logs-specs numa-binding signals-to-handle shutdown-timeout duplicate-stdout-filters duplicate-stderr-filters"
)
_FLAGS = "standalone module no-python run-path virtual-local-rank help"


def _grammar(flags: str) -> Grammar:
    """Each name with dashes and with underscores, which are names of their own to argparse."""
    names = {**dict.fromkeys(_WITH_VALUE.split(), 1), **dict.fromkeys(flags.split(), 0)}
    spelled = {spelling: name for name in names for spelling in (name, name.replace("-", "_"))}
    short = {"m": "module", "r": "redirects", "t": "tee", "h": "help"}
    return Grammar(long=names, short=short, spelled=spelled, argparse=True)


GRAMMARS = {"torchrun": _grammar(_FLAGS), "torch.distributed.launch": _grammar(f"{_FLAGS} use-env")}

_DASHED = "2.0"
"""The torch release from which on the local rank is handed on with dashes (pytorch/pytorch#94505)."""

_OWN = ("nproc-per-node", "nnodes", "rdzv-backend", "rdzv-endpoint", "rdzv-id")
"""Options that no training script has too."""

_SPELLINGS = {
    "launch.nodes": "--nnodes",
    "launch.processes_per_node": "--nproc-per-node",
    "launch.node_rank": "--node-rank",
    "launch.rendezvous": "--rdzv-backend",
    "launch.rendezvous_host": "--rdzv-endpoint",
}


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is torchrun or one of the modules behind it."""
    return _launcher(words) is not None


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """What the launcher claims; `rest` is the script (or the module after -m) with its arguments.

    `env` gives the PET_ variables, which count where the command line is silent.
    """
    launcher, arguments = _launcher(words) or ("torchrun", tuple(words[1:]))
    split = split_options(arguments, GRAMMARS[launcher])
    written = _written(split, env, GRAMMARS[launcher])
    absent = _Absent(launcher, split.open)
    nodes = _node_count(written["nnodes"]) if "nnodes" in written else absent.otherwise(1)
    processes = absent.otherwise(1)
    if "nproc-per-node" in written:
        processes = _processes(written["nproc-per-node"], env.get(VISIBLE))
    claims = (
        Claim("launch.launcher", setting_of(words[0], launcher), words[0].shown),
        Claim("launch.nodes", nodes, "--nnodes"),
        Claim("launch.processes_per_node", processes, "--nproc-per-node"),
        *_rendezvous(written, absent),
    )
    named = words[len(words) - len(arguments) - 1]
    collections = _collections(split, written, launcher, named)
    return Reading(
        LAYER,
        stretch(arguments[: len(arguments) - len(split.rest)], words[0].place),
        claims,
        files=_program_file(split),
        rest=split.rest,
        open=split.open,
        collections={name: members for name, members in collections.items() if members},
    )


def spell(setting: str, value: object) -> str | None:
    """How a user writes a setting on torchrun's command line; None for a setting that it does not have."""
    flag = _SPELLINGS.get(setting)
    return None if flag is None else f"{flag} {value}"


def _launcher(words: Sequence[Word]) -> tuple[str, tuple[Word, ...]] | None:
    """The launcher's name and its arguments."""
    if words and program_name(words[0]) in ("torchrun", "torchrun.exe"):
        return "torchrun", tuple(words[1:])
    program = python_program(words)
    if program is None or not program.words:
        return None
    name = program.words[0].shown
    known = _MODULES if program.kind == "module" else _FILES
    launcher = next((known[each] for each in known if name == each or name.endswith("/" + each)), None)
    return None if launcher is None else (launcher, program.words[1:])


class _Absent(NamedTuple):
    """What holds for an option that is not written: the launcher's default, or unknown if the list is open."""

    launcher: str
    open: str

    def otherwise(self, value: Plain) -> Setting:
        """`value` by the launcher's default."""
        if self.open:
            return Unknown(f"hidden in the launcher's arguments: {self.open}", "--env NAME=VALUE")
        return default(value, self.launcher)


def _written(split: Split, env: Mapping[str, Word], grammar: Grammar) -> Mapping[str, Word]:
    """The value of each option that is given, the flag itself for one that takes none."""
    written = {
        name: env[variable]
        for name, takes in grammar.long.items()
        if (variable := _variable(name)) in env and (takes or whole(env[variable].text or "") != 0)
    }
    for option in split.options:
        written[option.name] = option.value or option.flag
    return written


def _variable(name: str) -> str:
    return "PET_" + name.upper().replace("-", "_")


def _node_count(word: Word) -> Setting:
    """`4` or `MIN:MAX`; a range of more than one size is elastic."""
    low, colon, high = (word.text or "").partition(":")
    if not colon:
        return integer(word)
    if low == high:
        return integer(word.part(0, len(low)))
    return Unknown(f"between {low} and {high} nodes join (elastic)", "--set launch.nodes=N", _origin(word))


def _processes(word: Word, visible: Word | None) -> Setting:
    """A number, or a word by which the launcher counts the devices that it sees: those of CUDA_VISIBLE_DEVICES, else
    the machine's.
    """
    if word.text is None or whole(word.text) is not None:
        return integer(word)
    if word.text in ("auto", "gpu") and visible is not None:
        return seen(visible) or integer(word)
    if word.text in ("cpu", "auto", "gpu", "xpu"):
        means = "" if word.text == "cpu" else "cluster.gpus_per_node"
        devices = "CPUs" if word.text == "cpu" else "devices"
        how = "--set cluster.gpus_per_node=N"
        return Unknown(f"`{word.text}`: one process for each of the machine's {devices}", how, _origin(word), means)
    return integer(word)


def _rendezvous(written: Mapping[str, Word], absent: _Absent) -> tuple[Claim, ...]:
    """How and where the processes meet; --standalone overrides what the other options say."""
    if "standalone" in written:
        flag = written["standalone"]
        return (
            Claim("launch.rendezvous", setting_of(flag, "c10d"), "--standalone"),
            Claim("launch.rendezvous_host", setting_of(flag, "localhost"), "--standalone"),
        )
    endpoint, address = written.get("rdzv-endpoint"), written.get("master-addr")
    if _alone(written) and not absent.open:
        return ()
    backend = text_of(written["rdzv-backend"]) if "rdzv-backend" in written else absent.otherwise("static")
    claims = [Claim("launch.rendezvous", backend, "--rdzv-backend")]
    if endpoint is not None:
        claims.append(Claim("launch.rendezvous_host", text_of(_host(endpoint)), "--rdzv-endpoint"))
    elif isinstance(backend, Value) and backend.value == "static":
        host = text_of(address) if address is not None else absent.otherwise("127.0.0.1")
        claims.append(Claim("launch.rendezvous_host", host, "--master-addr"))
    elif isinstance(backend, Value) and backend.value == "c10d":
        claims.append(Claim("launch.rendezvous_host", absent.otherwise("localhost"), "--rdzv-endpoint"))
    rank = written.get("node-rank")
    if rank is not None:
        claims.append(Claim("launch.node_rank", integer(rank), "--node-rank"))
    return tuple(claims)


def _alone(written: Mapping[str, Word]) -> bool:
    """Whether one node meets itself, at a fixed port or, in newer releases (torch 2.13), a free one."""
    told = ("rdzv-backend", "rdzv-endpoint", "master-addr", "master-port", "node-rank")
    nodes = written.get("nnodes")
    return not any(name in written for name in told) and (nodes is None or (nodes.text or "") in ("1", "1:1"))


def _host(endpoint: Word) -> Word:
    """HOST of HOST:PORT."""
    port = re.search(r":[\d?]*$", endpoint.shown)
    return endpoint.part(0, port.start()) if port else endpoint


def _program_file(split: Split) -> tuple[NamedFile, ...]:
    if not split.rest:
        return ()
    role = "module" if split.last("module") else "script"
    return (NamedFile("program" if split.last("no-python") else role, split.rest[0]),)


def _collections(
    split: Split, written: Mapping[str, Word], launcher: str, named: Word
) -> Mapping[str, tuple[Member, ...]]:
    return {
        "config.unknown": tuple(_unknown_member(option, launcher) for option in split.unknown),
        "config.invalid": tuple(invalid_values(split, written)),
        "config.refused": tuple(_refused(split, launcher)),
        "launch.elastic": _elastic(written.get("nnodes")),
        "launch.lost": tuple(_lost(split, written, GRAMMARS[launcher])),
        "launch.bindings": _virtual_ranks(split),
        "launch.handed": tuple(_handed(split, launcher, named)),
    }


def _lost(split: Split, written: Mapping[str, Word], grammar: Grammar) -> Iterator[Member]:
    meant = with_options_behind(split, _OWN, grammar)
    behind = {option.name: option.value for option in meant.options if option.value is not None}
    return behind_program(split, _OWN, _count(written), _count({**written, **behind}))


def _count(written: Mapping[str, Word]) -> int:
    """The processes that options make, one where nothing is said; 0 where that is not known."""
    given = (written.get(name) for name in ("nnodes", "nproc-per-node"))
    return prod(1 if word is None else whole(word.text or "") or 0 for word in given)


def _handed(split: Split, launcher: str, named: Word) -> Iterator[Member]:
    """Members of `launch.handed`, the words that the old launcher puts before the program's own: the local rank, in one
    spelling up to torch 1.13 and in the other since (torch/distributed/run.py, get_args and config_from_args).
    """
    if launcher != "torch.distributed.launch" or split.open or split.last("use-env") is not None:
        return
    place = literal_place(named)
    edit = Edit(Span(place.source, place.end, place.end), " --use_env")
    for key, since, until in (("--local-rank", _DASHED, ""), ("--local_rank", "", _DASHED)):
        fields = texts(place, key=key, since=since, until=until, by=launcher, keep="--use_env")
        yield Member(place, fields, (), {"keep": (edit,)})


def _virtual_ranks(split: Split) -> tuple[Member, ...]:
    """--virtual-local-rank, under which each process sees its own GPU only: `gpus_per_task`, `option`, `by`."""
    option = split.last("virtual-local-rank")
    if option is None:
        return ()
    fields = {**texts(option.place, option=option.spelled, by="name"), "gpus_per_task": setting_of(option.flag, 1)}
    return (Member(option.place, fields),)


def _unknown_member(option: Option, launcher: str) -> Member:
    return unknown_flag(option, ["--" + name for name in GRAMMARS[launcher].long], launcher, "refused")


def _refused(split: Split, launcher: str) -> Iterator[Member]:
    """Members of `config.refused`: a program that is both a module and no Python, and, under the old launcher, one
    that is no Python and is to be told its rank by an argument.
    """
    alone, module = split.last("no-python"), split.last("module")
    if alone is None or split.open:
        return
    if module is not None and split.last("run-path") is None:
        fields = {"relation": "excludes", "partner": module.spelled, "reason": "a module is run by Python"}
        related = ((module.place, "refused beside it"),)
        yield Member(alone.place, texts(alone.place, key=alone.spelled, since="", **fields), related)
    if launcher == "torch.distributed.launch" and split.last("use-env") is None:
        fields = {"relation": "needs", "partner": "--use-env", "reason": "only Python scripts are given --local-rank"}
        yield Member(alone.place, texts(alone.place, key=alone.spelled, since="", **fields))


def _elastic(word: Word | None) -> tuple[Member, ...]:
    """A range of node counts, as a member with the fields `minimum` and `maximum`."""
    low, colon, high = (word.text or "" if word is not None else "").partition(":")
    if word is None or not colon or low == high:
        return ()
    fields = {"minimum": integer(word.part(0, len(low))), "maximum": integer(word.part(len(low) + 1))}
    return (Member(literal_place(word), fields),)


def _origin(word: Word) -> Origin:
    return Origin("written", literal_place(word))
