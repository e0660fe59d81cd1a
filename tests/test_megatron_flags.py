"""Megatron's flags themselves: whose they are, which are at fault, and how settings are written."""

from __future__ import annotations

import pytest
from command_words import claims, fields, words
from command_words import megatron as read

from dtlint.frameworks.megatron import recognise, spell, spell_as_stated
from dtlint.frameworks.megatron.combinations import combinations
from dtlint.frameworks.megatron.known import known_flag
from dtlint.frameworks.megatron.meanings import MEANINGS, SPELLINGS
from dtlint.plan import vocabulary
from dtlint.value import Plain

CHUNKS = "--num-layers 40 --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --micro-batch-size 1", True),
        ("--tensor_model_parallel_size 8 --sequence_parallel true --max_length 4096", True),
        ("--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP $@", True),
        ("--num-layers 2 --hidden-size 8", False),
        ("--tensor-parallel-size 8 --model llama", False),
        ("--learning_rate 1e-5 --deepspeed ds.json", False),
        ("", False),
    ],
)
def test_which_arguments_are_megatrons(arguments: str, found: bool) -> None:
    assert recognise(words(arguments)) is found


class TestFlagsAtFault:
    @pytest.mark.parametrize(
        ("flags", "inert"),
        [
            ("--sequence-parallel --bf16", ["--sequence-parallel"]),
            ("--sequence-parallel --tensor-model-parallel-size 1", ["--sequence-parallel"]),
            ("--sequence-parallel --tensor-model-parallel-size 2", []),
            ("--sequence-parallel --tensor-model-parallel-size $TP", []),
            ("--sequence-parallel $MORE", []),
        ],
    )
    def test_sequence_parallelism_needs_tensor_parallelism(self, flags: str, inert: list[str]) -> None:
        assert [member["key"] for member in fields(read(flags), "config.inert")] == inert

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("--sequence-paralell", "--sequence-parallel"),
            ("--tensor-model-parallel-sizes 8", "--tensor-model-parallel-size"),
            ("--use-distributed-optimiser", "--use-distributed-optimizer"),
            ("--global-batchsize 8", "--global-batch-size"),
        ],
    )
    def test_a_misspelt_flag_is_refused(self, written: str, meant: str) -> None:
        (member,) = fields(read(f"--num-layers 8 {written}"), "config.unknown")
        assert (member["effect"], member["suggestion"]) == ("refused", meant)

    @pytest.mark.parametrize(
        "written", ["--use-flash-attn-v3", "--my-own-flag", "--moe-layer-recompute-depth 3", "--$X"]
    )
    def test_a_forks_own_flag_is_left_alone(self, written: str) -> None:
        assert fields(read(f"--num-layers 8 {written}"), "config.unknown") == []

    def test_a_program_with_a_parser_of_its_own_is_left_alone(self) -> None:
        own = " ".join(f"--own-{letter}" for letter in "abcd")
        assert fields(read(f"--num-layers 8 {own} --num-attention-head 8"), "config.unknown") == []

    @pytest.mark.parametrize(
        ("written", "meant"),
        [("--use-distributed-opt", "--use-distributed-optimizer"), ("--global-batch 8", "--global-batch-size")],
    )
    def test_a_flag_cut_short_is_refused(self, written: str, meant: str) -> None:
        (member,) = fields(read(f"--num-layers 8 {written}"), "config.unknown")
        assert (member["effect"], member["suggestion"]) == ("refused", meant)

    def test_one_underscore_among_dashes_is_a_slip(self) -> None:
        flags = "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq_length 128"
        (member,) = fields(read(flags), "config.unknown")
        assert (member["key"], member["suggestion"]) == ("--seq_length", "--seq-length")

    def test_no_position_embedding_goes_with_rotary_ones(self) -> None:
        assert (
            fields(read("--num-layers 8 --no-position-embedding --position-embedding-type rope"), "config.refused")
            == []
        )
        (member,) = fields(read("--num-layers 8 --no-position-embedding"), "config.refused")
        assert (member["key"], member["relation"], member["since"]) == ("--no-position-embedding", "needs", "0.4")

    def test_a_removed_flag_names_its_last_release(self) -> None:
        (member,) = fields(read("--use-custom-fsdp"), "config.removed")
        assert (member["last"], member["instead"]) == ("0.13", "--use-megatron-fsdp")

    @pytest.mark.parametrize(
        ("flag", "effect"),
        [
            ("--use-mcore-models", "default"),
            ("--use-dist-ckpt", "default"),
            ("--ckpt-fully-parallel-save", "default"),
            ("--dist-ckpt-format zarr", "ignored"),
        ],
    )
    def test_a_flag_may_ask_for_what_newer_releases_do_unasked(self, flag: str, effect: str) -> None:
        (member,) = fields(read(flag), "config.removed")
        assert member["effect"] == effect

    def test_an_ignored_flag_beside_its_new_name_loses_nothing(self) -> None:
        assert fields(read("--dist-ckpt-format zarr --ckpt-format torch_dist"), "config.removed") == []

    def test_a_refused_flag_is_so_beside_its_new_name(self) -> None:
        (member,) = fields(read("--use-custom-fsdp --use-megatron-fsdp"), "config.removed")
        assert member["key"] == "--use-custom-fsdp"

    @pytest.mark.parametrize(
        ("flags", "newer"),
        [
            ("--activations-checkpoint-method uniform --sequence-parallel", "--sequence-parallel"),
            ("--enable-one-logger --attention-backend flash --bf16", "--attention-backend"),
            ("--checkpoint-activations --attention-backend flash", "--attention-backend"),
        ],
    )
    def test_a_flag_that_came_after_another_had_gone(self, flags: str, newer: str) -> None:
        (member,) = fields(read(flags), "config.removed")
        assert member["beside"] == newer

    @pytest.mark.parametrize(
        "flags",
        [
            "--activations-checkpoint-method uniform --use-distributed-optimizer",  # both in commits of early 2022
            "--data-impl mmap --sequence-parallel",  # Megatron-DeepSpeed takes both
            "--activations-checkpoint-method uniform --bf16",
        ],
    )
    def test_flags_that_some_parser_takes_together(self, flags: str) -> None:
        (member,) = fields(read(flags), "config.removed")
        assert "beside" not in member

    @pytest.mark.parametrize(
        ("more", "refused"),
        [
            ("", ["--no-position-embedding"]),
            ("--position-embedding-type learned_absolute", ["--no-position-embedding"]),
            ("--position-embedding-type rope", []),
            ("--use-rotary-position-embeddings", []),
            ("--position-embedding-type $KIND", []),
            ("$MORE", []),
        ],
    )
    def test_a_flag_that_is_refused_beside_other_positions_than_rotary_ones(
        self, more: str, refused: list[str]
    ) -> None:
        found = fields(read(f"--num-layers 8 --no-position-embedding {more}"), "config.refused")
        assert [member["key"] for member in found] == refused

    def test_a_flag_of_other_scripts_came_to_no_training(self) -> None:
        (member,) = fields(read("--model-parallel-size 8 --cache-dir cache --num-layers 8"), "config.removed")
        assert "beside" not in member

    def test_a_program_that_takes_an_old_flag_takes_none_that_came_later(self) -> None:
        old = read("--model-parallel-size 8 --num-layers 8 --deepspeed --deepspeed_config ds.json")
        assert "--sequence-parallel" in old.refuses
        assert "--checkpoint-activations" not in old.refuses
        both = read("--checkpoint-activations --num-layers 8 --deepspeed --deepspeed_config ds.json")
        assert "--sequence-parallel" not in both.refuses  # Megatron-DeepSpeed has the two

    def test_a_flag_that_is_parsed_to_be_refused(self) -> None:
        (member,) = fields(read("--model-parallel-size 8"), "config.removed")
        assert (member["effect"], member["instead"]) == ("refused", "--tensor-model-parallel-size")


