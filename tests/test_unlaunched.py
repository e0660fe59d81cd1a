"""Configs that no launch uses, and configs that the program changes: what they do not say is not held against them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.config import Config
from dtlint.rulebook.check import check
from dtlint.rulebook.load import built_in
from dtlint.runs import Options, read_runs


def severities(folder: Path, files: dict[str, str], *names: str) -> dict[str, str]:
    """The worst severity of each of these rules, "" where it finds nothing."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    rules = [rule for rule in built_in() if rule.name in names]
    found = {each.rule: each.severity for each in check(read_runs([folder], Options()), rules, Config()).findings}
    return {name: found.get(name, "") for name in names}


ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
num_machines: 2
num_processes: 16
"""
HYDRA = """\
trainer: {num_nodes: 8, devices: 8, precision: bf16}
exp_manager: {}
model: {global_batch_size: 64, micro_batch_size: 2, megatron_amp_O2: true}
"""


class TestConfigsWithoutALaunch:
    @pytest.mark.parametrize(
        ("rule", "name", "text"),
        [
            (
                "fp32-training",
                "ds.json",
                '{"train_batch_size": 8, "fp16": {"enabled": false}, "zero_optimization": {}}',
            ),
            ("fsdp-no-wrap-policy", "accelerate.yaml", ACCELERATE),
            ("batch-not-divisible", "conf/train.yaml", HYDRA),
        ],
    )
    def test_what_follows_from_what_is_left_out_is_a_note(
        self, tmp_path: Path, rule: str, name: str, text: str
    ) -> None:
        assert severities(tmp_path, {name: text}, rule) == {rule: "note"}

    def test_degrees_that_are_written_leave_nothing_open(self, tmp_path: Path) -> None:
        text = HYDRA.replace("model: {", "model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, ")
        assert severities(tmp_path, {"conf/train.yaml": text}, "batch-not-divisible") == {
            "batch-not-divisible": "error"
        }

    def test_what_is_written_counts_as_ever(self, tmp_path: Path) -> None:
        text = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true}}'
        assert severities(tmp_path, {"ds.json": text}, "unknown-setting") == {"unknown-setting": "error"}

    def test_a_launch_that_names_the_config_leaves_nothing_open(self, tmp_path: Path) -> None:
        files = {"accelerate.yaml": ACCELERATE, "run.sh": "accelerate launch --config_file accelerate.yaml train.py\n"}
        assert severities(tmp_path, files, "fsdp-no-wrap-policy") == {"fsdp-no-wrap-policy": "warning"}

    @pytest.mark.parametrize(("run", "severity"), [("", ""), ("torchrun train.py args.yaml\n", "error")])
    def test_arguments_are_compared_where_the_trainer_runs(self, tmp_path: Path, run: str, severity: str) -> None:
        program = (
            "import sys\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
            "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(sys.argv[1])\n"
            "Trainer(model, args).train()\n"
        )
        files = {
            "args.yaml": "per_device_train_batch_size: 16\nbf16: true\noutput_dir: out\ndeepspeed: ds.json\n",
            "ds.json": '{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}',
            **({"run.sh": run, "train.py": program} if run else {}),
        }
        assert severities(tmp_path, files, "conflicting-settings") == {"conflicting-settings": severity}


class TestOneLaunchThatNamesNone:
    """Of the Trainer's arguments --deepspeed alone tells of a config."""

    @pytest.mark.parametrize("launcher", ["accelerate launch", "torchrun --nproc_per_node 8", "deepspeed"])
    @pytest.mark.parametrize(("more", "severity"), [("", ""), ('"$@"', "error"), ("--deepspeed ds.json", "error")])
    def test_a_known_command_line_takes_no_config(
        self, tmp_path: Path, launcher: str, more: str, severity: str
    ) -> None:
        arguments = "--output_dir out --save_strategy no --per_device_train_batch_size 1"
        files = {
            "run.sh": f"{launcher} train.py {arguments} {more}\n",
            "ds.json": '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}',
        }
        assert severities(tmp_path, files, "conflicting-settings") == {"conflicting-settings": severity}

    @pytest.mark.parametrize(("section", "severity"), [("bf16", "error"), ("bfloat16", "")])
    @pytest.mark.parametrize("flag", ["", "--fp16"])
    def test_the_older_name_of_a_format_is_not_compared(
        self, tmp_path: Path, section: str, severity: str, flag: str
    ) -> None:
        arguments = f"--output_dir out --save_strategy no --per_device_train_batch_size 1 {flag} --deepspeed ds.json"
        files = {
            "run.sh": f"torchrun --nproc_per_node 8 train.py {arguments}\n",
            "ds.json": f'{{"{section}": {{"enabled": true}}, "zero_optimization": {{"stage": 2}}}}',
        }
        assert severities(tmp_path, files, "conflicting-settings") == {"conflicting-settings": severity}


