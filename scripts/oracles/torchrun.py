"""torchrun, `python -m torch.distributed.run` and `.launch`: what torch's own parser makes of launch commands."""

from __future__ import annotations

import contextlib
import io
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from oracles import VALID, Answer, Plain, Question
from oracles.commands import command_of, environment, first_line, script

PACKAGES = ("torch",)
EXPLAINED: Mapping[str, str] = {}

Command = tuple[list[str], dict[str, str]]
"""A command's words and the variables that are exported for it."""

_TORCHRUN = ["torchrun"]
_RUN = ["python", "-m", "torch.distributed.run"]
_LAUNCH = ["python", "-m", "torch.distributed.launch"]
_PROGRAM = ["train.py", "--lr", "1e-4"]
_SPELLINGS = {
    "nnodes": ("--nnodes", "--nnode", "--nno"),
    "nproc": ("--nproc-per-node", "--nproc_per_node", "--nproc-per", "--nproc_p"),
    "backend": ("--rdzv-backend", "--rdzv_backend", "--rdzv-b"),
    "endpoint": ("--rdzv-endpoint", "--rdzv_endpoint", "--rdzv_end"),
    "id": ("--rdzv-id", "--rdzv_id"),
    "rank": ("--node-rank", "--node_rank", "--node-r"),
    "address": ("--master-addr", "--master_addr", "--master_a"),
    "port": ("--master-port", "--master_port", "--master-p"),
}
_HARMLESS: tuple[list[str], ...] = (
    [], ["--max-restarts", "3"], ["--max_restarts=0"], ["--monitor-interval", "5"], ["--tee", "3"], ["-r", "3"],
    ["-t", "3"], ["--log-dir", "logs"], ["--log_dir=logs"], ["--role", "trainer"], ["--start-method", "fork"],
    ["--local-ranks-filter", "0"], ["--rdzv-conf", "timeout=900,join_timeout=900"], ["--local-addr", "10.0.0.1"],
    ["--redirects", "1:0"],
)  # fmt: skip


def questions() -> list[Question]:
    """Valid launches, then one mistake in each."""
    pick = random.Random(0)
    valid = list(_valid(pick))
    wrong = {
        "unknown-setting": _unknown(pick),
        "setting-type": _wrong_types(pick),
        "refused-combination": _exclusive(pick),
    }
    every = [(VALID, valid), *((kind, list(commands)) for kind, commands in wrong.items())]
    return [
        Question(f"{kind}-{number:03}", kind, script(*command), {})
        for kind, commands in every
        for number, command in enumerate(commands)
    ]


def ask(question: Question) -> Answer:
    """The launcher's own parser and checks, stopped where it would start the processes."""
    words, env = command_of(question)
    with environment(env):
        try:
            return Answer(None, _derived(_launched(words)))
        except Exception as error:  # noqa: BLE001 - whatever stops the launcher is its answer
            return Answer(first_line(error), {})


class _WrongUseError(Exception):
    """What argparse prints when it leaves."""


def _launched(words: Sequence[str]) -> Any:
    """The LaunchConfig with which the processes would be started."""
    from torch.distributed import launch, run

    logging.disable(logging.WARNING)
    parser, begin, arguments = (
        (launch, launch.launch, words[3:])
        if "torch.distributed.launch" in words
        else (run, run.run, words[3:] if words[0] == "python" else words[1:])
    )
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parsed = parser.parse_args(list(arguments))
        except SystemExit as error:
            raise _WrongUseError(said.getvalue().strip().rpartition("error: ")[2]) from error
    with mock.patch.object(run, "elastic_launch") as started:
        begin(parsed)
    config = started.call_args.kwargs["config"]
    _meet(config)
    return config


def _meet(config: Any) -> None:
    """The checks that the rendezvous makes before it opens a connection."""
    from torch.distributed.elastic.rendezvous import RendezvousParameters, registry, utils

    known = registry.handler_registry._registry
    if config.rdzv_backend not in known:
        raise ValueError(f"The rendezvous backend '{config.rdzv_backend}' is not registered.")
    if config.rdzv_backend != "static":
        utils.parse_rendezvous_endpoint(config.rdzv_endpoint, default_port=29400)
        return
    from torch.distributed.elastic.rendezvous import static_tcp_rendezvous

    shape = (config.run_id, config.min_nodes, config.max_nodes, config.local_addr)
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, *shape, **config.rdzv_configs)
    static_tcp_rendezvous.create_rdzv_handler(parameters)


def _derived(config: Any) -> dict[str, Plain]:
    host = config.rdzv_endpoint.rpartition(":")[0] or config.rdzv_endpoint
    found: dict[str, Plain] = {
        "launch.processes_per_node": config.nproc_per_node,
        "launch.rendezvous": config.rdzv_backend,
        "launch.rendezvous_host": host,
    }
    if config.min_nodes == config.max_nodes:
        found["launch.nodes"] = config.min_nodes
        found["launch.processes"] = config.min_nodes * config.nproc_per_node
    if config.rdzv_backend == "static":
        found["launch.node_rank"] = config.rdzv_configs["rank"]
    return found


