"""Answers that were given before are given again where nothing changed that they rest on, and only there."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from history import git

from dtlint.cli_options import FORMATS

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes 2 --nproc_per_node {} train.py --deepspeed ds.json\n"
DEEPSPEED = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}'
PROGRAM = "import torch.distributed as dist\nimport helper\ndist.init_process_group('nccl')\n"
COMMAND = "from dtlint.cli import main; main()"
LONG_AGO = 1_700_000_000
"""A time in seconds long before the tests: what was written then cannot be about to change again."""


class Said:
    """What a command wrote, and its exit status."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.out, self.error, self.status = done.stdout, done.stderr, done.returncode

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Said) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.out)


class Place:
    """A work tree with a cache of its own, in which commands run as users run them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.cache = folder / "tree", folder / "cache"
        self.root.mkdir()
        git(self.root, "init", "-q", "-b", "main")
        self.write("launch.sh", SCRIPT.format(8))
        self.write("ds.json", DEEPSPEED)
        self.write("train.py", PROGRAM)
        self.write("conf/other.yaml", "a: 1\n")
        self.write("conf/README.md", "words\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "x")

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self, *words: str, current: str = ".", environment: Mapping[str, str] | None = None) -> Said:
        """`dtlint check` as a process of its own."""
        variables = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **(environment or {})}
        command = [sys.executable, "-c", COMMAND, "check", *(words or (".",))]
        return Said(subprocess.run(command, cwd=self.root / current, env=variables, capture_output=True, check=False))

    def fresh(self, *words: str, **more: object) -> Said:
        """The same without what was kept."""
        return self.check(*(words or (".",)), "--no-cache", **more)  # type: ignore[arg-type]

    def answers(self) -> list[Path]:
        """What is kept."""
        folder = self.cache / "dtlint" / "answers"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def mark(self) -> None:
        """Have the kept answers say that they are: whoever gives one again shows it."""
        for file in self.answers():
            file.write_bytes(marked(file.read_bytes()))

    def is_kept(self, *words: str, **more: object) -> bool:
        """Whether the answer to a command is a kept one."""
        self.mark()
        return b"KEPT" in self.check(*words, **more).out  # type: ignore[arg-type]


def marked(data: bytes) -> bytes:
    """A kept answer whose text on standard output says so."""
    return edited(data, lambda kept: kept[1].append(["out", "KEPT", ""]))


def edited(data: bytes, change: Callable[[list[object]], object]) -> bytes:
    """A kept answer with a change in it, and the digest that fits."""
    from dtlint.account import digest

    kept = json.loads(data.partition(b"\n")[2])
    change(kept)
    text = json.dumps(kept)
    return f"{digest(text.encode())}\n{text}".encode()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestTheSameAnswer:
    @pytest.mark.parametrize("form", FORMATS)
    def test_in_every_form(self, form: str, place: Place) -> None:
        words = (".", "--format", form, "--show-undecided")
        fresh = place.fresh(*words)
        assert (place.check(*words), fresh.status) == (fresh, 1)
        place.mark()
        again = place.check(*words)
        assert (again.out, again.error, again.status) == (fresh.out + b"KEPT", fresh.error, 1)

    def test_reports_in_files_are_written_again(self, place: Place) -> None:
        report = place.root / "conf" / "report.md"
        words = (".", "--format", "text", "--format", "markdown=conf/report.md")
        first = place.check(*words)
        text = report.read_text()
        place.check(*words)
        report.write_text("another one")
        assert (place.check(*words), report.read_text()) == (first, text)
        report.unlink()
        assert (place.check(*words), report.read_text()) == (first, text)

    def test_the_summary_of_a_job_is_written_again(self, place: Place, tmp_path: Path) -> None:
        summary = tmp_path / "summary"
        for _ in range(2):
            place.check(".", "--format", "github", environment={"GITHUB_STEP_SUMMARY": str(summary)})
        text = summary.read_text()
        assert text[: len(text) // 2] == text[len(text) // 2 :] != ""

    def test_of_a_tree_without_git(self, place: Place) -> None:
        (place.root / ".git").rename(place.root.parent / "git")
        first = place.check()
        assert (place.check(), place.is_kept()) == (first, True)
        place.write("conf/ds.json", DEEPSPEED.replace("64", "63"))
        assert place.check() == place.fresh() != first

    def test_of_a_file_and_of_a_command(self, place: Place) -> None:
        for words in (
            ("launch.sh",),
            ("--", "torchrun", "--nproc_per_node", "9", "train.py", "--deepspeed", "ds.json"),
        ):
            first = place.check(*words)
            assert place.check(*words) == first
            assert place.is_kept(*words)

    def test_remarks_come_again(self, place: Place) -> None:
        (place.root / "launch.sh").unlink()
        (place.root / "ds.json").unlink()
        (place.root / "train.py").unlink()
        first = place.check()
        assert b"nothing to check" in first.error
        assert (place.check(), place.is_kept()) == (first, True)


def same_size_and_time(place: Place) -> None:
    file = place.root / "launch.sh"
    before = file.stat()
    file.write_text(SCRIPT.format(9))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_with_its_times(place: Place) -> None:
    file, other = place.root / "ds.json", place.root / "conf" / "x"
    other.write_text(DEEPSPEED.replace("64", "60"))
    before = file.stat()
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)


CHANGES: Mapping[str, Callable[[Place], object]] = {
    "a content of the same size at the same time": same_size_and_time,
    "another file of the same size and time": replaced_with_its_times,
    "a config": lambda place: place.write("ds.json", DEEPSPEED.replace("64", "640")),
    "a file that a program imports": lambda place: place.write("helper.py", "import torch\n"),
    "a file that is gone": lambda place: (place.root / "ds.json").unlink(),
    "a folder in the place of a file": lambda place: ((place.root / "ds.json").unlink(), (place.root / "ds.json").mkdir()),
    "a file that nothing names": lambda place: place.write("conf/zero.json", DEEPSPEED),
    "a word in a file that had none": lambda place: place.write("conf/other.yaml", "distributed_type: FSDP\n"),
    "what is ignored": lambda place: place.write(".gitignore", "*.tmp\n"),
    "what this clone ignores": lambda place: (
        place.write("new.sh", SCRIPT.format(7)),
        place.check(),
        place.write(".git/info/exclude", "new.sh\n"),
    ),
    "a requirement": lambda place: place.write("requirements.txt", "deepspeed==0.9.0\n"),
    "a config of dtlint": lambda place: place.write("dtlint.toml", 'ignore = ["DT"]\n'),
    "no git": lambda place: (place.root / ".git" / "HEAD").unlink(),
    "a link that leads elsewhere": lambda place: (
        place.write("conf/ds.json", DEEPSPEED.replace("64", "62")),
        (place.root / "ds.json").unlink(),
        (place.root / "ds.json").symlink_to("conf/ds.json"),
    ),
    "a file that may not be executed but was": lambda place: (place.root / "launch.sh").rename(place.root / "start.sh"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change: str, place: Place) -> None:
    place.check()
    place.mark()
    CHANGES[change](place)
    assert place.check() == place.fresh()


@pytest.mark.parametrize("change", list(CHANGES)[:2])
def test_a_change_of_a_file_that_was_old_is_seen(change: str, place: Place) -> None:
    grow_old(place)
    place.check()
    assert place.is_kept()
    CHANGES[change](place)
    assert place.check() == place.fresh()


def grow_old(place: Place) -> None:
    """Wait until the times of the files tell that nothing changed."""
    for file in place.root.rglob("*"):
        if ".git" not in file.parts:
            os.utime(file, (LONG_AGO, LONG_AGO))
    time.sleep(2.1)


def test_a_touched_file_is_read_again_and_the_answer_stays(place: Place) -> None:
    grow_old(place)
    place.check()
    kept = place.answers()[0].read_bytes()
    (place.root / "launch.sh").touch()
    assert place.is_kept()
    assert place.answers()[0].read_bytes() != kept


def test_files_that_were_just_written_are_trusted_later(place: Place) -> None:
    def trusted() -> int:
        sights = json.loads(place.answers()[0].read_bytes().partition(b"\n")[2])[3]
        seen = [sight for sight in sights[str(place.root)].values() if isinstance(sight, list) and len(sight) == 6]
        return sum(sight[1] != 0 for sight in seen)

    place.check()
    assert trusted() == 0
    time.sleep(2.1)
    place.check()
    assert trusted() >= 3


class TestAnotherQuestion:
    @pytest.mark.parametrize(
        "words",
        [(".", "--arg", "1=3"), (".", "--env", "A=1"), (".", "--set", "cluster.gpu=H100"), (".", "--fail-on", "never"),
         (".", "--ignore", "DT1"), ("conf",), (".", "--format", "concise"), (".", "--show-undecided")],
    )  # fmt: skip
    def test_other_words(self, words: tuple[str, ...], place: Place) -> None:
        place.check()
        assert not place.is_kept(*words)

    @pytest.mark.parametrize(
        "variable", [("COLUMNS", "50"), ("FORCE_COLOR", "1"), ("LC_ALL", "C"), ("PYTHONIOENCODING", "latin-1")]
    )
    def test_another_terminal(self, variable: tuple[str, str], place: Place) -> None:
        place.check()
        environment = dict([variable])
        assert not place.is_kept(environment=environment)
        assert place.check(environment=environment) == place.fresh(environment=environment)

    def test_another_folder(self, place: Place) -> None:
        place.write("conf/launch.sh", SCRIPT.format(4))
        place.check("../conf", current="conf")
        assert not place.is_kept("../conf", current="../tree")

    def test_another_dtlint(self, place: Place, tmp_path: Path) -> None:
        import shutil

        import dtlint

        other = tmp_path / "other"
        shutil.copytree(Path(dtlint.__file__).parent, other / "dtlint", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(Path(dtlint.__file__).parents[1] / "rules", other / "rules")
        environment = {"PYTHONPATH": str(other)}
        place.check(environment=environment)
        assert place.is_kept(environment=environment)
        rule = other / "rules" / "pipeline" / "pipeline-bubble.yaml"
        rule = rule if rule.is_file() else next((other / "rules").rglob("*.yaml"))
        rule.write_text(rule.read_text() + "\n")
        assert not place.is_kept(environment=environment)

    def test_a_rule_of_the_house(self, place: Place, tmp_path: Path) -> None:
        rules = tmp_path / "ours"
        rules.mkdir()
        rule = rules / "a.yaml"
        text = HOUSE_RULE
        rule.write_text(text)
        words = (".", "--rules", str(rules))
        place.check(*words)
        assert place.is_kept(*words)
        rule.write_text(text.replace("too many", "far too many"))
        assert place.check(*words) == place.fresh(*words)
        (rules / "b.yaml").write_text(text.replace("OUR009", "OUR010").replace("name: ours", "name: others"))
        assert place.check(*words) == place.fresh(*words)

    def test_a_baseline_and_a_config_that_are_named(self, place: Place, tmp_path: Path) -> None:
        baseline, config = tmp_path / "known.json", tmp_path / "other.toml"
        place.check(".", "--write-baseline", str(baseline))
        config.write_text('fail-on = "error"\n')
        words = (".", "--baseline", str(baseline), "--config", str(config))
        first = place.check(*words)
        assert place.is_kept(*words)
        baseline.write_text('{"version": 1, "counts": {}}')
        assert place.check(*words) == place.fresh(*words) != first
        config.write_text('fail-on = "never"\n')
        assert place.check(*words).status == place.fresh(*words).status == 0


HOUSE_RULE = """\
id: OUR009
name: ours
summary: Too many processes
when: parallel.data > 1
outcome: slower
at: parallel.data
say: "{parallel.data} processes are too many"
why: We say so.
fine_when: Never.
cost: {amount: parallel.data, unit: processes}
examples:
  - bad: torchrun --nnodes 1 --nproc_per_node 8 train.py
    finds: [{line: 1}]
  - good: torchrun --nnodes 1 --nproc_per_node 1 train.py
