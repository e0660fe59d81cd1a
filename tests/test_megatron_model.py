"""What Megatron's flags say about the model and how its layers are cut into stages."""

from __future__ import annotations

import pytest
from command_words import claims, fields
from command_words import megatron as read

from dtlint.catalog import LatentAttention
from dtlint.frameworks.megatron.model import unrolled_pattern
from dtlint.frameworks.stage_cuts import unrolled_layout


class TestPipeline:
    @pytest.mark.parametrize(
        ("flags", "chunks"),
        [
            ("--num-virtual-stages-per-pipeline-rank 3", 3),
            ("--num-layers 96 --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 4", 3),
            ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|t|t|tL", 2),
            ("--pipeline-model-parallel-size 2 --hybrid-layer-pattern MM|M*|MM|M-", 2),
        ],
    )
    def test_chunks_of_a_rank(self, flags: str, chunks: int) -> None:
        assert claims(read(flags))["parallel.virtual_pipeline"] == chunks

    def test_chunks_hang_on_the_number_of_layers(self) -> None:
        found = claims(read("--num-layers-per-virtual-pipeline-stage 4 --pipeline-model-parallel-size 8"))
        assert str(found["parallel.virtual_pipeline"]).startswith("?the number of chunks is layers / stages / 4")

    @pytest.mark.parametrize(
        ("flags", "layers"),
        [
            ("--decoder-first-pipeline-num-layers 7", (7, 11, 11, 11)),
            ("--decoder-first-pipeline-num-layers 9 --decoder-last-pipeline-num-layers 9", (9, 11, 11, 9)),
            ("--decoder-last-pipeline-num-layers 3", "?the stages do not come out whole"),
        ],
    )
    def test_uneven_ends(self, flags: str, layers: tuple[int, ...] | str) -> None:
        found = claims(read(f"--num-layers 40 --pipeline-model-parallel-size 4 {flags}"))
        assert found.get("parallel.stage_layers", ()) == layers

    @pytest.mark.parametrize(
        ("flags", "reason"),
        [
            ("--decoder-last-pipeline-num-layers 3", "37 of 40 layers are left for the other 3 stages"),
            (
                "--account-for-loss-in-pipeline-split",
                "40 layers and what is counted as one make 41, no multiple of PP 4",
            ),
            ("--num-layers-per-virtual-pipeline-stage 4", "the 10 layers of a stage do not divide into chunks of 4"),
            ("--pipeline-model-parallel-layout Et|t|tL", "its 3 stages are no multiple of PP 4"),
            ("--pipeline-model-parallel-layout Et|t|t|tL", "it has 4 layers, the model 40"),
        ],
    )
    def test_cuts_that_do_not_come_out_whole(self, flags: str, reason: str) -> None:
        (member,) = fields(read(f"--num-layers 40 --pipeline-model-parallel-size 4 {flags}"), "pipeline.misfits")
        assert member["reason"] == reason

    @pytest.mark.parametrize(
        "flags", ["--num-layers-per-virtual-pipeline-stage 5", "--decoder-first-pipeline-num-layers $N"]
    )
    def test_cuts_that_may_come_out_whole(self, flags: str) -> None:
        assert fields(read(f"--num-layers 40 --pipeline-model-parallel-size 4 {flags}"), "pipeline.misfits") == []

    def test_embedding_and_loss_counted_as_layers(self) -> None:
        account = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
        found = claims(read(f"--num-layers 38 --pipeline-model-parallel-size 4 {account}"))
        assert found["parallel.stage_layers"] == (9, 10, 10, 9)

    def test_a_layout_gives_each_ranks_layers(self) -> None:
        found = claims(read("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|t*3|t|tL"))
        assert found["parallel.stage_layers"] == (3, 4)

    @pytest.mark.parametrize(
        "flags", ["--pipeline-model-parallel-layout $WHERE", "--decoder-first-pipeline-num-layers $N"]
    )
    def test_stages_cut_by_an_unknown_are_unknown(self, flags: str) -> None:
        found = claims(read(f"--num-layers 40 --pipeline-model-parallel-size 4 {flags}"))
        assert str(found["parallel.stage_layers"]).startswith("?")

    @pytest.mark.parametrize(
        ("text", "stages"),
        [("Et*3|(tt|)*29,m|L", 32), ("E|t*4|L", 3), ("Ex|L", None), ("(t|)*9999(t|)*9999(t|)*9999L", None), ("", None)],
    )
    def test_layouts_unrolled(self, text: str, stages: int | None) -> None:
        layout = unrolled_layout(text)
        assert (len(layout) if layout is not None else None) == stages


