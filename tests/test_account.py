"""The account of a run has all that it looked at: no module looks at the disk in another way."""

from __future__ import annotations

import ast
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from history import git

import dtlint
from dtlint import account
from dtlint.account import NOTHING, content, entries, is_file, is_folder, is_there, keeping, kind_at
from dtlint.resting import rest_of, still
from dtlint.runs.kinds import HEAD

PACKAGE = Path(dtlint.__file__).parent

LOOKS = frozenset(
    ("exists", "glob", "is_dir", "is_file", "is_symlink", "isdir", "isfile", "islink", "iterdir", "lexists", "listdir", "lstat",
     "open", "read_bytes", "read_text", "readlink", "rglob", "scandir", "stat", "walk_tree")
)  # fmt: skip
"""Names of functions that look at the disk."""

ELSEWHERE = (
    "account.py", "answers.py", "resting.py", "shelf.py", "git.py", "starting.py", "streams.py", "replacing.py", "compiled.py",
    "revisions.py", "fix.py", "lsp/", "comparing.py", "rulebook/examples.py",
)  # fmt: skip
"""Modules that keep accounts, write, or belong to commands whose answers are not kept."""

OWN_DATA = (
    "catalog/", "plan/vocabulary.py", "config_schema.py", "rulebook/load.py", "rulebook/house.py", "runs/settle.py",
    "frameworks/megatron/known.py", "frameworks/megatron/combinations.py", "report/html/document.py", "report/explain.py",
)  # fmt: skip
"""Modules that read files of dtlint itself, and no others in this way."""