"""


class TestNothingIsKept:
    @pytest.mark.parametrize(
        "words",
        [(".", "--no-cache"), (".", "--diff"), (".", "--fix"), (".", "--config-from", "HEAD"), (".", "--help"), ("-",),
         ("no-such-file",), (".", "--list-files"), (".", "--write-baseline", "known.json"), (".", "--no-such-option")],
    )  # fmt: skip
    def test_of_what_does_more_or_less_than_look_at_files(self, words: tuple[str, ...], place: Place) -> None:
        place.check(*words)
        assert place.answers() == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_where_a_file_may_not_be_read(self, place: Place) -> None:
        (place.root / "launch.sh").chmod(0)
        place.check()
        assert place.answers() == []

    def test_where_the_cache_cannot_be_written(self, place: Place) -> None:
        place.cache.write_text("a file")
        assert place.check() == place.fresh()

    def test_where_others_may_write(self, place: Place) -> None:
        first = place.check()
        folder = place.cache / "dtlint" / "answers"
        place.mark()
        folder.chmod(0o777)
        assert place.check() == first

    def test_where_the_folder_is_a_link(self, place: Place, tmp_path: Path) -> None:
        (place.cache / "dtlint").mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        (place.cache / "dtlint" / "answers").symlink_to(tmp_path / "elsewhere")
        place.check()
        assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_is_kept_is_private_and_the_tree_untouched(place: Place) -> None:
    before = sorted(str(file) for file in place.root.rglob("*"))
    place.check()
    file = place.answers()[0]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sorted(str(file) for file in place.root.rglob("*")) == before


SPOILERS: Mapping[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "another byte": lambda data: data[:-20] + b"X" + data[-19:],
    "no JSON": lambda data: b"0\n{",
    "binary": lambda data: bytes(range(256)) * 10,
    "deep": lambda data: edited(data, lambda kept: None)[:33] + b"[" * 100_000,
    "another question": lambda data: edited(data, lambda kept: kept.__setitem__(0, "x")),
    "no list": lambda data: edited(data, lambda kept: kept.__setitem__(1, 5)),
    "no status": lambda data: edited(data, lambda kept: kept.__setitem__(2, "zero")),
    "no sights": lambda data: edited(data, lambda kept: kept.__setitem__(3, [1])),
    "strange sights": lambda data: edited(data, lambda kept: kept.__setitem__(3, {"/": {"": [{}, [], None, 1, -5, 2]}})),
    "no listings": lambda data: edited(data, lambda kept: kept.__setitem__(4, [[]])),
    "a root with a NUL": lambda data: edited(data, lambda kept: kept.__setitem__(4, {"/\0": "x"})),
    "a file to write": lambda data: edited(data, lambda kept: kept[1].append(["file", "x", "other"])),
    "a file to add to": lambda data: edited(data, lambda kept: kept[1].append(["end", "x", "other"])),
    "somewhere else": lambda data: edited(data, lambda kept: kept[1].append(["nowhere", "x", ""])),
    "more than is kept": lambda data: marked(data) + b" " * 17_000_000,
}  # fmt: skip


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Asks for an answer that takes no time: what a file holds. Gives 1 for one that was worked out, 0 for a kept one."""
    from dtlint.account import content, vouch
    from dtlint.answers import answered
    from dtlint.streams import put

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    worked: list[int] = []

    def work() -> int:
        worked.append(1)
        put(content(Path("a.txt"), 1000)[1].decode())
        vouch()
        return 0

    def ask() -> int:
        worked.clear()
        assert answered(("check", "."), work) == 0
        return len(worked)

    return ask


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_kept_answer_that_is_not_whole_is_ignored(
    spoiler: str, quick: Callable[[], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (quick(), quick()) == (1, 0)
    (file,) = (tmp_path / "cache" / "dtlint" / "answers").iterdir()
    file.write_bytes(SPOILERS[spoiler](file.read_bytes()))
    (tmp_path / "other").write_text("as it was")
    capsys.readouterr()
    assert (quick(), quick()) == (1, 0)
    assert (capsys.readouterr().out, (tmp_path / "other").read_text()) == ("texttext", "as it was")


def test_the_oldest_go_when_they_are_too_many(tmp_path: Path) -> None:
    from dtlint.shelf import LARGEST, MOST_BYTES, keep, taken

    folder, data = tmp_path / "a" / "answers", b"x" * (LARGEST // 2)
    names = [f"{number}.json" for number in range(2 * MOST_BYTES // len(data))]
    for number, name in enumerate(names):
        keep(folder, name, data)
        if (folder / name).exists():
            os.utime(folder / name, (LONG_AGO + number, LONG_AGO + number))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    assert taken(folder, names[-1]) == data
    assert taken(folder, names[0]) is None


class TestManyAtOnce:
    def test_two_over_one_cache_agree(self, place: Place) -> None:
        expected = place.fresh()
        command = [sys.executable, "-c", COMMAND, "check", "."]
        variables = {**os.environ, "XDG_CACHE_HOME": str(place.cache)}
        for _ in range(3):
            started = [
                subprocess.Popen(command, cwd=place.root, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(2)
            ]
            said = [(*each.communicate(), each.returncode) for each in started]
            assert said == [(expected.out, expected.error, expected.status)] * 2
            place.write("conf/README.md", "other words\n")

    @pytest.mark.parametrize("milliseconds", [150, 400])
    def test_a_kill_at_any_moment_leaves_a_whole_answer_or_none(self, milliseconds: int, place: Place) -> None:
        expected = place.fresh()
        command = [sys.executable, "-c", COMMAND, "check", "."]
        variables = {**os.environ, "XDG_CACHE_HOME": str(place.cache)}
        with subprocess.Popen(command, cwd=place.root, env=variables, stdout=subprocess.DEVNULL) as process:
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGKILL)
        for file in (file for file in place.answers() if file.suffix == ".json"):
            assert edited(file.read_bytes(), lambda kept: None)
        assert place.check() == expected

    @pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13])
    def test_a_kill_while_answers_are_written_leaves_each_whole(self, milliseconds: int, tmp_path: Path) -> None:
        from dtlint.shelf import taken

        folder = tmp_path / "answers"
        with subprocess.Popen([sys.executable, "-c", KEEPER, str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGKILL)
        assert taken(folder, "a") in (b"old" * 200_000, b"new" * 300_000)
        assert not [file for file in folder.iterdir() if file.name != "a" and not file.name.startswith(".a.")]

    def test_a_full_disk_is_not_in_the_way(
        self, quick: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*arguments: object) -> object:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdopen", full)
            assert (quick(), quick()) == (1, 1)
        assert list((tmp_path / "cache" / "dtlint" / "answers").iterdir()) == []
        assert (quick(), quick()) == (1, 0)


KEEPER = """
import sys
from pathlib import Path
from dtlint.shelf import keep
folder = Path(sys.argv[1])
keep(folder, "a", b"old" * 200_000)
print(flush=True)
while True:
    keep(folder, "a", b"new" * 300_000)
    keep(folder, "a", b"old" * 200_000)
"""


def test_a_secret_of_the_command_line_is_not_kept(place: Place) -> None:
    words = ("launch.sh", "--env", "TOKEN=a-secret")
    place.check(*words)
    assert place.is_kept(*words)
    assert b"a-secret" not in place.answers()[0].read_bytes()


def test_a_kept_answer_loads_almost_nothing(place: Place) -> None:
    place.check()
    code = (
        "import os, sys\nfrom dtlint import cli\n"
        "cli._leave = lambda status: print(*sys.modules, file=sys.stderr)\ncli.main(['check', '.'])"
    )
    variables = {**os.environ, "XDG_CACHE_HOME": str(place.cache)}
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=place.root, env=variables, capture_output=True, check=True)
    done = subprocess.run(command, cwd=place.root, env=variables, capture_output=True, check=True, text=True)
    own = {name for name in done.stderr.split() if name.startswith("dtlint.")}
    assert len(own) < 15, sorted(own)
    assert "subprocess" not in done.stderr.split()