NAMED_TWO = """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
gpu_ids: 1,2
num_machines: 1
num_processes: 8
"""
NOTEBOOK = """\
{"cells": [{"cell_type": "code", "source": [
    "command = \\"\\"\\"\\n",
    "accelerate launch --config_file=./two.yaml \\\\\\n",
    "    --num_processes 2 train.py\\n",
    "\\"\\"\\"\\n"]}], "nbformat": 4}
"""


class TestCommandsInTexts:
    """What every command of documents, notebooks and programs gives that names a config counts before the file."""

    @pytest.mark.parametrize(
        ("name", "text", "severity"),
        [
            ("README.md", "    accelerate launch --config_file two.yaml --num_processes 2 train.py --epochs 3\n", ""),
            ("README.md", "```\naccelerate launch --num_processes=2 \\\n  --config_file two.yaml train.py\n```\n", ""),
            ("run.ipynb", NOTEBOOK, ""),
            (
                "tool.py",
                'run(["accelerate", "launch", "--num-processes", n, "--config_file", "two.yaml", "a.py"])\n',
                "",
            ),
            ("README.md", "accelerate launch --config_file two.yaml train.py --num_processes 2\n", "error"),
            ("README.md", "accelerate launch --config_file one.yaml --num_processes 2 train.py\n", "error"),
            (
                "README.md",
                "accelerate launch --config_file two.yaml --num_processes 2 a.py\n\n"
                "accelerate launch --config_file two.yaml b.py\n",
                "error",
            ),
            ("README.md", "Use two.yaml with accelerate, and --num_processes 2.\n", "error"),
        ],
    )
    def test_an_option_of_all_of_them_counts_before_the_file(
        self, tmp_path: Path, name: str, text: str, severity: str
    ) -> None:
        files = {"two.yaml": NAMED_TWO, name: text}
        assert severities(tmp_path, files, "num-processes-vs-machines") == {"num-processes-vs-machines": severity}


BESIDE_A_FILE = """\
compute_environment: LOCAL_MACHINE
deepspeed_config:
  deepspeed_config_file: ds.json
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
PLAIN_LOOP = """\
import torch
from transformers import AutoModelForCausalLM

torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(AutoModelForCausalLM.from_pretrained("x/y"))
for batch in batches:
    model(**batch).loss.backward()
    optimizer.step()
