"""Findings that are known already: hidden as long as there are no more of them, and said to be gone when they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dtlint.cli import run

FAULTY = """\
torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint node0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 16 --sequence-parallel \\
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce
"""
ONLY = ["--select", "tp-crosses-node", "--fail-on", "warning"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(FAULTY)
    return tmp_path


def known(folder: Path) -> None:
    assert run(["check", "run.sh", "--write-baseline", "known.json", *ONLY]) == 0


def test_a_baseline_counts_per_file_and_rule(folder: Path) -> None:
    known(folder)
    assert json.loads((folder / "known.json").read_text()) == {
        "version": 1,
        "counts": {"run.sh": {"tp-crosses-node": 1}},
    }


def test_known_findings_are_hidden_and_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known(folder)
    assert run(["check", "run.sh", "--baseline", "known.json", *ONLY]) == 0
    assert "dtlint: 1 finding hidden as known in known.json" in capsys.readouterr().err


def test_one_more_shows_all_of_its_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known(folder)
    (folder / "run.sh").write_text(FAULTY + FAULTY.replace("node0:29500", "node9:29500"))
    assert run(["check", "run.sh", "--baseline", "known.json", "--format", "concise", *ONLY]) == 1
    assert capsys.readouterr().out.count("tp-crosses-node") == 2


def test_an_entry_that_counts_too_many_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known(folder)
    (folder / "run.sh").write_text(FAULTY.replace("size 16", "size 8"))
    assert run(["check", "run.sh", "--baseline", "known.json", *ONLY]) == 0
    assert (
        "known.json counts 1 tp-crosses-node in run.sh, and there is none: write it anew with --write-baseline"
        in capsys.readouterr().err
    )


def test_files_that_were_not_read_are_not_stale(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known(folder)
    (folder / "other.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
    run(["check", "other.sh", "--baseline", "known.json", *ONLY])
    assert "known.json counts" not in capsys.readouterr().err


def test_what_cannot_be_ignored_is_not_known_either(folder: Path) -> None:
    (folder / "run.sh").write_text("# dtlint: ignore[tp-crosses-node]\n" + FAULTY)
    run(["check", "run.sh", "--write-baseline", "known.json"])
    rules = json.loads((folder / "known.json").read_text())["counts"].get("run.sh", {})
    assert "unexplained-ignore" not in rules


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "dtlint: no such baseline: known.json"),
        ("[]", "dtlint: known.json is no baseline: write one with --write-baseline known.json"),
        ("{", "dtlint: known.json is no baseline: not JSON"),
        ('{"version": 2, "counts": {}}', "dtlint: known.json is no baseline"),
        ('{"version": 1, "counts": {"a": {"b": "c"}}}', "dtlint: known.json is no baseline"),
    ],
)
def test_a_baseline_that_is_none(
    folder: Path, text: str | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (folder / "known.json").write_text(text)
    assert run(["check", "run.sh", "--baseline", "known.json"]) == 2
    assert capsys.readouterr().err.startswith(sentence)
