"""What ColossalAI's launcher starts, and how its plugin splits the model of a program."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_words import claims, words

from dtlint.api import Report, check
from dtlint.frameworks.colossalai.launcher import read_launch, recognise_launch

PROGRAM = """import argparse
import colossalai
from colossalai.booster import Booster
from colossalai.booster.plugin import GeminiPlugin, HybridParallelPlugin
from data import dataset, model, optimizer

parser = argparse.ArgumentParser()
parser.add_argument("--plugin", default="3d")
parser.add_argument("--tp", type=int, default=2)
parser.add_argument("--pp", type=int, default=4)
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()
colossalai.launch_from_torch()
if args.plugin == "gemini":
    plugin = GeminiPlugin()
else:
    plugin = HybridParallelPlugin(tp_size=args.tp, pp_size=args.pp, {more})
loader = plugin.prepare_dataloader(dataset, batch_size=args.batch, shuffle=True)
booster = Booster(plugin=plugin)
model, optimizer, _, loader, _ = booster.boost(model, optimizer, dataloader=loader)
"""


def checked(folder: Path, command: str, more: str = "microbatch_size=1, precision='bf16'") -> Report:
    (folder / "run.sh").write_text(f"#!/bin/bash\n{command}\n")
    (folder / "train.py").write_text(PROGRAM.format(more=more))
    return check([folder / "run.sh"])


@pytest.mark.parametrize(
    ("command", "nodes", "each", "first"),
    [
        ("colossalai run --nproc_per_node 8 train.py --tp 2", 1, 8, "train.py"),
        ("colossalai run --nproc_per_node=4 --master_port 29501 train.py", 1, 4, "train.py"),
        ("colossalai run --host a,b,c --master_addr a --nproc_per_node 8 train.py", 3, 8, "train.py"),
        ("colossalai run -H a,b --nproc_per_node 8 train.py", 2, 8, "train.py"),
        ("colossalai run --hostfile hosts --num_nodes 4 --nproc_per_node 8 train.py", 4, 8, "train.py"),
        ("colossalai run --hostfile hosts --nproc_per_node 8 train.py", None, 8, "train.py"),
        ("colossalai run --nproc_per_node 8 -m ours.train --tp 2", 1, 8, "ours.train"),
    ],
)
def test_what_the_launcher_starts(command: str, nodes: int | None, each: int, first: str) -> None:
    reading = read_launch(words(command), {})
    told = claims(reading)
    assert recognise_launch(words(command))
    assert told["launch.nodes"] == nodes if nodes is not None else str(told["launch.nodes"]).startswith("?")
    assert (told["launch.processes_per_node"], reading.rest[0].text) == (each, first)
    assert ("launch.starters" in reading.collections) == ("host" in command or "-H" in command)


def test_other_commands_of_it_start_nothing() -> None:
    assert not recognise_launch(words("colossalai check -i"))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("microbatch_size=1", (8, 1, 8, "1f1b")),
        ("microbatch_size=2", (4, 2, 8, "1f1b")),
        ("num_microbatches=4", (4, 2, 8, "1f1b")),
        ("microbatch_size=1, pp_style='interleaved', num_model_chunks=2", (8, 1, 8, "interleaved")),
        ("microbatch_size=3", (None, 3, None, "1f1b")),
    ],
)
def test_micro_batches_that_a_loaders_batch_is_cut_into(
    tmp_path: Path, more: str, told: tuple[int | None, int, int | None, str]
) -> None:
    plan = checked(tmp_path, "colossalai run --nproc_per_node 8 train.py", more).runs[0].plan
    names = ("schedule.microbatches", "batch.micro", "batch.global", "schedule.kind")
    assert tuple(plan.value(name) for name in names) == told


@pytest.mark.parametrize(
    ("command", "more", "rules"),
    [
        ("colossalai run --nproc_per_node 8 train.py", "microbatch_size=1", {"pipeline-bubble"}),
        ("colossalai run --nproc_per_node 8 train.py --batch 32", "microbatch_size=1", set()),
        ("colossalai run --nproc_per_node 8 train.py --plugin gemini", "microbatch_size=1", set()),
        ("colossalai run --nproc_per_node 8 train.py --pp 1 --tp 8", "microbatch_size=1", set()),
        ("torchrun --nproc_per_node 8 train.py --batch 2", "microbatch_size=1", {"microbatches-lt-stages"}),
        ("colossalai run --nproc_per_node 6 train.py --batch 32", "microbatch_size=1", {"world-size-mismatch"}),
        ("colossalai run --nproc_per_node 8 train.py", "**options", set()),
    ],
)
def test_mistakes_of_its_plans(tmp_path: Path, command: str, more: str, rules: set[str]) -> None:
    found = {each.rule for each in checked(tmp_path, command, more).findings if each.severity != "note"}
    assert found - {"sequence-parallel-off"} == rules


def test_nodes_that_the_launcher_starts_by_ssh_are_not_idle(tmp_path: Path) -> None:
    job = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
    command = "colossalai run --host $(scontrol show hostnames | paste -sd,) --nproc_per_node 8 train.py --batch 64"
    report = checked(tmp_path, job + command, "microbatch_size=1")
    assert not [each for each in report.findings if each.rule == "srun-missing"]
