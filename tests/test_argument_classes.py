"""Fields of a class of arguments count in the programs that make arguments of it, and in no other that imports its file."""

import pytest

from dtlint.api import check
from dtlint.value import Unknown

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


FIELDS = """from dataclasses import dataclass, field
import transformers


@dataclass
class Shared(transformers.TrainingArguments):
    {shared}


@dataclass
class OwnArguments({base}):
    {own}


(arguments,) = transformers.HfArgumentParser((OwnArguments,)).parse_args_into_dataclasses()
model = transformers.AutoModelForCausalLM.from_pretrained("gpt2")
transformers.Trainer(model=model, args=arguments).train()
"""
LAUNCH = "torchrun --nproc_per_node 4 train.py --output_dir out --bf16 True --per_device_train_batch_size 2 {more}\n"


def settings(tree, own, base="transformers.TrainingArguments", shared="seed: int = 1", more=""):
    tree({"train.py": FIELDS.format(own=own, base=base, shared=shared), "run.sh": LAUNCH.format(more=more)})
    return check(["run.sh"]).runs[0].plan


@pytest.mark.parametrize(
    ("field", "setting", "value"),
    [
        ("gradient_checkpointing: bool = field(default=True)", "checkpointing.activations", "full"),
        ("optim: str = field(default='paged_adamw_32bit')", "optimizer.name", "paged_adamw_32bit"),
        ("ddp_find_unused_parameters: bool = False", "communication.find_unused", False),
        ("ddp_bucket_cap_mb: int = 100", "communication.bucket_bytes", 100 << 20),
        ("dataloader_drop_last: bool = True", "data.drop_last", True),
        ("use_liger_kernel: bool = True", "model.fused_loss", True),
        ("fsdp: str = field(default='shard_grad_op auto_wrap')", "sharding.stage", 2),
        ("fsdp: str = field(default='full_shard')", "framework", "fsdp"),
        ("max_steps: int = 500", "run.steps", 500),
    ],
)
def test_a_default_of_the_class_counts_as_its_flag_would(tree, field, setting, value):
    assert settings(tree, field).get(setting).value == value


def test_a_config_that_the_class_names_is_read(tree):
    tree({"ds.json": '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}'})
    plan = settings(tree, 'deepspeed: str = field(default="ds.json")')
    assert (plan.get("framework").value, plan.get("sharding.stage").value) == ("deepspeed", 3)


def test_a_default_that_names_nothing_is_none(tree):
    plan = settings(tree, 'deepspeed: str = ""\n    fsdp: str = ""\n    optim: str = None')
    assert (plan.get("framework").value, plan.get("optimizer.name").origin.kind) == ("ddp", "default")


def test_a_default_that_is_worked_out_is_unknown(tree):
    plan = settings(tree, "optim: str = field(default_factory=chosen)")
    assert isinstance(plan.get("optimizer.name"), Unknown)


def test_a_default_of_a_class_above_counts(tree):
    plan = settings(tree, "bf16: bool = True", "Shared", "gradient_checkpointing: bool = True")
    assert plan.get("checkpointing.activations").value == "full"


def test_the_command_line_stands_above_the_default(tree):
    field = "gradient_checkpointing: bool = True"
    plan = settings(tree, field, more="--gradient_checkpointing False")
    assert plan.get("checkpointing.activations").value == "none"


def test_a_field_of_another_class_is_not_the_trainers(tree):
    plan = settings(tree, "optim: str = 'adafactor'", "object")
    assert plan.get("optimizer.name") is None or plan.get("optimizer.name").origin.kind == "default"


@pytest.mark.parametrize(("recomputes", "found"), [("True", False), ("False", True)])
def test_what_the_class_recomputes_needs_no_search_for_unused_parameters(tree, recomputes, found):
    settings(tree, f"gradient_checkpointing: bool = field(default={recomputes})")
    rules = {each.rule for each in check(["run.sh"]).findings}
    assert ("ddp-find-unused-overhead" in rules) is found