class TestValues:
    @pytest.mark.parametrize(
        ("written", "key", "expected"),
        [
            ("--train-iters 1e6", "--train-iters", "a whole number"),
            ("--lr fast", "--lr", "a number"),
            ("--bf16 true", "--bf16", "no value"),
            ("--lr --bf16", "--lr", "a value"),
            ("--recompute-method all", "--recompute-method", "one of block, uniform"),
            (
                "--context-parallel-size 4 --hierarchical-context-parallel-sizes 2 4",
                "--hierarchical-context-parallel-sizes",
                "sizes that multiply to 4",
            ),
        ],
    )
    def test_what_the_parser_refuses(self, written: str, key: str, expected: str) -> None:
        (member,) = fields(read(f"--num-layers 8 {written}"), "config.invalid")
        assert (member["key"], member["expected"]) == (key, expected)

    @pytest.mark.parametrize(
        "written",
        ["--train-iters $STEPS", "--lr 1e-4", "--tokenizer-type OurTokenizer", "--bf16 --lr 3", "--num-experts 8"],
    )
    def test_what_it_takes(self, written: str) -> None:
        assert fields(read(f"--num-layers 8 {written}"), "config.invalid") == []

    def test_words_of_a_fork_are_told_apart(self) -> None:
        (member,) = fields(read("--num-layers 8 --optimizer adamw"), "config.invalid")
        assert member["effect"] == "foreign"

    def test_megatron_deepspeed_has_words_of_its_own(self) -> None:
        assert fields(read("--num-layers 8 --deepspeed --normalization rmsnorm"), "config.invalid") == []


