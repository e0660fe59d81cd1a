"""What the Trainer refuses among its arguments, on the command line and in files, and what it only seems to refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_words import words
from readings import claims, members

from dtlint.api import check
from dtlint.frameworks.transformers.arguments import read_arguments
from dtlint.frameworks.transformers.fsdp import read_config
from dtlint.frameworks.trl import read_launch_of_task, recognise
from dtlint.languages.json import read_json
from dtlint.source import Source

PROGRAM = """from dataclasses import dataclass, field
from transformers import HfArgumentParser, Trainer, TrainingArguments

@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="gpt2")
{classes}
parser = HfArgumentParser(({passed}))
model_args, training_args = parser.{parse}
Trainer(model=load(model_args), args=training_args, train_dataset=data()).train()
"""
LINE = "parse_args_into_dataclasses()"


def refused(
    folder: Path,
    arguments: str,
    passed: str = "ModelArguments, TrainingArguments",
    classes: str = "",
    parse: str = LINE,
    launcher: str = "torchrun --nproc_per_node 8",
) -> list[str]:
    (folder / "train.py").write_text(PROGRAM.format(passed=passed, classes=classes, parse=parse))
    (folder / "run.sh").write_text(f"{launcher} train.py --output_dir out --bf16 True {arguments}\n")
    found = check([folder]).findings
    return [finding.rule for finding in found if finding.outcome == "launch-fails"]


class TestParser:
    @pytest.mark.parametrize(
        "argument",
        ["--per_device_train_batchsize 4", "--zero_stage 3", "--lr 1e-4", "--learning-rates 1"],
    )
    def test_arguments_that_no_dataclass_has(self, tmp_path: Path, argument: str) -> None:
        assert refused(tmp_path, argument) == ["unknown-setting"]

    @pytest.mark.parametrize(
        "argument",
        [
            "--model_name_or_path gpt2",
            "--model_name gpt2",
            "--per_device_train_batch 4",
            "--overwrite_output_dir",
            "--evaluation_strategy no",
            "--no_dataloader_pin_memory",
            "--warmup 10",
        ],
    )
    def test_beginnings_and_names_that_some_release_has(self, tmp_path: Path, argument: str) -> None:
        assert refused(tmp_path, argument) == []

    def test_a_class_from_elsewhere_may_take_more(self, tmp_path: Path) -> None:
        imported = "from my.arguments import DataArguments"
        passed = "ModelArguments, DataArguments, TrainingArguments"
        assert refused(tmp_path, "--train_file x.json", passed, imported) == []
        assert refused(tmp_path, "--learning_rates 1", passed, imported) == ["unknown-setting"]

    @pytest.mark.parametrize(
        "decorated",
        [
            "import flax\n@flax.struct.dataclass\nclass Data:",
            "from pydantic.dataclasses import dataclass as fields\n@fields\nclass Data:",
            "from my.library import arguments\n@arguments\nclass Data:",
        ],
    )
    def test_a_class_of_fields_by_another_library(self, tmp_path: Path, decorated: str) -> None:
        classes = f"{decorated}\n    train_file: str = None"
        assert refused(tmp_path, "--train_file x.json", "Data, TrainingArguments", classes) == []

    def test_arguments_that_a_class_of_the_program_adds_to_the_trainers(self, tmp_path: Path) -> None:
        own = "@dataclass\nclass Mine(TrainingArguments):\n    optim: str = 'muon'\n    zero_stage: int = 0\n"
        assert refused(tmp_path, "--optim muon --zero_stage 3", "ModelArguments, Mine", own) == []

    def test_a_parser_that_returns_what_it_does_not_know(self, tmp_path: Path) -> None:
        lenient = "parse_args_into_dataclasses(return_remaining_strings=True)"
        assert refused(tmp_path, "--zero_stage 3", parse=lenient) == []

    def test_a_parser_of_files_reads_no_command_line(self, tmp_path: Path) -> None:
        own = 'parse_yaml_file(sys.argv[sys.argv.index("--setup") + 1])'
        assert refused(tmp_path, "--setup a.yaml --zero_stage 3", parse=own) == []

    def test_a_parser_of_either_reads_the_command_line(self, tmp_path: Path) -> None:
        either = f"parse_yaml_file(sys.argv[1]) if sys.argv[1].endswith('.yaml') else parser.{LINE}"
        assert refused(tmp_path, "--zero_stage 3", parse=either) == ["unknown-setting"]

    @pytest.mark.parametrize(
        "argument",
        ["--max_steps 1e3", "--learning_rate auto", "--fp16 O2", "--optim AdamW", "--fsdp True", "--tf32 high"],
    )
    def test_values_that_it_does_not_take(self, tmp_path: Path, argument: str) -> None:
        assert "setting-type" in refused(tmp_path, argument)

    @pytest.mark.parametrize(
        "argument",
        [
            "--max_steps $STEPS",
            "--tf32 1",
            "--bf16_full_eval y",
            "--fsdp full_shard",
            "--fsdp fsdp2",
            "--fsdp a/b.json",
        ],
    )
    def test_values_that_it_takes(self, tmp_path: Path, argument: str) -> None:
        assert refused(tmp_path, argument) == []

    def test_fsdp_in_a_program_that_nothing_launches(self, tmp_path: Path) -> None:
        sharded = '--fsdp "full_shard auto_wrap"'
        assert refused(tmp_path, sharded, launcher="python") == ["zero-no-dp"]
        assert refused(tmp_path, sharded, launcher="export WORLD_SIZE=8\npython") == []


COPY = """from dataclasses import dataclass, field

