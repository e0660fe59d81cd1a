"""What the arguments of Hugging Face's Trainer and of the programs on top of it say about the plan."""

from __future__ import annotations

import pytest
from command_words import words
from hypothesis import given
from hypothesis import strategies as st
from readings import claims

from dtlint.frameworks import Reading
from dtlint.frameworks.transformers.arguments import read_arguments, recognise, spell
from dtlint.frameworks.transformers.files import looks_like_arguments, named_file, read_file
from dtlint.frameworks.transformers.fsdp import read_config
from dtlint.languages.json import read_json
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source

FULL = "train.py --model_name_or_path gpt2 --output_dir out --do_train"


def read(arguments: str, script: str = FULL) -> Reading:
    return read_arguments(words(f"{script} {arguments}"))


def setting(arguments: str, name: str) -> object:
    return claims(read(arguments)).get(name, "not said")


class TestRecognising:
    @pytest.mark.parametrize(
        "command",
        [
            "train.py --output_dir out --bf16 True",
            "train.py --output-dir=out --per-device-train-batch-size=4 --save-strategy=no",
            "train.py --deepspeed ds.json --learning_rate 1e-5",
            "src/train_bash.py --stage sft --do_train --finetuning_type lora",
            "sft --model x --train_type lora --output_dir out",
            "train.py --output_dir out --bf16 --per_device_train_batch_size 4 --batch_size 1",
        ],
    )
    def test_programs_of_the_trainer(self, command: str) -> None:
        assert recognise(words(command))

    @pytest.mark.parametrize(
        "command",
        [
            "train.py",
            "train.py --learning_rate 1e-5 --output_dir out",
            "train.py --deepspeed ds.json",
            "train.py --model small --data mine --deepspeed=ds.json",
            "main.py --deepspeed --zero_stage 3 --model_name_or_path x --per_device_train_batch_size 4 --bf16",
            "train.py --deepspeed --deepspeed_config ds.json --fp16 --learning_rate 1e-5",
            "no_trainer.py --with_tracking --report_to wandb --output_dir out --per_device_train_batch_size 4",
            "pretrain_gpt.py --bf16 --micro-batch-size 4 --weight-decay 0.1",
            "train.py --report_to wandb --output_dir out --gradient_accumulation_steps 1 --mixed_precision bf16",
            "train.py --report_to wandb --output_dir out --train_batch_size 4 --learning_rate 1e-5",
            "train.py --report_to wandb --output_dir out --batch_size 1 --gradient_accumulation_steps 1",
        ],
    )
    def test_programs_with_a_loop_of_their_own(self, command: str) -> None:
        assert not recognise(words(command))

    @pytest.mark.parametrize(
        ("command", "frontend"),
        [
            ("train.py --bf16 True --output_dir out", "transformers"),
            ("src/train_bash.py --do_train --output_dir out", "llama-factory"),
            ("src/train.py --stage sft --finetuning_type full", "llama-factory"),
            ("sft --model x --train_type full --output_dir out", "ms-swift"),
        ],
    )
    def test_who_fills_in_what_is_not_written(self, command: str, frontend: str) -> None:
        assert read_arguments(words(command)).frontend == frontend


