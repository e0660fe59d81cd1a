"""Programs that stop themselves by what the command line says: told where it is certain, and what they waste is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

TRAIN = """\
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel


def main(args):
    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(Net().cuda())
    if args.resume:
        REFUSES
    for batch in loader:
        model(batch).backward()


parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
args = parser.parse_args()
CALLS
"""
OTHER = "torchrun --nproc_per_node 8 other.py\n"


def found(folder: Path, words: str, refuses: str = "assert False", calls: str = "main(args)") -> dict[str, str]:
    (folder / "train.py").write_text(TRAIN.replace("REFUSES", refuses).replace("CALLS", calls))
    launch = f"export NCCL_P2P_DISABLE=1\ntorchrun --nproc_per_node 4 train.py {words}\n"
    (folder / "run.sh").write_text(launch)
    (folder / "other.sh").write_text(OTHER)
    (folder / "other.py").write_text(TRAIN.replace("REFUSES", "print(1)").replace("CALLS", "main(args)"))
    return {each.rule: each.severity for each in check([folder]).findings}


@pytest.mark.parametrize(
    "refuses", ["assert False", "assert False, 'no'\n        load(args)", "raise ValueError(args)"]
)
def test_it_is_told_and_what_the_run_wastes_is_not(tmp_path: Path, refuses: str) -> None:
    told = found(tmp_path, "--resume a.pth", refuses)
    assert "own-refusal" in told
    assert "nccl-transport-disabled" not in told


@pytest.mark.parametrize(
    ("words", "refuses", "calls"),
    [
        ("", "assert False", "main(args)"),
        ("--resume $LAST", "assert False", "main(args)"),
        ("--resume a.pth", "print(args)", "main(args)"),
        ("--resume a.pth", "assert args", "main(args)"),
        ("--resume a.pth", "assert False", "try:\n    main(args)\nexcept Exception:\n    print(1)"),
        ("--resume a.pth", "assert False", "if wanted():\n    main(args)"),
        ("--resume a.pth", "assert False", "args.resume = ''\nmain(args)"),
        ("--resume a.pth", "assert False", "vars(args).update(more)\nmain(args)"),
    ],
)
def test_what_is_not_certain_is_not_told(tmp_path: Path, words: str, refuses: str, calls: str) -> None:
    assert "own-refusal" not in found(tmp_path, words, refuses, calls)
