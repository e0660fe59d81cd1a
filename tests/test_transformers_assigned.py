"""Arguments of the Trainer that a program sets anew after it has parsed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.runs import Options, read_runs
from dtlint.value import Setting, Unknown, Value

PROGRAM = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments

(training_args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
{change}
Trainer(model, training_args, train_dataset=data).train()
"""
REENTRANT = 'training_args.gradient_checkpointing_kwargs = {"use_reentrant": True}'
LAUNCH = "torchrun --nproc_per_node 8 train.py --output_dir out --per_device_train_batch_size 4 --do_train\n"


def setting(folder: Path, change: str, name: str) -> Setting | None:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(PROGRAM.format(change=change))
    (folder / "run.sh").write_text(LAUNCH)
    (run,) = read_runs([folder], Options()).runs
    return run.plan.get(name)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("training_args.gradient_checkpointing = wanted()", "checkpointing.activations"),
        ("model_args.gradient_checkpointing = True", "checkpointing.activations"),
        (f"{REENTRANT}\nif len(data) > 9:\n    {REENTRANT.replace('True', 'False')}", "checkpointing.reentrant"),
        ("training_args.gradient_checkpointing_kwargs = options()", "checkpointing.reentrant"),
        ("if len(data) > 9:\n    training_args.gradient_checkpointing = True", "checkpointing.activations"),
        ("training_args.per_device_train_batch_size = 2", "batch.micro"),
        ("training_args.bf16 = torch.cuda.is_bf16_supported()", "precision.compute"),
        ("training_args.max_grad_norm = 0.3", "optimizer.clip"),
    ],
)
def test_what_is_set_anew_is_unknown(tmp_path: Path, change: str, name: str) -> None:
    found = setting(tmp_path, change, name)
    assert isinstance(found, Unknown) and found.reason.endswith(" itself")


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ("training_args.gradient_checkpointing = True", "checkpointing.activations", "full"),
        ("training_args.gradient_checkpointing = False", "checkpointing.activations", "none"),
        ("training_args.ddp_find_unused_parameters = False", "communication.find_unused", False),
        (REENTRANT, "checkpointing.reentrant", True),
        (REENTRANT.replace('{"use_reentrant": True}', "dict(use_reentrant=False)"), "checkpointing.reentrant", False),
        (f"if training_args.gradient_checkpointing:\n    {REENTRANT}", "checkpointing.reentrant", True),
        (f"OPTIONS = {{'use_reentrant': True}}\n{REENTRANT.partition('{')[0]}OPTIONS", "checkpointing.reentrant", True),
        (
            "def prepare(args):\n    args.gradient_checkpointing = True\nprepare(training_args)",
            "checkpointing.activations",
            "full",
        ),
    ],
)
def test_what_the_trainer_reads_when_it_trains_is_what_it_is_set_to(
    tmp_path: Path, change: str, name: str, value: object
) -> None:
    found = setting(tmp_path, change, name)
    assert isinstance(found, Value) and found.value == value


