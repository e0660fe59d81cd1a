"""The command line: what each command prints, and the status it ends with."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtlint import __version__
from dtlint.cli import is_plain_check, run
from dtlint.cli_commands import run_command
from dtlint.commands import exit_status
from dtlint.interval import Interval
from dtlint.report import waiting
from dtlint.rulebook.finding import Cost, Finding
from dtlint.rulebook.rule import Severity
from dtlint.source import Source

LAUNCH = """\
#!/bin/bash
torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint node0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 16 --pipeline-model-parallel-size 1 --sequence-parallel \\
  --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce
"""

CLEAN = LAUNCH.replace("size 16", "size 8")
BROKEN = CLEAN.replace(" --overlap-grad-reduce", "").replace(" --bf16", " --overlap-param-gather --bf16")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"dtlint {__version__}\n"


def test_findings_end_with_1_and_point_at_the_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=LAUNCH)
    assert run(["check", "--fail-on", "warning", "launch.sh"]) == 1
    out = capsys.readouterr().out
    assert "[DT101 tp-crosses-node]" in out
    assert "--> launch.sh:3:32" in out


def test_a_warning_does_not_fail_by_default(folder: Path) -> None:
    write(folder, launch__sh=LAUNCH)
    assert run(["check", "--select", "tp-crosses-node", "launch.sh"]) == 0


def test_fail_on_never(folder: Path) -> None:
    write(folder, launch__sh="torchrun --nproc_per_node 'train.py\n")
    assert run(["check", "--fail-on", "never", "launch.sh"]) == 0


def finding(severity: Severity, share: Interval | None = None) -> Finding:
    return Finding("a-rule", "DT1", severity, "slower", "high", "", Source("a", "").span(0, 0), cost=Cost(share))


@pytest.mark.parametrize(
    ("severity", "fail_on", "status"),
    [
        ("error", "error", 1), ("warning", "error", 0), ("note", "error", 0),
        ("error", "warning", 1), ("warning", "warning", 1), ("note", "warning", 0),
        ("note", "note", 1), ("error", "never", 0),
    ],
)  # fmt: skip
def test_the_fail_level(severity: Severity, fail_on: str, status: int) -> None:
    assert exit_status([finding(severity)], fail_on, None) == status


def test_a_waste_that_is_sure_to_be_over_the_limit_fails() -> None:
    assert exit_status([finding("warning", Interval(0.3, 0.5))], "error", 0.2) == 1
    assert exit_status([finding("warning", Interval(0.1, 0.5))], "error", 0.2) == 0
    assert exit_status([finding("warning")], "error", 0.2) == 0
    assert exit_status([finding("warning", Interval(0.3, 0.5))], "never", 0.2) == 1


def test_fail_over_on_the_command_line(folder: Path) -> None:
    write(folder, launch__sh=LAUNCH.replace("pipeline-model-parallel-size 1", "pipeline-model-parallel-size 2"))
    few = ["check", "--select", "pipeline-bubble", "--set", "batch.global=2", "launch.sh"]
    assert run([*few, "--fail-over", "20%"]) == 1
    assert run([*few, "--fail-over", "60%"]) == 0


def test_a_clean_run_says_what_was_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=CLEAN)
    assert run(["check", "--select", "tp-crosses-node", "launch.sh"]) == 0
    assert capsys.readouterr().out.startswith("clean: launch.sh:2: TP 8 x DP 4 on 32 GPUs")


def test_json_alone_on_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=LAUNCH)
    run(["check", "--format", "json", "launch.sh"])
    report = json.loads(capsys.readouterr().out)
    assert report["runs"][0]["settings"]["parallel.tensor"]["value"] == 16
    assert "tp-crosses-node" in [finding["rule"] for finding in report["findings"]]


def test_fixes_are_written_and_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=BROKEN)
    assert run(["check", "launch.sh", "--fix"]) == 0
    captured = capsys.readouterr()
    assert (folder / "launch.sh").read_text() == CLEAN.replace(" --bf16", " --overlap-param-gather --bf16")
    assert captured.err == "fixed overlap-flag-dependency (launch.sh:5:47): --overlap-grad-reduce\n"
    assert "overlap-flag-dependency" not in captured.out


def test_a_patch_is_printed_and_nothing_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=BROKEN)
    assert run(["check", "launch.sh", "--diff"]) == 1
    assert (folder / "launch.sh").read_text() == BROKEN
    assert capsys.readouterr().out.startswith("--- a/launch.sh\n+++ b/launch.sh\n@@ -2,4 +2,4 @@\n")
    write(folder, launch__sh=CLEAN)
    assert run(["check", "launch.sh", "--diff"]) == 0
    assert capsys.readouterr().out == ""


def test_the_files_of_a_tree_with_their_kinds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh="deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n", notes__json='{"a": 1}')
    write(folder, ds__json='{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}', other__sh="ls\n")
    assert run(["check", "--list-files", "."]) == 0
    out = capsys.readouterr().out
    assert out == "ds.json\tdeepspeed-json\nlaunch.sh\tlaunch,deepspeed-launcher\n"


def test_several_formats_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=LAUNCH)
    run(["check", "--format", "concise", "--format", "json=report.json", "--format", "text=report.txt", "launch.sh"])
    assert capsys.readouterr().out.startswith("launch.sh:")
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["version"] == 1
    assert "\x1b" not in (folder / "report.txt").read_text(encoding="utf-8")


def test_without_a_path_the_current_folder_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "jobs").mkdir()
    write(folder / "jobs", launch__sh=LAUNCH)
    run(["check", "--format", "concise"])
    assert "jobs/launch.sh:3:32" in capsys.readouterr().out


def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    standard_input(monkeypatch, LAUNCH.encode())
    run(["check", "--format", "concise", "-"])
    assert "<stdin>:3:32" in capsys.readouterr().out


def test_a_command_before_it_is_submitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = LAUNCH.split("\n", 1)[1].replace("\\\n", " ").split()
    run(["check", "--format", "concise", "--", *words])
    assert "tp-crosses-node" in capsys.readouterr().out


def test_settings_win_over_the_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=LAUNCH)
    run(["plan", "--format", "json", "--set", "parallel.tensor=8", "launch.sh"])
    setting = json.loads(capsys.readouterr().out)["runs"][0]["settings"]["parallel.tensor"]
    assert (setting["value"], setting["origin"]) == (8, "given")


def test_arguments_and_environment_of_the_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=LAUNCH.replace("size 16", "size $1").replace("nnodes 4", "nnodes $NODES"))
    run(["plan", "--format", "json", "--arg", "1=4", "--env", "NODES=2", "launch.sh"])
    settings = json.loads(capsys.readouterr().out)["runs"][0]["settings"]
    assert settings["parallel.tensor"]["value"] == 4
    assert settings["launch.nodes"]["value"] == 2


def test_the_nearest_config_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        folder,
        launch__sh=LAUNCH,
        dtlint__toml='[clusters.a]\ngpu = "A100-40GB"\n[rules.tp-crosses-node]\nseverity = "error"\n',
    )
    assert run(["check", "--select", "tp-crosses-node", "--format", "json", "launch.sh"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["runs"][0]["settings"]["cluster.gpu"]["value"] == "A100-40GB"
    assert report["findings"][0]["severity"] == "error"


def test_a_folder_without_anything_to_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, notes__md="nothing\n")
    assert run(["check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "dtlint: nothing to check: no launch and no training config was read\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("model.conf", "train {\n  lr = 0.1\n}\n", False),
        ("model.gin", "train.lr = 0.1\n@configurable (\n", False),
        ("job.lsf", "torchrun --nproc_per_node 2 'train.py\n", True),
        ("job.q", "#!/bin/bash\n(cd work\n", True),
    ],
)
def test_a_file_that_the_user_names_is_a_script_by_what_it_holds(
    folder: Path, name: str, text: str, read: bool
) -> None:
    (folder / name).write_text(text)
    assert run(["check", name]) == int(read)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\1\2", b'{"zero_optimization": {"stage": ', b"torchrun 'unclosed\n", b"\xff\xfe\xfd", b"(" * 1_000],
)
@pytest.mark.parametrize("name", ["launch.sh", "ds_config.json", "train.py"])
def test_bad_files_never_crash(folder: Path, name: str, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / name).write_bytes(data)
    assert run(["check", name]) in (0, 1)
    assert "a fault in dtlint" not in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ds_config.json").write_bytes(b"\0\1\2")
    assert run(["check", "ds_config.json"]) == 1
    assert "unreadable-input" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nowhere.sh"], "dtlint: no such file or folder: nowhere.sh"),
        (["check", "--set", "parallel.tensr=8"], "unknown setting 'parallel.tensr'; did you mean 'parallel.tensor'?"),
        (["check", "--set", "parallel.tensor=eight"], "parallel.tensor takes a whole number, not 'eight'"),
        (["check", "--set", "parallel.tensor=0"], "parallel.tensor is at least 1, not 0"),
        (["check", "--set", "parallel.tensor"], "'parallel.tensor' is not of the form KEY=VALUE"),
        (["check", "--arg", "0=x"], "'0' is no positional parameter"),
        (["check", "--arg", "x=1"], "'x' is no positional parameter"),
        (["check", "--env", "A-B=1"], "'A-B' is no name of a variable"),
        (["check", "--format", "jsn"], "unknown format 'jsn'; did you mean 'json'?"),
        (["check", "--format", "json="], "no file after 'json='"),
        (["check", "--format", "json", "--format", "text"], "json and text both go to standard output"),
        (["check", "--fail-on", "fatal"], "'fatal' is not one of 'error', 'warning', 'note', 'never'"),
        (["check", "--fail-over", "lots"], "'lots' is no share of a step"),
        (["check", "--select", "tp-crosses-nod"], "no rule 'tp-crosses-nod'; did you mean 'tp-crosses-node'?"),
        (["check", "--ignore", "DT9999"], "no rule 'DT9999'"),
        (["check", "--config", "none.toml"], "no such config file: none.toml"),
        (["check", "--rules", "nowhere"], "no such folder of rules: nowhere"),
        (["check", "--fix", "--diff"], "--fix writes and --diff only shows: give one of them"),
        (["check", "--unsafe-fixes"], "--unsafe-fixes says which remedies to write: give --fix or --diff with it"),
        (["check", "--fix", "--", "torchrun", "train.py"], "--fix and --diff need files"),
        (["check", "--diff", "-"], "--fix and --diff need files"),
        (["check", "--cluster", "prod"], "--cluster prod: there is no dtlint.toml that describes it"),
        (["check", "--baseline", "none.json"], "dtlint: no such baseline: none.json"),
        (["check", "--format", "sarif", "--format", "junit"], "sarif and junit both go to standard output"),
        (["check", "--colour"], "No such option"),
        (["chekc"], "No such command"),
        (["explain", "tp-cross"], "no rule 'tp-cross'"),
        (["plan", "--format", "concise"], "unknown format 'concise'"),
        (["test", "nowhere"], "no such folder of rules: nowhere"),
        (["test"], "Missing argument 'DIR'"),
    ],
)
def test_bad_usage_ends_with_2_and_one_sentence(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_bad_config_ends_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, dtlint__toml='fial-on = "note"\n')
    assert run(["check"]) == 2
    assert capsys.readouterr().err == "dtlint: dtlint.toml:1: unknown key 'fial-on'; did you mean 'fail-on'?\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ignore = ["tp-crosses-nod"]', "no rule 'tp-crosses-nod'; did you mean 'tp-crosses-node'?"),
        ('[rules.pipeline-bubbles]\nseverity = "off"', "no rule 'pipeline-bubbles'; did you mean 'pipeline-bubble'?"),
        ('[per-file-ignores]\n"*.sh" = ["DT9999"]', "no rule 'DT9999'"),
        (
            "[limits]\npipeline-bubble.bubbel = 0.2",
            "no limit 'pipeline-bubble.bubbel'; did you mean 'pipeline-bubble.bubble'?",
        ),
    ],
)
def test_a_config_names_only_what_there_is(
    folder: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, dtlint__toml=text)
    assert run(["check"]) == 2
    assert message in capsys.readouterr().err


def test_a_report_that_cannot_be_written_ends_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=CLEAN)
    assert run(["check", "--format", "json=no/folder/r.json", "launch.sh"]) == 2
    assert "cannot write no/folder/r.json: No such file or directory" in capsys.readouterr().err


def test_a_mistyped_field_of_a_rule_has_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ours" / "house").mkdir(parents=True)
    write(folder / "ours" / "house", slow__yaml="id: X1\nname: slow\nsumary: x\n")
    assert run(["check", "--rules", "ours"]) == 2
    message = capsys.readouterr().err
    assert "slow.yaml:3:1: " in message
    assert "did you mean 'summary'?" in message


HOUSE = """\
id: HOUSE001
name: house-tensor-limit
summary: Our nodes have four GPUs for tensor parallelism
when: parallel.tensor > 4
outcome: advice
at: parallel.tensor
say: "TP {parallel.tensor} is wider than 4"
why: Our rule.
fine_when: Never.
sources: [seed]
examples:
  - bad: torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 4
    finds: [{line: 1}]
  - good: torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4 --num-layers 4