class TestSettings:
    def test_the_batch_and_what_stands_beside_it(self) -> None:
        found = claims(
            read(
                "--per_device_train_batch_size 2 --gradient_accumulation_steps=16 --max_grad_norm 0.3 --optim adafactor "
                "--model_max_length 2048 --ddp_timeout 5400 --ddp_bucket_cap_mb 50 --max_steps 1000"
            )
        )
        assert found == {
            "batch.micro": 2,
            "batch.accumulation": 16,
            "optimizer.clip": 0.3,
            "optimizer.name": "adafactor",
            "data.sequence_length": 2048,
            "launch.timeout_seconds": 5400,
            "communication.bucket_bytes": 50 * 2**20,
            "run.steps": 1000,
        }

    @pytest.mark.parametrize(
        ("arguments", "compute"),
        [
            ("--bf16", "bf16"),
            ("--bf16 True --tf32 True", "bf16"),
            ("--fp16 yes", "fp16"),
            ("--bf16 False --fp16 True", "fp16"),
            ("--bf16 False --fp16 False", "fp32"),
            ('--bf16 "$B"', "$B is not set"),
            ("--bf16 $EXTRA", "bf16"),
            ("--learning_rate 1", "not said"),
            ("--torch_dtype bfloat16", "bf16"),
            ("--pure_bf16", "bf16"),
        ],
    )
    def test_the_format_of_the_products(self, arguments: str, compute: str) -> None:
        assert setting(arguments, "precision.compute") == compute

    def test_pure_bf16_keeps_no_copy_of_the_weights(self) -> None:
        assert setting("--pure_bf16", "precision.master") == "none"

    @pytest.mark.parametrize(
        ("arguments", "kept"),
        [
            ("--gradient_checkpointing", "full"),
            ("--gradient_checkpointing True", "full"),
            ("--gradient_checkpointing false", "none"),
            ("--activation_checkpointing", "full"),
            ("--disable_gradient_checkpointing", "none"),
            ("--gradient_checkpointing $recompute --bf16", "$recompute is not set"),
            ("--gradient_checkpointing ${EXTRA_ARGS}", "full"),
        ],
    )
    def test_recomputation(self, arguments: str, kept: str) -> None:
        assert setting(arguments, "checkpointing.activations") == kept

    def test_epochs_count_where_the_steps_are_negative(self) -> None:
        assert setting("--max_steps -1", "run.steps") == "not said"

    def test_a_batch_that_is_searched_is_not_known(self) -> None:
        assert setting("--per_device_train_batch_size 8 --auto_find_batch_size", "batch.micro") == (
            "auto_find_batch_size lowers it until it fits"
        )

    def test_an_unknown_word_behind_a_switch_hides_arguments(self) -> None:
        assert read("--bf16 $EXTRA").open == "$EXTRA is not set"
        assert read("--bf16 $half").open == ""
        assert read("--bf16 True --learning_rate 1").open == ""

    def test_the_longest_sample_of_images_and_text_is_only_a_bound(self) -> None:
        def length(arguments: str) -> str:
            reading = read(f"--model_max_length 2048 {arguments}")
            found = next(claim.value for claim in reading.claims if claim.setting == "data.sequence_length")
            return getattr(found, "origin").kind  # noqa: B009

        assert (length(""), length("--image_folder images")) == ("written", "assumed")


class TestFramework:
    @pytest.mark.parametrize(
        ("arguments", "framework"),
        [
            ("--deepspeed ds.json", "deepspeed"),
            ('--fsdp "full_shard auto_wrap"', "fsdp"),
            ('--fsdp ""', ""),
            ("--bf16", ""),
        ],
    )
    def test_what_carries_out_the_plan(self, arguments: str, framework: str) -> None:
        assert read(arguments).framework == framework

    @pytest.mark.parametrize(
        ("words_of_fsdp", "stage"),
        [("full_shard auto_wrap", 3), ("shard_grad_op auto_wrap", 2), ("hybrid_shard auto_wrap", 3), ("True", 3)],
    )
    def test_the_stage_of_fsdp(self, words_of_fsdp: str, stage: int) -> None:
        assert setting(f'--fsdp "{words_of_fsdp}"', "sharding.stage") == stage

    def test_offload_and_wrapping(self) -> None:
        found = claims(read('--fsdp "full_shard auto_wrap offload" --gradient_checkpointing'))
        assert found["sharding.offload_parameters"] == found["sharding.offload_optimizer"] == "cpu"
        assert (found["sharding.units"], found["checkpointing.placement"]) == ("wrapped", "outside")

    def test_nothing_is_wrapped_up_to_version_4_unless_it_is_asked_for(self) -> None:
        assert setting("--fsdp full_shard --evaluation_strategy no", "sharding.units") == "none"
        assert "sharding.units" not in claims(read("--fsdp full_shard"))
        assert setting("--fsdp full_shard --fsdp_config f.json", "sharding.units") == (
            "what Transformers wraps without auto_wrap depends on its version"
        )

    def test_the_file_of_fsdp_config(self) -> None:
        text = '{"fsdp_backward_prefetch": "backward_pre", "activation_checkpointing": "true", "cpu_offload": false}'
        assert claims(read_config(read_json(Source("fsdp.json", text)))) == {
            "sharding.prefetch": "backward_pre",
            "checkpointing.activations": "full",
        }


