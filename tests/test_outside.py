"""Nothing outside of the root is opened, whatever a file, a link or a config of a stranger says; no pipe is waited at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from history import git

import dtlint
from dtlint.cli import run
from dtlint.config import Config, ConfigError, find_config
from dtlint.config_file import parse_config
from dtlint.ground import work_tree
from dtlint.rulebook.house import house_rules
from dtlint.rulebook.rule import RuleError
from dtlint.runs.listing import walk

DEEPSPEED = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}'
LEADS_OUT = (
    "../outside.json", "../../../../../../etc/passwd", "/etc/passwd", "$PWD/../outside.json", "link.json", "linked/outside.json",
    "file:///etc/passwd", "~/outside.json", "./a/../../outside.json",
)  # fmt: skip
NAMES = (
    "deepspeed train.py --deepspeed_config {}", "accelerate launch --config_file {} train.py", "source {}", ". {}",
    "bash {}", "cat {} > ds.json", "X=$(< {}); torchrun train.py --deepspeed $X", "torchrun {}", "deepspeed --hostfile {} train.py",
    "python train.py --config-path .. --config-name {}", "cp {} ds.json; deepspeed train.py --deepspeed_config ds.json",
    "torchrun train.py $(jq .x {})", "sed -i s/a/b/ {}", "model=$(cat {})\ntorchrun train.py --model_name_or_path ..",
)  # fmt: skip
MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              command: [bash, ../outside.sh]
          volumes: [{name: a, hostPath: {path: /etc}}, {name: b, configMap: {name: ../outside}}]
"""
TRACED = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event in ("open", "os.scandir", "os.listdir") else None)
from dtlint.cli import run
for words in json.loads(sys.argv[1]):
    assert run(words) in (0, 1)
print("\\0" + json.dumps([os.fsdecode(each) for each in opened if isinstance(each, (str, bytes))]))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git work tree with files that name what lies beside it."""
    folder = tmp_path / "tree"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "outside.json").write_text(DEEPSPEED)
    (tmp_path / "outside.sh").write_text("torchrun --nproc_per_node 16 train.py\n")
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    (folder / "link.sh").symlink_to(tmp_path / "outside.sh")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    (folder / "loop.json").symlink_to(folder / "loop.json")
    monkeypatch.chdir(folder)
    return folder


def opened_by(commands: list[list[str]], folder: Path) -> list[Path]:
    done = subprocess.run(
        [sys.executable, "-c", TRACED, json.dumps(commands)], cwd=folder, capture_output=True, text=True, check=True
    )
    return [Path(folder, name).resolve() for name in json.loads(done.stdout.rpartition("\0")[2])]


def test_a_whole_run_opens_the_root_the_package_and_the_cache_alone(root: Path) -> None:
    scripts = [name.format(path) for name in NAMES for path in LEADS_OUT]
    for number, script in enumerate(scripts):
        (root / f"{number}.sh").write_text(f"#!/bin/bash\n{script}\ntorchrun --nproc_per_node 8 train.py\n")
    (root / "job.yaml").write_text(MANIFEST)
    (root / "train.py").write_text("import deepspeed\nfrom linked import outside\nopen('/etc/passwd')\n")
    (root / "requirements.txt").write_text("-r ../outside.txt\ntorch==2.4\n")
    (root / "conf.yaml").write_text("defaults: [../../outside, /etc/passwd]\ntrainer: {devices: 8}\nexp_manager: {}\n")
    commands = [["check", "."], ["plan", "job.yaml"], ["check", "--diff", "0.sh"], ["explain", "DT301", "."]]
    opened = opened_by(commands, root)
    package = Path(dtlint.__file__).parents[1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dtlint")
    allowed = (
        root,
        package,
        cache,
        *(Path(each).resolve() for each in sys.path if each),
        Path(sys.base_prefix).resolve(),
    )
    strange = {file for file in opened if not any(file.is_relative_to(folder) for folder in allowed)}
    assert strange - {Path(os.devnull)} == set()
    assert any(file.name == "job.yaml" for file in opened)


def test_links_that_lead_outside_and_loops_are_passed_over(root: Path) -> None:
    (root / "own.sh").write_text("torchrun train.py\n")
    (root / "alias.sh").symlink_to(root / "own.sh")
    assert [file.name for file in walk(root, root)] == ["alias.sh", "own.sh"]


def test_pipes_and_devices_are_passed_over(root: Path) -> None:
    for name in ("pipe", "pipe.sh", "pipe.json", "requirements.txt", "train.py"):
        os.mkfifo(root / name)
    (root / "zero.sh").symlink_to("/dev/zero")
    (root / "ds.json").write_text(DEEPSPEED)
    assert [run.launch for run in dtlint.check(["."]).runs] == [None]
    for name in ("pipe", "pipe.sh", "zero.sh"):
        report = dtlint.check([name])
        assert report.runs == ()
        assert [finding.rule for finding in report.findings] == ["unreadable-input"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_a_finding(root: Path) -> None:
    (root / "a.sh").write_text("torchrun train.py\n")
    (root / "a.sh").chmod(0)
    assert [finding.rule for finding in dtlint.check(["a.sh"]).findings] == ["unreadable-input"]


class TestConfigsOfStrangers:
    def test_a_config_that_is_a_link_out_of_the_repository_is_refused_unread(self, root: Path) -> None:
        (root.parent / "secret").write_text('ignore = ["DT301"]')
        (root / "dtlint.toml").symlink_to(root.parent / "secret")
        with pytest.raises(ConfigError, match="leads outside of the repository"):
            find_config(root, work_tree().text)
        assert run(["check", "."]) == 2

    @pytest.mark.parametrize("folder", ["../rules", "/etc", "a/../../b", "linked", "\\u0000"])
    def test_rules_outside_of_the_repository_are_refused(self, root: Path, folder: str) -> None:
        with pytest.raises(ConfigError, match=r":1: .*lies outside of the repository"):
            parse_config(f'rule-folders = ["{folder}"]\n', "dtlint.toml", root)

    def test_rules_of_the_repository_are_taken_from_a_folder_of_it(self, root: Path) -> None:
        (root / "sub").mkdir()
        config = parse_config('rule-folders = ["../ours"]\n', "sub/dtlint.toml", root / "sub")
        assert isinstance(config, Config)

    def test_a_rule_that_is_a_link_out_of_the_repository_is_not_read(self, root: Path) -> None:
        (root / "ours").mkdir()
        (root.parent / "a.yaml").write_text("id: [")
        (root / "ours" / "a.yaml").symlink_to(root.parent / "a.yaml")
        with pytest.raises(RuleError, match="no rule files"):
            house_rules(root / "ours")


def test_the_filters_of_a_repository_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "run.sh").write_text("torchrun --nnodes 2 --nproc_per_node 8 train.py\n")
    (tmp_path / ".gitattributes").write_text("*.sh filter=fetch export-ignore\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    git(tmp_path, "config", "filter.fetch.smudge", f"touch {tmp_path}/started; cat")
    (tmp_path / "run.sh").write_text("torchrun --nnodes 2 --nproc_per_node 4 train.py\n")
    assert run(["diff", "main"]) in (0, 1)
    assert not (tmp_path / "started").exists()
    assert "gone" not in (shown := capsys.readouterr().out) and "new:" not in shown
