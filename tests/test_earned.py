"""In a repository checked as a whole a rule speaks up where it has earned it; what is named, or said to be run, is judged
in full.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.config import Config
from dtlint.rulebook.earned import MOST_LISTED, has_earned
from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Judged

ROOT = Path(__file__).parent.parent
CROSSING = """torchrun --nnodes 8 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint n0:29500 pretrain_gpt.py \\
  --tensor-model-parallel-size 16 --use-distributed-optimizer --num-layers 32 --hidden-size 8192 --seq-length 4096 \\
  --num-attention-heads 64 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16
"""
WITHIN = CROSSING.replace("parallel-size 16", "parallel-size 8")
MISTYPED = CROSSING.replace("--bf16", "--bf16 --train-iters many")


@pytest.mark.parametrize(
    ("judged", "earned"),
    [
        (None, True),
        (Judged(0, 0), False),
        (Judged(2, 2), False),
        (Judged(2, 3), False),
        (Judged(3, 3), True),
        (Judged(18, 20), True),
        (Judged(17, 20), False),
    ],
)
def test_a_rule_has_earned_its_severity_by_the_share_that_was_right(judged, earned):
    assert has_earned(built_in()[0]._replace(judged=judged)) is earned


def told(*paths, rule="tp-crosses-node"):
    report = check(list(paths))
    found = [each.severity for each in report.findings if each.rule == rule]
    return found, any("name a file" in remark for remark in report.remarks)


def test_in_a_repository_of_several_launches_it_is_a_note_and_a_remark_says_so(tree):
    tree({"a.sh": CROSSING, "b.sh": WITHIN})
    assert told(".") == (["note"], True)


def test_what_stops_is_one_too(tree):
    tree({"a.sh": MISTYPED, "b.sh": WITHIN})
    assert told(".", rule="setting-type") == (["note"], True)
    assert told("a.sh", rule="setting-type") == (["error"], False)


@pytest.mark.parametrize("rule", ["lost-arguments", "inert-setting"])
def test_a_rule_that_has_earned_it_speaks_up_everywhere(tree, rule):
    lost = CROSSING.replace("--bf16", "--bf16 \\ \n  --log-interval 10")
    config = (
        '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n'
    )
    launch = "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n"
    program = "import deepspeed\ndeepspeed.initialize(model=net)\n"
    tree({"a.sh": lost, "b.sh": launch, "ds.json": config, "train.py": program})
    assert set(told(".", rule=rule)[0]) <= {"error", "warning"}
    assert told(".", rule=rule)[0]


@pytest.mark.parametrize(("run", "severity"), [(("a.sh",), "error"), (("*.sh",), "error"), (("b.sh",), "note")])
def test_what_the_team_says_that_it_runs_is_judged_in_full(tree, run, severity):
    tree({"a.sh": MISTYPED, "b.sh": WITHIN})
    report = check(["."], config=Config(folder=Path.cwd(), run=run))
    assert [each.severity for each in report.findings if each.rule == "setting-type"] == [severity]


def test_the_config_says_what_is_run(tree):
    tree({"dtlint.toml": 'run = ["jobs/*"]\n', "jobs/a.sh": MISTYPED, "b.sh": WITHIN})
    done = subprocess.run(
        [sys.executable, "-c", "from dtlint.cli import main; main()", "check", "."],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "error[DT003 setting-type]" in done.stdout) == (1, True)


@pytest.mark.parametrize("paths", [("a.sh",), ("a.sh", "b.sh"), (".", "a.sh")])
def test_a_file_that_is_named_is_judged_in_full(tree, paths):
    tree({"a.sh": CROSSING, "b.sh": WITHIN})
    assert told(*paths)[0] == ["warning"]


def test_what_a_named_launch_starts_is_asked_for_with_it(tree):
    launch = "deepspeed --num_nodes 2 --num_gpus 8 train.py --deepspeed_config ds.json\n"
    config = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "overlap_comm": false}}\n'
    program = "import deepspeed\ndeepspeed.initialize(model=net)\n"
    tree({"a.sh": launch, "b.sh": WITHIN, "ds.json": config, "train.py": program})
    assert told("a.sh", rule="no-overlap") == (["warning"], False)
    assert told("ds.json", rule="no-overlap") == (["warning"], False)
    assert set(told(".", rule="no-overlap")[0]) == {"note"}


def test_a_small_folder_with_one_launch_is_that_launch(tree):
    tree({"a.sh": CROSSING, "eval.sh": "torchrun --nproc_per_node 8 evaluate.py --x 1\n"})
    assert told(".") == (["warning"], False)


MODULE = """from lightning.pytorch import LightningModule


class Net(LightningModule):
    def on_validation_epoch_end(self):
        if self.trainer.is_global_zero:
            self.log("val/score", 1.0, sync_dist=True)
"""
FIT = """from lightning.pytorch import Trainer
{imported}
from data import train, validation

Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(Net(), train, validation)
"""


@pytest.mark.parametrize(
    ("imported", "severity"), [("from module import Net", "error"), ("from other import Net", None)]
)
def test_a_module_of_the_program_is_no_launch_beside_it(tree, imported, severity):
    tree({"fit.py": FIT.format(imported=imported), "module.py": MODULE})
    found, _ = told(".", rule="collective-rank-guarded")
    assert (severity in found) if severity else "error" not in found


def test_one_launch_among_many_files_is_not_all_that_may_be_meant(tree):
    tree({"a.sh": CROSSING, **{f"data/{number}.txt": "x\n" for number in range(MOST_LISTED)}})
    assert told(".") == (["note"], True)
    assert told("a.sh") == (["warning"], False)


def test_a_severity_that_the_team_states_stands(tree):
    tree({"a.sh": CROSSING, "b.sh": WITHIN})
    report = check(["."], config=Config(severities={"tp-crosses-node": "error"}))
    assert [each.severity for each in report.findings if each.rule == "tp-crosses-node"] == ["error"]


def test_the_counts_of_the_rules_are_those_of_the_judged_findings():
    checked = subprocess.run(
        [sys.executable, "scripts/write_judged.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (checked.stdout, checked.returncode) == ("", 0)


def test_every_rule_that_is_shipped_has_counts():
    assert [rule.name for rule in built_in() if rule.judged is None] == []
