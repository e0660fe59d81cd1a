"""The `deepspeed` command: on which machines it starts how many processes, and of which program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import behind_program, stretch, texts, with_options_behind
from dtlint.frameworks.deepspeed.environment_file import CHOSEN_BY, NAME, read_environment
from dtlint.frameworks.deepspeed.launcher_faults import bad_lines, ignored_devices, refused, unknown_options
from dtlint.frameworks.deepspeed.options import GRAMMAR, VISIBLE, defect, gpus_option, whole_option
from dtlint.frameworks.hostfile import Hostfile, absent, all_slots, filtered, read_hostfile
from dtlint.frameworks.interpreter import program_name, python_program
from dtlint.frameworks.options import Option, Split, integer, literal_place, split_options, text_of
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.source import Edit, Source, Span
from dtlint.value import Origin, Setting, Unknown, Value, assumed, derived, written

LAYER = "deepspeed-launcher"
MODULE = "deepspeed.launcher.runner"
ReadFile = Callable[[str], Source | None]

_DIFFER = "machines have"
_NODES, _PER_NODE = "launch.nodes", "launch.processes_per_node"
SHELLS = ("bash", "sh", "zsh", "dash")
"""Programs that --no_python may start, and that start others."""
_OWN_LAUNCHER = "pdsh"
_UNHANDED = ("no-local-rank", "no-python", "elastic-training")
"""Options with which the program is not handed its local rank, or is no Python that takes one."""
_OWN = ("num-gpus", "num-nodes", "hostfile")
"""Options that no training script has too."""
_ALL_DEVICES = "--set cluster.gpus_per_node=N"


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is the deepspeed launcher."""
    return _arguments(words) is not None


def read_launch(words: Sequence[Word], read_file: ReadFile, env: Mapping[str, Word] | None = None) -> Reading:
    """What the launcher claims; `rest` is the script (or module) with its arguments.

    `read_file` gives the host file by its path as written, None if it is not there. CUDA_VISIBLE_DEVICES in `env`
    counts on a single machine without filters, as the launcher has it.
    """
    own = _arguments(words) or tuple(words[1:])
    split = _split(own)
    hosts = _hostfile(split, read_file)
    used = _used(split, hosts, env or {})
    claims = (
        Claim("launch.launcher", setting_of(words[0], "deepspeed"), words[0].shown),
        *_allocated(hosts),
        *used.claims,
        *_written(split),
    )
    arguments = words[1 : len(words) - len(split.rest)]
    collections = {
        "config.unknown": tuple(unknown_options(split)),
        "launch.lost": tuple(_lost(split, used, read_file, env or {})),
        "config.invalid": (*bad_lines(hosts, split), *used.defects, *refused(split)),
        "config.inert": tuple(ignored_devices(split, hosts, env or {})),
        "launch.uneven": tuple(_uneven_claims(used.claims)),
        "launch.bound_cores": tuple(_bound_cores(split)),
        "launch.chosen_gpus": tuple(_chosen(split)),
        "launch.absent_slots": tuple(_absent_slots(split, hosts)),
        "launch.short_hosts": tuple(_short_hosts(split, hosts)),
        "launch.handed": tuple(_handed(split, words[len(words) - len(own) - 1])),
        **_exported(split, used, read_file, env or {}),
    }
    return Reading(
        LAYER,
        stretch(arguments, literal_place(words[0])),
        claims,
        files=tuple(_files(split)),
        rest=split.rest,
        open=split.open,
        role="other" if split.last("autotuning") is not None else "",
        collections={name: members for name, members in collections.items() if members},
    )


def _exported(
    split: Split, used: _Used, read_file: ReadFile, env: Mapping[str, Word]
) -> Mapping[str, tuple[Member, ...]]:
    """The variables of .deepspeed_env, which the launcher exports where it starts several machines."""
    counts = [claim.value for claim in used.claims if claim.setting == "launch.nodes"]
    several = any(isinstance(count, Value) and isinstance(count.value, int) and count.value > 1 for count in counts)
    path = env[CHOSEN_BY].text if CHOSEN_BY in env else NAME
    source = read_file(path) if path and (several or split.last("force-multi") is not None) else None
    return {} if source is None else read_environment(source)


def _bound_cores(split: Split) -> Iterator[Member]:
    """--bind_cores_to_rank, with which launch.py sets OMP_NUM_THREADS to the cores of a process."""
    option = split.last("bind-cores-to-rank")
    if option is not None:
        yield Member(option.place, texts(option.place, name=option.spelled))