@pytest.mark.parametrize(
    ("told", "options", "raised"),
    [
        ("True", REENTRANT, True),
        ("True", REENTRANT.replace("True", "False"), False),
        ("True", f"{REENTRANT}\ntraining_args.ddp_find_unused_parameters = False", False),
        ("False", f"{REENTRANT}\ntraining_args.ddp_find_unused_parameters = True", True),
    ],
)
def test_a_search_beside_reentrant_recomputation_is_told(tmp_path: Path, told: str, options: str, raised: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(PROGRAM.format(change=options))
    flags = f"--gradient_checkpointing True --ddp_find_unused_parameters {told}"
    (tmp_path / "run.sh").write_text(f"{LAUNCH.rstrip()} {flags}\n")
    found = {finding.rule for finding in check([tmp_path], {}).findings}
    assert ("ddp-find-unused-with-checkpoint" in found) is raised


@pytest.mark.parametrize(
    "change",
    ["", "model.per_device_train_batch_size = 2", "if False:\n    training_args.per_device_train_batch_size = 2"],
)
def test_what_is_not_counts_as_the_launch_has_it(tmp_path: Path, change: str) -> None:
    found = setting(tmp_path, change, "batch.micro")
    assert found is not None and not isinstance(found, Unknown)


def test_arguments_of_trl_that_a_program_sets_anew(tmp_path: Path) -> None:
    program = PROGRAM.replace("TrainingArguments", "SFTConfig").replace("from transformers import", "from trl import")
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(program.format(change=REENTRANT))
    (tmp_path / "run.sh").write_text(LAUNCH)
    (run,) = read_runs([tmp_path], Options()).runs
    assert run.plan.value("checkpointing.reentrant") is True


@pytest.mark.parametrize(
    ("default", "told"),
    [
        ('field(default_factory=lambda: {"use_reentrant": True})', True),
        ('field(default_factory=lambda: {"use_reentrant": False})', False),
        ("field(default_factory=options)", None),
        ('field(default_factory=lambda: {"use_reentrant": wanted})', None),
        ("None", None),
    ],
)
def test_a_field_whose_default_is_a_dict(tmp_path: Path, default: str, told: bool | None) -> None:
    owned = f"@dataclass\nclass Own(TrainingArguments):\n    gradient_checkpointing_kwargs: dict = {default}\n"
    program = PROGRAM.format(change="").replace("\n(training_args", f"\n{owned}(training_args")
    program = program.replace("HfArgumentParser(TrainingArguments)", "HfArgumentParser(Own)")
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(f"from dataclasses import dataclass, field\n{program}")
    (tmp_path / "run.sh").write_text(LAUNCH)
    (run,) = read_runs([tmp_path], Options()).runs
    assert run.plan.value("checkpointing.reentrant") is told


OWN = """\
from dataclasses import dataclass, field
from transformers import HfArgumentParser, Trainer, TrainingArguments


@dataclass
class Own(TrainingArguments):
    gradient_checkpointing: bool = field(default=True)
    ddp_find_unused_parameters: bool = field(default=True)

    def __post_init__(self):
        super().__post_init__()
        {change}


(training_args,) = HfArgumentParser(Own).parse_args_into_dataclasses()
Trainer(model, training_args, train_dataset=data).train()
"""
SELF = REENTRANT.replace("training_args", "self")
OF_SELF = "self.gradient_checkpointing_kwargs"


def told(folder: Path, program: str, flags: str = "") -> bool:
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(program)
    (folder / "run.sh").write_text(f"{LAUNCH.rstrip()} {flags}\n")
    found = {finding.rule for finding in check([folder], {}).findings}
    return "ddp-find-unused-with-checkpoint" in found


@pytest.mark.parametrize(
    ("change", "flags", "raised"),
    [
        (SELF, "", True),
        (SELF.replace("True", "False"), "", False),
        (f"{SELF}\n        self.ddp_find_unused_parameters = False", "", False),
        (f"if self.gradient_checkpointing:\n            {SELF}", "", True),
        (f"if {OF_SELF} is None:\n            {SELF}", "", True),
        (f"if self.gradient_checkpointing and not {OF_SELF}:\n            {SELF}", "", True),
        (f"{OF_SELF} = {OF_SELF} or dict(use_reentrant=True)", "", True),
        (
            f"if {OF_SELF} is None:\n            {SELF}",
            """--gradient_checkpointing_kwargs '{"use_reentrant": false}'""",
            False,
        ),
        (f"if wanted():\n            {SELF}", "", False),
    ],
)
def test_a_class_of_arguments_sets_its_own(tmp_path: Path, change: str, flags: str, raised: bool) -> None:
    assert told(tmp_path, OWN.format(change=change), flags) is raised


@pytest.mark.parametrize("name", ["def prepare(self):", "def __post_init__(self):"])
def test_what_another_class_sets_on_itself_is_no_argument(tmp_path: Path, name: str) -> None:
    program = OWN.format(change=SELF).replace("def __post_init__(self):", name)
    other = "class Other:\n    gradient_checkpointing: bool = True\n\n    def __post_init__(self):\n        pass\n"
    program = program.replace("class Own(TrainingArguments):", f"{other}\n\n@dataclass\nclass Own(TrainingArguments):")
    assert told(tmp_path, program) is (name == "def __post_init__(self):")


@pytest.mark.parametrize(
    "change",
    [
        'training_args.gradient_checkpointing_kwargs["use_reentrant"] = True',
        'setattr(training_args, "gradient_checkpointing_kwargs", {"use_reentrant": True})',
        f"if training_args.gradient_checkpointing_kwargs is None:\n    {REENTRANT}",
    ],
)
def test_other_ways_to_set_options(tmp_path: Path, change: str) -> None:
    found = setting(tmp_path, change, "checkpointing.reentrant")
    assert isinstance(found, Value) and found.value is True


def test_what_is_filled_in_counts_only_where_nothing_is_given(tmp_path: Path) -> None:
    change = f"if training_args.gradient_checkpointing_kwargs is None:\n    {REENTRANT}"
    program = PROGRAM.format(change=change)
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "run.sh").write_text(
        f"""{LAUNCH.rstrip()} --gradient_checkpointing_kwargs '{{"use_reentrant": false}}'\n"""
    )
    (run,) = read_runs([tmp_path], Options()).runs
    assert run.plan.value("checkpointing.reentrant") is False
    assert not run.plan.collection("config.conflicts")


