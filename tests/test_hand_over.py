"""What the Trainer and Accelerate make of a DeepSpeed config: "auto" filled, literals compared, keys left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs
from dtlint.value import Unknown, given

TRAINER = "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path gpt2 --do_train --output_dir out"


def plan_of(folder: Path, command: str, config: str = "", **files: str) -> Plan:
    (folder / "run.sh").write_text(f"{command}\n", encoding="utf-8")
    if config:
        (folder / "ds.json").write_text(config, encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    runs = read_runs([folder], Options({"cluster.gpus_per_node": given(8)})).runs
    return runs[0].plan


def conflicts(plan: Plan) -> list[tuple[object, object, object, object]]:
    found = (member.fields for member in plan.collection("config.conflicts"))  # type: ignore[attr-defined]
    return [tuple(each[name].value for name in ("setting", "value", "winner", "effect")) for each in found]  # type: ignore[misc]


AUTO = """{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}"""


class TestAuto:
    def test_arguments_fill_it(self, tmp_path: Path) -> None:
        arguments = "--bf16 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --deepspeed ds.json"
        plan = plan_of(tmp_path, f"{TRAINER} {arguments}", AUTO)
        assert (plan.value("batch.micro"), plan.value("batch.accumulation")) == (4, 2)
        assert (plan.value("batch.global"), plan.value("precision.compute")) == (64, "bf16")

    def test_the_trainers_defaults_fill_it_where_nothing_is_written(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --bf16 --deepspeed ds.json", AUTO)
        assert (plan.value("batch.micro"), plan.value("batch.accumulation")) == (8, 1)

    def test_buckets_follow_from_the_hidden_size(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --bf16 --deepspeed ds.json", AUTO)
        assert plan.value("communication.bucket_bytes") == 768 * 768 * 2

    def test_nobody_fills_it_in_a_file_alone(self, tmp_path: Path) -> None:
        (tmp_path / "ds.json").write_text(AUTO, encoding="utf-8")
        plan = read_runs([tmp_path], Options({})).runs[0].plan
        assert isinstance(plan.get("batch.micro"), Unknown)
        assert isinstance(plan.get("frontend"), Unknown)


class TestConflicts:
    LITERAL = '{"train_micro_batch_size_per_gpu": 4, "gradient_clipping": "auto", "zero_optimization": {"stage": 2}}'

    def test_a_literal_that_differs_from_an_argument_is_refused(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --per_device_train_batch_size 8 --deepspeed ds.json", self.LITERAL)
        assert conflicts(plan) == [("batch.micro", 8, 4, "refused")]

    def test_so_is_one_that_differs_from_what_is_not_written(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --deepspeed ds.json", self.LITERAL)
        assert conflicts(plan) == [("batch.micro", 8, 4, "refused")]

    def test_a_format_of_the_file_needs_its_argument(self, tmp_path: Path) -> None:
        config = '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "bf16": {"enabled": true}}'
        plan = plan_of(tmp_path, f"{TRAINER} --deepspeed ds.json", config)
        assert conflicts(plan) == [("precision.compute", False, True, "refused")]

    @pytest.mark.parametrize(
        ("arguments", "refused"),
        [
            ("--torch_dtype float16", True),  # in which the model is loaded, and nothing is compared
            ("--torch_dtype float16 --fp16 False", True),
            ("--torch_dtype float16 --fp16", False),
            ("--torch_dtype float16 --fp16 $1", False),
            ("--torch_dtype float16 --fp16_full_eval", False),
        ],
    )
    def test_the_format_in_which_a_model_is_loaded_is_none_of_them(
        self, tmp_path: Path, arguments: str, refused: bool
    ) -> None:
        config = '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "fp16": {"enabled": true}}'
        plan = plan_of(tmp_path, f"{TRAINER} {arguments} --deepspeed ds.json", config)
        assert conflicts(plan) == ([("precision.compute", False, True, "refused")] if refused else [])

    @pytest.mark.parametrize(("rate", "refused"), [("3e-5", False), ("1e-5", True)])
    def test_the_learning_rate_stands_in_both(self, tmp_path: Path, rate: str, refused: bool) -> None:
        optimizer = '"optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "weight_decay": "auto"}}'
        config = '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", ' + optimizer + "}"
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --learning_rate {rate} --deepspeed ds.json", config)
        assert conflicts(plan) == ([("optimizer.params.lr", 1e-5, 3e-5, "refused")] if refused else [])

    def test_a_learning_rate_that_the_command_leaves_open_is_no_clash(self, tmp_path: Path) -> None:
        config = '{"train_micro_batch_size_per_gpu": "auto", "optimizer": {"params": {"lr": 3e-5}}}'
        assert conflicts(plan_of(tmp_path, f"{TRAINER} --learning_rate $1 --deepspeed ds.json", config)) == []

    @pytest.mark.parametrize(
        ("steps", "arguments", "refused"),
        [
            ("warmup_num_steps", "", [0]),
            ("warmup_num_steps", "--warmup_steps 500", []),
            ("warmup_num_steps", "--warmup_steps 100", [100]),
            ("warmup_num_steps", "--warmup_ratio 0.1", []),
            ("warmup_num_steps", "--warmup_steps $2", []),
            ("total_num_steps", "", []),
            ("total_num_steps", "--max_steps 100", [100]),
        ],
    )
    def test_steps_are_compared_where_an_argument_counts_them(
        self, tmp_path: Path, steps: str, arguments: str, refused: list[int]
    ) -> None:
        config = f'{{"train_micro_batch_size_per_gpu": "auto", "scheduler": {{"params": {{"{steps}": 500}}}}}}'
        plan = plan_of(tmp_path, f"{TRAINER} {arguments} --deepspeed ds.json", config)
        assert [value for _, value, _, _ in conflicts(plan)] == refused

    @pytest.mark.parametrize(
        ("arguments", "refused"),
        [
            ("learning_rate=args.lr", [("optimizer.params.lr", 5e-5, 1e-4, "refused")]),
            ("", [("optimizer.params.lr", 5e-5, 1e-4, "refused")]),
            ("learning_rate=1e-4", []),
            ("learning_rate=rate()", []),
            ("**more", []),
        ],
    )
    def test_a_program_names_the_file_that_is_compared(
        self, tmp_path: Path, arguments: str, refused: list[object]
    ) -> None:
        program = (
            "import argparse, transformers\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--lr', default=5e-5, type=float)\nargs = parser.parse_args()\n"
            f"told = transformers.TrainingArguments('out', fp16=True, deepspeed='ds.json', {arguments})\n"
            "transformers.Trainer(args=told).train()\n"
        )
        config = '{"train_micro_batch_size_per_gpu": "auto", "optimizer": {"params": {"lr": 1e-4}}}'
        plan = plan_of(tmp_path, "torchrun --nproc_per_node 8 train.py", config, train__py=program)
        assert conflicts(plan) == refused

    def test_a_field_that_the_program_declares_has_its_own_default(self, tmp_path: Path) -> None:
        program = (
            "from dataclasses import dataclass, field\nimport transformers\n@dataclass\n"
            "class TrainingArguments(transformers.TrainingArguments):\n    learning_rate: float = field(default=1e-4)\n"
            "told, = transformers.HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
            "transformers.Trainer(args=told).train()\n"
        )
        config = '{"train_micro_batch_size_per_gpu": "auto", "optimizer": {"params": {"lr": 1e-4}}}'
        command = "torchrun --nproc_per_node 8 train.py --fp16 --output_dir out --deepspeed ds.json"
        assert conflicts(plan_of(tmp_path, command, config, train__py=program)) == []

    def test_classes_of_trl_have_a_rate_of_their_own(self, tmp_path: Path) -> None:
        program = (
            "import trl\ntold = trl.SFTConfig('out', bf16=True, deepspeed='ds.json')\n"
            "trl.SFTTrainer(model='gpt2', args=told).train()\n"
        )
        config = '{"train_micro_batch_size_per_gpu": "auto", "optimizer": {"params": {"lr": 2e-5}}}'
        assert conflicts(plan_of(tmp_path, "torchrun --nproc_per_node 8 train.py", config, train__py=program)) == []

    @pytest.mark.parametrize(
        ("config", "told"),
        [
            ('"bf16": {"enabled": "true"}, "fp16": {"enabled": "false"}', ["bf16.enabled"]),
            ('"optimizer": {"params": {"lr": "1e-5"}}', ["optimizer.params.lr"]),
            ('"scheduler": {"params": {"warmup_num_steps": "10"}}', ["scheduler.params.warmup_num_steps"]),
            ('"bf16": {"enabled": "auto"}, "optimizer": {"params": {"lr": 1e-5, "torch_adam": "true"}}', []),
        ],
    )
    def test_no_text_equals_what_the_trainer_has(self, tmp_path: Path, config: str, told: list[str]) -> None:
        config = f'{{"train_micro_batch_size_per_gpu": "auto", {config}}}'
        arguments = "--bf16 --learning_rate 1e-5 --warmup_steps 10 --deepspeed ds.json"
        plan = plan_of(tmp_path, f"{TRAINER} {arguments}", config)
        found = (member.fields for member in plan.collection("config.invalid"))  # type: ignore[attr-defined]
        assert [each["key"].value for each in found if each["effect"].value == "compared"] == told

    @pytest.mark.parametrize("arguments", ["--per_device_train_batch_size 4", '"$@"'])
    def test_what_is_equal_or_hidden_is_no_conflict(self, tmp_path: Path, arguments: str) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 {arguments} --deepspeed ds.json", self.LITERAL)
        assert conflicts(plan) == []


class TestWhatIsLeftOut:
    PLAIN = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2, "offload_optimizer": %s}}'

    def test_clipping_does_not_reach_a_file_without_the_key(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --max_grad_norm 0.3 --deepspeed ds.json", self.PLAIN % "null")
        assert [member.fields["value"].value for member in plan.collection("config.left_out")] == [0.3]  # type: ignore[attr-defined]
        assert plan.stated("optimizer.clip") is None

    def test_it_reaches_one_with_the_key(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --max_grad_norm 0.3 --deepspeed ds.json", AUTO)
        assert (plan.value("optimizer.clip"), plan.collection("config.left_out")) == (0.3, ())

    @pytest.mark.parametrize(("optimizer", "kept"), [("adamw_torch_fused", True), ("adafactor", False)])
    def test_an_offloaded_optimizer_is_exchanged(self, tmp_path: Path, optimizer: str, kept: bool) -> None:
        config = self.PLAIN % '{"device": "cpu"}'
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --optim {optimizer} --deepspeed ds.json", config)
        assert (plan.collection("config.exchanged") == ()) is kept


class TestFramework:
    def test_the_trainer_takes_ddp_for_several_processes(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --bf16")
        assert (plan.value("framework"), plan.value("precision.master")) == ("ddp", "fp32")

    def test_and_none_for_one(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, "python run_clm.py --model_name_or_path gpt2 --do_train --output_dir out")
        assert (plan.value("framework"), plan.value("parallel.world_size")) == ("pytorch", 1)

    def test_what_accelerate_launch_takes_is_not_guessed(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, "accelerate launch run_clm.py --model_name_or_path gpt2 --do_train --output_dir out")
        assert isinstance(plan.get("framework"), Unknown)

    def test_a_program_that_hides_its_arguments_tells_them(self, tmp_path: Path) -> None:
        code = """\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", per_device_train_batch_size=3, bf16=True, deepspeed="ds.json")