def _short_hosts(split: Split, hosts: Hostfile | None) -> Iterator[Member]:
    """A number of machines (`asked`) that is above that of the host file, of which all are taken without a word."""
    option = split.last("num-nodes")
    asked = whole_option(option)
    if option is None or not isinstance(asked, int) or hosts is None or not hosts.hosts or hosts.open:
        return
    if asked > len(hosts.hosts):
        yield Member(_place(option, hosts), {"asked": integer(option.value)})


def _handed(split: Split, named: Word) -> Iterator[Member]:
    """The member of `launch.handed`, the word that the launcher puts before the program's own (deepspeed/launcher/
    launch.py): MPI and Slurm start the program themselves, and the elastic agent hands nothing on.
    """
    launcher = split.last("launcher")
    other = launcher is not None and (launcher.value is None or launcher.value.text != _OWN_LAUNCHER)
    if split.open or other or any(split.last(name) is not None for name in _UNHANDED):
        return
    place = literal_place(named)
    edit = Edit(Span(place.source, place.end, place.end), " --no_local_rank")
    fields = texts(place, key="--local_rank", since="", until="", by="deepspeed", keep="--no_local_rank")
    yield Member(place, fields, (), {"keep": (edit,)})


def _chosen(split: Split) -> Iterator[Member]:
    """A filter that names slots (`--include a:0,1`), and so leaves the others on purpose."""
    for option in (split.last("include"), split.last("exclude")):
        if option is not None and option.value is not None and ":" in (option.value.text or ""):
            yield Member(option.place, texts(option.place, option=option.spelled))


def _absent_slots(split: Split, hosts: Hostfile | None) -> Iterator[Member]:
    """What a filter (`option`) names and the host file does not have: a `machine`, or a `slot` of one with `slots`."""
    for option in (split.last("include"), split.last("exclude")):
        text = option.value.text if option is not None and option.value is not None else ""
        lacking = absent(all_slots(hosts.hosts), text or "") if hosts is not None and not hosts.open else None
        if option is None or option.value is None or hosts is None or lacking is None:
            continue
        place = literal_place(option.value)
        host = next((host for host in hosts.hosts if host.name == lacking.machine), None)
        fields: dict[str, Setting] = {**texts(place, option=option.spelled, machine=lacking.machine)}
        if host is not None and lacking.slot is not None:
            fields |= {"slot": written(lacking.slot, place), "slots": written(host.slots, host.digits)}
        yield Member(place, fields)


def _split(words: tuple[Word, ...]) -> Split:
    """The launcher's options and the program; behind --no_python a shell is where the program begins, whatever an
    option before it lacks.
    """
    free = any(word.text in ("--no_python", "--no-python") for word in words)
    start = next((number for number, word in enumerate(words) if free and program_name(word) in SHELLS), None)
    if start is None:
        return split_options(words, GRAMMAR)
    split = split_options(words[:start], GRAMMAR)
    return split._replace(rest=(*split.rest, *words[start:]))


class _Used(NamedTuple):
    """How many processes start where, and what the launcher refuses about it."""

    claims: tuple[Claim, ...]
    defects: tuple[Member, ...] = ()


