"""What the arguments of a Megatron training script say about the plan."""

from __future__ import annotations

import pytest
from command_words import claims, fields
from command_words import megatron as read
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.frameworks.megatron import read_arguments
from dtlint.frameworks.megatron.meanings import MEANINGS
from dtlint.languages.traced import Piece, Word
from dtlint.plan import term
from dtlint.plan.vocabulary import fit
from dtlint.source import Source
from dtlint.value import Plain, Step

GPT_175B = """
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048
    --micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 --fp16 --clip-grad 1.0
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --sequence-parallel
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --attention-backend flash
"""


def test_a_whole_command_line() -> None:
    reading = read(GPT_175B)
    assert reading.framework == "megatron"
    assert claims(reading) == {
        "model.layers": 96,
        "model.hidden": 12288,
        "model.heads": 96,
        "data.sequence_length": 2048,
        "model.max_positions": 2048,
        "batch.micro": 1,
        "batch.global": 1536,
        "run.steps": 500000,
        "precision.compute": "fp16",
        "optimizer.clip": 1.0,
        "parallel.tensor": 8,
        "parallel.pipeline": 16,
        "parallel.sequence": True,
        "sharding.stage": 1,
        "overlap.gradients": True,
        "overlap.parameters": True,
        "attention.flash": True,
    }
    assert not reading.collections
    assert reading.open == ""


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--tensor-model-parallel-size=8", {"parallel.tensor": 8}),
        ("--context-parallel-size 2 --expert-model-parallel-size 4", {"parallel.context": 2, "parallel.expert": 4}),
        ("--expert-tensor-parallel-size 1", {"parallel.expert_tensor": 1}),
        ("--use-tp-pp-dp-mapping", {"parallel.order": ("tensor", "context", "expert", "pipeline", "data")}),
        ("--no-overlap-p2p-communication", {"overlap.pipeline": False}),
        ("--sequence-parallel", {"parallel.sequence": False}),
        ("--overlap-moe-expert-parallel-comm", {"overlap.expert": True}),
        ("--use-torch-fsdp2", {"sharding.stage": 3, "sharding.implementation": "torch-fsdp2"}),
        ("--use-megatron-fsdp", {"sharding.stage": 3, "sharding.implementation": "megatron-fsdp"}),
        ("--tp-comm-overlap", {"overlap.tensor": True}),
        ("--distributed-timeout-minutes 30", {"launch.timeout_seconds": 1800.0}),
        ("--untie-embeddings-and-output-weights", {"model.tied_embeddings": False}),
        ("--swiglu", {"model.gated_mlp": True}),
        ("--optimizer-cpu-offload", {"sharding.offload_optimizer": "cpu"}),
        ("--moe-token-dispatcher-type alltoall", {"communication.moe_dispatcher": "alltoall"}),
        ("--cp-comm-type a2a", {"parallel.context_exchange": "a2a"}),
        ("--cp-comm-type all_gather all_gather", {"parallel.context_exchange": "allgather"}),
        ("--cp-comm-type p2p a2a", {}),
        ("--cp-comm-type $KIND", {}),
        ("--attention-backend unfused", {"attention.flash": False}),
        ("--use-flash-attn", {"attention.flash": True}),
        ("--train-samples 1000 --seq-length 2048", {"run.tokens": 2_048_000, "data.sequence_length": 2048}),
        ("--ddp-bucket-size 1000", {"communication.bucket_bytes": 4000}),
    ],
)
def test_one_flag_at_a_time(flags: str, expected: dict[str, Plain]) -> None:
    assert claims(read(flags)) == expected