Trainer(args=args).train()
"""
        plan = plan_of(tmp_path, "torchrun --nproc_per_node 8 train.py", AUTO, train__py=code)
        assert (plan.value("framework"), plan.value("sharding.stage"), plan.value("batch.micro")) == ("deepspeed", 3, 3)


def test_adapters_of_an_unknown_rank_leave_the_memory_open(tmp_path: Path) -> None:
    from dtlint.facts import fact

    plan = plan_of(tmp_path, f"{TRAINER} --bf16 --use_lora True")
    assert isinstance(plan.get("model.trainable_parameters"), Unknown)
    assert fact(plan, "memory.overflows") is not True


def test_a_program_that_starts_the_engine_itself_has_no_trainer_that_compares(tmp_path: Path) -> None:
    program = """
import deepspeed
from transformers import HfArgumentParser, TrainingArguments

(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
engine, _, _, _ = deepspeed.initialize(config=args.deepspeed, model=load())
for batch in batches:
    engine.backward(engine(batch))
    engine.step()
"""
    config = '{"train_micro_batch_size_per_gpu": 2, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3}}'
    arguments = "--output_dir out --per_device_train_batch_size 16 --deepspeed ds.json"
    plan = plan_of(tmp_path, f"deepspeed --num_gpus 8 own.py {arguments}", config, own__py=program)
    assert not [clash for clash in conflicts(plan) if clash[3] == "refused"]


class TestWeightsLoadedInSixteenBits:
    """Accelerate's FSDP raises them to fp32 under mixed precision; DDP leaves them as they are loaded."""

    PROGRAM = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", torch_dtype=torch.bfloat16)
Trainer(model=model, args=TrainingArguments("out"ARGUMENTS)).train()
"""

    @pytest.mark.parametrize(
        ("arguments", "master", "gradients"),
        [
            (', bf16=True, fsdp="full_shard auto_wrap"', "fp32", "fp32"),
            (', fsdp="full_shard auto_wrap"', "none", None),
            (", bf16=True", "none", "bf16"),
        ],
    )
    def test_what_trains(self, tmp_path: Path, arguments: str, master: str, gradients: str | None) -> None:
        program = self.PROGRAM.replace("ARGUMENTS", arguments)
        plan = plan_of(tmp_path, "torchrun --nproc_per_node 8 train.py", train__py=program)
        assert plan.value("precision.master") == master
        assert gradients is None or plan.value("precision.gradients") == gradients


class TestOverwritten:
    """Accelerate writes steps_per_print itself; what a file has there never reaches DeepSpeed."""

    CONFIG = '{"train_micro_batch_size_per_gpu": %s, "steps_per_print": "inf", "zero_optimization": {"stage": 2}}'

    @pytest.mark.parametrize(
        ("command", "micro"),
        [
            ("accelerate launch --use_deepspeed --num_processes 8 --deepspeed_config_file ds.json train.py", "4"),
            (f"{TRAINER} --per_device_train_batch_size 4 --deepspeed ds.json", "4"),
        ],
    )
    def test_under_accelerate_it_says_nothing(self, tmp_path: Path, command: str, micro: str) -> None:
        assert not plan_of(tmp_path, command, self.CONFIG % micro).collection("config.invalid")

    def test_in_a_file_that_asks_to_be_filled_either(self, tmp_path: Path) -> None:
        (tmp_path / "ds.json").write_text(self.CONFIG % '"auto"', encoding="utf-8")
        (run,) = read_runs([tmp_path / "ds.json"], Options({})).runs
        assert not run.plan.collection("config.invalid")

    def test_a_program_that_starts_deepspeed_itself_takes_what_is_written(self, tmp_path: Path) -> None:
        command = "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json"
        plan = plan_of(tmp_path, command, self.CONFIG % "4", train__py="import deepspeed\ndeepspeed.initialize(args)\n")
        (member,) = plan.collection("config.invalid")
        assert member.fields["key"].value == "steps_per_print"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("optimizer", "decay", "severity"),
    [
        ("paged_adamw_8bit", "0.0", "note"),
        ("paged_adamw_8bit", "0.1", "error"),
        ("adamw_bnb_8bit", None, "note"),
        ("adafactor", "0.0", "error"),
    ],
)
def test_an_exchanged_adam_without_weight_decay_steps_alike(
    tmp_path: Path, optimizer: str, decay: str | None, severity: str
) -> None:
    (tmp_path / "ds.json").write_text(
        '{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",\n'
        ' "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}\n'
    )
    told = "" if decay is None else f"--weight_decay {decay} "
    (tmp_path / "run.sh").write_text(
        "deepspeed --num_gpus 8 run_clm.py --model_name_or_path gpt2 --do_train --fp16 "
        f"--optim {optimizer} {told}--deepspeed ds.json --output_dir out\n"
    )
    found = {finding.rule: finding.severity for finding in check([tmp_path]).findings}
    assert found["optimizer-exchanged"] == severity


class TestDictOfTheProgram:
    """`TrainingArguments(deepspeed={...})`: the Trainer fills, compares and leaves out as it does with a file."""

    PROGRAM = """\
from transformers import Trainer, TrainingArguments

zero = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": ACCUMULATION,
    CLIPPING
    "zero_optimization": {"stage": 2, "overlap_comm": True},
}
args = TrainingArguments("out", bf16=True, gradient_accumulation_steps=8, max_grad_norm=0.5, deepspeed=zero)
Trainer(model, args).train()
"""

    def rules(self, folder: Path, accumulation: str, clipping: str) -> set[str]:
        program = self.PROGRAM.replace("ACCUMULATION", accumulation).replace("CLIPPING", clipping)
        (folder / "train.py").write_text(program, encoding="utf-8")
        report = check([folder / "train.py"])
        return {finding.rule for finding in report.findings}

    def test_what_it_lacks_is_left_out(self, tmp_path: Path) -> None:
        assert self.rules(tmp_path, '"auto"', "") == {"clipping-left-out"}

    def test_what_differs_is_refused(self, tmp_path: Path) -> None:
        assert self.rules(tmp_path, "4", '"gradient_clipping": "auto",') == {"grad-accum-conflict"}

    def test_what_is_auto_is_filled(self, tmp_path: Path) -> None:
        assert self.rules(tmp_path, '"auto"', '"gradient_clipping": "auto",') == set()


class TestFileThatTheProgramNames:
    """`TrainingArguments(deepspeed="ds.json")`, also out of a YAML file: the file is the config, not the call."""

    WRITTEN = 'TrainingArguments("out", bf16=True, max_grad_norm=0.5, deepspeed="ds.json")'
    LOADED = 'TrainingArguments(**yaml.safe_load(open("conf.yaml"))["trainer"])'
    CONF = "trainer:\n  output_dir: out\n  bf16: true\n  max_grad_norm: 0.5\n  deepspeed: ds.json\n"

    @pytest.mark.parametrize("arguments", [WRITTEN, LOADED])
    @pytest.mark.parametrize(
        ("clipping", "expected"),
        [
            ("", {"clipping-left-out"}),
            ('"gradient_clipping": "auto",', set()),
            ('"gradient_clipping": 0.1,', {"conflicting-settings"}),
        ],
    )
    def test_it_is_what_the_trainer_compares(self, tree, arguments: str, clipping: str, expected: set[str]) -> None:
        tree(
            {
                "run.sh": "torchrun --nproc_per_node 8 train.py\n",
                "conf.yaml": self.CONF,
                "ds.json": f'{{{clipping} "bf16": {{"enabled": true}}, "train_micro_batch_size_per_gpu": "auto",\n'
                ' "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2, "overlap_comm": true}}',
                "train.py": "import yaml\nfrom transformers import Trainer, TrainingArguments\n"
                f"args = {arguments}\nTrainer(model, args).train()\n",
            }
        )
        assert {finding.rule for finding in check([Path("run.sh")]).findings} == expected


@pytest.mark.parametrize(("arguments", "compared"), [("", False), ("--output_dir out --do_train", True)])
def test_a_program_that_is_told_nothing_but_the_config(tmp_path: Path, arguments: str, compared: bool) -> None:
    config = '{"train_micro_batch_size_per_gpu": 4, "gradient_clipping": "auto", "zero_optimization": {"stage": 2}}'
    plan = plan_of(tmp_path, f"deepspeed --num_gpus 8 train.py {arguments} --deepspeed ds.json", config)
    assert bool(conflicts(plan)) is compared


class TestBelowStage3:
    FLAGS = "accelerate launch --use_deepspeed --num_processes 8 --num_machines 1"
    LIGHTNING = """
