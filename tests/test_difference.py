"""`dtlint diff`: what a change does to plans and their cost, on a small history and on two folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from history import git
from snapshot import holds

from dtlint.cli import run

LAUNCH = """\
#!/bin/bash
#SBATCH --nodes=8
#SBATCH --gres=gpu:h100:8
TP=8
PP=2
srun torchrun --nnodes 8 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint node0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel \\
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --group-query-attention --num-query-groups 8 \\
  --ffn-hidden-size 28672 --swiglu --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 128 --bf16 --use-distributed-optimizer \\
  --overlap-grad-reduce --overlap-param-gather --train-iters 1000
"""
WORSE = LAUNCH.replace("TP=8", "TP=16").replace("PP=2", "PP=1")
LINKS = ["--set", "cluster.internode_gbit_per_s=400", "--set", "cluster.usd_per_gpu_hour=2.5"]


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """main has the good plan; the branch `wider` the bad one, a second launch, and a file that is about nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, {"jobs/train.slurm": LAUNCH, "README.md": "x\n"})
    git(tmp_path, "checkout", "-q", "-b", "wider")
    commit(
        tmp_path, {"jobs/train.slurm": WORSE, "jobs/small.sh": "torchrun --nproc_per_node 8 train.py\n", "a.txt": "b\n"}
    )
    return tmp_path


def commit(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def test_a_branch_against_main(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "main", "wider", *LINKS]) == 0
    holds("difference.txt", capsys.readouterr().out)


def test_the_comment_on_a_pull_request(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "main", "wider", "--format", "markdown", *LINKS]) == 0
    text = capsys.readouterr().out
    holds("difference.md", text)
    assert text.startswith("[//]: <> (dtlint-comment)\n### dtlint: a token takes ")


def test_json_has_both_plans(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "main", "wider", "--format", "json", *LINKS]) == 0
    found = json.loads(capsys.readouterr().out)
    (changed,) = [change for change in found["runs"] if change["before"] is not None]
    settings = {each["name"]: (each["before"], each["after"]) for each in changed["settings"]}
    assert settings["parallel.tensor"] == (8, 16)
    assert settings["parallel.pipeline"] == (2, 1)
    assert changed["slower"]["low"] > 0.05
    assert "tp-crosses-node" in [finding["rule"] for finding in found["new"]]
    assert changed["after"]["launch"]["path"] == "jobs/train.slurm"


def test_without_a_second_revision_the_files_as_they_are(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (history / "jobs" / "train.slurm").write_text(LAUNCH.replace("--micro-batch-size 1", "--micro-batch-size 2"))
    assert run(["diff", "main"]) == 0
    assert "batch.micro" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_nothing_is_said_where_no_plan_changed(history: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    commit(history, {"README.md": "another text\n"})
    assert run(["diff", "wider~1", "wider", "--format", form]) == 0
    assert capsys.readouterr().out == ""


def test_what_was_gone_is_said(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "wider", "main", *LINKS]) == 0
    out = capsys.readouterr().out
    assert "jobs/small.sh:1: gone: " in out
    assert "gone: warning[DT101 tp-crosses-node] jobs/train.slurm:4" in out


def test_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("old", LAUNCH), ("new", WORSE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.slurm").write_text(text)
    assert run(["diff", "old", "new"]) == 0
    assert capsys.readouterr().out.startswith("train.slurm:6: TP 8 x PP 2 x DP 4 on 64 GPUs")


def test_a_slowdown_over_the_limit_fails(history: Path) -> None:
    assert run(["diff", "main", "wider", "--fail-over", "5%", *LINKS]) == 1
    assert run(["diff", "wider", "main", "--fail-over", "5%", *LINKS]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["diff", "no-such"], "dtlint: no revision 'no-such' in "),
        (["diff", "main", "no-such"], "dtlint: no revision 'no-such' in "),
        (["diff", "main", "--format", "sarif"], "unknown format 'sarif'; formats are text, json, markdown"),
        (["diff"], "Missing argument 'BASE'"),
    ],
)
def test_wrong_use(history: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""


def test_outside_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run(["diff", "main"]) == 2
    assert (
        "is not in a git work tree: give two folders, or call dtlint diff inside a repository"
        in capsys.readouterr().err
    )
