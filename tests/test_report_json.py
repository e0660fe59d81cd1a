"""The JSON report: the contract, field by field."""

from __future__ import annotations

import json

from reports import BUBBLE, OUT_OF_MEMORY, REPORT, RUN

from dtlint.interval import Interval
from dtlint.report.json import finding_json, report_json, run_json, runs_json
from dtlint.rulebook.check import Report
from dtlint.rulebook.finding import Cost


def test_the_fields_of_a_finding_and_their_order() -> None:
    assert list(finding_json(BUBBLE)) == [
        "rule", "id", "severity", "outcome", "confidence", "message", "url",
        "path", "line", "column", "end_line", "end_column",
        "related", "cost", "remedies", "runs", "formula",
    ]  # fmt: skip


def test_a_finding() -> None:
    found = json.loads(report_json(REPORT))["findings"][1]
    assert (found["path"], found["line"], found["column"], found["end_line"], found["end_column"]) == (
        "launch.sh",
        8,
        36,
        8,
        37,
    )
    assert found["related"][1] == {
        "path": "launch.sh", "line": 2, "column": 17, "end_line": 2, "end_column": 20, "label": "512 nodes x 8 GPUs",
    }  # fmt: skip
    assert found["cost"] == {
        "share_of_step": {"low": 0.64, "high": 0.64},
        "seconds_per_step": {"low": 0.4, "high": 0.5},
        "memory_bytes": None,
        "gpu_hours_per_day": {"low": 62915, "high": 62915},
        "usd_per_day": None,
        "stops": None,
        "amount": None,
        "needs": ["cluster.usd_per_gpu_hour"],
        "assumed": ["cluster.gpu", "data.sequence_length"],
    }
    first, second = found["remedies"]
    assert first["set"] == {"batch.micro": 1}
    assert first["saves"]["share_of_step"] == {"low": 0.17, "high": 0.17}
    assert first["changes_training"] is False
    assert first["edits"] == [
        {"path": "launch.sh", "line": 4, "column": 7, "end_line": 4, "end_column": 8, "text": "1"}
    ]
    assert second["raises"] == ["global-batch-too-large"]
    assert found["runs"] == [0]


def test_what_a_failure_stops() -> None:
    found = json.loads(report_json(Report((OUT_OF_MEMORY,), (), None, (RUN,))))["findings"][0]
    assert found["cost"]["stops"] == {
        "what": "step",
        "gpus": 4096,
        "seconds": {"low": 60, "high": 600},
        "waiting_gpu_hours": None,
    }


def test_what_stands_beside_the_findings() -> None:
    report = json.loads(report_json(REPORT))
    assert list(report) == ["version", "findings", "undecided", "summary", "runs"]
    assert report["version"] == 1
    assert report["undecided"][0] == {"rule": "no-overlap", "runs": [0], "needs": ["data.sequence_length"]}
    assert report["summary"] == {"remedied": ["batch.micro=1"], "seconds_per_step": {"low": 0.5, "high": 0.6}}


def test_a_run() -> None:
    (run,) = json.loads(runs_json([RUN]))["runs"]
    assert run["launch"] == {
        "path": "launch.sh",
        "line": 6,
        "argv": ["torchrun", "--nproc_per_node", "8", "--node_rank", None, "train.py"],
        "env": {"NCCL_DEBUG": "INFO"},
    }
    assert (run["role"], run["branch"]) == ("train", None)
    settings = run["settings"]
    assert settings["parallel.tensor"] == {"value": 8, "origin": "written", "path": "launch.sh", "line": 7}
    assert settings["sharding.stage"] == {"value": 3, "origin": "written", "path": "ds.json", "line": 2}
    assert settings["cluster.gpu"]["origin"] == "given"
    assert settings["overlap.gradients"] == {
        "value": False, "origin": "default", "path": None, "line": None, "note": "Megatron-LM",
    }  # fmt: skip
    assert settings["parallel.data"]["from"] == ["parallel.world_size", "parallel.tensor", "parallel.pipeline"]
    assert settings["data.sequence_length"] == {"unknown": "$SEQ is not set in this script", "set": "--env SEQ=..."}
    assert run["facts"]["pipeline.bubble"].keys() >= {"low", "high"}


def test_a_config_without_a_launch() -> None:
    assert run_json(RUN._replace(launch=None))["launch"] is None


def test_infinity_is_not_json() -> None:
    endless = BUBBLE._replace(cost=Cost(seconds_per_step=Interval(1, float("inf"))))
    text = report_json(Report((endless,), (), None, (RUN,)))
    assert json.loads(text)["findings"][0]["cost"]["seconds_per_step"] == {"low": 1, "high": None}


def test_the_text_is_ascii_so_that_no_file_can_steer_a_terminal() -> None:
    text = report_json(Report((BUBBLE._replace(message="\x1b[31m \u202e é"),), (), None, (RUN,)))
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text)["findings"][0]["message"] == "\x1b[31m \u202e é"