import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy
pl.Trainer(devices=8, strategy=DeepSpeedStrategy(stage=2, offload_parameters=True)).fit(model, loader)
"""
    PLUGIN = """
from accelerate import Accelerator, DeepSpeedPlugin
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=2, offload_param_device="cpu"))
model, optimizer = accelerator.prepare(model, optimizer)
"""

    @pytest.mark.parametrize(
        ("command", "program", "idle"),
        [
            (f"{FLAGS} --zero_stage 2 --offload_param_device cpu train.py", "", ["--offload_param_device"]),
            (f"{FLAGS} --zero_stage 2 --offload_param_device none train.py", "", []),
            (f"{FLAGS} --zero_stage 3 --offload_param_device cpu train.py", "", []),
            (f"{FLAGS} --zero_stage $STAGE --offload_param_device cpu train.py", "", []),
            ("accelerate launch --config_file acc.yaml train.py", "", ["offload_param_device"]),
            ("accelerate launch --config_file acc.yaml --zero_stage 3 train.py", "", []),
            (f"{FLAGS} train.py", PLUGIN, ["offload_param_device"]),
            ("python train.py", LIGHTNING, ["offload_parameters"]),
            ("python train.py", LIGHTNING.replace("stage=2", "stage=3"), []),
        ],
    )
    def test_parameters_stay_on_the_gpu(self, tmp_path: Path, command: str, program: str, idle: list[str]) -> None:
        config = "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n"
        section = "deepspeed_config: {zero_stage: 2, offload_param_device: cpu}\n"
        file = {"acc__yaml": config + section} if "acc.yaml" in command else {}
        plan = plan_of(tmp_path, command, train__py=program, **file)
        found = [member.fields["key"].value for member in plan.collection("config.inert")]  # type: ignore[attr-defined]
        assert [key for key in found if "offload" in key] == idle
        assert not idle or plan.value("sharding.offload_parameters") in (None, "none")


class TestAdaptersOfAProgram:
    """What a program says of its adapters, and of how it stores the weights beside them."""

    PROGRAM = """
