"""Slurm: what #SBATCH lines allocate, and what srun starts on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import meant, misspelt_flag, stretch, texts
from dtlint.frameworks.mounts import mounts
from dtlint.frameworks.options import Option, Split, integer, literal_place, split_options, text_of, whole
from dtlint.frameworks.slurm.bindings import bindings
from dtlint.frameworks.slurm.gpus import gpu_claims, whole_nodes
from dtlint.frameworks.slurm.grammar import GRAMMAR, OF_SBATCH
from dtlint.frameworks.tasks import are_processes
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Setting, Unknown, Value

_SPELLINGS = {
    "cluster.nodes": "--nodes",
    "cluster.gpus_per_node": "--gpus-per-node",
    "launch.tasks_per_node": "--ntasks-per-node",
    "launch.processes": "--ntasks",
}

_MACHINES = (
    "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus", "gpus-per-node", "gpus-per-task", "gres",
    "tres-per-task",
)  # fmt: skip
"""Options that say on how many machines, tasks and GPUs a job runs."""


def read_directives(words: Sequence[Word], late: Sequence[Sequence[Word]] = ()) -> Reading:
    """What the words of a script's #SBATCH lines allocate. Variables in them are literal: Slurm expands none.

    `late` are the words of lines that stand too low to be read.
    """
    kept = _without_comments(words)
    if not kept:
        return Reading("sbatch")
    split = _each_line(kept)
    place = stretch(kept, kept[0].place)
    mark = next((word for word in split.rest if word.text in ("hetjob", "packjob")), None)
    if mark is not None:
        return Reading("sbatch", place, _heterogeneous(mark))
    collections = {
        "launch.tasks": _untold_tasks(kept[0], split),
        **_collections(split, "sbatch"),
        "launch.allocation": (_step(_first_of(kept, split), split),),
        "launch.lost": tuple(_late(late)),
        "launch.unsaid_nodes": _unsaid_nodes(kept[0], split),
        **mounts(split),
    }
    return Reading("sbatch", place, _allocation(split), _image(split), collections=collections)


def _image(split: Split) -> tuple[NamedFile, ...]:
    """The container image that every task runs in."""
    option = split.last("container-image")
    return (NamedFile("image", option.value),) if option is not None and option.value is not None else ()


def read_srun(words: Sequence[Word]) -> Reading:
    """What srun starts: tasks and where; `rest` is the command that each task runs.

    The tasks themselves are the training processes if they run a Python program directly.
    """
    split = split_options(words[1:], GRAMMAR)
    return Reading(
        "srun",
        stretch(words[: len(words) - len(split.rest)], words[0].place),
        (*_tasks(split), *gpu_claims(split), *_direct(words[0], split)),
        _image(split),
        rest=split.rest,
        open=split.open,
        collections={**_collections(split, "srun"), "launch.steps": (_step(words[0], split),), **mounts(split)},
    )


def spell(setting: str, value: object) -> str | None:
    """How a user writes a setting for sbatch or srun; None for a setting that they do not have."""
    flag = _SPELLINGS.get(setting)
    return None if flag is None else f"{flag}={value}"


def _late(lines: Sequence[Sequence[Word]]) -> Iterator[Member]:
    """Lines below the first command that ask for nodes, tasks or GPUs, as members of `launch.lost`: `words`, `cause`
    (late).
    """
    for line in lines:
        kept = _without_comments(line)
        asked = next((option for option in split_options(kept, OF_SBATCH).options if option.name in _MACHINES), None)
        if asked is not None:
            shown = " ".join(word.shown for word in kept)
            yield Member(asked.place, texts(asked.place, words=shown, cause="late"))


def _without_comments(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words without the #SBATCH marks and without what follows a `#` on its line."""
    kept: list[Word] = []
    silent = ("", 0)
    for word in words:
        text, line = word.shown, (word.place.path, word.place.line)
        if text.startswith("#") and text != "#SBATCH":
            silent = line
        if line != silent and text != "#SBATCH":
            kept.append(word)
    return tuple(kept)


def _each_line(words: Sequence[Word]) -> Split:
    """The options of all lines; what sbatch would not take in one line (`rest`) hides none of the next."""
    lines: dict[tuple[str, int], list[Word]] = {}
    for word in words:
        lines.setdefault((word.place.path, word.place.line), []).append(word)
    splits = [split_options(line, OF_SBATCH) for line in lines.values()]
    return Split(
        tuple(option for split in splits for option in split.options),
        tuple(option for split in splits for option in split.unknown),
        tuple(word for split in splits for word in split.rest),
        next((split.open for split in splits if split.open), ""),
    )