class TestCombinations:
    @pytest.mark.parametrize(
        ("written", "partners"),
        [
            ("--fp16 --bf16", ["--bf16"]),
            ("--optimizer-cpu-offload", ["--use-precision-aware-optimizer"]),
            ("--optimizer-cpu-offload --use-precision-aware-optimizer", []),
            ("--optimizer-cpu-offload $MORE", []),
            ("--exp-avg-dtype fp32", []),
            ("--exp-avg-dtype $TYPE", []),
            ("--recompute-granularity full", ["--recompute-method", "--recompute-num-layers"]),
            ("--recompute-granularity full --recompute-method block --recompute-num-layers 1", []),
            ("--num-virtual-stages-per-pipeline-rank 2 --pipeline-model-parallel-size $PP", []),
            ("--num-experts 8 --tensor-model-parallel-size 2", ["--disable-bias-linear"]),
            ("--num-experts 8 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1", []),
        ],
    )
    def test_partners_that_are_missing_or_excluded(self, written: str, partners: list[str]) -> None:
        found = fields(read(f"--num-layers 8 {written}"), "config.refused")
        assert [member["partner"] for member in found] == partners

    def test_megatron_deepspeed_checks_others(self) -> None:
        assert fields(read("--deepspeed --recompute-granularity full"), "config.refused") == []

    def test_the_table_names_flags_that_exist(self) -> None:
        names = {term.name for row in combinations() for term in (*row.flags, *row.partners)}
        assert [name for name in names if known_flag("--" + name) is None] == []


class TestMegatronDeepSpeed:
    def test_its_flags_tell_it(self) -> None:
        reading = read("--num-layers 8 --checkpoint-activations --deepspeed --deepspeed_config z3.json --zero-stage 3")
        assert reading.framework == "megatron-deepspeed"
        assert claims(reading) == {"model.layers": 8, "checkpointing.activations": "full", "sharding.stage": 3}
        assert not reading.collections

    def test_its_experts(self) -> None:
        found = claims(read("--deepspeed --num-experts 128 --topk 2 --num-layers 24 --expert-interval 2"))
        assert (found["model.experts"], found["model.experts_per_token"], found["model.moe_layers"]) == (128, 2, 12)

    def test_one_expert_is_none(self) -> None:
        assert claims(read("--deepspeed --num-experts 1"))["model.experts"] == 0


class TestSwift:
    FLAGS = "--tensor_model_parallel_size 8 --sequence_parallel true --moe_grouped_gemm true --max_length 4096"

    def test_flags_are_underscored_and_take_true(self) -> None:
        reading = read(self.FLAGS)
        assert reading.frontend == "ms-swift"
        assert claims(reading) == {"parallel.tensor": 8, "parallel.sequence": True, "data.sequence_length": 4096}
        assert "config.unknown" not in reading.collections

    @pytest.mark.parametrize(
        ("flags", "rank"), [("--tuner_type lora", 8), ("--train_type lora --lora_rank 64", 64), ("", None)]
    )
    def test_adapters(self, flags: str, rank: int | None) -> None:
        assert claims(read(f"{self.FLAGS} {flags}")).get("model.lora_rank") == rank

    @pytest.mark.parametrize(
        ("flags", "name"),
        [
            ("--model Qwen/Qwen3-30B-A3B --load x-mcore", "Qwen/Qwen3-30B-A3B"),
            ("--load /ckpt/GLM-4.5-Air-mcore/", "/ckpt/GLM-4.5-Air"),
            ("--mcore_model GLM-4.5-Air-mcore", "GLM-4.5-Air"),
            ("--load $CKPT", "?$CKPT is not set"),
        ],
    )
    def test_the_model_is_named_by_its_checkpoint(self, flags: str, name: str) -> None:
        assert claims(read(f"{self.FLAGS} {flags}"))["model.name"] == name

    def test_chunks_are_counted_directly(self) -> None:
        assert claims(read(f"{self.FLAGS} --virtual_pipeline_model_parallel_size 2"))["parallel.virtual_pipeline"] == 2

    def test_false_switches_off(self) -> None:
        assert claims(read("--sequence_parallel false --micro_batch_size 1"))["parallel.sequence"] is False