import argparse, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--use_lora", action="store_true")
parser.add_argument("--q_lora", action="store_true")
parser.add_argument("--lora_r", type=int, default=16)
args = parser.parse_args()
told = TrainingArguments("out", bf16=True)
config = BitsAndBytesConfig(load_in_4bit=True) if args.q_lora else None
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16, quantization_config=config)
if args.use_lora:
    model = get_peft_model(model, LoraConfig(r=args.lora_r))
Trainer(model=model, args=told).train()
"""

    @pytest.mark.parametrize(
        ("flags", "change", "rank", "stored"),
        [
            ("--use_lora", ("", ""), 16, "bf16"),
            ("--use_lora --lora_r 4", ("", ""), 4, "bf16"),
            ("--use_lora --q_lora", ("", ""), 16, "nf4"),
            ("--use_lora", ("r=args.lora_r", "modules_to_save=['lm_head']"), 8, "bf16"),
            ("--use_lora", ("r=args.lora_r", ""), 8, "bf16"),
            ("--use_lora", ('"gpt2", ', '"gpt2", load_in_8bit=eight(), '), 16, "?"),
            ("--use_lora", ("import argparse", "import unsloth, argparse"), 16, "?"),
        ],
    )
    def test_they_are_known(
        self, tmp_path: Path, flags: str, change: tuple[str, str], rank: object, stored: object
    ) -> None:
        plan = plan_of(
            tmp_path, f"torchrun --nproc_per_node 8 train.py {flags}", train__py=self.PROGRAM.replace(*change)
        )
        found = [plan.value(name) for name in ("model.lora_rank", "precision.frozen")]
        assert ["?" if each is None else each for each in found] == [rank, stored]


@pytest.mark.parametrize(
    ("lost", "shown"),
    [
        ("--seed 1 --output_dir out &> out/log", "--seed 1 --output_dir out"),
        ("--seed 1 2>&1 | tee log", "--seed 1"),
        ("--seed 1 \\\n --bf16", "--seed 1 --bf16"),
        (
            " ".join(f"--word{number} {number}" for number in range(30)),
            "--word0 0 --word1 1 --word2 2 --word3 3 --word4 4 --word5 5",
        ),
    ],
)
def test_lost_words_are_shown_whole_and_without_what_the_shell_keeps(tmp_path: Path, lost: str, shown: str) -> None:
    plan = plan_of(tmp_path, f"{TRAINER} --bf16 \\ \n  {lost}")
    (member,) = plan.collection("launch.lost")
    assert member.fields["words"].value == shown  # type: ignore[attr-defined]


def test_keys_that_are_refused_together_are_told_in_the_plural(tmp_path: Path) -> None:
    config = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"quux": 1, "frobnicate": 2}}'
    plan_of(tmp_path, f"{TRAINER} --deepspeed ds.json", config)
    (found,) = (each.message for each in check([tmp_path]).findings if each.rule == "unknown-setting")
    assert found == "'quux', 'frobnicate' are not known here and are refused at start-up"


class TestKeysInPlaceOfAFile:
    """A deepspeed_config of Accelerate's own keys clips at its gradient_clipping, whatever the loop or the Trainer asks
    for.
    """

    LOOP = """import argparse
