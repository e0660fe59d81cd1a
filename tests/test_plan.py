"""A plan: what follows from what is stated, what another plan on the same machines looks like, and what cannot be."""

import pytest

from dtlint.plan import Infeasible, Misfit, Plan, parse, vocabulary
from dtlint.plan.constraints import violations
from dtlint.value import Unknown

MEGATRON = {
    "framework": "megatron",
    "parallel.world_size": 64,
    "parallel.tensor": 8,
    "parallel.pipeline": 4,
    "parallel.context": 1,
    "batch.micro": 1,
    "batch.global": 64,
    "model.layers": 32,
    "model.hidden": 4096,
    "model.heads": 32,
}


def plan(**changes):
    return Plan.of({**MEGATRON, **{name.replace("__", "."): value for name, value in changes.items()}})


class TestDerived:
    def test_data_parallel_size_is_what_the_other_degrees_leave(self):
        assert plan().value("parallel.data") == 64 // (8 * 4)

    def test_accumulation_is_global_over_micro_times_data(self):
        assert plan().value("batch.accumulation") == 64 // (1 * 2)

    def test_microbatches_are_the_accumulation(self):
        assert plan().value("schedule.microbatches") == 32

    def test_a_share_of_the_ranks_is_worked_out(self):
        share = Unknown("computed when the script runs", means="parallel.world_size // 8")
        uneven = Unknown("computed when the script runs", means="parallel.world_size // 7")
        assert Plan({**plan().settings, "sharding.group": share}).value("sharding.group") == 64 // 8
        assert Plan({**plan().settings, "sharding.group": uneven}).value("sharding.group") != 64 // 7

    def test_a_world_that_does_not_divide_has_no_data_parallel_size(self):
        found = plan(parallel__world_size=60).get("parallel.data")
        assert isinstance(found, Unknown)
        assert "60 processes are no multiple of 32" in found.reason

    def test_origin_names_what_it_follows_from(self):
        found = plan().get("parallel.data")
        assert found.origin.kind == "derived"
        assert "parallel.tensor" in found.origin.settings

    def test_gpu_memory_is_the_catalogs(self):
        found = Plan.of({"cluster.gpu": "H100-SXM-80GB"}).value("cluster.gpu_memory_gib")
        assert 79 <= found <= 80

    def test_the_nvlink_domain_is_the_node(self):
        assert Plan.of({"cluster.gpu": "H100-SXM-80GB", "cluster.gpus_per_node": 8}).value("cluster.nvlink_domain") == 8

    def test_the_nvlink_domain_of_a_rack_is_the_gpus(self):
        found = Plan.of({"cluster.gpu": "GB200-NVL72", "cluster.gpus_per_node": 4}).value("cluster.nvlink_domain")
        assert found == 72

    def test_megatron_widths_default_to_four_hidden(self):
        assert plan().value("model.ffn") == 4 * 4096

    def test_megatron_gated_width_is_eight_thirds_rounded_down_to_64(self):
        assert plan(model__gated_mlp=True).value("model.ffn") == 10880

    def test_deepspeed_counts_every_rank_of_its_tensor_parallelism_into_the_batch(self):
        known = Plan.of(
            {
                "framework": "deepspeed",
                "parallel.world_size": 8,
                "parallel.tensor": 2,
                "batch.micro": 4,
                "batch.accumulation": 2,
            }
        )
        assert (known.value("parallel.data"), known.value("batch.global")) == (4, 4 * 2 * 8)

    def test_without_a_global_batch_it_is_micro_times_accumulation_times_data(self):
        known = Plan.of({"framework": "deepspeed", "parallel.data": 8, "batch.micro": 4, "batch.accumulation": 2})
        assert known.value("batch.global") == 64

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("google-t5/t5-base", "an encoder and a decoder"),
            ("nvidia/Nemotron-H-8B-Base", "layers that are not all alike"),
        ],
    )
    def test_a_model_that_is_not_one_stack_has_parameters_and_no_layers_of_one(self, name, why):
        plan = Plan.of({"model.name": name})
        found = plan.get("model.layers")
        assert isinstance(found, Unknown) and found.reason == f"{name} has {why}"
        assert plan.number("model.parameters") is not None