"""


def test_house_rules_are_checked_with_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ours").mkdir()
    write(folder / "ours", tensor__yaml=HOUSE)
    write(folder, launch__sh=LAUNCH)
    run(["check", "--rules", "ours", "--format", "concise", "launch.sh"])
    assert "note[HOUSE001 house-tensor-limit] TP 16 is wider than 4" in capsys.readouterr().out
    assert run(["rules", "--rules", "ours"]) == 0
    assert "HOUSE001  house-tensor-limit" in capsys.readouterr().out


def test_the_examples_of_house_rules_are_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ours").mkdir()
    write(folder / "ours", tensor__yaml=HOUSE)
    assert run(["test", "ours"]) == 0
    assert capsys.readouterr().out == "1 rule, 2 examples, 0 failures\n"
    write(folder / "ours", tensor__yaml=HOUSE.replace("size 4 ", "size 8 "))
    assert run(["test", "ours"]) == 1
    assert "example 2 of house-tensor-limit: " in capsys.readouterr().out


def test_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules"]) == 0
    assert "DT101  tp-crosses-node " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tp-crosses-node", "DT101", "dt101"])
def test_a_rule_is_explained(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", name]) == 0
    out = capsys.readouterr().out
    for title in ("Why", "Fine when", "Fires when", "Examples", "Sources", "dtlint: ignore[tp-crosses-node] reason"):
        assert title in out


def test_why_a_rule_fired_or_did_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, bad__sh=LAUNCH, good__sh=CLEAN)
    run(["explain", "tp-crosses-node", "bad.sh"])
    out = capsys.readouterr().out
    assert "fires (slower)" in out
    assert "parallel.tensor = 16 (bad.sh:3" in out
    run(["explain", "tp-crosses-node", "good.sh"])
    out = capsys.readouterr().out
    assert "does not fire" in out
    assert "not slower: topology.tensor_nodes > 1 is false" in out
    run(["explain", "zero3-internode-comm", "good.sh"])
    assert "does not apply: sharding.stage == 3 is false" in capsys.readouterr().out


def test_a_rule_that_fires_shows_its_formula_with_the_numbers_of_the_plan(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = LAUNCH.replace("size 16 --pipeline-model-parallel-size 1", "size 1 --pipeline-model-parallel-size 8")
    write(folder, idle__sh=script.replace("--global-batch-size 64", "--global-batch-size 32"))  # 32 over DP 32 / 8
    run(["explain", "pipeline-bubble", "idle.sh"])
    assert "formula: idle = (P-1)/(M+P-1) = 7/(8+7)" in capsys.readouterr().out


def test_what_a_rule_waits_for_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, open__sh=CLEAN.replace("size 8 ", "size $1 "))
    run(["explain", "tp-crosses-node", "open.sh"])
    assert "does not apply: not known: parallel.tensor > 1" in capsys.readouterr().out


def test_a_plan_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, launch__sh=CLEAN)
    assert run(["plan", "--set", "cluster.gpu=H100", "--set", "cluster.usd_per_gpu_hour=2.5", "launch.sh"]) == 0
    out = capsys.readouterr().out
    for title in (
        "Split",
        "Memory of the most loaded GPU",
        "Communication",
        "Step",
        "Throughput and money",
        "Settings",
    ):
        assert title in out
    assert "768 GPU-hours, $1,920" in out


@pytest.mark.parametrize("name", ["NO_COLOR", "FORCE_COLOR"])
def test_colours_by_the_environment(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, launch__sh=LAUNCH)
    monkeypatch.setenv(name, "1")
    run(["check", "launch.sh"])
    assert ("\x1b[" in capsys.readouterr().out) is (name == "FORCE_COLOR")


@pytest.mark.parametrize("paths", [[], ["launch.sh"], ["a", "b.json"]])
def test_a_check_without_options_asks_for_what_the_command_line_would(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("dtlint.commands.check_files", lambda *request: asked.append(request) or 0)
    assert run(["check", *paths]) == 0
    assert run_command(["check", *paths]) == 0
    assert len(asked) == 2
    assert asked[0] == asked[1]


@pytest.mark.parametrize("words", [[], ["plan"], ["check", "-"], ["check", "--"], ["check", "a", "-h"], ["--version"]])
def test_other_command_lines_are_read_as_such(words: list[str]) -> None:
    assert not is_plain_check(words)


def test_whoever_reads_the_output_may_leave(folder: Path) -> None:
    write(folder, launch__sh=LAUNCH)
    code = "import sys; from dtlint.cli import main; main(['rules'])"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_that_knows_only_ascii(folder: Path) -> None:
    write(folder, launch__sh="# é 日本\n" + LAUNCH + "# é\n")
    code = "from dtlint.cli import main; main(['check', 'launch.sh'])"
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False)
    assert done.returncode in (0, 1)
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("dtlint ex", "plain,explain\n"),
        ("dtlint explain pipeline-b", "plain,pipeline-bubble\n"),
        ("dtlint check --ignore no-overlap,tp-crosses", "plain,no-overlap,tp-crosses-node\n"),
        ("dtlint check --format sa", "plain,sarif\n"),
    ],
)
def test_completion(folder: Path, words: str, completed: str) -> None:
    count = len(words.split()) - 1
    environment = {**os.environ, "_DTLINT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [Path(sys.executable).with_name("dtlint")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == completed


def test_whoever_waits_at_a_terminal_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with waiting.waiting("dtlint: reading ."):
        time.sleep(0.1)
    told = capsys.readouterr().err
    assert told.startswith("\r\x1b[Kdtlint: reading .: 1 s")
    assert told.endswith("\r\x1b[K")


def test_nobody_is_told_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.waiting("dtlint: reading ."):
        pass
    assert capsys.readouterr().err == ""


def test_the_same_files_give_the_same_report(folder: Path) -> None:
    write(
        folder, launch__sh="export NCCL_DEBUG=INFO MASTER_ADDR=a WORLD=b NCCL_IB_DISABLE=1 OMP_NUM_THREADS=1\n" + LAUNCH
    )
    seeds = [
        subprocess.run(
            [Path(sys.executable).with_name("dtlint"), "check", "launch.sh", "--format", "json"],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False,
        ).stdout
        for seed in ("1", "2", "3")
    ]  # fmt: skip
    assert len(set(seeds)) == 1