class TestSeveralStacks:
    @pytest.mark.parametrize(
        "flags",
        [
            "--encoder-seq-length 512 --decoder-seq-length 128",
            "--decoder-num-layers 6",
            "--pipeline-model-parallel-size 4 --pipeline-model-parallel-split-rank 2",
            "--retro-add-retriever",
            "--biencoder-projection-dim 128",
            "--language-model-type llama3_8b",
        ],
    )
    def test_the_layers_of_one_stack_are_not_those_of_the_model(self, flags: str) -> None:
        found = claims(read(f"--num-layers 12 --hidden-size 768 {flags}"))
        assert str(found["model.layers"]).endswith("--num-layers tells one stack of layers")
        assert str(found["model.parameters"]).startswith("?")
        assert found["model.hidden"] == 768

    def test_an_encoder_length_alone_is_of_one_stack(self) -> None:
        assert claims(read("--encoder-num-layers 12 --encoder-seq-length 512"))["model.layers"] == 12

    def test_an_encoder_with_ranks_of_its_own(self) -> None:
        found = claims(read("--pipeline-model-parallel-size 3 --encoder-pipeline-model-parallel-size 1"))
        assert str(found["parallel.pipeline"]).startswith("?--encoder-pipeline-model-parallel-size")

    def test_an_encoder_without_ranks_of_its_own(self) -> None:
        found = claims(read("--pipeline-model-parallel-size 4 --encoder-pipeline-model-parallel-size 0 --num-layers 8"))
        assert (found["parallel.pipeline"], found["model.layers"]) == (4, 8)

    @pytest.mark.parametrize(
        "flags",
        ["--hybrid-attention-ratio 0.08", "--hybrid-layer-pattern MM*-", "--is-hybrid-model", "--mamba-state-dim 64"],
    )
    def test_layers_that_are_not_all_alike_are_counted_and_not_weighed(self, flags: str) -> None:
        found = claims(read(f"--num-layers 4 --hidden-size 768 {flags}"))
        assert found["model.layers"] == 4
        assert str(found["model.parameters"]).startswith("?--")


class TestModel:
    def test_grouped_query_attention(self) -> None:
        assert claims(read("--group-query-attention --num-query-groups 8"))["model.kv_heads"] == 8

    def test_groups_without_a_number_are_one(self) -> None:
        assert claims(read("--group-query-attention"))["model.kv_heads"] == 1

    def test_a_number_of_groups_alone_has_no_effect(self) -> None:
        reading = read("--num-query-groups 8")
        assert claims(reading) == {}
        assert [each["key"] for each in fields(reading, "config.inert")] == ["--num-query-groups"]

    def test_experts(self) -> None:
        flags = (
            "--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-shared-expert-intermediate-size 2816"
        )
        assert claims(read(f"{flags} --num-layers 28 --moe-layer-freq ([0]+[1]*27)")) == {
            "model.experts": 64,
            "model.experts_per_token": 6,
            "model.expert_ffn": 1408,
            "model.shared_expert_ffn": 2816,
            "model.layers": 28,
            "model.moe_layers": 27,
        }

    @pytest.mark.parametrize(
        ("text", "layers"),
        [
            ("[0]*3+[1]*58", 58),
            ("([0]*3+[1]*58)", 58),
            ("([0,1]*4)", 4),
            ("([0]+[1])*4", 4),
            ("__import__('os')", None),
            ("[1]*9999999", None),
            ("([1]*9999)*9999", None),
        ],
    )
    def test_patterns_of_expert_layers(self, text: str, layers: int | None) -> None:
        pattern = unrolled_pattern(text)
        assert (sum(pattern) if pattern is not None else None) == layers

    def test_latent_attention(self) -> None:
        flags = (
            "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64"
        )
        found = claims(read(f"{flags} --v-head-dim 128"))
        assert found["model.latent_attention"] == LatentAttention(
            query=1536, key_value=512, rope=64, nope=128, value=128
        )
