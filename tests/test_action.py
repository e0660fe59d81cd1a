"""The GitHub action and the GitLab job: their steps are run as the runner's shell would."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from history import git

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
FAULTY = """\
torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint node0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 16 --sequence-parallel \\
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce
"""
GH = """\
#!/bin/bash
# Stands for GitHub's command line: writes down what it is asked, and knows of the comments in ./comments.
printf '%s\\n' "$*" >> "$GH_LOG"
case "$*" in
  *--paginate*) cat "$GH_COMMENTS" ;;
esac
"""


PYTHON = """\
#!/bin/bash
# Stands for `python3 -m venv FOLDER`: the pip of the environment writes down what it is asked.
mkdir -p "$3/bin"
printf '#!/bin/bash\\nprintf "%%s\\\\n" "$*" >> "$GH_LOG"\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


class Runner:
    """What a job's runner gives a step: folders, files for outputs and the summary, and the tools."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.temp = folder / "temp"
        for each in (self.work, self.temp / "dtlint" / "bin", folder / "tools"):
            each.mkdir(parents=True)
        (self.temp / "dtlint" / "bin" / "dtlint").symlink_to(
            shutil.which("dtlint", path=str(Path(sys.executable).parent))
        )
        tool = folder / "tools" / "gh"
        tool.write_text(GH)
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        self.log, self.comments = folder / "gh.log", folder / "comments"
        self.comments.write_text("")
        self.output, self.summary = folder / "output", folder / "summary"
        self.environment = {
            "PATH": f"{folder / 'tools'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GH_LOG": str(self.log),
            "GH_COMMENTS": str(self.comments),
        }

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step with its environment as the inputs make it."""
        given = {name.lower().replace("_", "-"): value for name, value in inputs.items()}
        values = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
        variables = {}
        for name, text in STEPS[step]["env"].items():
            key = text.removeprefix("${{ ").removesuffix(" }}").removeprefix("inputs.")
            written = key.replace(".", "-").replace("_", "-")
            variables[name] = given.get(name.lower().replace("_", "-"), given.get(written, values.get(key, "")))
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
            cwd=self.work, env={**self.environment, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    made = Runner(tmp_path)
    (made.work / "run.sh").write_text(FAULTY)
    return made


def test_no_input_is_pasted_into_a_script() -> None:
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []
    assert all(step["shell"] == "bash" for step in STEPS.values())


@pytest.mark.parametrize(("version", "wanted"), [("", "/action"), ("0.1.0", "dtlint==0.1.0")])
def test_what_is_installed(runner: Runner, version: str, wanted: str) -> None:
    python = Path(runner.environment["PATH"].split(os.pathsep)[0]) / "python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    done = runner.run("Install dtlint", version=version, github_action_path="/action")
    assert done.returncode == 0
    assert runner.log.read_text() == f"install --quiet --disable-pip-version-check {wanted}\n"


def test_annotations_and_the_summary(runner: Runner) -> None:
    done = runner.run("Check", fail_on="warning")
    assert done.returncode == 1
    assert "::warning title=dtlint DT101 tp-crosses-node,file=run.sh,line=2," in done.stdout
    assert runner.summary.read_text().startswith("[//]: <> (dtlint-comment)\n### dtlint: ")
    assert int(runner.output.read_text().partition("findings=")[2]) >= 1


def test_sarif(runner: Runner) -> None:
    assert runner.run("Check", format="sarif").returncode == 0
    file = dict(line.split("=", 1) for line in runner.output.read_text().splitlines())["sarif-file"]
    assert json.loads(Path(file).read_text())["version"] == "2.1.0"


def test_several_paths_one_with_a_blank_in_it(runner: Runner) -> None:
    (runner.work / "my jobs").mkdir()
    (runner.work / "my jobs" / "a.sh").write_text(FAULTY)
    done = runner.run("Check", paths="my jobs\n\nrun.sh\n")
    assert "file=my jobs/a.sh" in done.stdout and "file=run.sh" in done.stdout


def test_an_input_starts_no_command(runner: Runner) -> None:
    done = runner.run("Check", paths="$(touch stolen)", format="annotations", fail_over="`touch stolen`")
    assert done.returncode == 2
    assert not (runner.work / "stolen").exists()


def test_an_unknown_format(runner: Runner) -> None:
    done = runner.run("Check", format="sarrif")
    assert (done.returncode, done.stdout) == (
        2,
        "::error title=dtlint::format is annotations, sarif or comment, not sarrif\n",
    )


@pytest.fixture
def pull_request(runner: Runner) -> Runner:
    """A change of the launch script since `main`."""
    git(runner.work, "init", "-q", "-b", "main")
    (runner.work / "run.sh").write_text(FAULTY.replace("size 16", "size 8"))
    git(runner.work, "add", "-A")
    git(runner.work, "commit", "-q", "-m", "x")
    (runner.work / "run.sh").write_text(FAULTY)
    return runner


def comment(runner: Runner) -> subprocess.CompletedProcess[str]:
    return runner.run("Comment", base="main", pull_request="7", repository="team/model")


def test_a_first_comment(pull_request: Runner) -> None:
    assert comment(pull_request).returncode == 0
    asked = [shlex.split(line) for line in pull_request.log.read_text().splitlines()]
    assert asked[-1][2:5] == ["--method", "POST", "repos/team/model/issues/7/comments"]
    text = (pull_request.temp / "dtlint.md").read_text()
    assert text.startswith("[//]: <> (dtlint-comment)") and "| parallel.tensor | 8 | **16** |" in text


def test_a_later_push_updates_it(pull_request: Runner) -> None:
    pull_request.comments.write_text("41\n42\n")
    assert comment(pull_request).returncode == 0
    assert "--method PATCH repos/team/model/issues/comments/41" in pull_request.log.read_text()


def test_no_change_of_a_plan_is_no_comment(pull_request: Runner) -> None:
    git(pull_request.work, "commit", "-q", "-a", "-m", "y")
    assert comment(pull_request).returncode == 0
    assert "--method" not in pull_request.log.read_text()


def test_a_change_taken_back_is_said_in_the_earlier_comment(pull_request: Runner) -> None:
    git(pull_request.work, "commit", "-q", "-a", "-m", "y")
    pull_request.comments.write_text("41\n")
    assert comment(pull_request).returncode == 0
    assert "leaves every plan as it was" in (pull_request.temp / "dtlint.md").read_text()
    assert "--method PATCH" in pull_request.log.read_text()


def test_the_gitlab_job(runner: Runner) -> None:
    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text(encoding="utf-8"))["dtlint"]
    (script,) = job["script"]
    path = f"{runner.temp / 'dtlint' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = {**job["variables"], "DTLINT_FAIL_ON": "warning", "PATH": path}
    done = subprocess.run(["sh", "-c", script], cwd=runner.work, env=variables, capture_output=True, check=False)
    assert done.returncode == 1
    reports = job["artifacts"]["reports"]
    assert json.loads((runner.work / reports["codequality"]).read_text())[0]["location"]["path"] == "run.sh"
    assert (runner.work / reports["junit"]).read_text().startswith("<?xml")