@dataclass
class TrainingArguments:
    output_dir: str = field(default="")
    cls_dropout: float = field(default=0.1)
"""


class TestCopy:
    """A copy of transformers in the tree, whose class of arguments decides what the parser takes."""

    @pytest.mark.parametrize("folder", ["transformers", "src/transformers", "elsewhere/src/transformers"])
    @pytest.mark.parametrize(
        ("argument", "rules"),
        [("--cls_dropout 0.1", []), ("--cls_drop 0.1", []), ("--zero_stage 3", ["unknown-setting"])],
    )
    def test_a_field_of_its_own(self, tmp_path: Path, folder: str, argument: str, rules: list[str]) -> None:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "training_args.py").write_text(COPY)
        assert refused(tmp_path, argument) == rules

    def test_the_copy_around_the_program_decides_and_not_another(self, tmp_path: Path) -> None:
        for folder, text in (("src/transformers", COPY.replace("cls_dropout", "other")), ("old/transformers", COPY)):
            (tmp_path / folder).mkdir(parents=True)
            (tmp_path / folder / "training_args.py").write_text(text)
        assert refused(tmp_path, "--cls_dropout 0.1") == ["unknown-setting"]

    def test_a_class_of_another_package_is_not_the_trainers(self, tmp_path: Path) -> None:
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "training_args.py").write_text(COPY)
        assert refused(tmp_path, "--cls_dropout 0.1") == ["unknown-setting"]


class TestClashes:
    def test_both_formats(self) -> None:
        found = read_arguments(words("train.py --output_dir out --bf16 True --fp16"))
        assert members(found, "config.invalid", "key", "expected") == [("--fp16", "false beside bf16")]
        assert "config.invalid" not in read_arguments(words("train.py --bf16 True --fp16 False")).collections

    def test_deepspeed_and_fsdp(self) -> None:
        found = read_arguments(words('train.py --bf16 --deepspeed ds.json --fsdp "full_shard auto_wrap"'))
        assert members(found, "config.conflicts", "name", "winner_name", "effect") == [
            ("--fsdp", "--deepspeed", "exclusive")
        ]
        assert "config.conflicts" not in read_arguments(words('train.py --deepspeed ds.json --fsdp ""')).collections

    @pytest.mark.parametrize("value", ['"full-shard auto_wrap"', '"full_shard,auto_wrap"', '"fsdp"'])
    def test_words_that_stand_for_nothing(self, value: str) -> None:
        found = read_arguments(words(f"train.py --bf16 --output_dir out --fsdp {value}"))
        assert len(members(found, "config.invalid", "expected")) == 1

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"auto_wrap_policy": "transformer"}', "one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP"),
            ('{"fsdp_activation_checkpointing": "selective"}', "true or false"),
            ('{"version": 2, "reshard_after_forward": "full_shard"}', "true or false with version 2"),
            ('{"version": 3}', "1 or 2"),
        ],
    )
    def test_values_of_the_fsdp_config(self, text: str, expected: str) -> None:
        found = read_config(read_json(Source("fsdp.json", text)))
        assert members(found, "config.invalid", "expected") == [(expected,)]

    def test_a_strategy_of_the_first_version(self) -> None:
        text = '{"version": 1, "reshard_after_forward": "shard_grad_op"}'
        found = read_config(read_json(Source("fsdp.json", text)))
        assert "config.invalid" not in found.collections
        assert claims(found)["sharding.stage"] == 2


class TestTrl:
    def test_flags_of_the_launcher_and_of_the_script(self) -> None:
        line = "trl sft --num_processes 4 --gradient_accumulation_steps 8 --use_fsdp --learning_rate 1e-5"
        found = read_launch_of_task(words(line))
        assert recognise(words(line))
        assert claims(found)["launch.processes"] == 4
        assert "batch.accumulation" not in claims(found)
        assert [word.text for word in found.rest] == [
            "trl/scripts/sft.py", "--gradient_accumulation_steps", "8", "--learning_rate", "1e-5",
        ]  # fmt: skip

    def test_a_config_that_trl_brings_along(self) -> None:
        found = read_launch_of_task(words("trl dpo --accelerate_config zero2 --num_processes 4 --bf16"))
        assert found.framework == "deepspeed"
        assert (claims(found)["sharding.stage"], claims(found)["launch.processes"]) == (2, 4)

    def test_a_config_of_the_users(self) -> None:
        found = read_launch_of_task(words("trl grpo --accelerate_config my/acc.yaml --config grpo.yaml"))
        assert [(file.role, file.path.text) for file in found.files] == [("accelerate", "my/acc.yaml")]
        assert found.open


@pytest.mark.parametrize(
    ("arguments", "launcher", "told"),
    [
        ("--fsdp_config fsdp.json", "torchrun --nproc_per_node 8", True),
        ("--fsdp_config fsdp.json", "accelerate launch --multi_gpu --num_processes 8", True),
        ("--fsdp full_shard --fsdp_config fsdp.json", "torchrun --nproc_per_node 8", False),
        ("--fsdp_config fsdp.json $MORE", "torchrun --nproc_per_node 8", False),
        ("--fsdp_config $FILE", "torchrun --nproc_per_node 8", False),
        # what may shard stands elsewhere
        ("--fsdp_config fsdp.json", "accelerate launch --num_processes 8", False),
        ("--fsdp_config fsdp.json", "accelerate launch --use_fsdp --num_processes 8", False),
        ("--fsdp_config fsdp.json --deepspeed ds.json", "torchrun --nproc_per_node 8", False),
        ("--fsdp '' --fsdp_config fsdp.json", "torchrun --nproc_per_node 8", False),
    ],
)
def test_how_to_shard_where_nothing_is_sharded(tmp_path: Path, arguments: str, launcher: str, told: bool) -> None:
    (tmp_path / "fsdp.json").write_text('{"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}')
    if "ds.json" in arguments:
        (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "run.sh").write_text(f"{launcher} train.py --output_dir out --bf16 True {arguments}\n")
    found = [each.severity for each in check([tmp_path]).findings if each.rule == "inert-setting"]
    assert found == (["warning"] if told else [])
