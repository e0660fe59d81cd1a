"""What a search refuses, by framework: what each one's own code refuses, ignores or takes."""

from __future__ import annotations

import pytest

from dtlint.catalog import combinations, searched_frameworks
from dtlint.catalog.build import searches
from dtlint.plan import Plan, term
from dtlint.plan.constraints import violations
from dtlint.tune.allowed import ARITHMETIC, Grounds, idle, refused
from dtlint.value import Plain

DENSE: dict[str, Plain] = {
    "cluster.gpus_per_node": 8,
    "parallel.world_size": 64,
    "parallel.tensor": 1,
    "parallel.pipeline": 1,
    "parallel.context": 1,
    "parallel.sequence": False,
    "sharding.stage": 1,
    "batch.micro": 1,
    "batch.global": 512,
    "data.sequence_length": 4096,
    "model.heads": 64,
    "model.kv_heads": 8,
    "overlap.gradients": False,
}
"""A dense model with eight key and value heads on eight nodes."""

SIXTEEN: dict[str, Plain] = {"parallel.tensor": 16}
HEADS = "key and value heads do not divide over TP"


def grounds(framework: str, **settings: Plain) -> Grounds:
    changed = {name.replace("__", "."): value for name, value in settings.items()}
    return Grounds(Plan.of({**DENSE, "framework": framework, **changed}))


def test_each_row_has_its_arithmetic_and_a_source() -> None:
    rows = searches()["combinations"]  # type: ignore[index]
    assert {row["name"] for row in rows} == set(ARITHMETIC)
    for row in rows:
        assert row["source"] and row["of"] in ("split", "switches")
        assert row["frameworks"] == "any" or set(row["frameworks"]) <= set(term("framework").values)
        assert all(term(name) for name in row.get("until", {}))


def test_what_follows_from_numbers_holds_for_every_framework() -> None:
    for framework in searched_frameworks():
        assert "no-grid" in {found.name for found in combinations(framework, "split")}


@pytest.mark.parametrize("framework", ["nanotron", "gpt-neox", "megatron-deepspeed", "torchtitan"])
def test_a_rank_has_whole_key_and_value_heads(framework: str) -> None:
    """Eight heads over 16 ranks leave each rank half of one."""
    assert refused(grounds(framework), {"parallel.tensor": 16}) == HEADS
    assert refused(grounds(framework), {"parallel.tensor": 8}) is None


class TestHeadsThatMegatronRepeats:
    """From megatron-core 0.16 on two ranks may have one head; before, TP has to divide the heads."""

    def test_a_release_that_repeats(self) -> None:
        assert refused(grounds("megatron", version__megatron_core="0.16.0"), SIXTEEN) is None

    def test_a_release_that_does_not(self) -> None:
        assert refused(grounds("megatron", version__megatron_core="0.15.2"), SIXTEEN) == HEADS

    @pytest.mark.parametrize("framework", ["megatron", "nemo"])
    def test_an_unknown_release_is_not_relied_on(self, framework: str) -> None:
        assert refused(grounds(framework), SIXTEEN) == HEADS

    def test_what_runs_today_is_taken(self) -> None:
        assert refused(grounds("megatron", parallel__tensor=16), {}) is None

    def test_neither_divides_the_other(self) -> None:
        found = grounds("megatron", version__megatron_core="0.16.0", model__kv_heads=6)
        assert refused(found, {"parallel.tensor": 4}) == HEADS


@pytest.mark.parametrize("expert", [1, 8])
def test_megatron_trains_experts_beside_tp_with_sequence_parallelism_alone(expert: int) -> None:
    found = grounds("megatron", model__experts=8, parallel__expert=expert)
    without: dict[str, Plain] = {"parallel.tensor": 2, "parallel.sequence": False}
    assert refused(found, without) == "experts beside TP without sequence parallelism"
    assert refused(found, {**without, "parallel.sequence": True}) is None
    assert refused(found, {**without, "parallel.tensor": 1}) is None
    assert refused(grounds("megatron"), without) is None


class TestShardingInGptNeox:
    def test_with_a_pipeline(self) -> None:
        asked: dict[str, Plain] = {"sharding.stage": 2, "parallel.pipeline": 2}
        assert refused(grounds("gpt-neox"), asked) == "ZeRO 2 and 3 do not go with a pipeline"

    def test_with_tensor_parallelism(self) -> None:
        asked: dict[str, Plain] = {"sharding.stage": 2, "parallel.tensor": 2}
        assert refused(grounds("gpt-neox"), asked) == "ZeRO 2 and 3 do not go with TP"
        assert refused(grounds("megatron-deepspeed"), asked) is None

    def test_with_experts(self) -> None:
        found = grounds("gpt-neox", model__experts=8)
        assert refused(found, {"sharding.stage": 3}) == "ZeRO 2 and 3 do not go with experts"

    def test_alone(self) -> None:
        assert refused(grounds("gpt-neox"), {"sharding.stage": 3}) is None


def test_torchtitan_divides_the_sequence_over_both_ways() -> None:
    """Its sequence has to divide by TP x 2 x CP: 4100 by 4 x 2, not by 4 alone."""
    found = grounds("torchtitan", data__sequence_length=4100)
    assert refused(found, {"parallel.tensor": 4}) == "the sequence does not divide over TP and CP"
    assert refused(found, {"parallel.tensor": 2}) is None
    assert refused(grounds("torchtitan"), {"parallel.tensor": 8, "parallel.context": 4}) is None


@pytest.mark.parametrize(("stage", "reason"), [(0, "overlap of gradients without ZeRO"), (1, None)])
def test_deepspeed_overlaps_in_its_sharding_optimizers_alone(stage: int, reason: str | None) -> None:
    assert idle(grounds("deepspeed"), {"sharding.stage": stage, "overlap.gradients": True}) == reason


@pytest.mark.parametrize(
    ("stage", "optimizer", "parameters", "taken"),
    [(0, "cpu", "none", False), (1, "cpu", "none", True), (2, "none", "cpu", False), (3, "none", "cpu", True)],
)
def test_what_deepspeed_offloads_at_which_stage(stage: int, optimizer: str, parameters: str, taken: bool) -> None:
    asked: dict[str, Plain] = {
        "sharding.stage": stage,
        "sharding.offload_optimizer": optimizer,
        "sharding.offload_parameters": parameters,
    }
    assert (idle(grounds("deepspeed"), asked) is None) == taken


def test_what_settings_a_search_leaves_alone_as_no_plan_tells_whether_they_start() -> None:
    """torchtitan's async TP needs a compiled model; of nanotron's models Qwen's alone splits the sequence."""
    table = searches()["frameworks"]  # type: ignore[index]
    assert "overlap.tensor" not in table["torchtitan"]["values"]
    assert "parallel.context" not in table["nanotron"]["degrees"]


@pytest.mark.parametrize(
    ("framework", "broken"), [("megatron", True), ("nemo", True), ("torchtitan", False), ("nanotron", False)]
)
def test_whose_stages_have_equal_numbers_of_layers(framework: str, broken: bool) -> None:
    plan = Plan.of({"framework": framework, "model.layers": 30, "parallel.pipeline": 4})
    assert bool(violations(plan)) == broken
