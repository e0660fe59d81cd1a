"""Files far beyond what people write: each is read within its bound, or said to be too large, and soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtlint.api import check

MEBIBYTE = 1 << 20
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 40)
)
MERGES = "m0: &m0 {k: 1}\n" + "".join(f"m{n}: &m{n}\n  <<: [*m{n - 1}, *m{n - 1}]\n" for n in range(1, 60))

HUGE: dict[str, Callable[[], str]] = {
    "ds_config.json": lambda: '{"train_batch_size": 8, "notes": "' + "x" * (100 * MEBIBYTE) + '"}',
    "config.yaml": lambda: "deepspeed_config:\n  zero_stage: 2\n" + "# note\n" * (2 * MEBIBYTE),
    "bomb.yaml": lambda: "distributed_type: DEEPSPEED\nnum_processes: 8\n" + BOMB,
    "merges.yaml": lambda: "distributed_type: DEEPSPEED\nnum_processes: 8\n" + MERGES,
    "launch.sh": lambda: "export NCCL_DEBUG=INFO\n" * 1_000_000 + "torchrun --nproc_per_node 8 train.py\n",
    "train.py": lambda: "import torch.distributed as dist\n" + "x = 1\n" * 1_000_000,
    "long_line.sh": lambda: "torchrun --nproc_per_node 8 train.py " + "--flag value " * 400_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_file_ends_soon(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(HUGE[name]())
    monkeypatch.chdir(tmp_path)
    start = time.process_time()
    check([Path(name)])
    assert time.process_time() - start < 5
