"""SkyPilot tasks: the script that each machine runs, and the machines."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dtlint import check
from dtlint.runs import Options, Run, read_runs
from dtlint.value import Unknown, Value

TASK = """\
resources:
  accelerators: H100:8
num_nodes: 2
envs:
  STAGE: "3"
  TOKEN:
setup: |
  pip install torch==2.5.1
run: |
  HEAD=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE \\
    --node_rank $SKYPILOT_NODE_RANK --master_addr $HEAD train.py --token $TOKEN
"""


def run_in(folder: Path, text: str) -> Run:
    (folder / "task.yaml").write_text(dedent(text), encoding="utf-8")
    (run,) = read_runs([folder / "task.yaml"], Options()).runs
    return run


def told(run: Run, *settings: str) -> tuple[object, ...]:
    return tuple(run.plan.value(setting) for setting in settings)


def test_the_machines_are_those_that_the_task_asks_for(tmp_path: Path) -> None:
    run = run_in(tmp_path, TASK)
    assert told(run, "cluster.nodes", "cluster.gpus_per_node", "cluster.gpu") == (2, 8, "H100-SXM-80GB")


def test_variables_of_skypilot_lead_to_what_is_written(tmp_path: Path) -> None:
    run = run_in(tmp_path, TASK)
    assert told(run, "launch.nodes", "launch.processes_per_node", "launch.processes") == (2, 8, 16)
    nodes = run.plan.get("launch.nodes")
    assert isinstance(nodes, Value) and nodes.origin.span is not None and nodes.origin.span.original().line == 3


def test_the_machines_number_and_the_first_address_are_told_at_run_time(tmp_path: Path) -> None:
    plan = run_in(tmp_path, TASK).plan
    rank, host = plan.get("launch.node_rank"), plan.get("launch.rendezvous_host")
    assert isinstance(rank, Unknown) and rank.reason == "SKYPILOT_NODE_RANK is told when the job runs"
    assert isinstance(host, Unknown)


def test_what_the_set_up_installs_is_there(tmp_path: Path) -> None:
    assert run_in(tmp_path, TASK).plan.value("version.torch") == "2.5.1"


def test_a_variable_without_a_value_is_given_at_the_start(tmp_path: Path) -> None:
    run = run_in(tmp_path, TASK)
    assert run.launch is not None
    token = run.launch.argv[-1].pieces[0]
    assert (token.text, token.unknown) == (None, "TOKEN is given when the task is started")


def test_each_machine_trains_alone_where_the_launch_spans_one(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK.replace("--nnodes $SKYPILOT_NUM_NODES ", ""), encoding="utf-8")
    messages = [finding.message for finding in check([tmp_path]).findings if finding.rule == "nodes-mismatch"]
    assert messages == ["2 machines start this launch, which spans 1: each trains by itself, on 8 GPUs"]


def test_a_launch_of_the_first_machine_alone_says_nothing_of_the_others(tmp_path: Path) -> None:
    text = """\
        resources: {accelerators: "H100:8"}
        num_nodes: 2
        run: |
          if [ "$SKYPILOT_NODE_RANK" == "0" ]; then
            torchrun --nproc_per_node 8 train.py
          fi
        """
    (tmp_path / "task.yaml").write_text(dedent(text), encoding="utf-8")
    assert [finding.rule for finding in check([tmp_path]).findings if finding.rule == "nodes-mismatch"] == []


@pytest.mark.parametrize(
    ("resources", "card", "count"),
    [
        ("accelerators: A100-80GB:8", "A100-SXM-80GB", 8),
        ("accelerators: A100:8", "A100-SXM-40GB", 8),
        ("accelerators: {H100: 4}", "H100-SXM-80GB", 4),
        ("accelerators: L4", "L4", 1),
        ("accelerators: [H100:8]", "H100-SXM-80GB", 8),
        ("accelerators: [H100:8, H200:8]", None, 8),
        ("accelerators: {L4: 1, A10G: 2}", None, None),
        ("instance_type: p4de.24xlarge", "A100-SXM-80GB", 8),
        ("accelerators: H100:8\n  any_of: [{infra: aws}, {infra: gcp}]", "H100-SXM-80GB", 8),
        ("any_of: [{accelerators: H100:8}, {accelerators: A100-80GB:8}]", None, 8),
        ("cpus: 8+", None, None),
    ],
)
def test_spellings_of_the_cards(tmp_path: Path, resources: str, card: str | None, count: int | None) -> None:
    run = run_in(tmp_path, f"resources:\n  {resources}\nrun: torchrun --nproc_per_node 1 train.py\n")
    told_count = run.plan.stated("cluster.gpus_per_node")
    assert (run.plan.value("cluster.gpu"), told_count.value if told_count is not None else None) == (card, count)


def test_a_workflow_with_other_keys_is_no_task(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text("on: push\nresources: {}\nrun: torchrun train.py\n", encoding="utf-8")
    assert read_runs([tmp_path / "ci.yaml"], Options()).runs == ()