class TestPrecision:
    @pytest.mark.parametrize(
        ("flags", "compute"),
        [
            ("--bf16", "bf16"),
            ("--bf16 --fp8-format hybrid", "fp8"),
            ("--fp8-format e4m3 --fp8-recipe mxfp8 --bf16", "mxfp8"),
            ("--bf16 --fp4-format e2m1", "nvfp4"),
        ],
    )
    def test_the_narrowest_format_computes(self, flags: str, compute: str) -> None:
        assert claims(read(flags))["precision.compute"] == compute

    def test_gradients_travel_in_the_format_in_which_they_are_kept(self) -> None:
        assert claims(read("--grad-reduce-in-bf16")) == {"precision.gradients": "bf16", "precision.reduce": "bf16"}

    def test_an_fp32_gradient_buffer(self) -> None:
        assert claims(read("--accumulate-allreduce-grads-in-fp32"))["precision.gradients"] == "fp32"


class TestSharding:
    @pytest.mark.parametrize(
        ("flags", "stage"),
        [
            ("--use-distributed-optimizer", 1),
            ("--use-torch-fsdp2", 3),
            ("--use-megatron-fsdp", 3),
            ("--use-custom-fsdp --data-parallel-sharding-strategy optim_grads", 2),
            ("--use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy optim", 1),
        ],
    )
    def test_stages(self, flags: str, stage: int) -> None:
        assert claims(read(flags))["sharding.stage"] == stage

    def test_a_strategy_without_fsdp_has_no_effect(self) -> None:
        reading = read("--data-parallel-sharding-strategy optim_grads_params")
        assert claims(reading) == {}
        (inert,) = fields(reading, "config.inert")
        assert inert["reason"] == "it is read only beside --use-megatron-fsdp"


class TestRecomputation:
    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("--recompute-activations", {"checkpointing.activations": "selective"}),
            ("--recompute-granularity selective", {"checkpointing.activations": "selective"}),
            (
                "--recompute-granularity full --recompute-method uniform --recompute-num-layers 5",
                {"checkpointing.activations": "full", "checkpointing.unit": 5},
            ),
            (
                "--checkpoint-activations --checkpoint-num-layers 2",
                {"checkpointing.activations": "full", "checkpointing.unit": 2},
            ),
            (
                "--activations-checkpoint-method block --activations-checkpoint-num-layers 3",
                {"checkpointing.activations": "full", "checkpointing.layers": 3},
            ),
            ("--checkpoint-num-layers 2", {}),
            (
                "--recompute-granularity full --recompute-method block --distribute-saved-activations",
                {"checkpointing.activations": "full", "checkpointing.partitioned": True},
            ),
            (
                "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
                {"checkpointing.activations": "full", "checkpointing.layers": 3},
            ),
        ],
    )
    def test_what_is_recomputed(self, flags: str, expected: dict[str, Plain]) -> None:
        assert claims(read(flags)) == expected

    def test_a_method_without_granularity_recomputes_nothing(self) -> None:
        assert [each["key"] for each in fields(read("--recompute-method uniform"), "config.inert")] == [
            "--recompute-method"
        ]


class TestBatchSizes:
    def test_a_ramp_holds_the_sizes_below_the_global_batch(self) -> None:
        found = claims(read("--rampup-batch-size 16 16 5859375 --global-batch-size 64"))
        assert found["batch.rampup"] == (16, 32, 48)

    def test_a_schedule_ends_in_the_global_batch(self) -> None:
        found = claims(read('--step-batch-size-schedule "0:768 250B:1536"'))
        assert (found["batch.rampup"], found["batch.global"]) == ((768,), 1536)

    def test_a_ramp_is_listed_with_whether_a_full_batch_stands_beside_it(self) -> None:
        (ramp,) = fields(read("--step-batch-size-schedule 0:768 --global-batch-size 1536"), "batch.ramps")
        assert ramp == {"name": "--step-batch-size-schedule", "full_batch": True}


