"""`--config-from`: what a change under review says of the check itself does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from history import git

from dtlint.cli import run

FAULTY = """\
torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint node0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 16 --sequence-parallel \\
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce
"""
IGNORED = "# dtlint: ignore[tp-crosses-node] measured\n" + FAULTY
CHECK = ["check", "run.sh", "--fail-on", "warning", "--select", "tp-crosses-node", "--format", "concise"]
RULE = """\
id: OUR001
name: no-sixteen
summary: No TP of 16
when: parallel.tensor == 16
outcome: launch-fails
say: "TP is {parallel.tensor}"
at: parallel.tensor
why: ours
sources: [seed]
examples:
  - bad: |
      torchrun pretrain_gpt.py --tensor-model-parallel-size 16 --pipeline-model-parallel-size 1
  - bad: |
      torchrun pretrain_gpt.py --tensor-model-parallel-size 16 --pipeline-model-parallel-size 2
  - good: |
      torchrun pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 1
  - good: |
      torchrun pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 1
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose branch `main` holds the faulty launch script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(FAULTY)
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def test_a_new_ignore_does_not_count(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "run.sh").write_text(IGNORED)
    assert run(CHECK) == 0
    assert run([*CHECK, "--config-from", "main"]) == 1
    assert "run.sh:1: this ignore is new, and does not count here" in capsys.readouterr().err


def test_an_ignore_that_was_there_counts_wherever_it_moved(repository: Path) -> None:
    (repository / "run.sh").write_text(IGNORED)
    commit(repository)
    (repository / "run.sh").write_text("#!/bin/bash\n\n" + IGNORED)
    assert run([*CHECK, "--config-from", "main"]) == 0


def test_a_second_ignore_of_the_same_words_is_new(repository: Path) -> None:
    (repository / "run.sh").write_text(IGNORED)
    commit(repository)
    (repository / "run.sh").write_text(IGNORED + IGNORED.replace("node0", "node9"))
    assert run([*CHECK, "--config-from", "main"]) == 1


def test_a_new_config_does_not_count(repository: Path) -> None:
    (repository / "dtlint.toml").write_text('ignore = ["tp-crosses-node"]\n')
    assert run(CHECK) == 0
    assert run([*CHECK, "--config-from", "main"]) == 1
    commit(repository)
    assert run([*CHECK, "--config-from", "main"]) == 0


def test_house_rules_are_those_of_the_revision(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "dtlint.toml").write_text('rule-folders = ["our-rules"]\n')
    (repository / "our-rules").mkdir()
    (repository / "our-rules" / "rule.yaml").write_text(RULE)
    commit(repository)
    (repository / "our-rules" / "rule.yaml").write_text(RULE.replace("when: parallel.tensor == 16", "when: false"))
    check = ["check", ".", "--select", "no-sixteen", "--format", "concise"]
    assert run(check) == 0
    assert run([*check, "--config-from", "main"]) == 1
    assert "TP is 16" in capsys.readouterr().out


def test_a_new_baseline_does_not_count(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHECK, "--write-baseline", "known.json"]) == 0
    assert run([*CHECK, "--baseline", "known.json"]) == 0
    assert run([*CHECK, "--baseline", "known.json", "--config-from", "main"]) == 2
    assert "no such baseline: known.json" in capsys.readouterr().err


def test_a_revision_that_does_not_exist(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHECK, "--config-from", "no-such-branch"]) == 2
    assert capsys.readouterr().err.startswith("dtlint: no revision 'no-such-branch' in ")


def test_a_revision_is_no_option_of_git(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHECK, "--config-from", "--output=stolen"]) == 2
    assert not (repository / "stolen").exists()


def test_a_folder_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "run.sh").write_text(FAULTY)
    assert run([*CHECK, "--config-from", "main"]) == 2
    assert "is not in a git work tree" in capsys.readouterr().err
