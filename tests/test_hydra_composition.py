"""Config trees come to what hydra and OmegaConf make of them, each value with the place where it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from composed import Untold, composed, leaves

from dtlint.frameworks.hydra.composition import Composed, keys, search_path
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source

ANSWERS = Path(__file__).parent / "data" / "composed" / "hydra.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()[1:]]
TAKEN = [row for row in ROWS if row["refused"] is None]
UNKNOWN = 0.005
"""Share of the values that may be left unknown; none may be another."""


def answer(row: dict[str, Any]) -> dict[str, object]:
    files = {name.removeprefix("conf/").removesuffix(".yaml"): text for name, text in row["files"].items()}
    found = composed(files, row["files"]["words.txt"])
    assert found is not None
    return leaves(found)


def alike(found: object, expected: object) -> bool:
    """OmegaConf hands the default of a variable on as a text, which whoever takes a number reads as one."""
    return found == expected or (isinstance(expected, str) and str(found) == expected)


def test_no_value_is_another_than_hydras() -> None:
    wrong = []
    for row in TAKEN:
        found = answer(row)
        wrong += [
            (row["name"], path, value, found.get(path))
            for path, value in row["derived"].items()
            if not isinstance(found.get(path), Untold) and not alike(found.get(path, "absent"), value)
        ]
    assert wrong == []


def test_nearly_every_value_is_known() -> None:
    told = [
        (path, answered.get(path))
        for row in TAKEN
        for answered in [answer(row)]
        for path, value in row["derived"].items()
        if value != "???"
    ]
    unknown = [path for path, value in told if isinstance(value, Untold)]
    assert len(unknown) <= UNKNOWN * len(told)


def whole(texts: dict[str, str], words: str = "") -> Composed:
    found = composed(texts, words)
    assert found is not None
    return found


GROUPS = {
    "model/small": "layers: 12\nheads: 8\n",
    "model/large": "layers: 48\nheads: 64\n",
    "trainer/ddp": "devices: 8\n",
}


class TestDefaultsLists:
    def test_the_config_itself_counts_more_than_what_it_names(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [{model: small}]\nmodel: {layers: 3}\n"})
        assert leaves(found) == {"model.layers": 3, "model.heads": 8}

    def test_unless_it_stands_first(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [_self_, {model: small}]\nmodel: {layers: 3}\n"})
        assert leaves(found)["model.layers"] == 12

    def test_the_command_line_chooses_of_a_group(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [{model: small}]\n"}, "model=large model.heads=32")
        assert leaves(found) == {"model.layers": 48, "model.heads": 32}

    def test_adds_a_group(self) -> None:
        assert leaves(whole({**GROUPS, "config": "a: 1\n"}, "+trainer=ddp")) == {"a": 1, "trainer.devices": 8}

    def test_and_takes_one_out(self) -> None:
        text = "defaults: [{model: small}, {trainer: ddp}]\n"
        assert leaves(whole({**GROUPS, "config": text}, "~model")) == {"trainer.devices": 8}

    def test_an_experiment_overrides_the_choices_of_the_config_that_names_it(self) -> None:
        experiment = "# @package _global_\ndefaults: [{override /model: large}]\nmodel: {heads: 1}\n"
        config = "defaults: [{model: small}, {experiment: big}]\n"
        found = whole({**GROUPS, "experiment/big": experiment, "config": config})
        assert leaves(found) == {"model.layers": 48, "model.heads": 1}

    def test_a_package_says_where_a_config_goes(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [{model@actor.model: small}, {model@_global_: large}]\n"})
        assert leaves(found) == {"actor.model.layers": 12, "actor.model.heads": 8, "layers": 48, "heads": 64}

    def test_packages_nest(self) -> None:
        texts = {"actor/dp": "defaults: [{/optim@optim: adam}]\nsize: 1\n", "optim/adam": "lr: 1e-5\n"}
        found = whole({**texts, "config": "defaults: [{actor@worker.actor: dp}]\n"})
        assert leaves(found) == {"worker.actor.optim.lr": 1e-5, "worker.actor.size": 1}

    def test_an_optional_config_may_be_absent(self) -> None:
        found = whole({"config": "defaults: [{optional local: mine}]\na: 1\n"})
        assert (leaves(found), found.missing) == ({"a": 1}, ())

    def test_two_configs_that_name_each_other_end(self) -> None:
        found = whole({"config": "defaults: [other]\n", "other": "defaults: [config]\na: 1\n"})
        assert leaves(found) == {"a": 1}

    def test_configs_that_name_each_other_twice_end_soon(self) -> None:
        twice = "defaults: [other, other, _self_]\n"
        found = whole({"config": twice, "other": "defaults: [config, config, _self_]\nb: 2\n"})
        assert leaves(found) == {"b": 2}

    def test_hydras_own_groups_tell_nothing(self) -> None:
        found = whole({"config": "defaults: [{override hydra/launcher: submitit}]\na: 1\n"})
        assert (leaves(found), found.missing) == ({"a": 1}, ())


class TestWhatIsNotThere:
    def test_what_a_missing_config_may_have_set_is_not_known(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [{model: small}, extra, _self_]\ntrainer: {devices: 4}\n"})
        assert found.missing == ("extra",)
        assert leaves(found)["trainer.devices"] == 4
        assert leaves(found)["model.layers"] == Untold("extra.yaml was not found, which may set it")

    def test_only_in_its_own_section(self) -> None:
        found = whole({**GROUPS, "config": "defaults: [{model: small}, {trainer: gone}]\na: 1\n"})
        assert (found.missing, leaves(found)["model.layers"]) == (("trainer/gone",), 12)

    def test_a_choice_that_has_to_be_made(self) -> None:
        assert whole({**GROUPS, "config": "defaults:\n- model: ???\n"}).missing == ("model/???",)

    def test_without_the_config_there_is_nothing(self) -> None:
        assert composed(GROUPS) is None


WITH_REFERENCE = {**GROUPS, "config": "defaults: [{model: small}]\nwidth: ${model.heads}\n"}


class TestPlaces:
    def test_a_value_stands_where_it_is_written(self) -> None:
        node = keys(whole(WITH_REFERENCE)).nodes["model.layers"]
        assert (node.span.path, node.span.line, node.span.text) == ("model/small.yaml", 1, "12")

    def test_a_reference_leads_there(self) -> None:
        node = keys(whole(WITH_REFERENCE)).nodes["width"]
        assert node.told is not None
        origin = node.told.origin  # type: ignore[union-attr]
        assert (origin.span.path, [step.span.path for step in origin.chain]) == ("model/small.yaml", ["config.yaml"])

    def test_the_files_that_took_part_are_told(self) -> None:
        paths = [source.path for source in whole(WITH_REFERENCE).sources]
        assert paths == ["config.yaml", "model/small.yaml"]


class TestCommandLine:
    @pytest.mark.parametrize(
        ("text", "value"),
        [("yes", "yes"), ("True", True), ("010", "010"), ("1e-5", 1e-5), ("1_000", 1000), ("null", None), ("'8'", "8"),
         ("[1,2]", [1, 2]), ("a/b-c", "a/b-c")],
    )  # fmt: skip
    def test_values_are_hydras_and_not_yamls(self, text: str, value: object) -> None:
        assert leaves(whole({"config": "a: 1\n"}, f'"a={text}"')) == {"a": value}

    def test_a_mapping_is_merged(self) -> None:
        assert leaves(whole({"config": "a: {b: 1, c: 2}\n"}, '"a={b:3}"')) == {"a.b": 3, "a.c": 2}

    def test_a_sweep_is_several_runs(self) -> None:
        found = leaves(whole({"config": "a: 1\n"}, "a=1,2"))
        assert found == {"a": Untold("1,2 stands for a run with each of several values")}


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("hydra: {searchpath: ['file://conf', 'pkg://verl.trainer.config']}\n", "", ("file://conf", "pkg://verl.trainer.config")),
        ("a: 1\n", '"hydra.searchpath=[file:///srv/conf]"', ("file:///srv/conf",)),
        ("a: 1\n", "", ()),
    ],
)  # fmt: skip
def test_further_folders(text: str, words: str, expected: tuple[str, ...]) -> None:
    from composed import words_of

    assert search_path(read_yaml(Source("config.yaml", text)), words_of(words)) == expected


class TestLaunches:
    CONFIG = "defaults: [ppo_trainer, _self_]\nhydra: {searchpath: ['file://verl/trainer/config']}\n"
    OWN = """\
        defaults: [{actor@actor_rollout_ref.actor: dp_actor}, _self_]
        trainer: {nnodes: 2, n_gpus_per_node: 8}
        data: {train_batch_size: 64}
        """
    ACTOR = "ppo_mini_batch_size: 32\nppo_micro_batch_size_per_gpu: 2\nstrategy: fsdp\n"
    MAIN = '@hydra.main(config_path="config", config_name="mine", version_base=None)\ndef main(config):\n    pass\n'

    def plan(self, tree: Any, command: str, **more: str) -> Any:
        from textwrap import dedent

        from dtlint.runs import Options, read_runs

        files = {
            "recipe/config/mine.yaml": self.CONFIG,
            "recipe/main_ppo.py": self.MAIN,
            "verl/trainer/config/ppo_trainer.yaml": dedent(self.OWN),
            "verl/trainer/config/actor/dp_actor.yaml": self.ACTOR,
            "run.sh": command + "\n",
        }
        folder = tree({**files, **more})
        (run,) = read_runs([folder / "run.sh"], Options()).runs
        return run

    @pytest.mark.parametrize(
        "command",
        [
            "python recipe/main_ppo.py trainer.nnodes=4",
            "python -m recipe.main_ppo trainer.nnodes=4",
            "python -m verl.trainer.main_ppo --config-path=recipe/config --config-name=mine trainer.nnodes=4",
            "python -m verl.trainer.main_ppo --config-path /workspace/recipe/config --config-name mine trainer.nnodes=4",
        ],
    )
    def test_the_config_is_composed_of_the_files_of_the_tree(self, tree: Any, command: str) -> None:
        run = self.plan(tree, command)
        names = ("launch.nodes", "parallel.world_size", "batch.global", "batch.micro", "batch.accumulation")
        # 32 samples over 4 x 8 ranks are one each, in a micro-batch of 2 that they do not fill
        assert [run.plan.value(name) for name in names[:4]] == [4, 32, 32, 2]
        place = run.plan.get("batch.micro").origin.span
        assert (place.path, place.line) == ("verl/trainer/config/actor/dp_actor.yaml", 2)
        assert {"recipe/config/mine.yaml", "verl/trainer/config/ppo_trainer.yaml"} <= set(run.files)

    def test_a_variable_of_the_script_reaches_the_config(self, tree: Any) -> None:
        own = self.OWN.replace("nnodes: 2", "nnodes: '${oc.env:NODES,1}'").replace("        ", "")
        more = {"verl/trainer/config/ppo_trainer.yaml": own}
        run = self.plan(tree, "export NODES=8\npython recipe/main_ppo.py", **more)
        assert run.plan.value("launch.nodes") == 8

    def test_what_verl_ships_is_no_missing_file(self, tree: Any) -> None:
        folder = tree({"recipe/config/mine.yaml": "defaults: [ppo_trainer, _self_]\ntrainer: {nnodes: 2}\n"})
        (folder / "recipe/main_ppo.py").write_text(self.MAIN)
        (folder / "run.sh").write_text("python recipe/main_ppo.py trainer.n_gpus_per_node=8\n")
        from dtlint.runs import Options, read_runs

        (run,) = read_runs([folder / "run.sh"], Options()).runs
        assert (run.plan.unread, run.plan.value("parallel.world_size")) == ("", 16)