def _valid(pick: random.Random) -> Iterator[Command]:
    """All ways to meet with all ways to write them, then the ways that have a form of their own."""
    for number in range(90):
        launcher = pick.choice((_TORCHRUN, _TORCHRUN, _RUN, _LAUNCH))
        nodes, processes = pick.choice((1, 2, 4, 8, 16, 64)), pick.choice((1, 2, 4, 8))
        options, env = _meeting(pick, number % 6, nodes)
        options += [_written(pick, "nproc", str(processes))]
        options += [pick.choice(_HARMLESS)]
        pick.shuffle(options)
        words = [word for option in options for word in option]
        yield [*launcher, *words, *_PROGRAM], env
    yield from _special()


def _meeting(pick: random.Random, way: int, nodes: int) -> tuple[list[list[str]], dict[str, str]]:
    """Options for one way to meet, and the variables that it takes."""
    count = _written(pick, "nnodes", pick.choice((str(nodes), f"{nodes}:{nodes}")))
    host = pick.choice(("node0", "10.1.2.3", "gpu-01.cluster.local"))
    port = pick.choice(("29500", "6000", "29400"))
    rank = str(pick.randrange(nodes))
    static = [_written(pick, "rank", rank), _written(pick, "address", host), _written(pick, "port", port)]
    backend, endpoint = _written(pick, "backend", "c10d"), _written(pick, "endpoint", f"{host}:{port}")
    if way == 0:
        return [count, *static], {}
    if way == 1:
        return [count, backend, endpoint, _written(pick, "id", "job42")], {}
    if way == 2:
        return [["--standalone"]], {}
    if way == 3:
        return [], {"PET_NNODES": str(nodes), "PET_NODE_RANK": rank, "PET_MASTER_ADDR": host, "PET_MASTER_PORT": port}
    if way == 4:
        return [count, *static], {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "5", "PET_NODE_RANK": "2"}
    return [_written(pick, "nnodes", f"{nodes}:{nodes + 2}"), backend, endpoint], {}


def _written(pick: random.Random, option: str, value: str) -> list[str]:
    flag = pick.choice(_SPELLINGS[option])
    return pick.choice(([flag, value], [f"{flag}={value}"]))