from accelerate import Accelerator
from net import Net, batches, optimizer
parser = argparse.ArgumentParser()
parser.add_argument("--norm", type=float, default=0.5)
norm = parser.parse_args().norm
accelerator = Accelerator()
model, optimizer = accelerator.prepare(Net(), optimizer)
for batch in batches:
    accelerator.backward(model(batch))
    accelerator.clip_grad_norm_(model.parameters(), norm)
    optimizer.step()
"""
    KEYS = "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n"

    def found(self, folder: Path, keys: str, **files: str) -> set[tuple[str, str]]:
        files = {"train__py": self.LOOP, "acc__yaml": self.KEYS + keys, **files}
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
        report = check([folder])
        return {(each.severity, each.message) for each in report.findings if each.rule == "clipping-left-out"}

    @pytest.mark.parametrize(
        ("keys", "flags", "expected"),
        [
            ("", "", "clips at 1.0 then"),
            ("  gradient_clipping: auto\n", "", "clips at gradient_clipping 1"),
            ("  gradient_clipping: 0.1\n", "", "clips at gradient_clipping 0.1"),
            ("  gradient_clipping: 0.5\n", "", ""),
            ("  gradient_clipping: 0.1\n", "--gradient_clipping 0.5", ""),
            ("", "--norm 1.0", ""),
        ],
    )
    def test_a_loop_of_its_own(self, tmp_path: Path, keys: str, flags: str, expected: str) -> None:
        own = flags if flags.startswith("--norm") else ""
        launch = f"accelerate launch --config_file acc.yaml {flags.removesuffix(own)} train.py {own}\n"
        found = self.found(tmp_path, keys, run__sh=launch)
        assert [severity for severity, _ in found] == (["error"] if expected else [])
        assert all(expected in message for _, message in found)

    @pytest.mark.parametrize(
        ("release", "asked", "expected"),
        [
            ("0.27.2", " --max_grad_norm 0.3", {"error"}),
            ("0.27.2", "", {"note"}),
            ("0.30.0", " --max_grad_norm 0.3", set()),
        ],
    )
    def test_the_trainer(self, tmp_path: Path, release: str, asked: str, expected: set[str]) -> None:
        launch = f"accelerate launch --config_file acc.yaml run_clm.py --model_name_or_path gpt2 --bf16{asked}\n"
        found = self.found(tmp_path, "", run__sh=launch, requirements__txt=f"accelerate=={release}\n")
        assert {severity for severity, _ in found} == expected


class TestAccumulationPutIn:
    """Accelerate puts 1 where a config has no gradient_accumulation_steps."""

    BATCHES = '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto"}'
    FLAGS = "--fp16 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --deepspeed ds.json"
    LOOP = """\