class TestSpelling:
    @pytest.mark.parametrize(
        ("setting", "value", "spelled"),
        [
            ("parallel.tensor", 8, "--tensor-model-parallel-size 8"),
            ("parallel.sequence", True, "--sequence-parallel"),
            ("parallel.sequence", False, None),
            ("parallel.virtual_pipeline", 2, "--num-virtual-stages-per-pipeline-rank 2"),
            ("sharding.stage", 1, "--use-distributed-optimizer"),
            ("sharding.stage", 2, None),
            ("overlap.pipeline", False, "--no-overlap-p2p-communication"),
            ("checkpointing.activations", "selective", "--recompute-granularity selective"),
            ("launch.timeout_seconds", 3600, "--distributed-timeout-minutes 60"),
            ("model.kv_heads", 8, "--group-query-attention --num-query-groups 8"),
            ("cluster.nodes", 2, None),
        ],
    )
    def test_how_settings_are_written(self, setting: str, value: Plain, spelled: str | None) -> None:
        assert spell(setting, value) == spelled

    @pytest.mark.parametrize(
        ("setting", "value", "spelled"),
        [
            ("parallel.tensor", 8, "--tensor-model-parallel-size 8"),
            ("parallel.expert", 8, "--moe-expert-parallel-size 8"),
            ("parallel.virtual_pipeline", 2, None),
            ("sharding.stage", 1, None),
            ("checkpointing.activations", "full", "--checkpoint-activations --deepspeed-activation-checkpointing"),
        ],
    )
    def test_how_megatron_deepspeed_writes_them(self, setting: str, value: Plain, spelled: str | None) -> None:
        assert spell(setting, value, "megatron-deepspeed") == spelled

    @pytest.mark.parametrize(
        ("flags", "setting", "value", "spelled"),
        [
            ("--model-parallel-size 8", "parallel.tensor", 4, "--model-parallel-size 4"),
            ("--pipe-parallel-size 8", "parallel.pipeline", 4, "--pipe-parallel-size 4"),
            ("--encoder-seq-length 512", "data.sequence_length", 256, "--encoder-seq-length 256"),
            (CHUNKS, "parallel.virtual_pipeline", 5, "--num-layers-per-virtual-pipeline-stage 1"),
            (CHUNKS, "parallel.virtual_pipeline", 2, None),
            ("--tensor-model-parallel-size 8", "parallel.context", 4, None),
        ],
    )
    def test_a_setting_is_written_by_the_flag_that_states_it(
        self, flags: str, setting: str, value: Plain, spelled: str | None
    ) -> None:
        assert spell_as_stated(read(flags), setting, value) == spelled

    @pytest.mark.parametrize(
        ("setting", "value"),
        [*SPELLINGS, *((each.setting, each.value if each.kind == "fixed" else 120) for each in MEANINGS.values())],
    )
    def test_what_is_spelled_is_read_back(self, setting: str, value: Plain) -> None:
        spelled = spell(setting, value)
        if spelled is not None:
            shared = "--tensor-model-parallel-size 2" if setting == "parallel.sequence" else ""
            assert claims(read(f"{spelled} {shared}"))[setting] in (value, str(value))


def test_the_table_speaks_the_plans_vocabulary() -> None:
    assert {meaning.setting for meaning in MEANINGS.values()} <= set(vocabulary())


@pytest.mark.parametrize("name", MEANINGS)
def test_the_table_names_flags_that_exist(name: str) -> None:
    assert known_flag("--" + name) is not None
