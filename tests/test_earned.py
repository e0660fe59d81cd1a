"""In a repository checked as a whole a rule speaks with the severity that it has earned; of what is named, in full."""

import subprocess
import sys
from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.config import Config
from dtlint.rulebook.earned import has_earned
from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Judged

ROOT = Path(__file__).parent.parent
TOO_FEW = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \\\n"
TOO_FEW += "  --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --bf16 \\\n"
WRONG = f"{TOO_FEW}  --train-iters many\n"
RIGHT = f"{TOO_FEW}  --train-iters 500000\n"


@pytest.mark.parametrize(
    ("judged", "earned"),
    [
        (None, True),
        (Judged(0, 0), False),
        (Judged(2, 2), False),
        (Judged(2, 3), True),
        (Judged(15, 16), True),
        (Judged(10, 16), False),
    ],
)
def test_a_rule_has_earned_its_severity_by_the_share_that_was_right(judged, earned):
    assert has_earned(built_in()[0]._replace(judged=judged)) is earned


def told(*paths):
    report = check(list(paths))
    found = [each.severity for each in report.findings if each.rule == "setting-type"]
    return found, any("name a file" in remark for remark in report.remarks)


def test_in_a_repository_of_several_launches_it_is_a_note_and_a_remark_says_so(tree):
    tree({"a.sh": WRONG, "b.sh": RIGHT})
    assert told(".") == (["note"], True)


@pytest.mark.parametrize("paths", [("a.sh",), ("a.sh", "b.sh"), (".", "a.sh")])
def test_a_file_that_is_named_is_judged_in_full(tree, paths):
    tree({"a.sh": WRONG, "b.sh": RIGHT})
    assert told(*paths) == (["error"], False)


def test_what_a_named_launch_starts_is_asked_for_with_it(tree):
    tree({"a.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n", "b.sh": RIGHT})
    config = '{"train_batch_size": "many", "zero_optimization": {"stage": 1}}\n'
    tree({"ds.json": config, "train.py": "import deepspeed\ndeepspeed.initialize(model=net)\n"})
    assert told("a.sh") == (["error"], False)
    assert told("ds.json") == (["error"], False)
    assert told(".") == (["note"], True)


def test_a_folder_with_one_launch_is_that_launch(tree):
    tree({"a.sh": WRONG, "eval.sh": "torchrun --nproc_per_node 8 evaluate.py --x 1\n"})
    assert told(".") == (["error"], False)


def test_a_severity_that_the_team_states_stands(tree):
    tree({"a.sh": WRONG, "b.sh": RIGHT})
    report = check(["."], config=Config(severities={"setting-type": "warning"}))
    assert [each.severity for each in report.findings if each.rule == "setting-type"] == ["warning"]


def test_the_counts_of_the_rules_are_those_of_the_judged_findings():
    checked = subprocess.run(
        [sys.executable, "scripts/write_judged.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (checked.stdout, checked.returncode) == ("", 0)


def test_every_rule_that_is_shipped_has_counts():
    assert [rule.name for rule in built_in() if rule.judged is None] == []