"""


class TestProgramsWithoutAnAccelerator:
    """`accelerate launch` alone refuses nothing of an engine: what builds an Accelerator does."""

    @pytest.mark.parametrize(("start", "severity"), [("run.sh", "error"), ("README.md", "note")])
    @pytest.mark.parametrize(
        ("more", "told"),
        [
            ("", False),
            ("from accelerate import Accelerator\n", True),
            ("from transformers import Trainer\n", True),
            ("import transformers\n\nmake = transformers.Seq2SeqTrainer\n", True),
            ("from own_framework import fit\n", True),
        ],
    )
    def test_its_engine_is_not_compared(self, tmp_path: Path, start: str, severity: str, more: str, told: bool) -> None:
        files = {
            "acc.yaml": BESIDE_A_FILE,
            "ds.json": '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}',
            "train.py": more + PLAIN_LOOP,
            start: "accelerate launch --config_file acc.yaml train.py\n",
        }
        found = severities(tmp_path, files, "conflicting-settings")["conflicting-settings"]
        assert found == (severity if told else "")

    def test_a_program_that_is_not_here_may_build_one(self, tmp_path: Path) -> None:
        files = {"acc.yaml": BESIDE_A_FILE, "run.sh": "accelerate launch --config_file acc.yaml train.py\n"}
        assert severities(tmp_path, files, "conflicting-settings") == {"conflicting-settings": "error"}


class TestFormat:
    """With fp16 and bf16 off DeepSpeed leaves the weights as the program has them."""

    @pytest.mark.parametrize("program", ["model = Net().half()", "model = Net()"])
    def test_a_launched_config_is_a_note_at_most(self, tmp_path: Path, program: str) -> None:
        files = {
            "ds.json": '{"train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": false}, "zero_optimization": {"stage": 2}}',
            "run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n",
            "train.py": f"import deepspeed\n{program}\ndeepspeed.initialize(args=args, model=model)\n",
        }
        assert severities(tmp_path, files, "fp32-training") == {"fp32-training": "note"}


NAMED = {
    "ds.json": '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2, "overlap_com": true}}',
    "run.sh": "deepspeed --num_gpus 8 train.py --ds_config ds.json\n",
}
PROGRAM = """\
import argparse, json
import deepspeed

parser = argparse.ArgumentParser()
parser.add_argument("--ds_config")
parser.add_argument("--local_rank", type=int)
args = parser.parse_args()
config = json.load(open(args.ds_config))
{change}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
"""


class TestConfigsThatTheProgramChanges:
    @pytest.mark.parametrize(
        ("change", "auto", "unknown"),
        [
            ('config["train_micro_batch_size_per_gpu"] = 4', "", "error"),
            ('config.update({"train_micro_batch_size_per_gpu": 4})', "", "error"),
            ("config.update(train_micro_batch_size_per_gpu=4)", "", "error"),
            ('config["zero_optimization"] = {"stage": 1}', "error", ""),
            ('zero = config["zero_optimization"]\nzero["overlap_com"] = False', "error", ""),
            ("config.update(vars(args))", "", ""),
            ("config[args.key] = 4", "", ""),
            ("losses[args.key] = 4\ncounts.update(losses)", "error", "error"),
        ],
    )
    def test_keys_that_it_sets(self, tmp_path: Path, change: str, auto: str, unknown: str) -> None:
        files = {**NAMED, "train.py": PROGRAM.format(change=change)}
        found = severities(tmp_path, files, "auto-without-filler", "unknown-setting")
        assert found == {"auto-without-filler": auto, "unknown-setting": unknown}

    def test_settings_that_it_sets_are_unknown(self, tmp_path: Path) -> None:
        severities(tmp_path, {**NAMED, "train.py": PROGRAM.format(change='config["bf16"] = {"enabled": True}')})
        (run,) = read_runs([tmp_path], Options()).runs
        assert run.plan.value("sharding.stage") == 2
        severities(tmp_path, {"train.py": PROGRAM.format(change='config["zero_optimization"]["stage"] = 3')})
        (run,) = read_runs([tmp_path], Options()).runs
        assert run.plan.value("sharding.stage") is None

    @pytest.mark.parametrize(
        ("change", "severity"), [("", "warning"), ('config["zero_optimization"]["stage"] = 3', "")]
    )
    def test_what_has_no_effect_depends_on_the_stage(self, tmp_path: Path, change: str, severity: str) -> None:
        section = '{"stage": 2, "offload_param": {"device": "cpu"}}'
        config = f'{{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {section}}}'
        files = {**NAMED, "ds.json": config, "train.py": PROGRAM.format(change=change)}
        assert severities(tmp_path, files, "inert-setting") == {"inert-setting": severity}

    def test_a_file_that_it_hands_over_as_it_is(self, tmp_path: Path) -> None:
        program = PROGRAM.format(change='config["train_micro_batch_size_per_gpu"] = 4').replace(
            "config=config", "config=args.ds_config"
        )
        found = severities(tmp_path, {**NAMED, "train.py": program}, "auto-without-filler")
        assert found == {"auto-without-filler": "error"}
