"""torchtitan: what ConfigManager and ParallelDims make of a config function with a command line over it.

Needs a checkout of pytorch/torchtitan on PYTHONPATH, which TORCHTITAN names too, and what it imports on a CPU.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from oracles import VALID, Answer, Plain, Question
from oracles.commands import command_of, first_line, script

PACKAGES = ("torch", "tyro")
CHECKOUTS = {"torchtitan": "TORCHTITAN"}
EXPLAINED: Mapping[str, str] = {}

_MODULE = "configs"
_HEAD = """from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.trainer import Trainer

"""
_DEGREES = {
    "data_parallel_replicate_degree": (1, 2, 4),
    "data_parallel_shard_degree": (-1, 1, 2, 4, 8),
    "tensor_parallel_degree": (1, 2, 4, 8),
    "context_parallel_degree": (1, 2),
    "pipeline_parallel_degree": (1, 2, 4),
}

_MICROBATCHES = 16
"""Enough for each number of stages; with fewer the schedule stops, behind what is asked here."""


def questions() -> list[Question]:
    """Configs that fit their ranks, then those that do not, and options that no release has."""
    pick = random.Random(0)
    kinds = {
        VALID: list(_fitting(pick, 60)),
        "world-size-mismatch": list(_misfits(pick, 40)),
        "unknown-setting": list(_unknown(pick, 20)),
    }
    return [
        Question(f"{kind}-{number:03}", kind, files, {})
        for kind, every in kinds.items()
        for number, files in enumerate(every)
    ]


def ask(question: Question) -> Answer:
    """The config that torchtitan's parser makes, and the mesh that it would build for the ranks of the launch."""
    words, _ = command_of(question)
    processes = int(words[words.index("--nproc_per_node") + 1]) * int(words[words.index("--nnodes") + 1])
    try:
        return Answer(None, _settled(question, words[words.index("torchtitan.train") + 1 :], processes))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever stops the launch is its answer
        return Answer(first_line(error), {})


def _settled(question: Question, words: list[str], processes: int) -> dict[str, Plain]:
    manager: Any = import_module("torchtitan.config").ConfigManager
    dims_of: Any = import_module("torchtitan.distributed").ParallelDims

    sys.modules.pop(_MODULE, None)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{_MODULE}.py").write_text(question.files[f"{_MODULE}.py"], encoding="utf-8")
        sys.path.insert(0, folder)
        try:
            config: Any = manager().parse_args(words)
        finally:
            sys.path.remove(folder)
    dims = dims_of.from_config(config.parallelism, processes)
    return {
        "parallel.world_size": processes,
        "parallel.tensor": dims.tp,
        "parallel.pipeline": dims.pp,
        "parallel.context": dims.cp,
        "parallel.data": dims.dp_replicate * dims.dp_shard,
        "data.sequence_length": config.training.max_context_length,
        "run.steps": config.training.steps,
        "optimizer.clip": float(config.training.max_norm),
    }


def _fitting(pick: random.Random, number: int) -> Iterator[dict[str, str]]:
    for _ in range(number):
        degrees = _chosen(pick)
        yield _files(pick, degrees, _ranks(degrees, pick.choice((1, 2))))


def _misfits(pick: random.Random, number: int) -> Iterator[dict[str, str]]:
    """One rank more than the mesh has places, or a degree for which no rank is left."""
    for _ in range(number):
        degrees = _chosen(pick)
        degrees["data_parallel_shard_degree"] = pick.choice((2, 4, 8))
        yield _files(pick, degrees, 2 * _ranks(degrees, 1))


def _unknown(pick: random.Random, number: int) -> Iterator[dict[str, str]]:
    words = (
        "--parallelism.tensor_parallel_degre",
        "--parallelism.pipeline_parallel_degrees",
        "--training.max_context_lengths",
    )
    for _ in range(number):
        degrees = _chosen(pick)
        yield _files(pick, degrees, _ranks(degrees, 1), [pick.choice(words), "2"])


def _chosen(pick: random.Random) -> dict[str, int]:
    return {name: pick.choice(values) for name, values in _DEGREES.items()}


def _ranks(degrees: Mapping[str, int], left: int) -> int:
    """As many ranks as the degrees need; -1 takes those that are left."""
    found = left if degrees["data_parallel_shard_degree"] == -1 else 1
    for value in degrees.values():
        found *= max(value, 1)
    return found


def _files(
    pick: random.Random, degrees: Mapping[str, int], ranks: int, more: list[str] | None = None
) -> dict[str, str]:
    """Each degree in the function's call, in an assignment behind it, or on the command line."""
    places: dict[str, list[str]] = {"call": [], "assigned": [], "words": []}
    for name, value in degrees.items():
        place = pick.choice(tuple(places))
        text = {
            "call": f"{name}={value}",
            "assigned": f"    config.parallelism.{name} = {value}\n",
            "words": f"--parallelism.{name}={value}",
        }[place]
        places[place].append(text)
    per_node = min(ranks, 8)
    words = ["torchrun", "--nnodes", str(ranks // per_node), "--nproc_per_node", str(per_node)]
    words += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "node0:29500", "-m", "torchtitan.train"]
    words += ["--module", _MODULE, "--config", "wide", *places["words"], *(more or [])]
    passed = [*places["call"], f"num_pp_microbatches={_MICROBATCHES}"]
    return {**script(words), f"{_MODULE}.py": _registry(pick, passed, places["assigned"])}


def _registry(pick: random.Random, passed: list[str], assigned: list[str]) -> str:
    """A base config, and the one that is launched, which changes it."""
    length, steps = pick.choice((2048, 4096, 8192)), pick.choice((10, 1000))
    tokens = length * pick.choice((1, 2, 4))
    sizes = f"num_tokens_per_microbatch_per_dp_rank={tokens}, max_context_length={length}, steps={steps}"
    training = f"training=TrainingConfig({sizes}, disable_cuda_graphs=True)"
    base = f"    return Trainer.Config({training}, parallelism=ParallelismConfig({', '.join(passed)}))\n"
    return (
        f"{_HEAD}\ndef base() -> Trainer.Config:\n{base}\n\n"
        f"def wide() -> Trainer.Config:\n    config = base()\n{''.join(assigned)}    return config\n"
    )