ADAPTED = """\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
{brought}
args = TrainingArguments(output_dir="out", per_device_train_batch_size=2, gradient_checkpointing=True{more})
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.enable_input_require_grads()
{wrapped}
Trainer(model=model, args=args, train_dataset=data).train()
"""
WRAPPED = "model = get_peft_model(model, LoraConfig(r=8))"


@pytest.mark.parametrize(
    ("pinned", "change", "raised"),
    [
        ("transformers==4.44.2", {}, True),
        ("transformers==5.1.0", {}, False),
        ("", {}, False),
        ("", {"more": ', gradient_checkpointing_kwargs={"use_reentrant": True}'}, True),
        ("transformers==4.44.2", {"more": ', gradient_checkpointing_kwargs={"use_reentrant": False}'}, False),
        ("transformers==4.44.2", {"more": ", ddp_find_unused_parameters=False"}, False),
        ("transformers==4.44.2", {"more": ", **given", "brought": "from options import given"}, False),
        ("transformers==4.44.2", {"wrapped": ""}, False),
        ("transformers==4.44.2", {"wrapped": f"if wanted():\n    {WRAPPED}"}, False),
        ("transformers==4.44.2", {"wrapped": f"{WRAPPED}\nargs.ddp_find_unused_parameters = False"}, False),
        ("transformers==4.44.2", {"wrapped": f"{WRAPPED}\nmodel._set_static_graph()"}, False),
    ],
)
def test_the_trainer_has_a_model_with_adapters_searched(
    tmp_path: Path, pinned: str, change: dict[str, str], raised: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{pinned}\n")
    program = ADAPTED.format(**{"brought": "", "more": "", "wrapped": WRAPPED, **change})
    assert told(tmp_path, program) is raised


@pytest.mark.parametrize(
    ("pinned", "raised"),
    [
        ("trl==0.20.0\ntransformers==4.50.0", True),
        ("trl==0.28.0\ntransformers==4.57.0", False),
        ("trl==0.20.0\ntransformers==5.1.0", False),
        ("transformers==4.57.0", False),
    ],
)
def test_trl_recomputes_without_a_second_pass_from_a_release_on(tmp_path: Path, pinned: str, raised: bool) -> None:
    (tmp_path / "requirements.txt").write_text(f"{pinned}\n")
    given = "model='gpt2', args=args, train_dataset=data, peft_config=LoraConfig(r=8)"
    program = f"from peft import LoraConfig\nfrom trl import SFTConfig, SFTTrainer\nargs = SFTConfig('out')\nSFTTrainer({given}).train()\n"
    assert told(tmp_path, program) is raised


@pytest.mark.parametrize(
    ("change", "raised"),
    [("pass", True), ("self.learning_rate = 1e-4", False), ("self.other = 1e-4", True)],
)
def test_a_number_that_the_class_sets_itself_is_compared_with_no_config(
    tmp_path: Path, change: str, raised: bool
) -> None:
    program = OWN.replace("super().__post_init__()\n        {change}", "{change}\n        super().__post_init__()")
    assert "{change}" in program
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(program.format(change=change))
    adam = '{"type": "AdamW", "params": {"lr": 1e-4}}'
    (tmp_path / "ds.json").write_text(
        f'{{"train_micro_batch_size_per_gpu": "auto", "optimizer": {adam}, "zero_optimization": {{"stage": 2}}}}'
    )
    (tmp_path / "run.sh").write_text(f"{LAUNCH.rstrip()} --deepspeed ds.json\n")
    found = {finding.rule for finding in check([tmp_path / "run.sh"], {}).findings}
    assert ("conflicting-settings" in found) is raised