def _special() -> Iterator[Command]:
    yield [*_TORCHRUN, "train.py"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "-m", "package.train", "--lr", "1"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--module", "package.train"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--no-python", "./train.sh"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--no_python", "train"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--run-path", "/w/train.py"], {}
    yield [*_TORCHRUN, "--nproc_per_node=2", "--nproc_per_node=8", "train.py"], {}
    yield [*_TORCHRUN, "--nnodes", "2", "train.py", "--nproc_per_node", "8"], {}
    yield [*_TORCHRUN, "--standalone", "--nproc_per_node", "4", "--rdzv_endpoint", "node0:29500", "train.py"], {}
    yield [*_TORCHRUN, "--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "node0", "train.py"], {}
    yield [*_TORCHRUN, "--nnodes", "2", "--rdzv-backend=c10d", "--rdzv-endpoint=[fe80::1]:29400", "train.py"], {}
    yield [*_TORCHRUN, "--nnodes", "2", "--rdzv-endpoint=node0:29500", "--node-rank", "1", "train.py"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--", "train.py", "--lr", "1"], {}
    yield [*_LAUNCH, "--nproc_per_node", "8", "--use_env", "train.py"], {}
    yield [*_LAUNCH, "--use-env", "--no-python", "--nproc_per_node", "8", "train"], {}
    yield [*_TORCHRUN, "train.py"], {"PET_NPROC_PER_NODE": "8", "PET_STANDALONE": "1"}
    yield [*_TORCHRUN, "train.py"], {"PET_NPROC_PER_NODE": "8", "PET_STANDALONE": "0"}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--master_port", "29501", "train.py"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--numa-binding", "node", "train.py"], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--signals-to-handle", "SIGTERM,SIGUSR1", "train.py"], {}


_MISSPELT = (
    ["--nproc_per_nodes", "8"], ["--nprocs_per_node", "8"], ["--n_proc_per_node", "8"], ["--num_gpus", "8"],
    ["--num_processes", "16"], ["--num-nodes", "2"], ["--num_machines=2"], ["--machine_rank", "1"],
    ["--nodes", "2"], ["--node_ranks", "1"], ["--noderank", "1"], ["--rank", "1"], ["--world_size", "16"],
    ["--master-address", "node0"], ["--master_adr", "node0"], ["--master_ports", "29500"], ["--main_process_port=2"],
    ["--rdzv-backends", "c10d"], ["--rdvz_backend", "c10d"], ["--rdvz-endpoint", "node0:29500"],
    ["--rdzv_url", "node0:29500"], ["--rdzv", "c10d"], ["--rdzv-", "c10d"], ["--master", "node0"], ["--log", "logs"],
    ["--ma", "3"], ["--r", "3"], ["--s", "fork"], ["--max-restart", "3", "--max-retries", "2"], ["--restarts", "3"],
    ["--standalones"], ["--stand-alone"], ["--nprocpernode=8"], ["--nnodes_per", "2"], ["--config_file", "a.yaml"],
    ["--hostfile", "hosts"], ["--multi_gpu"], ["--mixed_precision", "bf16"], ["--deepspeed", "ds.json"], ["-n", "8"],
    ["--use_envs"], ["--pythons"], ["--no-pythons"], ["--nproc", "8"], ["--np=8"], ["--node", "1"],
    ["--nproc-per_node", "8"], ["--max_r", "3", "--no"], ["--rdzv_endpoint-", "node0"],
)  # fmt: skip


def _unknown(pick: random.Random) -> Iterator[Command]:
    for mistake in _MISSPELT:
        yield [*pick.choice((_TORCHRUN, _RUN)), *_with(pick, mistake), *_PROGRAM], {}
    yield [*_TORCHRUN, "--nproc_per_node", "8", "--use_env", *_PROGRAM], {}


def _with(pick: random.Random, mistake: Sequence[str]) -> list[str]:
    """The options of a sound launch with a mistake among them, in the place of the option that it stands for."""
    sound = [["--nproc_per_node", "8"], ["--rdzv_endpoint", "node0:29500"], ["--rdzv_backend", "c10d"]]
    options = [*(option for option in sound if _dashed(option[0]) != _dashed(mistake[0])), list(mistake)]
    pick.shuffle(options)
    return [word for option in options for word in option]


def _dashed(flag: str) -> str:
    return flag.partition("=")[0].replace("_", "-")


_WRONG = (
    ["--nproc_per_node", "eight"], ["--nproc_per_node", "8.0"], ["--nproc_per_node="], ["--nproc-per-node", "8,8"],
    ["--nproc_per_node", "gpus"], ["--nproc_per_node", "8x"], ["--nproc-per", "all"], ["--nnodes", "two"],
    ["--nnodes", "0"], ["--nnodes", "-1"], ["--nnodes", "4:2"], ["--nnodes", "0:4"], ["--nnodes", "1:2:4"],
    ["--nnodes", "1-4"], ["--nnodes", "2.0"], ["--nnodes", "1:"], ["--nnodes="], ["--nnodes", ":4"],
    ["--max-restarts", "-1"], ["--max-restarts", "many"], ["--max_restarts", "1.5"], ["--monitor-interval", "fast"],
    ["--monitor_interval="], ["--start-method", "thread"], ["--start_method", "Spawn"], ["--node-rank", "first"],
    ["--node_rank", "1.0"], ["--node_rank="], ["--master-port", "29500.0"], ["--master_port", "http"],
    ["--rdzv-conf", "timeout"], ["--rdzv_conf", "timeout="], ["--rdzv-conf", "=900"], ["--rdzv_conf", "a=1,b"],
    ["--rdzv-backend", "tcp"], ["--rdzv_backend", "nccl"], ["--rdzv-backend", "C10D"],
    ["--rdzv-endpoint", "node0:port"], ["--rdzv_endpoint", "node0:99999"], ["--local-ranks-filter", "a,b"],
    ["--shutdown-timeout", "soon"], ["--numa-binding", "core"], ["--tee", "x"], ["--redirects", "9"],
    ["--standalone=true"], ["--no-python=1"],
)  # fmt: skip
_WRONG_VARIABLES = (
    {"PET_NPROC_PER_NODE": "eight"}, {"PET_NNODES": "4:2"}, {"PET_NODE_RANK": "first"}, {"PET_MASTER_PORT": "http"},
    {"PET_STANDALONE": "true"}, {"PET_MAX_RESTARTS": "many"}, {"PET_NNODES": ""},
)  # fmt: skip


def _wrong_types(pick: random.Random) -> Iterator[Command]:
    for mistake in _WRONG:
        yield [*pick.choice((_TORCHRUN, _RUN, _LAUNCH)), *_with(pick, mistake), *_PROGRAM], {}
    for variables in _WRONG_VARIABLES:
        yield [*_TORCHRUN, *_PROGRAM], variables
    yield [*_TORCHRUN, "--nproc_per_node", "--nnodes", "1", *_PROGRAM], {}
    yield [*_TORCHRUN, "--nnodes", "2", "--rdzv_endpoint", "--rdzv_backend", "c10d", *_PROGRAM], {}
    yield [*_TORCHRUN, "--nnodes", "2", "--rdzv_endpoint", "node0", "--node_rank", "0", *_PROGRAM], {}


def _exclusive(pick: random.Random) -> Iterator[Command]:
    """Flags that the launcher refuses beside each other."""
    pairs = [
        [neither, module]
        for neither in ("--no-python", "--no_python", "--no-py")
        for module in ("-m", "--module", "--mod")
    ]
    for pair in pairs * 3:
        options = [["--nproc_per_node", str(pick.choice((2, 4, 8)))], *([flag] for flag in pair)]
        pick.shuffle(options)
        yield [*pick.choice((_TORCHRUN, _RUN)), *(word for option in options for word in option), "package.train"], {}
    for flag in ("--no-python", "--no_python"):
        for processes in ("1", "4", "8"):
            yield [*_LAUNCH, "--nproc_per_node", processes, flag, "train"], {}
