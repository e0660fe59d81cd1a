"""`dtlint tune`: other plans for the same training on the same machines."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from dtlint.catalog import searched, searched_frameworks
from dtlint.cli import run
from dtlint.cost import estimate
from dtlint.plan import Plan, term
from dtlint.report.tune_picture import front
from dtlint.rulebook.price import Watch
from dtlint.runs import Options, read_runs
from dtlint.tune import Search, Tuned, Wishes, axes_of, search, tune
from dtlint.tune.allowed import Grounds
from dtlint.tune.screen import PARTS
from dtlint.tune.search import changes_of
from dtlint.value import Plain

FIXTURES = Path(__file__).parents[1] / "fixtures"
SLOW = "64-gpu-slowdown"
GOOD = "before-you-launch"
NOBODY = Watch((), frozenset())

SMALL: dict[str, Plain] = {
    "framework": "megatron",
    "model.name": "gpt3-6.7b",
    "cluster.gpu": "A100-SXM-80GB",
    "cluster.gpus_per_node": 8,
    "parallel.world_size": 16,
    "parallel.tensor": 8,
    "parallel.pipeline": 1,
    "parallel.context": 1,
    "parallel.expert": 1,
    "parallel.sequence": True,
    "sharding.stage": 1,
    "batch.micro": 1,
    "batch.global": 32,
    "data.sequence_length": 2048,
    "precision.compute": "bf16",
    "checkpointing.activations": "full",
    "overlap.gradients": False,
    "overlap.parameters": False,
    "overlap.tensor": False,
    "attention.flash": True,
}
"""A plan with more tensor parallelism and recomputation than a 6.7B model needs on 80 GB."""


def plan_of(fixture: str) -> Plan:
    return read_runs([FIXTURES / fixture], Options()).runs[0].plan


@cache
def tuned(fixture: str) -> Tuned:
    return tune(plan_of(fixture), Wishes(), NOBODY)


FEWER = Wishes(frozenset({"parallel.virtual_pipeline", "parallel.sequence", "overlap.parameters"}))
"""What makes a search short."""


@cache
def small() -> Search:
    plan = Plan.of(SMALL)
    return search(plan, axes_of(plan, FEWER))


def test_a_good_plan_keeps_its_split() -> None:
    found = tuned(GOOD)
    split = ("parallel.tensor", "parallel.pipeline", "parallel.context")
    assert [found.offers[0].plan.value(name) for name in split] == [8, 8, 1]
    assert found.place is not None and found.place <= 20
    assert found.offers[1].estimate.step_seconds > 1.1 * estimate(found.today).step_seconds  # type: ignore[union-attr]


def test_tensor_parallelism_across_nodes_gives_way_to_the_node_with_overlap() -> None:
    found = tuned(SLOW)
    inside = [offer for offer in found.offers if offer.plan.value("parallel.tensor") == 8]
    assert inside and all(offer.plan.value("overlap.tensor") is True for offer in inside)
    assert all(offer.plan.integer("parallel.tensor") in (1, 2, 4, 8) for offer in found.offers)
    today = estimate(found.today)
    assert all(offer.estimate.step_seconds < 0.6 * today.step_seconds for offer in found.offers)  # type: ignore[union-attr]


@pytest.mark.parametrize("fixture", [GOOD, SLOW])
def test_what_trains_is_never_another_thing(fixture: str) -> None:
    for offer in tuned(fixture).offers:
        for name in (
            "batch.global",
            "data.sequence_length",
            "model.parameters",
            "optimizer.name",
            "parallel.world_size",
        ):
            assert offer.plan.value(name) == tuned(fixture).today.value(name)


@pytest.mark.parametrize("fixture", [GOOD, SLOW])
def test_each_plan_is_ranked_or_left_out_for_one_reason(fixture: str) -> None:
    found = tuned(fixture).search
    product = 1
    for axis in found.axes:
        product *= len(axis.values)
    assert found.considered == product == len(found.ranked) + sum(found.refused.values())


def test_an_offer_names_the_place_and_the_words_of_its_front_end() -> None:
    changes = {change.setting: change for change in tuned(SLOW).offers[0].changes}
    tensor = changes["parallel.tensor"]
    assert tensor.old == "--tensor-model-parallel-size 16"
    assert tensor.new.startswith("--tensor-model-parallel-size ")
    assert tensor.place is not None and tensor.place.original().line == 19
    assert (changes["overlap.tensor"].old, changes["overlap.tensor"].new) == ("", "--tp-comm-overlap")


def test_the_ranking_is_in_order_and_the_same_each_time() -> None:
    again = search(Plan.of(SMALL), axes_of(Plan.of(SMALL), FEWER))
    assert again.ranked == small().ranked
    times = [round(each.seconds_per_token, 15) for each in small().ranked]
    assert times == sorted(times)


def test_screening_says_what_a_whole_plan_would() -> None:
    plan = Plan.of(SMALL)
    axes = axes_of(plan, FEWER)
    for candidate in Random(7).sample(small().ranked, 150):
        changed = plan.but(changes_of(axes, Grounds(plan), candidate.values))
        assert isinstance(changed, Plan)
        assert all(changed.value(name) == value for name, value in candidate.values.items())
        whole = estimate(changed)
        assert candidate.seconds == pytest.approx(whole.step_seconds)  # type: ignore[union-attr]
        assert candidate.memory_bytes == pytest.approx(whole.memory.device_bytes)  # type: ignore[union-attr]


def test_every_value_that_was_tried_and_fits_is_ranked() -> None:
    """Eight micro-batches of 2 on DP 2 with TP 8 fit on 80 GB: the plan stands in the ranking."""
    wanted = {"parallel.tensor": 8, "parallel.pipeline": 1, "batch.micro": 2, "checkpointing.activations": "none"}
    assert any(wanted.items() <= dict(each.values).items() for each in small().ranked)


def test_a_plan_that_recomputes_more_than_it_has_to_gets_rid_of_it() -> None:
    found = tune(Plan.of(SMALL), FEWER, NOBODY)
    best = found.offers[0]
    assert best.plan.value("checkpointing.activations") != "full"
    assert best.plan.integer("parallel.tensor") in (1, 2, 4)
    assert best.estimate.step_seconds < 0.8 * estimate(found.today).step_seconds  # type: ignore[union-attr]


def test_where_there_are_few_splits_other_variants_are_offered() -> None:
    few = Wishes(
        frozenset(name for name in SMALL if name.startswith(("parallel.", "sharding."))) | {"parallel.virtual_pipeline"}
    )
    found = tune(Plan.of(SMALL), few, NOBODY)
    assert len(found.offers) == 5
    assert len({offer.changes for offer in found.offers}) == 5
    assert {offer.plan.value("parallel.tensor") for offer in found.offers} == {8}


def test_why_todays_plan_does_not_rank_is_said() -> None:
    """6.7B parameters at 18 bytes each are 121 GB."""
    large = Plan.of({**SMALL, "sharding.stage": 0, "parallel.tensor": 1})
    found = tune(large, FEWER, NOBODY)
    assert found.place is None and found.against == "more memory than a GPU has, with the model's error"


def test_what_is_kept_stays() -> None:
    kept = ("parallel.tensor", "parallel.pipeline", "checkpointing.activations", "batch.micro")
    found = tune(Plan.of(SMALL), Wishes(frozenset(kept)), NOBODY)
    assert all(offer.plan.value(name) == SMALL[name] for offer in found.offers for name in kept)
    assert not {axis.setting for axis in found.search.axes} & set(kept)


def test_the_batch_varies_when_asked_and_plans_rank_by_token() -> None:
    wishes = FEWER._replace(vary={"batch.global": (32, 64)})
    found = tune(Plan.of(SMALL), wishes, NOBODY)
    assert {each.values["batch.global"] for each in found.search.ranked} == {32, 64}
    assert found.offers[0].plan.value("batch.global") == 64


@pytest.mark.parametrize("name", ["cluster.gpu", "data.sequence_length", "parallel.world_size", "framework"])
def test_what_is_needed_is_said_instead_of_a_ranking(name: str) -> None:
    plan = Plan.of({setting: value for setting, value in SMALL.items() if setting != name})
    found = tune(plan, Wishes(), NOBODY)
    assert [need.how for need in found.needs] == [f"--set {name}=..."]
    assert not found.offers and not found.search.considered


def test_plans_of_every_framework_can_be_searched() -> None:
    assert set(searched_frameworks()) == set(term("framework").values)


def test_a_setting_that_is_not_known_today_does_not_vary() -> None:
    plan = plan_of(SLOW)
    assert "attention.flash" not in {axis.setting for axis in axes_of(plan, Wishes())}
    assert tuned(SLOW).estimate.assumed == ("cluster.internode_gbit_per_s", "attention.flash")  # type: ignore[union-attr]


def test_main_memory_is_offered_where_it_is_known() -> None:
    deepspeed: dict[str, Plain] = {**SMALL, "framework": "deepspeed", "parallel.tensor": 1, "sharding.stage": 3}
    host = {**deepspeed, "cluster.host_memory_gb": 2000}
    names = {axis.setting for axis in axes_of(Plan.of(deepspeed), Wishes())}
    assert "sharding.offload_optimizer" not in names
    assert "sharding.offload_optimizer" in {axis.setting for axis in axes_of(Plan.of(host), Wishes())}


def test_a_shard_group_of_one_node_is_tried() -> None:
    fsdp: dict[str, Plain] = {**SMALL, "framework": "fsdp", "parallel.tensor": 1, "sharding.stage": 3}
    plan = Plan.of({name: value for name, value in fsdp.items() if name != "parallel.sequence"})
    found = search(plan, axes_of(plan, Wishes()))
    assert {each.values["sharding.group"] for each in found.ranked} == {"whole", "node"}
    node = next(each for each in found.ranked if each.values["sharding.group"] == "node")
    changed = plan.but(changes_of(found.axes, Grounds(plan), node.values))
    assert isinstance(changed, Plan) and changed.value("sharding.group") == 8


@pytest.mark.parametrize("framework", searched_frameworks())
def test_the_table_speaks_of_settings_and_values_that_there_are(framework: str) -> None:
    found = searched(framework)
    assert found is not None
    for name in found.degrees:
        assert term(name).type == "integer"
    for name, values in found.values.items():
        known = term(name).values
        assert not known or set(values) <= set(known)
    assert {name for name in PARTS if name.startswith("parallel.")} == set()


def test_the_front_is_what_none_beats() -> None:
    assert front([(3, 1), (1, 5), (2, 4), (2, 6), (3, 4), (1, 5)]) == [(1, 5), (2, 4), (3, 1)]


KEPT = "parallel.virtual_pipeline,parallel.context,parallel.sequence,sharding.stage"
FEW = ["--keep", KEPT, "--keep", "overlap.parameters", str(FIXTURES / SLOW)]


def test_the_command_prints_the_best_beside_today(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", *FEW]) == 0
    shown = capsys.readouterr().out
    assert "TP 16 x DP 4" in shown and "1. TP " in shown
    assert "--tensor-model-parallel-size 16 -> --tensor-model-parallel-size" in shown
    assert "left out: " in shown and "not known, ranked by the middle: cluster.internode_gbit_per_s" in shown


def test_json_holds_the_changes_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "--format", "json", *FEW]) == 0
    found = json.loads(capsys.readouterr().out)["runs"][0]
    assert found["considered"] == found["ranked"] + sum(found["refused"].values())
    change = next(each for each in found["best"][0]["changes"] if each["setting"] == "parallel.tensor")
    assert (change["line"], change["before"]) == (19, 16)
    assert found["best"][0]["seconds_per_step"]["middle"] < found["today"]["seconds_per_step"]["middle"]


def test_the_page_is_whole_and_fetches_nothing(tmp_path: Path) -> None:
    page = tmp_path / "plans.html"
    assert run(["tune", "--format", f"html={page}", *FEW]) == 0
    text = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text
    assert "://" not in text and "<script" not in text
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    marks = [group.findtext("title") or "" for group in drawing.iter("g")]
    assert marks[0].startswith("today: TP 16 x DP 4") and len(marks) > 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--keep", "parallel.tensr"], "no setting is called 'parallel.tensr'; did you mean 'parallel.tensor'?"),
        (["--vary", "batch.global=many"], "batch.global"),
        (["--vary", "batch.global"], "SETTING=VALUE"),
        (["--format", "xml"], "unknown format 'xml'"),
    ],
)
def test_bad_wishes_are_refused(option: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", *option, str(FIXTURES / SLOW)]) == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_ranked_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", str(FIXTURES / "half-idle-pipeline")]) == 0
    assert "no file tells cluster.gpu; --set cluster.gpu=..." in capsys.readouterr().out