class TestLists:
    def test_of_a_flag_given_twice_the_last_counts(self) -> None:
        reading = read("--micro-batch-size 4 --micro-batch-size 1")
        assert claims(reading)["batch.micro"] == 1
        (lost,) = fields(reading, "config.repeated")
        assert (lost["value"], lost["winner"]) == (4, 1)

    def test_an_unknown_later_value_hides_the_earlier(self) -> None:
        assert claims(read("--micro-batch-size 4 --micro-batch-size $MBS"))["batch.micro"] == "?$MBS is not set"

    @pytest.mark.parametrize("flags", ["--num-layers 8 $@", "--bf16 $EXTRA", "$MODEL_ARGS --bf16", "--$X --bf16"])
    def test_unknown_words_leave_the_list_open(self, flags: str) -> None:
        assert read(flags).open.endswith("is not set")

    def test_degrees_that_come_with_the_checkpoint(self) -> None:
        found = claims(read("--use-checkpoint-args --load ckpt --tensor-model-parallel-size 4"))
        assert found["parallel.tensor"] == 4
        assert found["parallel.pipeline"] == "?--use-checkpoint-args may take it from the checkpoint"

    def test_degrees_of_the_checkpoint_that_count_more(self) -> None:
        found = claims(read("--use-mp-args-from-checkpoint-args --load ckpt --tensor-model-parallel-size 4"))
        assert str(found["parallel.tensor"]).startswith("?--use-mp-args-from-checkpoint-args")

    @pytest.mark.parametrize("flags", ["--yaml-cfg m.yaml", "--num-layers 8 --use-checkpoint-args"])
    def test_arguments_that_come_from_elsewhere_leave_the_list_open(self, flags: str) -> None:
        assert read(flags).open.startswith(flags.split()[-2] if "yaml" in flags else "--use-checkpoint-args")

    @pytest.mark.parametrize("flags", ["--num-layers $LAYERS", '--lr "$LR"', "--data-path $DATA --bf16"])
    def test_an_unknown_value_of_a_flag_hides_nothing(self, flags: str) -> None:
        assert read(flags).open == ""

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("--recompute-granularity some", "?`some` is not one of none, selective, full"),
            ("--recompute-granularity $HOW", "?$HOW is not set"),
        ],
    )
    def test_a_word_that_the_flag_does_not_take(self, flags: str, expected: str) -> None:
        assert claims(read(flags))["checkpointing.activations"] == expected

    def test_a_value_that_is_not_a_number(self) -> None:
        assert claims(read("--global-batch-size 1e3"))["batch.global"] == "?`1e3` is not a whole number"

    def test_absent_flags_belong_behind_the_last_word(self) -> None:
        reading = read("--num-layers 8 --tensor-model-parallel-size $TP")
        assert reading.place is not None
        assert reading.place.text == "--num-layers 8 --tensor-model-parallel-size $TP"

    def test_absent_flags_belong_into_the_array_of_the_parallel_ones(self) -> None:
        source = Source(
            "run.sh", "MBS=4 SIZE=(--num-layers 8 --bf16) WAYS=(--tensor-model-parallel-size 8 --micro-batch-size $MBS)"
        )
        found = [through(source, text, "SIZE=") for text in ("--num-layers", "--bf16")]
        found += [through(source, text, "WAYS=") for text in ("--tensor-model-parallel-size", "--micro-batch-size")]
        found += [through(source, "4", "WAYS=", "$MBS")]
        place = read_arguments(found, source.span(0, 0)).place
        assert place is not None
        assert place.text == "--tensor-model-parallel-size 8 --micro-batch-size $MBS"


def through(source: Source, text: str, *used: str) -> Word:
    """A word that reaches the command through the places where `used` is written."""
    starts = [source.text.index(each) for each in used]
    chain = tuple(Step(source.span(start, start + len(each)), each) for start, each in zip(starts, used, strict=True))
    start = source.text.index(text)
    span = source.span(start, start + len(text))
    return Word((Piece(text, span, chain),), span)


FLAGS = st.sampled_from(
    ["--" + name for name in MEANINGS]
    + ["--x", "--$X", "$@", "8", "-1", "true", "--rampup-batch-size", "[1]*9", "--=", "9" * 400, "1e999"]
)


@settings(deadline=None)
@given(st.lists(FLAGS, max_size=20))
def test_any_order_of_words_is_read_without_an_error(parts: list[str]) -> None:
    found = claims(read(" ".join(parts)))
    for setting, value in found.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number and not str(value).startswith("?"):
            assert fit(term(setting), value) == value
