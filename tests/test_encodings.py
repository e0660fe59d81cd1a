"""Bytes that are no plain UTF-8: a mark and CRLF change nothing, what is no text is a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

FILES = {
    "launch.sh": "#!/bin/bash\ntorchrun --nnodes 2 --nproc_per_node 8 train.py --deepspeed ds.json\n",
    "ds.json": '{\n "train_batch_sizes": 8,\n "zero_optimization": {"stage": 3}\n}\n',
    "conf.yaml": "distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 15\n",
    "conf.toml": "[parallelism]\ntensor_parallel_degree = 16\n",
    "train.py": "import deepspeed\nengine = deepspeed.initialize(config='ds.json')\n",
}


def findings(folder: Path) -> set[tuple[str, str]]:
    return {(finding.rule, Path(finding.span.source.path).name) for finding in check([folder]).findings}


def written(folder: Path, change: object) -> Path:
    (folder / ".git").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_bytes(change(text))  # type: ignore[operator]
    return folder


@pytest.mark.parametrize("change", [
    lambda text: b"\xef\xbb\xbf" + text.encode(), lambda text: text.replace("\n", "\r\n").encode(),
], ids=["mark", "CRLF"])  # fmt: skip
def test_a_mark_and_crlf_change_no_finding(change: object, tmp_path: Path) -> None:
    """But in the script, which neither bash takes as it is meant."""
    plain = findings(written(tmp_path / "plain", str.encode))
    other = findings(written(tmp_path / "other", change))
    assert {each for each in other if each[1] != "launch.sh"} == {each for each in plain if each[1] != "launch.sh"}


@pytest.mark.parametrize("change", [
    lambda text: text.encode("utf-16"), lambda text: text.encode() + b"\xff\xfe\x80", lambda text: text.replace(" ", "\0").encode(),
    lambda text: b"\0" * 1000 + text.encode(), lambda text: text.replace(" ", "\t").encode(), lambda text: b"",
], ids=["utf-16", "no UTF-8", "NUL", "zeros", "tabs", "empty"])  # fmt: skip
def test_no_bytes_end_a_check(change: object, tmp_path: Path) -> None:
    findings(written(tmp_path / "other", change))
    for name in FILES:
        check([tmp_path / "other" / name])


@pytest.mark.parametrize(
    ("name", "text", "is_read"),
    [
        ("run.sh", "#!/bin/bash\ntorchrun --nproc_per_node 2 train.py\n\0\0\0", True),
        ("run.sh", "#!/usr/bin/env bash\nset -e\ntorch\0run --nproc_per_node 2 train.py\n", True),
        ("run.sh", "#!/bin/bash\0\ntorchrun --nproc_per_node 2 train.py\n", False),
        ("run.sh", "#!/bin/bash\ntorch\0run --nproc_per_node 2 train.py\n", False),
        ("ds.json", '{"train_micro_batch_size_per_gpu": 1}\n\0\0', False),
    ],
)
def test_bash_passes_over_nulls_behind_the_first_two_lines(name: str, text: str, is_read: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    told = [each.rule for each in check([tmp_path / name]).findings]
    assert ("unreadable-input" not in told) is is_read