from accelerate import Accelerator
from net import Net, batches, optimizer

accelerator = Accelerator(gradient_accumulation_steps=4)
model, optimizer, batches = accelerator.prepare(Net(), optimizer, batches)
for batch in batches:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch).loss)
        optimizer.step()
        optimizer.zero_grad()
"""
    LAUNCH = "accelerate launch --config_file acc.yml train.py"
    LAUNCHED = "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\nnum_processes: 8\n"

    def test_the_trainers_whole_batch_counts_another_one(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} {self.FLAGS}", self.BATCHES)
        assert conflicts(plan) == [("batch.accumulation", 2, 1, "uncounted")]

    def test_a_front_end_over_the_trainer_fails_alike(self, tmp_path: Path) -> None:
        config = "base_model: gpt2\nmicro_batch_size: 4\ngradient_accumulation_steps: 8\ndeepspeed: ds.json\n"
        command = "accelerate launch --num_processes 8 -m axolotl.cli.train own.yml"
        plan = plan_of(tmp_path, command, self.BATCHES, own__yml=config)
        assert ("batch.accumulation", 8, 1, "uncounted") in conflicts(plan)

    @pytest.mark.parametrize(
        "config",
        [
            AUTO,
            '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto"}',
            '{"train_batch_size": "auto", "gradient_clipping": "auto"}',
        ],
    )
    def test_a_config_that_has_it_or_one_batch_alone_fits(self, tmp_path: Path, config: str) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} {self.FLAGS} --bf16 False", config)
        assert conflicts(plan) == []

    def test_one_local_batch_is_what_is_put_in(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, f"{TRAINER} --fp16 --deepspeed ds.json", self.BATCHES)
        assert conflicts(plan) == []

    def test_deepspeed_works_it_out_under_earlier_releases(self, tmp_path: Path) -> None:
        pin = "transformers==4.28.1\n"
        plan = plan_of(tmp_path, f"{TRAINER} {self.FLAGS}", self.BATCHES, requirements__txt=pin)
        assert conflicts(plan) == []

    def test_an_accelerator_accumulates_what_was_put_in(self, tmp_path: Path) -> None:
        config = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'
        plan = plan_of(tmp_path, self.LAUNCH, config, train__py=self.LOOP, acc__yml=self.LAUNCHED)
        assert conflicts(plan) == [("batch.accumulation", 4, 1, "overridden")]
        assert plan.value("batch.accumulation") == 1

    CONFIG = (
        '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 1}}'
    )

    @pytest.mark.parametrize(
        ("told", "pin", "found", "counts"),
        [
            ("gradient_accumulation_steps=4", "==0.20.3", [("batch.accumulation", 8, 4, "replaced")], 4),
            ("", "==0.20.3", [("batch.accumulation", 8, 1, "replaced")], 1),
            ("log_with='wandb'", "<0.23", [("batch.accumulation", 8, 1, "replaced")], 1),
            ("gradient_accumulation_steps=8", "==0.20.3", [], 8),
            ("**options", "==0.20.3", [], None),
            ("gradient_accumulation_plugin=plugin", "==0.20.3", [], None),
            ("gradient_accumulation_steps=options.steps", "==0.20.3", [], None),
            ("", "==1.2.1", [], 8),
            ("", ">=0.20", [], 8),
            ("gradient_accumulation_steps=4", "==1.2.1", [("batch.accumulation", 4, 8, "overridden")], 8),
        ],
    )
    def test_older_releases_put_the_accelerators_own_in(
        self, tmp_path: Path, told: str, pin: str, found: list[tuple[object, ...]], counts: int | None
    ) -> None:
        loop = self.LOOP.replace("Accelerator(gradient_accumulation_steps=4)", f"Accelerator({told})")
        loop = loop.replace("optimizer\n\n", "optimizer, options, plugin\n\n", 1)
        pins = f"accelerate{pin}\n"
        files = {"train__py": loop, "acc__yml": self.LAUNCHED, "requirements__txt": pins}
        plan = plan_of(tmp_path, self.LAUNCH, self.CONFIG, **files)
        assert conflicts(plan) == found
        assert plan.value("batch.accumulation") == counts

    def test_older_releases_replace_what_was_put_in(self, tmp_path: Path) -> None:
        config = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'
        files = {"train__py": self.LOOP, "acc__yml": self.LAUNCHED, "requirements__txt": "accelerate==0.20.3\n"}
        plan = plan_of(tmp_path, self.LAUNCH, config, **files)
        assert conflicts(plan) == []
        assert plan.value("batch.accumulation") == 4

    def test_an_accelerator_fills_auto(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, self.LAUNCH, AUTO, train__py=self.LOOP, acc__yml=self.LAUNCHED)
        assert conflicts(plan) == []
        assert plan.value("batch.accumulation") == 4