class TestAdapters:
    @pytest.mark.parametrize(
        ("arguments", "rank"),
        [
            ("--use_lora True --lora_r 64", 64),
            ("--lora_enable True --lora_r 128", 128),
            ("--use_lora False --lora_r 64", 0),
            ("--lora_rank 16", 16),
            ("--use_llm_lora 0", 0),
            ("--use_peft", "the rank of the adapters is not in the files"),
            ("--tune_mm_mlp_adapter True", "part of the model is frozen"),
            ("--freeze_backbone True", "part of the model is frozen"),
            ("--freeze_llm False", "not said"),
            ("--bf16", "not said"),
        ],
    )
    def test_which_part_trains(self, arguments: str, rank: object) -> None:
        assert setting(arguments, "model.lora_rank") == rank

    @pytest.mark.parametrize(
        ("arguments", "rank"),
        [
            ("--finetuning_type full", 0),
            ("--finetuning_type lora", 8),
            ("--finetuning_type lora --lora_rank 32", 32),
            ("--finetuning_type freeze", "part of the model is trained"),
        ],
    )
    def test_the_ways_of_llama_factory(self, arguments: str, rank: object) -> None:
        assert claims(read(arguments, "train_bash.py --stage sft --do_train"))["model.lora_rank"] == rank

    def test_a_program_named_after_adapters(self) -> None:
        reading = read_arguments(words("finetune_lora.py --output_dir out --bf16 True"))
        assert claims(reading)["model.lora_rank"] == "the program trains adapters"

    @pytest.mark.parametrize(
        ("arguments", "stored"),
        [
            ("--load_in_4bit", "nf4"),
            ("--load_in_8bit True", "int8"),
            ("--load_in_4bit False --bits 8", "int8"),
            ("--quantization_bit 4", "nf4"),
            ("--bits 16", "bf16"),
            ("--model_name_or_path Qwen/Qwen-7B-Chat-Int4", "nf4"),
        ],
    )
    def test_the_format_of_the_frozen_weights(self, arguments: str, stored: str) -> None:
        assert setting(f"--use_lora True --lora_r 8 {arguments}", "precision.frozen") == stored

    @pytest.mark.parametrize(
        ("arguments", "rank", "stored"),
        [
            ("--use_lora", 64, "not said"),
            ("--lora_enable True", 64, "not said"),
            ("--use_lora --lora_r 8", 8, "not said"),
            ("--use_lora --q_lora", 64, "nf4"),
            ("--use_lora --use_int8_training True", 64, "how the frozen weights are stored is the program's affair"),
        ],
    )
    def test_descendants_of_fastchat_quantize_by_an_argument_alone(
        self, arguments: str, rank: int, stored: str
    ) -> None:
        assert setting(f"--lazy_preprocess True {arguments}", "model.lora_rank") == rank
        assert setting(f"--lazy_preprocess True {arguments}", "precision.frozen") == stored

    def test_it_is_not_known_where_only_the_program_knows(self) -> None:
        assert setting("--use_lora --lora_r 8", "precision.frozen") == (
            "how the frozen weights are stored is the program's affair"
        )