class TestBut:
    def test_the_world_and_the_global_batch_stay(self):
        changed = plan().but({"parallel.tensor": 4})
        assert changed.value("parallel.data") == 4
        assert changed.value("batch.global") == 64
        assert changed.value("schedule.microbatches") == 16

    def test_a_smaller_micro_batch_gives_more_microbatches(self):
        changed = plan(batch__micro=2).but({"batch.micro": 1})
        assert changed.value("schedule.microbatches") == 32

    def test_written_accumulation_follows_and_belongs_to_the_remedy(self):
        today = Plan.of(
            {
                "framework": "deepspeed",
                "parallel.data": 8,
                "batch.micro": 4,
                "batch.accumulation": 2,
                "batch.global": 64,
            }
        )
        assert today.but({"batch.micro": 2}).followed == {"batch.accumulation": 4}

    def test_a_front_ends_default_does_not_take_the_place_of_the_accumulation_that_follows(self):
        today = Plan.of(
            {
                "framework": "fsdp",
                "frontend": "transformers",
                "parallel.data": 8,
                "batch.micro": 1,
                "batch.accumulation": 16,
            }
        )
        assert today.but({"batch.micro": 2}).followed == {"batch.accumulation": 8}
        assert isinstance(today.but({"batch.micro": 3}), Infeasible)

    def test_heads_that_do_not_divide_are_infeasible(self):
        found = plan().but({"parallel.tensor": 64, "parallel.pipeline": 1})
        assert isinstance(found, Infeasible)
        assert found.setting == "model.heads"

    def test_layers_that_do_not_divide_are_infeasible(self):
        assert isinstance(plan(model__layers=30).but({"parallel.pipeline": 8, "parallel.tensor": 4}), Infeasible)

    def test_what_is_broken_today_does_not_forbid_a_remedy(self):
        today = plan(model__heads=12)
        assert isinstance(today.but({"parallel.tensor": 4}), Plan)

    def test_tensor_parallelism_of_one_turns_sequence_parallelism_off(self):
        changed = plan(parallel__sequence=True, data__sequence_length=2048).but({"parallel.tensor": 1})
        assert changed.value("parallel.sequence") is False

    def test_twice_the_gpus_are_twice_the_replicas(self):
        changed = plan().but({"parallel.world_size": 128})
        assert changed.value("parallel.data") == 4
        assert changed.value("batch.global") == 64


class TestPipelineStages:
    def test_megatron_divides_its_layers_over_the_stages(self):
        assert isinstance(plan().but({"parallel.pipeline": 4, "model.layers": 30}), Infeasible)

    def test_deepspeed_splits_them_by_weight(self):
        split = plan(framework="megatron-deepspeed").but({"parallel.pipeline": 4, "model.layers": 30})
        assert isinstance(split, Plan)


class TestVocabulary:
    def test_every_setting_says_what_it_means(self):
        assert all(term.meaning for term in vocabulary().values())

    def test_bounds_come_in_pairs(self):
        assert all((term.optimistic is None) == (term.pessimistic is None) for term in vocabulary().values())

    def test_numbers_may_be_written_with_an_exponent(self):
        assert parse("model.parameters", "7e9").value == 7_000_000_000

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("parallel.tenser", "8", "did you mean 'parallel.tensor'?"),
            ("tensor", "8", "did you mean 'parallel.tensor' or 'overlap.tensor'?"),
            ("parallel.tensor", "eight", "parallel.tensor takes a whole number"),
            ("parallel.tensor", "2.5", "parallel.tensor takes a whole number"),
            ("parallel.tensor", "0", "parallel.tensor is at least 1"),
            ("sharding.stage", "4", "sharding.stage is at most 3"),
            ("framework", "pytorchx", "framework is one of"),
            ("overlap.gradients", "maybe", "overlap.gradients takes true or false"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_a_reason(self, name, text, message):
        with pytest.raises(Misfit, match=message.replace("?", r"\?")):
            parse(name, text)


INTERLEAVED = {
    "framework": "megatron",
    "parallel.world_size": 8,
    "parallel.pipeline": 4,
    "parallel.virtual_pipeline": 2,
    "batch.micro": 1,
}


def test_a_chunk_takes_as_many_micro_batches_as_there_are_stages():
    assert Plan.of(INTERLEAVED).integer("schedule.group") == 4


def test_what_the_groups_leave_over_is_infeasible():
    broken = violations(Plan.of({**INTERLEAVED, "batch.global": 2 * 6}))
    assert [each.setting for each in broken] == ["schedule.group"]


def test_the_optimizer_shards_over_its_instance():
    plan = Plan.of({"framework": "megatron", "parallel.world_size": 16, "sharding.instances": 4})
    assert plan.integer("sharding.group") == 4
