"""`colossalai run`: it starts torchrun on this machine, or by ssh on each of those that it is told.

hpcaitech/ColossalAI 4f9953b colossalai/cli/launcher/__init__.py and run.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.options import Grammar, Split, integer, literal_place, split_options
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Setting, Unknown, default

LAYER = "torchrun"

_TOOL = "colossalai run"
_OPTIONS = (
    "host hostfile include exclude num-nodes nproc-per-node master-port master-addr extra-launch-args ssh-port module"
)
_GRAMMAR = Grammar(
    long=dict.fromkeys(_OPTIONS.split(), 1), short={"H": "host", "m": "module"}, dashed=frozenset({"host"})
)
_ON_OTHERS = ("host", "hostfile")


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is ColossalAI's launcher."""
    return len(words) > 1 and program_name(words[0]) == "colossalai" and words[1].text == "run"


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """The torchrun that it starts; `rest` is the script with its arguments, which for a module stands behind -m."""
    arguments = tuple(words[2:])
    split = split_options(arguments, _GRAMMAR)
    module = split.last("module")
    program = (module.value, *split.rest) if module is not None and module.value is not None else split.rest
    files = (NamedFile("module" if module is not None else "script", program[0]),) if program else ()
    return Reading(
        LAYER,
        stretch(arguments[: len(arguments) - len(split.rest)], words[0].place),
        tuple(_claims(words[0], split)),
        files=files,
        rest=program,
        open=split.open,
        collections=_starters(split),
    )


def _claims(command: Word, split: Split) -> Iterator[Claim]:
    yield Claim("launch.launcher", setting_of(command, "torchrun"), command.shown)
    yield Claim("launch.nodes", _nodes(split), "--host")
    each = split.last("nproc-per-node")
    if each is not None and each.value is not None:
        yield Claim("launch.processes_per_node", integer(each.value), each.spelled)


def _nodes(split: Split) -> Setting:
    """As many as --host names; of a host file as many as --num_nodes says at most."""
    hosts, count = split.last("host"), split.last("num-nodes")
    if hosts is not None and hosts.value is not None:
        text = hosts.value.text
        unknown = Unknown(f"the machines of {hosts.spelled} are not known", "--set launch.nodes=N")
        return unknown if text is None else setting_of(hosts.value, len(text.strip(",").split(",")))
    if split.last("hostfile") is not None:
        given = count.value if count is not None else None
        return integer(given) if given is not None else Unknown("the host file says", "--set launch.nodes=N")
    hidden = Unknown(f"hidden in the launcher's arguments: {split.open}", "--set launch.nodes=N")
    return hidden if split.open else default(1, _TOOL)


def _starters(split: Split) -> Mapping[str, tuple[Member, ...]]:
    """The ssh that carries the launch to the other machines."""
    told = next((option for name in _ON_OTHERS if (option := split.last(name)) is not None), None)
    if told is None:
        return {}
    place = literal_place(told.flag)
    return {"launch.starters": (Member(place, texts(place, name="ssh")),)}
