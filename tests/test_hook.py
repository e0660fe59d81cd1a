"""The pre-commit hooks: which files they are given, and what they do in a repository, run by pre-commit itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from history import NAMES

from dtlint.runs.tree import SHELL_SUFFIXES

ROOT = Path(__file__).parents[1]
LAUNCH = """\
#!/bin/bash
deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config conf/ds.json
"""
TRAIN = """\
import deepspeed

engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model)
"""
FITTING = """\
{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4
}
"""
MISFIT = FITTING.replace('"gradient_accumulation_steps": 4', '"gradient_accumulation_steps": 3')


def hooks() -> dict[str, dict[str, object]]:
    found = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return {hook["id"]: hook for hook in found}


def test_the_hooks_run_the_entry_point() -> None:
    assert {name: (hook["entry"], hook["language"]) for name, hook in hooks().items()} == {
        "dtlint": ("dtlint check", "python"),
        "dtlint-fix": ("dtlint check --fix", "python"),
    }


@pytest.mark.parametrize("name", ["dtlint", "dtlint-fix"])
def test_the_hooks_are_given_every_kind_of_script(name: str) -> None:
    pattern = str(hooks()[name]["files"])
    names = [f"train{suffix}" for suffix in (*SHELL_SUFFIXES, ".json", ".hjson", ".yaml", ".yml", ".toml", ".py")]
    assert [name for name in names if not re.search(pattern, name)] == []
    assert not re.search(pattern, "README.md")


class Repository:
    """A git repository whose commits the hooks look at; they run the dtlint of these tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, **NAMES, "PATH": tools, "PRE_COMMIT_HOME": str(folder / ".cache")}
        self.run("git", "init", "-q", "-b", "main")
        (folder / ".gitignore").write_text(".cache\n")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)

    def use(self, hook: str) -> None:
        entry = {**hooks()[hook], "language": "system"}
        config = {"repos": [{"repo": "local", "hooks": [entry]}]}
        (self.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        self.run("git", "add", "-A")
        assert self.run("git", "commit", "-q", "-m", "start").returncode == 0
        assert self.run("pre-commit", "install").returncode == 0

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / name.replace("__", ".").replace("_in_", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def commit(self) -> subprocess.CompletedProcess[str]:
        self.run("git", "add", "-A")
        return self.run("git", "commit", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write(launch__sh=LAUNCH, train__py=TRAIN, conf_in_ds__json=FITTING)
    return made


def test_a_config_alone_is_judged_with_the_launch_that_names_it(repository: Repository) -> None:
    repository.use("dtlint")
    repository.write(conf_in_ds__json=MISFIT)
    done = repository.commit()
    assert done.returncode == 1
    assert "train batch 64 is not 2 x 3 x 8 = 48" in done.stdout + done.stderr
    assert "conf/ds.json:2:" in done.stdout + done.stderr


def test_a_mistake_elsewhere_does_not_stop_a_commit(repository: Repository) -> None:
    repository.write(conf_in_ds__json=MISFIT)
    repository.use("dtlint")
    repository.write(other__py="print('not about training')\n", notes__json='{"a": 1}\n')
    assert repository.commit().returncode == 0


def test_a_right_change_passes(repository: Repository) -> None:
    repository.use("dtlint")
    repository.write(conf_in_ds__json=FITTING.replace('batch_size": 64', 'batch_size": 128').replace("4\n", "8\n"))
    done = repository.commit()
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixing_hook_mends_the_file_and_stops_the_commit(repository: Repository) -> None:
    repository.use("dtlint-fix")
    repository.write(conf_in_ds__json=MISFIT)
    done = repository.commit()
    assert done.returncode == 1
    assert "files were modified by this hook" in done.stdout + done.stderr
    assert (repository.folder / "conf" / "ds.json").read_text() == FITTING