def _arguments(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """The words after the launcher's name, None for another command."""
    if words and program_name(words[0]) in ("deepspeed", "ds", "deepspeed.exe"):
        return tuple(words[1:])
    program = python_program(words)
    if program is None or not program.words:
        return None
    name = program.words[0].shown
    known = name in (MODULE, "deepspeed") if program.kind == "module" else name.endswith("deepspeed/launcher/runner.py")
    return program.words[1:] if known else None


def read_hosts(source: Source) -> Reading:
    """The machines of a host file that something else than the launcher's own arguments names."""
    hosts = read_hostfile(source)
    return Reading("hostfile", source.span(0, len(source.text)), tuple(_allocated(hosts)))


def _hostfile(split: Split, read_file: ReadFile) -> Hostfile | None:
    option = split.last("hostfile")
    path = option.value.text if option is not None and option.value is not None else None
    source = read_file(path) if path is not None else None
    return None if source is None else read_hostfile(source)


def _lost(split: Split, used: _Used, read_file: ReadFile, env: Mapping[str, Word]) -> Iterator[Member]:
    """The launcher's own options behind the program, with the processes that start without them. Where they name a host
    file, the machine that starts alone has as many devices as that gives each.
    """
    told = with_options_behind(split, _OWN, GRAMMAR)
    meant = dict(_counts(_used(told, _hostfile(told, read_file), env).claims))
    now = dict(_counts(used.claims))
    if gpus_option(told) is gpus_option(split):
        now = {_PER_NODE: meant.get(_PER_NODE, 0), **now}
    return behind_program(split, _OWN, *(each.get(_NODES, 0) * each.get(_PER_NODE, 0) for each in (now, meant)))


def _counts(claims: Sequence[Claim]) -> Iterator[tuple[str, int]]:
    for claim in claims:
        if isinstance(claim.value, Value) and isinstance(claim.value.value, int):
            yield claim.setting, claim.value.value


def _allocated(hosts: Hostfile | None) -> Iterator[Claim]:
    """The machines of the host file."""
    if hosts is None or not hosts.hosts:
        return
    if hosts.open:
        yield from _slots_of(hosts)
        return
    first, last = hosts.hosts[0], hosts.hosts[-1]
    place = Span(hosts.source, first.place.start, last.place.end)
    yield Claim("cluster.nodes", written(len(hosts.hosts), place), "hostfile")
    yield from _slots_of(hosts)


def _slots_of(hosts: Hostfile) -> Iterator[Claim]:
    """The GPUs of a machine, if all have as many."""
    first, counts = hosts.hosts[0], sorted({host.slots for host in hosts.hosts})
    if len(counts) == 1:
        yield Claim("cluster.gpus_per_node", written(first.slots, first.digits), "slots")
    else:
        yield Claim("cluster.gpus_per_node", _uneven(counts, "slots", first.digits), "slots")


def _uneven_claims(claims: Sequence[Claim]) -> Iterator[Member]:
    """The member of `launch.uneven` of machines that run different numbers of processes."""
    for claim in claims:
        place = claim.value.origin.span if isinstance(claim.value, Unknown) and claim.value.origin else None
        if place is not None and isinstance(claim.value, Unknown) and claim.value.reason.startswith(_DIFFER):
            yield Member(place, texts(place, reason=claim.value.reason))


def _uneven(counts: Sequence[int], things: str, place: Span) -> Unknown:
    reason = f"{_DIFFER} {counts[0]} to {counts[-1]} {things}"
    return Unknown(reason, "", Origin("written", place))


def _used(split: Split, hosts: Hostfile | None, env: Mapping[str, Word]) -> _Used:
    nodes, gpus = split.last("num-nodes"), gpus_option(split)
    if hosts is not None and hosts.open:
        return _of_the_job(hosts, nodes, gpus)
    if hosts is not None and hosts.hosts:
        return _from_hostfile(split, hosts, nodes, gpus)
    per_node = _processes(split, gpus, env)
    return _Used(
        (
            Claim("launch.nodes", _nodes(split, nodes), "--num_nodes"),
            Claim("launch.processes_per_node", per_node, "--num_gpus"),
        )
    )


def _of_the_job(hosts: Hostfile, nodes: Option | None, gpus: Option | None) -> _Used:
    """A host file that the script writes for the machines that it runs on, or that its reader does."""
    place = Origin("written", hosts.source.span(0, len(hosts.source.text)).original())
    every = Unknown(hosts.open, "--set cluster.nodes=N", place, "cluster.nodes")
    counts = {host.slots for host in hosts.hosts}
    claims = [Claim("launch.nodes", integer(nodes.value) if nodes is not None else every, "--num_nodes")]
    if gpus is not None:
        claims.append(Claim("launch.processes_per_node", integer(gpus.value), "--num_gpus"))
    elif len(counts) == 1:
        slots = written(counts.pop(), hosts.hosts[0].digits)
        claims.append(Claim("launch.processes_per_node", slots, "slots"))
    return _Used(tuple(claims))


def _from_hostfile(split: Split, hosts: Hostfile, nodes: Option | None, gpus: Option | None) -> _Used:
    """Machines and slots that filters, --num_nodes and --num_gpus leave of the host file."""
    filters = [split.last("include"), split.last("exclude")]
    texts_of = [option.value.text if option is not None and option.value is not None else "" for option in filters]
    if any(text is None for text in texts_of):
        return _Used(_unknown_hosts("the filter of the hosts is not known"))
    every, option = all_slots(hosts.hosts), next((option for option in filters if option is not None), None)
    slots = filtered(every, texts_of[0] or "", texts_of[1] or "")
    if isinstance(slots, str):
        assert option is not None
        return _Used(
            _unknown_hosts("the filter of the hosts cannot be read"), (defect(option.place, option.spelled, slots),)
        )
    kept = [len(numbers) for numbers in slots.values()]
    node_count, gpu_count = whole_option(nodes), whole_option(gpus)
    if isinstance(node_count, Unknown) or isinstance(gpu_count, Unknown):
        return _Used(_hidden_counts(node_count, gpu_count, kept))
    kept = kept[: int(node_count)] if node_count and node_count > 0 else kept
    kept = [gpu_count] * len(kept) if gpu_count and gpu_count > 0 else kept
    chosen = option if nodes is None and gpus is None and absent(every, texts_of[0] or texts_of[1] or "") else None
    places = {
        "launch.nodes": _place(nodes or chosen, hosts),
        "launch.processes_per_node": _place(gpus or chosen, hosts),
    }
    if not kept:
        why = "the filter leaves no machine of the host file"
        return _Used((Claim("launch.nodes", Unknown(why, "", Origin("written", places["launch.nodes"])), "--include"),))
    return _Used(tuple(_counted(kept, places)))


def _counted(kept: Sequence[int], places: Mapping[str, Span]) -> Iterator[Claim]:
    yield Claim("launch.nodes", written(len(kept), places["launch.nodes"]), "--num_nodes")
    if len(set(kept)) == 1:
        yield Claim("launch.processes_per_node", written(kept[0], places["launch.processes_per_node"]), "--num_gpus")
    elif kept:
        uneven = _uneven(sorted(kept), "processes", places["launch.processes_per_node"])
        yield Claim("launch.processes_per_node", uneven, "slots")
    yield Claim("launch.processes", derived(sum(kept), "launch.nodes", "launch.processes_per_node"), "hostfile")


def _place(option: Option | None, hosts: Hostfile) -> Span:
    """Where a count is written: at its option, else in the host file."""
    if option is not None and option.value is not None:
        return literal_place(option.value)
    return Span(hosts.source, hosts.hosts[0].place.start, hosts.hosts[-1].place.end)


def _hidden_counts(nodes: int | Unknown | None, gpus: int | Unknown | None, kept: Sequence[int]) -> tuple[Claim, ...]:
    """What is left to say where --num_nodes or --num_gpus is not known."""
    claims = [Claim("launch.nodes", nodes, "--num_nodes")] if isinstance(nodes, Unknown) else []
    if isinstance(gpus, Unknown):
        claims.append(Claim("launch.processes_per_node", gpus, "--num_gpus"))
    elif gpus is None and len(set(kept)) == 1:
        claims.append(Claim("launch.processes_per_node", derived(kept[0], note="slots of the host file"), "slots"))
    return tuple(claims)


def _unknown_hosts(reason: str) -> tuple[Claim, ...]:
    return (Claim("launch.nodes", Unknown(reason, "--set launch.nodes=N"), "--include"),)


def _nodes(split: Split, nodes: Option | None) -> Setting:
    """How many machines, where no host file can be read."""
    if nodes is not None:
        count = integer(nodes.value)
        if not isinstance(count, Value) or not isinstance(count.value, int) or count.value > 0:
            return count
    named = split.last("hostfile")
    if named is not None:
        path = named.value.shown if named.value is not None else "?"
        place = Origin("written", named.place)
        return Unknown(f"the host file {path} is not among the files", "--set launch.nodes=N", place)
    if split.open:
        return Unknown(f"hidden in the launcher's arguments: {split.open}", "--set launch.nodes=N")
    return assumed(1, "no host file is named; /job/hostfile counts where it exists", "--set launch.nodes=N")


def _processes(split: Split, gpus: Option | None, env: Mapping[str, Word]) -> Setting:
    """Processes on each machine, where no host file can be read."""
    if gpus is not None:
        count = integer(gpus.value)
        if not isinstance(count, Value) or not isinstance(count.value, int) or count.value > 0:
            return count
    include = split.last("include")
    if include is not None and include.value is not None:
        return _listed(include.value, (include.value.text or "").partition(":")[2])
    visible = env.get(VISIBLE)
    filters = any(split.last(name) is not None for name in ("hostfile", "exclude", "num-nodes"))
    if visible is not None and not filters:
        return _listed(visible, visible.text or "")
    if split.open:
        return Unknown(f"hidden in the launcher's arguments: {split.open}", _ALL_DEVICES, means="")
    return Unknown("one process for each of the machine's devices", _ALL_DEVICES, None, "cluster.gpus_per_node")


def _listed(word: Word, numbers: str) -> Setting:
    """As many processes as devices are listed (`0,1,2`)."""
    known = text_of(word)
    if isinstance(known, Unknown):
        return known
    if not numbers or "@" in (word.text or ""):
        origin = Origin("written", literal_place(word))
        return Unknown("one process for each of the chosen devices", _ALL_DEVICES, origin, "cluster.gpus_per_node")
    return setting_of(word, len({number for number in numbers.split(",") if number}))


def _written(split: Split) -> Iterator[Claim]:
    """The settings that one option alone decides."""
    for name, setting, read in (
        ("node-rank", "launch.node_rank", integer),
        ("master-addr", "launch.rendezvous_host", text_of),
    ):
        option = split.last(name)
        if option is not None:
            yield Claim(setting, read(option.value), option.spelled)


def _files(split: Split) -> Iterator[NamedFile]:
    option = split.last("hostfile")
    if option is not None and option.value is not None:
        yield NamedFile("hostfile", option.value)