class TestFiles:
    RECIPE = """\
model_name_or_path: gpt2
stage: sft
finetuning_type: full
do_train: true
deepspeed: ds.json
cutoff_len: 1024
per_device_train_batch_size: 4
learning_rate: 1.0e-4
bf16: true
"""

    def test_a_recipe_says_what_a_command_line_would(self) -> None:
        document = read_yaml(Source("sft.yaml", self.RECIPE))
        reading = read_file(document)
        found = claims(reading)
        assert looks_like_arguments(document)
        assert (reading.frontend, reading.framework) == ("llama-factory", "deepspeed")
        assert (found["batch.micro"], found["precision.compute"], found["data.sequence_length"]) == (4, "bf16", 1024)
        assert {(file.role, file.path.text) for file in reading.files} == {("deepspeed", "ds.json"), ("model", "gpt2")}

    def test_a_claim_stands_where_its_entry_does(self) -> None:
        reading = read_file(read_yaml(Source("sft.yaml", self.RECIPE)))
        micro = next(claim for claim in reading.claims if claim.setting == "batch.micro")
        assert (micro.name, getattr(micro.value, "origin").span.line) == ("per_device_train_batch_size", 7)  # noqa: B009

    def test_other_files_are_not_taken_for_arguments(self) -> None:
        assert not looks_like_arguments(read_yaml(Source("x.yaml", "a: 1\nlearning_rate: 3\n")))
        assert not looks_like_arguments(read_json(Source("x.json", "[1, 2]")))

    @pytest.mark.parametrize(
        ("command", "file"),
        [
            ("train.py args.json", "args.json"),
            ("llamafactory-cli train sft.yaml", "sft.yaml"),
            ("sft.py --config recipe.yaml", "recipe.yaml"),
            ("train.py --data x.json", None),
            ("train.py", None),
        ],
    )
    def test_which_file_holds_the_arguments(self, command: str, file: str | None) -> None:
        assert [each.path.text for each in named_file(words(command))] == ([file] if file else [])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("batch.micro", 4, "--per_device_train_batch_size 4"),
        ("communication.find_unused", False, "--ddp_find_unused_parameters False"),
        ("checkpointing.activations", "full", "--gradient_checkpointing True"),
        ("sharding.units", "wrapped", '--fsdp "full_shard auto_wrap"'),
        ("communication.bucket_bytes", 2**20, "--ddp_bucket_cap_mb 1"),
        ("parallel.tensor", 2, None),
    ],
)
def test_how_a_user_writes_a_setting(name: str, value: object, text: str | None) -> None:
    assert spell(name, value) == text  # type: ignore[arg-type]


class TestRecomputation:
    @pytest.mark.parametrize(
        ("arguments", "variant"),
        [
            ("""--gradient_checkpointing_kwargs {"use_reentrant":false}""", False),
            ("""--gradient_checkpointing_kwargs {"use_reentrant":true}""", True),
            ("""--activation_checkpointing_kwargs={"use_reentrant":false}""", False),
            ("--gradient_checkpointing_kwargs {}", None),
            ("--gradient_checkpointing_kwargs no-json", None),
        ],
    )
    def test_the_variant(self, arguments: str, variant: bool | None) -> None:
        assert claims(read(f"--gradient_checkpointing {arguments}")).get("checkpointing.reentrant") == variant

    @pytest.mark.parametrize(("value", "asked"), [("True", True), ("False", False), ("$CACHE", False)])
    def test_a_cache_is_asked_for(self, value: str, asked: bool) -> None:
        assert bool(read(f"--use_cache {value} --bf16").collections.get("code.obstacles")) is asked


NAMES = st.sampled_from(
    ["bf16", "fsdp", "deepspeed", "gradient_checkpointing", "lora_r", "use_lora", "bits", "max_steps", "freeze_llm"]
)
VALUES = st.sampled_from(["", "True", "x", "8", "$X", "full_shard", "-1", "1e9", "="])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_no_command_line_breaks_the_reader(pairs: list[tuple[str, str]]) -> None:
    reading = read(" ".join(f"--{name} {value}" for name, value in pairs))
    named = [claim.setting for claim in reading.claims]
    assert len(named) == len(set(named))


def test_fsdp_of_xla_is_no_framework_that_is_known_and_counts_no_ranks() -> None:
    document = read_json(Source("fsdp.json", '{"xla": true, "xla_fsdp_grad_ckpt": true}'))
    assert claims(read_config(document)) == {
        "framework": "XLA's FSDP shards, which is not known here",
        "launch.processes": "the program starts a process for each TPU core",
    }
    off = read_json(Source("fsdp.json", '{"xla": false, "min_num_params": 0}'))
    assert claims(read_config(off)) == {}
