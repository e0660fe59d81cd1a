"""A program that every script starts as one process never comes to what only several processes do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.rulebook import earned

LOADER = """from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler


def make_loader(data, rank):
    if rank == -1:
        sampler = RandomSampler(data)
    else:
        sampler = DistributedSampler(data)
    return DataLoader(data, batch_size=8, sampler=sampler)
"""
PROGRAM = """import argparse
import torch.distributed as dist
from loaders import make_loader
from net import Net, samples

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()
if args.local_rank != -1:
    dist.init_process_group("nccl")
loader = make_loader(samples(), args.local_rank)
model = Net()
for epoch in range(12):
    for x, y in loader:
        model(x, y).backward()
"""
OTHER = "torchrun --nproc_per_node 8 other.py --bf16 True --output_dir out --per_device_train_batch_size 1\n"
TREE = {"prog/learn.py": PROGRAM, "prog/loaders.py": LOADER, "other.py": "import transformers\n", "other.sh": OTHER}
PLAIN = "cd ..\npython learn.py --epochs 3\n"


@pytest.fixture(autouse=True)
def _every_rule_has_earned_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earned, "has_earned", lambda rule: True)


def told(*paths: str) -> list[str]:
    found = check([Path(path) for path in paths]).findings
    return [each.severity for each in found if each.rule == "sampler-set-epoch-missing"]


@pytest.mark.parametrize(
    "script",
    [
        PLAIN,
        "python3 -u prog/learn.py\n",
        "#SBATCH --gres=gpu:1\nCUDA_VISIBLE_DEVICES=0 nohup python learn.py --tasks $TASKS &\n",
    ],
    ids=["moved", "from the root", "a job"],
)
def test_a_sampler_of_several_processes_in_a_program_of_one(tree, script: str) -> None:
    tree({**TREE, "prog/scripts/learn.sh" if script is PLAIN else "prog/learn.sh": script})
    assert told(".") == ["note"]
    assert told("prog/learn.py") == ["warning"]


def test_the_note_names_the_script(tree) -> None:
    tree({**TREE, "prog/scripts/learn.sh": PLAIN})
    (found,) = [each for each in check([Path()]).findings if each.rule == "sampler-set-epoch-missing"]
    assert found.message.endswith("; prog/scripts/learn.sh:2 starts it as one process")


@pytest.mark.parametrize(
    ("line", "severities"),
    [
        ("python learn.py --epochs 3", ["note"]),
        ("$ CUDA_VISIBLE_DEVICES=0 python3 prog/learn.py \\\n    --epochs 3", ["note"]),
        ("python learn.py \\\n    --local_rank 0", ["warning"]),
        ("The file python learn.py has the loop.", ["warning"]),
    ],
)
def test_a_document_starts_it_as_one_process(tree, line: str, severities: list[str]) -> None:
    tree({**TREE, "prog/README.md": f"# Learning\n\n```bash\n{line}\n```\n"})
    assert told(".") == severities


def test_a_module_of_a_program_that_tells_of_nothing_itself(tree) -> None:
    """The trainer is read by itself, and started by a program that imports it."""
    trainer = PROGRAM.replace("from loaders", "from prog.loaders")
    tree({**TREE, "prog/learn.py": trainer, "go.py": "import prog.learn\n", "go.sh": "python go.py\n"})
    assert told(".") == ["note"]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"prog/learn.sh": "python learn.py --local_rank $RANK\n"},
        {"prog/learn.sh": 'python learn.py "$@"\n'},
        {"prog/learn.sh": "ssh node1 python prog/learn.py\n"},
        {"prog/learn.sh": "WORLD_SIZE=4 python learn.py\n"},
        {"prog/learn.sh": "python learn.py\n", "README.md": "On a node:\n\n    torchrun --nproc_per_node 8 \\\n      learn.py\n"},
        {"prog/learn.sh": "python learn.py\n", "wide.py": "import prog.learn\n", "doc.md": "torchrun wide.py\n"},
        {"prog/learn.sh": "python learn.py\n", "go.py": "import subprocess\nsubprocess.run(['torchrun', 'learn.py'])\n"},
        {"prog/learn.sh": "python learn.py\n", "prog/net.py": "import torch.multiprocessing as mp\nmp.spawn(f, nprocs=8)\n"},
        {"prog/learn.sh": "python learn.py\n", "prog/loaders.py": LOADER.replace("rank == -1", "data.small")},
    ],
    ids=[
        "no script", "a rank", "open words", "ssh", "a world", "a README", "an importer", "a starter", "spawned",
        "another branch",
    ],
)  # fmt: skip
def test_a_program_that_may_be_several_processes_wastes(tree, files: dict[str, str]) -> None:
    tree({**TREE, **files})
    assert told(".") == ["warning"]