def looks(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            yield node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"


def test_no_module_looks_at_the_disk_past_the_account() -> None:
    strayed = {
        name: found
        for file in PACKAGE.rglob("*.py")
        if not (name := file.relative_to(PACKAGE).as_posix()).startswith((*ELSEWHERE, *OWN_DATA))
        and (found := set(looks(file)))
    }
    assert strayed == {}


def test_modules_with_data_of_their_own_read_nothing_else() -> None:
    for name in OWN_DATA:
        for file in PACKAGE.rglob("*.py") if name.endswith("/") else [PACKAGE / name]:
            if file.relative_to(PACKAGE).as_posix().startswith(name):
                assert set(looks(file)) <= {"open", "read_text", "scandir", "is_dir", "is_file", "stat"}, file


def test_looks_of_other_processes_are_taken_over() -> None:
    """What another process looks at is in no account here, unless it comes back."""
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        starts = any(
            word in text
            for word in (
                "subprocess.Popen(",
                "multiprocessing.",
                "import multiprocessing",
                "os.fork(",
                "concurrent.futures",
            )
        )
        assert not starts or "include(" in text, f"{file} starts a process: its account has to be included"


TRACED = """
import json, os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event in ("open", "os.scandir", "os.listdir") else None)
from dtlint.account import keeping
from dtlint.cli import run
with keeping() as account:
    run(sys.argv[1:])
noted = [*account.kinds, *account.contents, *account.folders]
print("\\0" + json.dumps([[os.path.join(os.getcwd(), os.fsdecode(each)) for each in opened if isinstance(each, (str, bytes))], noted]))
"""


@pytest.mark.parametrize("words", [["check", "."], ["check", ".", "--rules", "ours"], ["check", "launch.sh", "a"]])
def test_whatever_is_opened_below_the_root_is_in_the_account(words: list[str], tmp_path: Path) -> None:
    from test_house_rules import GOOD

    files = {
        "launch.sh": "#!/bin/bash\nsource env.sh\nsbatch job.sh\ntorchrun --nproc_per_node 8 train.py --deepspeed conf/ds.json\n",
        "job.sh": "#SBATCH --nodes=2\nsrun python train.py --config-name main\n",
        "env.sh": "export A=1\n",
        "train.py": "import deepspeed, hydra\nfrom a.models import model\n@hydra.main(config_path='conf', config_name='main')\ndef main(): pass\n",
        "a/models.py": "import torch.distributed as dist\n",
        "conf/ds.json": '{"train_batch_size": 64, "zero_optimization": {"stage": 3}}',
        "conf/main.yaml": "defaults: [trainer/big]\nexp_manager: {}\n",
        "conf/trainer/big.yaml": "devices: 8\n",
        "job.yaml": "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n",
        "requirements.txt": "torch==2.4\n",
        "dtlint.toml": "fail-on = 'never'\n",
        "ours/a.yaml": GOOD,
        "run": "#!/bin/bash\ntorchrun x.py\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    done = subprocess.run(
        [sys.executable, "-c", TRACED, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    opened, noted = json.loads(done.stdout.rpartition("\0")[2])
    below = {file for file in opened if Path(file).is_relative_to(tmp_path)}
    assert below - set(noted) == set()
    assert str(tmp_path / "train.py") in below


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("text")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b").write_text("b")
    return tmp_path


class TestWhatAnAnswerRestsOn:
    def test_an_account_that_nobody_vouches_for_is_not_kept(self, folder: Path) -> None:
        with keeping() as own:
            is_file("a")
        assert rest_of(own) is None

    def test_nor_one_that_is_spoiled(self, folder: Path) -> None:
        with keeping() as own:
            account.vouch()
            account.spoil()
        assert rest_of(own) is None

    @pytest.mark.parametrize("name", ["a", "below", "nothing", "below/b"])
    def test_a_kind_is_seen_again(self, name: str, folder: Path) -> None:
        with keeping() as own:
            kind_at(name)
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        assert still(rest) is not None
        (folder / "x").mkdir()
        (folder / name).rename(folder / "x" / "moved") if is_there(name) else (folder / name).write_text("")
        assert still(rest) is None

    def test_what_changes_during_a_run_is_not_kept(self, folder: Path) -> None:
        for change in (lambda: (folder / "a").unlink(), lambda: (folder / "new").mkdir()):
            with keeping() as own:
                assert (is_file("a"), is_folder("new")) in ((True, False), (False, False))
                account.vouch()
            change()
            assert rest_of(own) is None

    def test_a_file_that_changes_between_two_looks_is_not_kept(self, folder: Path) -> None:
        with keeping() as own:
            content(folder / "a", 100)
            (folder / "a").write_text("other text")
            content(folder / "a", 100)
            account.vouch()
        assert rest_of(own) is None

    def test_a_run_sees_one_state_of_a_path(self, folder: Path) -> None:
        with keeping():
            assert is_file("a")
            (folder / "a").unlink()
            assert is_file("a")
        assert kind_at("a") == NOTHING

    def test_of_a_file_of_which_the_beginning_was_read_the_rest_may_differ(self, folder: Path) -> None:
        text = "x" * HEAD + "y"
        (folder / "a").write_text(text)
        with keeping() as own:
            content(folder / "a", 10**6, HEAD)
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        (folder / "a").write_text("x" * HEAD + "z")
        assert still(rest) is not None
        (folder / "a").write_text("z" * (HEAD + 1))
        assert still(rest) is None

    def test_of_a_file_that_is_too_long_the_length_counts(self, folder: Path) -> None:
        with keeping() as own:
            assert content(folder / "a", 3) == (4, b"")
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        (folder / "a").write_text("txet")
        assert still(rest) is not None
        (folder / "a").write_text("txe")
        assert still(rest) is None

    def test_links_count_with_where_they_lead(self, folder: Path) -> None:
        (folder / "link").symlink_to("below")
        (folder / "other").mkdir()
        (folder / "other" / "b").write_text("b")
        with keeping() as own:
            own.started = (folder / "link").lstat().st_ctime_ns + 1
            content(folder / "link" / "b", 100)
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        assert still(rest) is not None
        (folder / "link").unlink()
        (folder / "link").symlink_to("other")
        assert still(rest) is None

    @pytest.mark.parametrize("first", ["a", "link"])
    def test_a_file_that_was_read_through_a_link_counts_whatever_was_looked_at_first(
        self, first: str, folder: Path
    ) -> None:
        (folder / "link").symlink_to("a")
        with keeping() as own:
            own.started = (folder / "link").lstat().st_ctime_ns + 1
            is_file(folder / first)
            content(folder / "link", 100)
            is_file(folder / "a")
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        assert still(rest) is not None
        (folder / "a").write_text("txet")
        assert still(rest) is None

    def test_a_folder_that_was_listed_counts_with_what_it_holds(self, folder: Path) -> None:
        with keeping() as own:
            assert entries("below") == (("b", "file"),)
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        (folder / "below" / "b").write_text("another text")
        assert still(rest) is not None
        (folder / "below" / "c").write_text("")
        assert still(rest) is None

    def test_looks_of_another_process_can_be_taken_over(self, folder: Path) -> None:
        with keeping() as elsewhere:
            content(folder / "a", 100)
        with keeping() as own:
            account.include(pickle.loads(pickle.dumps(elsewhere)))
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        (folder / "a").write_text("txet")
        assert still(rest) is None

    def test_what_another_process_saw_differently_is_not_kept(self, folder: Path) -> None:
        with keeping() as elsewhere:
            is_file(folder / "new")
        (folder / "new").write_text("")
        with keeping() as own:
            is_file(folder / "new")
            account.include(elsewhere)
            account.vouch()
        assert rest_of(own) is None

    def test_a_folder_that_is_not_there_counts_too(self, folder: Path) -> None:
        with keeping() as own:
            assert entries("nothing") is None
            account.vouch()
        rest = rest_of(own)
        assert rest is not None
        (folder / "nothing").mkdir()
        assert still(rest) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"):
        content(tmp_path / "pipe", 100)