OWN = """from dataclasses import dataclass
from accelerate import Accelerator
from transformers import HfArgumentParser
from net import Net, batches, optimizer
{brought}


@dataclass
class TrainingArguments{base}:
    gradient_accumulation_steps: int = 1
    per_device_train_batch_size: int = 2
    learning_rate: float = 1e-5


(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
accelerator = Accelerator()
model, optimizer, batches = accelerator.prepare(Net(), optimizer, batches)
for batch in batches:
    accelerator.backward(model(batch){scaled})
    optimizer.step()
    optimizer.zero_grad()
"""
ENGINE = '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true}}\n'
ACCELERATE = """distributed_type: DEEPSPEED
num_machines: 1
num_processes: 4
deepspeed_config: {deepspeed_config_file: ds.json, zero3_init_flag: false}
"""


HANDED_ON = OWN.partition("accelerator =")[0] + "from elsewhere import fit\n\nfit(Net(), args, batches)\n"


def of_launch(
    tree, words: str = "", brought: str = "", base: str = "", scaled: str = "", program: str = OWN
) -> list[str]:
    program = program.format(brought=brought, base=base, scaled=scaled)
    launch = f"accelerate launch --config_file acc.yaml train.py --learning_rate 2e-5 {words}\n"
    tree({"train.py": program, "ds.json": ENGINE, "acc.yaml": ACCELERATE, "run.sh": launch})
    return [each.message for each in check(["run.sh"]).findings if each.rule == "grad-accum-conflict"]


@pytest.mark.parametrize(
    ("brought", "base"),
    [("", ""), ("", "(object)"), ("import abc", "(abc.ABC)"), ("class Base:\n    seed: int = 1", "(Base)")],
)
def test_a_class_that_only_has_the_name_of_the_trainers_is_compared_with_nothing(tree, brought, base):
    assert of_launch(tree, "", brought, base) == []
    assert of_launch(tree, "--gradient_accumulation_steps 8", brought, base) == []


@pytest.mark.parametrize(
    ("brought", "base"),
    [
        ("import transformers", "(transformers.TrainingArguments)"),
        ("from transformers import TrainingArguments as Theirs", "(Theirs)"),
        ("from elsewhere import Base", "(Base)"),
    ],
)
def test_a_class_that_has_the_trainers_fields_or_may_have_them_is(tree, brought, base):
    found = of_launch(tree, "", brought, base, program=HANDED_ON)
    assert any("the Trainer refuses" in each for each in found)


@pytest.mark.parametrize("words", ["", "--gradient_accumulation_steps 8"])
def test_the_trainers_arguments_in_a_loop_of_ones_own_are_compared_with_nothing(tree, words):
    assert of_launch(tree, words, "import transformers", "(transformers.TrainingArguments)") == []


def test_the_loop_of_a_trainer_that_builds_on_theirs_is_the_trainers(tree):
    own = "import transformers\n\n\nclass Mine(transformers.Trainer):\n    pass"
    found = of_launch(tree, "--gradient_accumulation_steps 8", own, "(transformers.TrainingArguments)")
    assert any("the Trainer refuses" in each for each in found)


@pytest.mark.parametrize(("words", "told"), [("", False), ("--gradient_accumulation_steps 8", True), ("$MORE", True)])
def test_a_loss_divided_by_an_argument_that_the_launch_leaves_at_one(tree, words, told):
    found = of_launch(tree, words, scaled=" / args.gradient_accumulation_steps")
    assert [each for each in found if "the loss is divided by" in each] == found
    assert bool(found) is told


def test_the_longest_sample_is_a_field_of_ones_own_class_too(tree):
    field = "    learning_rate: float = 1e-5\n    model_max_length: int = 512\n"
    of_launch(tree, program=OWN.replace("    learning_rate: float = 1e-5\n", field))
    (run,) = check(["run.sh"]).runs
    assert run.plan.integer("data.sequence_length") == 512
