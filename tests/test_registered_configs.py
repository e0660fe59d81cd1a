"""DeepSpeed configs that a program registers itself for ZeRO-3's loading, with "auto" in them."""

from __future__ import annotations

import pytest

from dtlint.api import check

CONFIG = """{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0,
 "gradient_accumulation_steps": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}"""
IMPORTS = """import json
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from transformers.integrations import HfDeepSpeedConfig
from data import cfg, sets

FILE = "ds.json"


def arguments():
    return TrainingArguments("out", bf16=True, max_grad_norm=1.0, deepspeed=FILE)


"""
REGISTER = "kept = HfDeepSpeedConfig(FILE)\n"
LOAD = "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
ARGUMENTS = "args = TrainingArguments('out', bf16=True, max_grad_norm=1.0, deepspeed=FILE)\n"
TRAIN = "Trainer(model, args, train_dataset=sets()).train()\n"
LAST = "args = arguments()\n"


def lines(tree, program: str, config: str = CONFIG) -> list[int]:  # type: ignore[no-untyped-def]
    tree({"run.sh": "torchrun --nproc_per_node 8 train.py\n", "ds.json": config, "train.py": IMPORTS + program})
    found = check(["run.sh"]).findings
    return [each.span.line - IMPORTS.count("\n") for each in found if each.rule == "auto-without-filler"]


@pytest.mark.parametrize(
    "program",
    [
        REGISTER + LOAD + LAST + TRAIN,
        REGISTER + "tok = AutoTokenizer.from_pretrained('gpt2')\n" + LOAD + ARGUMENTS + TRAIN,
        "kept = HfDeepSpeedConfig(args.deepspeed)\n" + LOAD + LAST + TRAIN,
        "kept = HfDeepSpeedConfig('ds.json')\n" + LOAD + LAST + TRAIN,
    ],
)
def test_a_config_that_is_registered_as_it_is_has_auto_in_it(tree, program: str) -> None:  # type: ignore[no-untyped-def]
    assert lines(tree, program) == [1]


def test_deepspeeds_own_sharding_reads_it_as_it_is(tree) -> None:  # type: ignore[no-untyped-def]
    program = f"import deepspeed\nwith deepspeed.zero.Init(config_dict_or_path=FILE):\n    {LOAD}{ARGUMENTS}{TRAIN}"
    assert lines(tree, program) == [2]


def test_another_file_is_not_the_runs(tree) -> None:  # type: ignore[no-untyped-def]
    assert lines(tree, "kept = HfDeepSpeedConfig('other.json')\n" + LOAD + LAST + TRAIN) == []


def test_so_has_one_that_takes_the_place_of_the_trainers(tree) -> None:  # type: ignore[no-untyped-def]
    assert lines(tree, ARGUMENTS + REGISTER + LOAD + TRAIN) == [2]


def test_a_method_may_register_it(tree) -> None:  # type: ignore[no-untyped-def]
    program = f"""class Run:
    def setup(self):
        self.kept = HfDeepSpeedConfig(FILE)
        self.{LOAD}
    def train(self):
        self.setup()
        args = TrainingArguments("out", bf16=True, max_grad_norm=1.0, deepspeed=FILE)
        Trainer(self.model, args, train_dataset=sets()).train()
Run().train()
"""
    assert lines(tree, program) == [3]


@pytest.mark.parametrize(
    "program",
    [
        REGISTER + ARGUMENTS + LOAD + TRAIN,
        "HfDeepSpeedConfig(FILE)\n" + LOAD + LAST + TRAIN,
        "config = json.load(open(FILE))\nkept = HfDeepSpeedConfig(config)\n" + LOAD + LAST + TRAIN,
        REGISTER + LOAD.replace("'gpt2'", "'gpt2', quantization_config=cfg") + LAST + TRAIN,
        LOAD + REGISTER + LAST + TRAIN,
        ARGUMENTS + LOAD + TRAIN,
    ],
)
def test_one_that_does_not_count_or_is_filled_in_is_left_alone(tree, program: str) -> None:  # type: ignore[no-untyped-def]
    assert lines(tree, program) == []


@pytest.mark.parametrize("config", [CONFIG.replace('"auto"', "8"), CONFIG.replace('"stage": 3', '"stage": 2')])
def test_numbers_and_lower_stages_do_no_harm(tree, config: str) -> None:  # type: ignore[no-untyped-def]
    assert lines(tree, REGISTER + LOAD + LAST + TRAIN, config) == []
