"""Fields of a class of arguments count in the programs that make arguments of it, and in no other that imports its file."""

import pytest

from dtlint.api import check

CLASS = """from dataclasses import dataclass, field
import transformers


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    gradient_accumulation_steps: int = field(default=1)


def parsed():
    return transformers.HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
"""
BUILDS = """from trl import GRPOConfig, GRPOTrainer
{brought}


def collate(rows, args{kind}):
    return rows


config = GRPOConfig(output_dir="out", gradient_accumulation_steps=4)
GRPOTrainer(model="gpt2", args=config).train()
"""


def conflicts():
    return [each.message for each in check(["train.py"]).findings if each.rule == "grad-accum-conflict"]


@pytest.mark.parametrize(
    ("brought", "kind"),
    [
        ("import data", ""),
        ("from arguments import TrainingArguments", ": TrainingArguments"),
        ("from arguments import TrainingArguments", ""),
    ],
)
def test_a_class_that_a_program_only_imports_says_nothing_of_it(tree, brought, kind):
    tree({"arguments.py": CLASS, "data.py": "from arguments import TrainingArguments\n"})
    tree({"train.py": BUILDS.format(brought=brought, kind=kind)})
    assert conflicts() == []


@pytest.mark.parametrize(
    "brought",
    [
        "from arguments import parsed\nargs = parsed()",
        "from arguments import TrainingArguments\nargs = TrainingArguments(output_dir='out')",
        "import transformers\nfrom arguments import TrainingArguments\n"
        "args = transformers.HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()",
    ],
)
def test_a_class_that_a_program_makes_arguments_of_counts(tree, brought):
    tree({"arguments.py": CLASS, "train.py": BUILDS.format(brought=brought, kind="")})
    assert len(conflicts()) == 1
