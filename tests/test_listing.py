"""The files of a tree: git's list and the walk agree, in one order, and nothing that a repository configures is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from history import git

from dtlint.cli import run
from dtlint.git import listed_by_git
from dtlint.runs import listing
from dtlint.runs.listing import files_below, walk
from dtlint.runs.tree import Tree

NAMES = (
    "b.sh", "a.sh", "Z.sh", "a/b.sh", "a/a/c.sh", "a-b/c.sh", "a.b/c.sh", "a b/ü.sh", "deep/er/est/x.py", "é/y.py", "zz.json",
    ".github/w.yaml", "line\nbreak/z.sh",
)  # fmt: skip
STRANGE = b"\xff\xfe.sh"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose first half of files is tracked."""
    folder = (tmp_path / "tree").resolve()
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name in NAMES[: len(NAMES) // 2]:
        write(folder / name)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    for name in NAMES[len(NAMES) // 2 :]:
        write(folder / name)
    return folder


def write(file: Path, text: str = "torchrun train.py\n") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def listed(root: Path) -> list[str]:
    found = files_below(root)
    assert found.by_git
    return [file.relative_to(root).as_posix() for file in found.files]


class TestGitAndTheWalkAgree:
    def test_on_names_and_their_order(self, root: Path) -> None:
        Path(os.fsdecode(os.fsencode(root) + b"/" + STRANGE)).write_text("x")
        assert listed(root) == [file.relative_to(root).as_posix() for file in walk(root, root)]
        assert set(listed(root)) == {*NAMES, os.fsdecode(STRANGE)}

    def test_on_the_order_of_a_folder_and_what_lies_below(self, root: Path) -> None:
        assert listed(root)[:8] == [
            "Z.sh",
            "a.sh",
            "b.sh",
            "zz.json",
            ".github/w.yaml",
            "a/b.sh",
            "a/a/c.sh",
            "a b/ü.sh",
        ]

    def test_on_files_that_are_gone_links_and_pipes(self, root: Path) -> None:
        (root / "a.sh").unlink()
        (root / "b.sh").unlink()
        os.mkfifo(root / "b.sh")
        (root / "inner.sh").symlink_to("a/b.sh")
        (root / "outer.sh").symlink_to("/etc/passwd")
        (root / "nowhere.sh").symlink_to("nothing")
        (root / "folder").symlink_to("a")
        assert listed(root) == [file.relative_to(root).as_posix() for file in walk(root, root)]
        assert "inner.sh" in listed(root)
        assert not {"a.sh", "b.sh", "outer.sh", "nowhere.sh", "folder"} & set(listed(root))

    @pytest.mark.parametrize("name", ["node_modules", "third_party", "vendor", ".venv"])
    def test_on_folders_of_others(self, name: str, root: Path) -> None:
        before = listed(root)
        write(root / name / "x.sh")
        write(root / "a" / name / "x.sh")
        git(root, "add", "-A", "-f")
        assert listed(root) == before == [file.relative_to(root).as_posix() for file in walk(root, root)]

    def test_on_repositories_in_the_repository(self, root: Path) -> None:
        before = listed(root)
        for name in ("untracked", "tracked"):
            (root / name).mkdir()
            git(root / name, "init", "-q")
            write(root / name / "x.sh")
            git(root / name, "add", "-A")
            git(root / name, "commit", "-q", "-m", "x")
        git(root, "add", "tracked")
        assert listed(root) == before == [file.relative_to(root).as_posix() for file in walk(root, root)]


class TestWhatCounts:
    def test_ignored_files_do_not_unless_they_are_tracked(self, root: Path) -> None:
        write(root / ".gitignore", "*.sh\n!keep.sh\nout/\n")
        write(root / "new.sh")
        write(root / "keep.sh")
        write(root / "out" / "ds.json")
        assert {"new.sh", "out/ds.json"} & set(listed(root)) == set()
        assert {"a.sh", "keep.sh", ".gitignore"} <= set(listed(root))

    def test_what_the_users_git_ignores_does(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = listed(root)
        write(tmp_path / "ignore", "*\n")
        write(tmp_path / "config", f"[core]\n\texcludesFile = {tmp_path}/ignore\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
        assert listed(root) == before

    def test_a_folder_that_is_named_is_looked_at_whatever_it_is(self, root: Path, tmp_path: Path) -> None:
        write(root / ".gitignore", "out/\n")
        for folder in (root / "out", root / "third_party" / "x", tmp_path / "elsewhere"):
            write(folder / "x.sh")
            assert Tree(root, root).files(folder) == [folder / "x.sh"]
        assert Tree(root, root).files(root / "a") == [root / "a/b.sh", root / "a/a/c.sh"]

    def test_a_file_that_a_launch_names_is_read_though_ignored(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(root / ".gitignore", "out/\n")
        write(root / "out" / "ds.json", '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}')
        write(root / "a.sh", "deepspeed --num_gpus 8 train.py --deepspeed_config out/ds.json\n")
        monkeypatch.chdir(root)
        run(["check", ".", "--format", "concise"])
        assert "out/ds.json" in capsys.readouterr().out

    def test_the_hooks_of_git_find_the_same(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = listed(root)
        monkeypatch.setenv("GIT_DIR", str(tmp_path))
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
        monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
        assert listed(root) == before

    def test_more_files_than_are_looked_at_are_told(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(listing, "MOST_FILES", 3)
        monkeypatch.chdir(root)
        assert len(files_below(root).files) == 3
        run(["check", "."])
        assert "files below . were looked at" in capsys.readouterr().err

    def test_the_tree_is_listed_once(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Path] = []
        monkeypatch.setattr(listing, "listed_by_git", lambda folder: asked.append(folder) or listed_by_git(folder))
        monkeypatch.chdir(root)
        write(root / "ds.json", '{"train_batch_size": 64, "zero_optimization": {"stage": 3}}')
        run(["check", "."])
        assert asked == [root]


class TestWithoutGit:
    @pytest.fixture(params=["missing", "broken", "hanging", "a stranger's"])
    def no_git(
        self, request: pytest.FixtureRequest, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if request.param == "missing":
            monkeypatch.setenv("PATH", str(tmp_path))
        elif request.param == "broken":
            (root / ".git" / "index").write_bytes(b"nonsense")
        elif request.param == "hanging":
            write(tmp_path / "git", "#!/bin/sh\necho -n a.sh\nexec sleep 100\n")
            (tmp_path / "git").chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
            monkeypatch.setattr("dtlint.git.PATIENCE_SECONDS", 0.2)
        else:
            monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    @pytest.mark.usefixtures("no_git")
    def test_the_folders_are_walked_and_what_git_would_leave_out_is_told(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(root / ".gitignore", "*.py\n")
        assert listed_by_git(root) is None
        found = files_below(root)
        assert (found.by_git, found.files) == (False, tuple(walk(root, root)))
        monkeypatch.chdir(root)
        run(["check", "."])
        assert "git does not list the files here" in capsys.readouterr().err

    def test_no_repository_around_the_root_is_asked(self, root: Path) -> None:
        (root / "a" / ".git").mkdir()
        assert listed_by_git(root / "a") is None


class TestHostileRepositories:
    def test_nothing_that_a_repository_configures_is_run(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trace = tmp_path / "trace"
        program = tmp_path / "program"
        write(program, f"#!/bin/sh\necho $0 $* >> {trace}\ncat\n")
        program.chmod(0o755)
        hooks = tmp_path / "hooks"
        for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit", "reference-transaction"):
            write(hooks / hook, program.read_text())
            (hooks / hook).chmod(0o755)
            write(root / ".git" / "hooks" / hook, program.read_text())
            (root / ".git" / "hooks" / hook).chmod(0o755)
        write(root / ".gitattributes", "* filter=x diff=x merge=x text eol=crlf\n")
        write(tmp_path / "included", "".join(f"[{section}]\n\t{key} = {program}\n" for section, key in SETTINGS))
        config = root / ".git" / "config"
        with config.open("a") as more:
            more.write(
                f'[include]\n\tpath = {tmp_path}/included\n[includeIf "gitdir:**"]\n\tpath = {tmp_path}/included\n'
            )
            more.write("".join(f"[{section}]\n\t{key} = {program}\n" for section, key in SETTINGS))
            more.write(
                f"[core]\n\thooksPath = {hooks}\n\tuntrackedCache = true\n[extensions]\n\tworktreeConfig = true\n"
            )
        write(root / ".git" / "config.worktree", f"[core]\n\tfsmonitor = {program}\n")
        monkeypatch.chdir(root)
        subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)
        assert trace.exists(), "git status itself runs what the repository configures"
        trace.unlink()
        assert listed(root)
        assert run(["check", "."]) in (0, 1)
        assert run(["check", "a.sh"]) in (0, 1)
        assert not trace.exists()

    def test_a_partial_clone_fetches_nothing(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "more")
        git(root, "config", "uploadpack.allowFilter", "true")
        clone, trace = tmp_path / "clone", tmp_path / "trace"
        git(tmp_path, "clone", "-q", "--filter=tree:0", "--sparse", f"file://{root}", str(clone))
        git(clone, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
        write(tmp_path / "program", f'#!/bin/sh\necho $* >> {trace}\nexec git-upload-pack "$@"\n')
        (tmp_path / "program").chmod(0o755)
        git(clone, "config", "remote.origin.uploadpack", str(tmp_path / "program"))
        for packed in (clone / ".git" / "objects" / "pack").iterdir():
            packed.unlink()
        monkeypatch.chdir(clone)
        subprocess.run(["git", "ls-files", "--cached", "--others"], cwd=clone, capture_output=True, check=False)
        assert trace.exists(), "git itself runs what the repository configures"
        trace.unlink()
        listed_by_git(clone.resolve())
        assert run(["check", "."]) in (0, 1)
        assert not trace.exists()

    @pytest.mark.parametrize(
        "name",
        [
            "../outside.sh",
            "/etc/passwd",
            "a/../../outside.sh",
            ".git/config",
            "linked/outside.sh",
            "",
            "a//b.sh",
            "./a.sh",
        ],
    )
    def test_an_index_that_names_other_places_leads_nowhere(
        self, name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "outside.sh")
        (root / "linked").symlink_to(tmp_path)
        monkeypatch.setattr(listing, "listed_by_git", lambda folder: f"{name}\0a/b.sh\0".encode())
        assert listed(root) == ["a/b.sh"]

    def test_a_work_tree_that_is_another_folder_is_not_listed(self, root: Path, tmp_path: Path) -> None:
        write(tmp_path / "other" / "secret.sh")
        git(root, "config", "core.worktree", str(tmp_path / "other"))
        assert not any("secret" in str(file) for file in files_below(root).files)

    @pytest.mark.parametrize("place", ["include", "info/exclude", ".gitignore"])
    def test_a_pipe_in_the_place_of_a_file_does_not_hold_it_up(
        self, place: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dtlint.git.PATIENCE_SECONDS", 0.5)
        pipe = {"include": tmp_path / "pipe", "info/exclude": root / ".git" / "info" / "exclude"}.get(
            place, root / place
        )
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        if place == "include":
            git(root, "config", "include.path", str(pipe))
        assert set(NAMES) <= {file.relative_to(root).as_posix() for file in files_below(root).files}


SETTINGS = (
    ("core", "fsmonitor"), ("core", "pager"), ("core", "editor"), ("core", "sshCommand"), ("core", "askPass"),
    ("core", "gitProxy"), ("core", "alternateRefsCommand"), ("pager", "ls-files"), ("alias", "ls-files"),
    ('filter "x"', "clean"), ('filter "x"', "smudge"), ('filter "x"', "process"), ('diff "x"', "textconv"),
    ('diff "x"', "command"), ("diff", "external"), ('merge "x"', "driver"), ("credential", "helper"), ("gpg", "program"),
    ("interactive", "diffFilter"), ("sequence", "editor"), ('remote "origin"', "uploadpack"),
)  # fmt: skip
"""Settings of git that name programs."""