def _heterogeneous(mark: Word) -> tuple[Claim, ...]:
    origin = Origin("written", literal_place(mark))
    reason = "a heterogeneous job: its components ask for different machines"
    return tuple(
        Claim(setting, Unknown(reason, f"--set {setting}=N", origin), "#SBATCH hetjob")
        for setting in ("cluster.nodes", "cluster.gpus_per_node", "launch.tasks_per_node")
    )


def _allocation(split: Split) -> tuple[Claim, ...]:
    nodes = _nodes(split)
    named = () if nodes is None else (Claim("cluster.nodes", nodes, "--nodes"),)
    return (*named, *gpu_claims(split), *whole_nodes(split), *_tasks(split))


def _nodes(split: Split) -> Setting | None:
    """The nodes asked for, else what Slurm makes of the tasks; None where the lines ask for neither.

    (Slurm's default is then one node, but scripts without --nodes are often submitted with `sbatch --nodes=N`.)
    """
    option = split.last("nodes")
    if option is not None:
        return _node_count(option.value)
    tasks, per_node = _number(split, "ntasks"), _number(split, "ntasks-per-node")
    total = split.last("ntasks")
    if total is None:
        return None
    if tasks and per_node and total.value is not None:
        return setting_of(total.value, -(-tasks // per_node))
    if tasks == 1 and total.value is not None:
        return setting_of(total.value, 1)
    return Unknown(
        f"no --nodes: Slurm may spread the {tasks or ''} tasks".replace("  ", " "),
        "--set cluster.nodes=N",
        _origin(total),
    )


def _node_count(word: Word | None) -> Setting:
    """`4`, `4-4`, or a range that leaves the number open."""
    text = word.text if word is not None else None
    if word is None or text is None:
        return integer(word)
    if text.startswith("$"):
        how = "write the number, or give --nodes to sbatch"
        return Unknown(f"Slurm does not expand {text} in #SBATCH lines", how, Origin("written", literal_place(word)))
    low, dash, high = text.partition("-")
    if dash and low != high:
        origin = Origin("written", literal_place(word))
        return Unknown(f"between {low} and {high} nodes are allocated", "--set cluster.nodes=N", origin)
    return integer(word.part(0, len(low)))


def _tasks(split: Split) -> tuple[Claim, ...]:
    """Tasks on each node. --ntasks wins: beside it --ntasks-per-node is only an upper limit."""
    total, per_node, nodes = split.last("ntasks"), split.last("ntasks-per-node"), _number(split, "nodes")
    tasks, limit = _number(split, "ntasks"), _number(split, "ntasks-per-node")
    if tasks and limit and split.last("nodes") is None:
        nodes = -(-tasks // limit)
    if total is not None and total.value is not None and tasks and nodes:
        return (Claim("launch.tasks_per_node", _even(total.value, tasks, nodes), "--ntasks"),)
    if per_node is not None:
        return (Claim("launch.tasks_per_node", integer(per_node.value), "--ntasks-per-node"),)
    return _tasks_of_gpus(split) if total is None else ()


def _tasks_of_gpus(split: Split) -> tuple[Claim, ...]:
    """--ntasks-per-gpu: as many tasks on each node as its GPUs make."""
    option, each = split.last("ntasks-per-gpu"), _number(split, "ntasks-per-gpu")
    gpus = next((claim.value for claim in gpu_claims(split) if claim.setting == "cluster.gpus_per_node"), None)
    if option is None or option.value is None or not each or not isinstance(gpus, Value):
        return ()
    tasks = each * gpus.value if isinstance(gpus.value, int) else None
    return (Claim("launch.tasks_per_node", setting_of(option.value, tasks), "--ntasks-per-gpu"),) if tasks else ()


def _even(total: Word, tasks: int, nodes: int) -> Setting:
    if tasks % nodes == 0 or tasks < nodes:
        return setting_of(total, max(1, tasks // nodes))
    return Unknown(
        f"{tasks} tasks do not spread evenly over {nodes} nodes", "", Origin("written", literal_place(total))
    )


def _direct(name: Word, split: Split) -> Iterator[Claim]:
    """The claims of an srun whose tasks are the training processes."""
    if not are_processes(split.rest):
        return
    yield Claim("launch.launcher", setting_of(name, "slurm"), "srun")
    total, nodes = split.last("ntasks"), split.last("nodes")
    if total is not None:
        yield Claim("launch.processes", integer(total.value), "--ntasks")
    if nodes is not None:
        yield Claim("launch.nodes", _node_count(nodes.value), "--nodes")


def _number(split: Split, name: str) -> int | None:
    option = split.last(name)
    return whole(option.value.text or "") if option is not None and option.value is not None else None


def _first_of(words: Sequence[Word], split: Split) -> Word:
    """The word that says how many nodes are allocated, else the first of all."""
    option = split.last("nodes")
    return option.flag if option is not None else words[0]


def _step(name: Word, split: Split) -> Member:
    """One srun, or the #SBATCH lines, as far as given: `nodes`, `tasks`, `tasks_per_node`, `gpus_per_task`,
    `distribution`, `nodelist`; `open` where more may be given than is known.
    """
    names = {"nodes": "nodes", "tasks": "ntasks", "tasks_per_node": "ntasks-per-node", "gpus_per_task": "gpus-per-task"}
    fields: dict[str, Setting] = {
        field: integer(option.value) for field, flag in names.items() if (option := split.last(flag)) is not None
    }
    for field in ("distribution", "nodelist"):
        option = split.last(field)
        if option is not None:
            fields[field] = text_of(option.value)
    opened = texts(literal_place(name), open="yes") if split.open else {}
    return Member(literal_place(name), {**fields, **opened})


def _collections(split: Split, tool: str) -> Mapping[str, tuple[Member, ...]]:
    found = {
        "config.unknown": tuple(_misspelt(split, tool)),
        "launch.tasks": _written_tasks(split),
        "launch.bindings": bindings(split),
    }
    return {name: members for name, members in found.items() if members}


def _misspelt(split: Split, tool: str) -> Iterator[Member]:
    """Options that Slurm lacks and that are nearly one that it has; others may be a site's own (SPANK plug-ins)."""
    for option in split.unknown:
        near = meant(option.name, tuple(GRAMMAR.long))
        if near is not None:
            yield misspelt_flag(option, "--" + near, tool)


def _written_tasks(split: Split) -> tuple[Member, ...]:
    """The number of tasks, where it is written: `tasks`, `tasks_per_node`, `nodes` as far as given, and `limited` (yes,
    no): whether --ntasks asks for another number than --ntasks-per-node, which is then only a limit.
    """
    total, per_node, nodes = split.last("ntasks"), split.last("ntasks-per-node"), _nodes(split)
    main = total or per_node
    if main is None:
        return ()
    limited = _is_limited(split, nodes)
    fields: dict[str, Setting] = {
        "tasks": integer(total.value) if total is not None else Unknown("only --ntasks-per-node is given"),
        "tasks_per_node": integer(per_node.value) if per_node is not None else Unknown("only --ntasks is given"),
        "nodes": nodes if nodes is not None else Unknown("--nodes is not given", "--set cluster.nodes=N"),
        **texts(main.place, limited="yes" if limited else "no"),
    }
    related = ((per_node.place, "tasks per node: only a limit"),) if limited and per_node is not None else ()
    return (Member(main.place, fields, related),)


def _untold_tasks(first: Word, split: Split) -> tuple[Member, ...]:
    """Slurm's one task a node where nothing says how many, as a member whose `limited` is "default". Whole machines
    with a number of cores for each task may have as many tasks as fit (srun's manual, --cpus-per-task).
    """
    fills = all(split.last(name) is not None for name in ("cpus-per-task", "exclusive"))
    if fills or any(split.last(name) is not None for name in ("ntasks-per-gpu", "gpus-per-task", "tres-per-task")):
        return ()
    return (Member(first.place, texts(first.place, limited="default")),)


_SAYING_NODES = ("nodes", "nodelist", "nodefile", "ntasks", "gpus", "ntasks-per-gpu")
"""Options from which the number of nodes follows, or that may take several."""


def _unsaid_nodes(first: Word, split: Split) -> tuple[Member, ...]:
    """A member where the lines leave the number of nodes to Slurm, which gives one then (sbatch's man page, --nodes); a
    user may still tell sbatch more.
    """
    said = split.open or any(split.last(name) is not None for name in _SAYING_NODES)
    return () if said else (Member(first.place, {}),)


def _is_limited(split: Split, nodes: Setting | None) -> bool:
    tasks, each = _number(split, "ntasks"), _number(split, "ntasks-per-node")
    if tasks is None or each is None or not isinstance(nodes, Value) or not isinstance(nodes.value, int):
        return False
    return nodes.value * each != tasks


def _origin(option: Option) -> Origin:
    return Origin("written", option.place)
