"""What is said of launches in a tree whose program lies elsewhere: it may be a fork of what its words look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

SHAPE = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096"
MEGATRON = f"torchrun --nproc_per_node 8 megatron/pretrain_gpt.py {SHAPE} --vocab-size 32000 --bf16"
TENSOR = (
    f"{MEGATRON} --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --recompute-activations\n"
)
PIPELINE = f"{MEGATRON} --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 16 --use-flash-attn\n"
MISSPELT = f"{MEGATRON.replace('megatron/', '')} --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --sequence-paralel\n"


def severities(folder: Path, named: bool, rule: str) -> list[str]:
    (folder / ".git").mkdir(exist_ok=True)
    asked = folder / "run.sh" if named else folder
    return [finding.severity for finding in check([asked]).findings if finding.rule == rule]


@pytest.mark.parametrize(
    ("text", "rule", "strictly"),
    [(TENSOR, "sequence-parallel-off", "warning"), (MISSPELT, "unknown-setting", "error")],
)
def test_what_hangs_on_the_program_is_a_note_until_the_launch_is_named(
    tmp_path: Path, text: str, rule: str, strictly: str
) -> None:
    (tmp_path / "run.sh").write_text(text)
    assert severities(tmp_path, False, rule) == ["note"]
    assert severities(tmp_path, True, rule) == [strictly]


def test_arithmetic_holds_for_every_fork(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(PIPELINE)
    assert severities(tmp_path, False, "pipeline-bubble") == ["warning"]


def test_a_program_in_the_tree_is_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "megatron").mkdir()
    (tmp_path / "megatron" / "pretrain_gpt.py").write_text(
        "from megatron.training import pretrain\npretrain(datasets, model, step)\n"
    )
    (tmp_path / "run.sh").write_text(TENSOR)
    assert severities(tmp_path, False, "sequence-parallel-off") == ["warning"]
