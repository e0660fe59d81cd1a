"""dtlint.toml: what it may say, and the one sentence for each mistake in it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dtlint.api import check_set, options_of
from dtlint.config import Config, ConfigError, find_config, share
from dtlint.config_file import parse_config, read_config
from dtlint.config_schema import FILE, Toml, faults
from dtlint.ground import work_tree
from dtlint.plan import Plan
from dtlint.plan.vocabulary import vocabulary
from dtlint.runs import read_runs
from dtlint.value import Unknown
from dtlint.value import given as by_user

WHOLE = """\
cluster = "prod"
select = ["DT1", "pipeline-bubble"]
ignore = ["no-overlap"]
fail-on = "warning"
fail-over = "20%"
rule-folders = ["our-rules"]

[clusters.prod]
gpu = "H100"
gpus_per_node = 8
nodes = 16
internode_gbit_per_s = 3200
usd_per_gpu_hour = 2.5

[clusters.test]
gpu = "A100-40GB"

[settings]
"data.sequence_length" = 4096
model.parameters = 7e9

[limits]
"tp-too-large-for-model.saving" = 0.1

[rules.pipeline-bubble]
severity = "note"
limits = { bubble = 0.2 }

[per-file-ignores]
"legacy/*.sh" = ["tp-crosses-node"]
"""


def read(folder: Path, text: str, name: str = "dtlint.toml") -> Config:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_config(file, name)


def test_everything_a_team_can_say(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert {name: value.value for name, value in config.cluster.items()} == {
        "cluster.gpu": "H100",
        "cluster.gpus_per_node": 8,
        "cluster.nodes": 16,
        "cluster.internode_gbit_per_s": 3200,
        "cluster.usd_per_gpu_hour": 2.5,
    }
    assert {name: value.value for name, value in config.settings.items()} == {
        "data.sequence_length": 4096,
        "model.parameters": 7e9,
    }
    assert config.settings["model.parameters"].origin.kind == "given"
    assert config.settings["model.parameters"].origin.note == "dtlint.toml"
    assert config.select == ("DT1", "pipeline-bubble")
    assert config.ignore == ("no-overlap",)
    assert config.fail_on == "warning"
    assert config.fail_over == 0.2
    assert config.limits == {"tp-too-large-for-model.saving": 0.1, "pipeline-bubble.bubble": 0.2}
    assert config.severities == {"pipeline-bubble": "note"}
    assert config.file_ignores == (("legacy/*.sh", ("tp-crosses-node",)),)
    assert config.rule_folders == (tmp_path / "our-rules",)


def test_the_only_cluster_needs_no_name(tmp_path: Path) -> None:
    assert "cluster.gpu" in read(tmp_path, '[clusters.prod]\ngpu = "H100"\n').cluster


def test_one_of_several_clusters_must_be_named(tmp_path: Path) -> None:
    assert read(tmp_path, '[clusters.a]\ngpu = "H100"\n[clusters.b]\ngpu = "A100"\n').cluster == {}


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "")[2:] == Config()[2:]


def test_pyproject_has_a_table_of_its_own(tmp_path: Path) -> None:
    text = (
        '[project]\nname = "x"\n\n[tool.dtlint]\nfail-on = "note"\n\n[tool.dtlint.rules.no-overlap]\nseverity = "off"\n'
    )
    config = read(tmp_path, text, "pyproject.toml")
    assert config.fail_on == "note"
    assert config.severities == {"no-overlap": "off"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[clusters.prod]\ngpus = 8\n", "dtlint.toml:2: unknown key 'gpus'; did you mean 'gpu'?"),
        ('# c\nfial-on = "note"\n', "dtlint.toml:2: unknown key 'fial-on'; did you mean 'fail-on'?"),
        ('[clusters.p]\nnodes = "8"\n', "dtlint.toml:2: 'nodes' takes a whole number, not \"8\""),
        ("[clusters.p]\nnodes = true\n", "dtlint.toml:2: 'nodes' takes a whole number, not true"),
        ("[clusters.p]\n\nnodes = 0\n", "dtlint.toml:3: 'nodes' is at least 1, not 0"),
        (
            'fail-on = "fatal"\n',
            'dtlint.toml:1: \'fail-on\' is one of "error", "warning", "note", "never", not "fatal"',
        ),
        ('cluster = "prd"\n[clusters.prod]\n', "dtlint.toml:1: no [clusters.prd] table; did you mean 'prod'?"),
        ('[settings]\n"model.paramters" = 1\n', "dtlint.toml:2: unknown setting 'model.paramters'; did you mean"),
        ('[settings]\nmodel.layers = "x"\n', "dtlint.toml:2: model.layers takes a whole number, not 'x'"),
        ('[rules.no-overlap]\nseverty = "off"\n', "dtlint.toml:2: unknown key 'severty'; did you mean 'severity'?"),
        ("[rules]\nno-overlap = { limits = 3 }\n", "dtlint.toml:2: 'limits' takes a table, not 3"),
        ('fail-over = "1200%"\n', "dtlint.toml:1: a share of a step lies between 0% and 100%, not at 1200%"),
        ("ignore = [3]\n", "dtlint.toml:1: 'ignore' takes a text, not 3"),
        ("ignore = 1979-05-27\n", "dtlint.toml:1: 'ignore' takes a list, not 1979-05-27"),
        ("a = 1\nb = = 2\n", "dtlint.toml:2: not TOML: "),
        ("a = " + "[" * 100_000, "dtlint.toml:1: not TOML: "),
    ],
)
def test_a_mistake_has_its_line_and_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(message)


def test_a_mistake_in_pyproject_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pyproject\.toml:4: unknown key 'selct'; did you mean 'select'\?"):
        read(tmp_path, '[project]\nname = "x"\n[tool.dtlint]\nselct = []\n', "pyproject.toml")


def test_a_binary_is_no_config(tmp_path: Path) -> None:
    (tmp_path / "dtlint.toml").write_bytes(b"\0\1")
    with pytest.raises(ConfigError, match=r"dtlint\.toml:1: a binary file"):
        read_config(tmp_path / "dtlint.toml", "dtlint.toml")


def test_the_nearest_config_up_to_the_work_tree_is_taken(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    inner = repository / "jobs" / "pretrain"
    inner.mkdir(parents=True)
    (tmp_path / "dtlint.toml").touch()
    (repository / ".git").mkdir()
    assert find_config(inner, work_tree().text) is None
    (repository / "pyproject.toml").write_text("[tool.dtlint]\n", encoding="utf-8")
    assert find_config(inner, work_tree().text) == repository / "pyproject.toml"
    (repository / "jobs" / "pyproject.toml").write_text("[tool.ruff]\n", encoding="utf-8")
    assert find_config(inner, work_tree().text) == repository / "pyproject.toml"
    (repository / "jobs" / "dtlint.toml").touch()
    assert find_config(inner, work_tree().text) == repository / "jobs" / "dtlint.toml"


def test_outside_a_work_tree_only_the_folder_itself_counts(tmp_path: Path) -> None:
    (tmp_path / "dtlint.toml").touch()
    (tmp_path / "jobs").mkdir()
    assert find_config(tmp_path / "jobs", work_tree().text) is None
    assert find_config(tmp_path, work_tree().text) == tmp_path / "dtlint.toml"


@pytest.mark.parametrize(("text", "value"), [("20%", 0.2), ("0.2", 0.2), ("0", 0), (" 5 %", 0.05), ("100%", 1)])
def test_shares(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "20", "-1%", "nan", "inf", "a lot"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match="share of a step"):
        share(text)


@pytest.mark.parametrize(
    "table",
    [
        {"clusters": {"a": {"nodes": 4}}, "ignore": ["x"], "fail-over": 0.5, "limits": {"r": {"x": 1}}},
        {"clusters": {"a": {"nodes": 0.5}}},
        {"clusters": {"a": {"node": 1}}},
        {"clusters": {"a": 3}},
        {"ignore": "x"},
        {"ignore": [[]]},
        {"fail-on": "errors"},
        {"fail-over": True},
        {"limits": {"r": {"x": "y"}}},
        {"rules": {"r": {"severity": "off", "limits": {"a": 1}}}},
        {"rules": {"r": {"severity": "of"}}},
        {"per-file-ignores": {"*": ["a", 1]}},
        {"x": 1},
    ],
)
def test_the_check_agrees_with_the_published_schema(table: dict[str, Toml]) -> None:
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    assert next(faults(table), None) is None or not jsonschema.Draft202012Validator(schema).is_valid(table)
    assert jsonschema.Draft202012Validator(schema).is_valid(table) is not any(faults(table))


def test_the_schema_lists_the_cluster_settings_of_the_vocabulary() -> None:
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    keys = schema["properties"]["clusters"]["additionalProperties"]["properties"]
    del keys["paths"]
    assert {f"cluster.{key}" for key in keys} == {name for name in vocabulary() if name.startswith("cluster.")}
    for key, entry in keys.items():
        assert entry["description"].startswith(vocabulary()[f"cluster.{key}"].meaning)


CLUSTERS = """\
[clusters.prod]
gpu = "H100"

[clusters.dev]
gpu = "A100-40GB"
paths = ["dev/*", "scratch/*.sh"]
"""


class TestClusters:
    """Machines by the path of the file that starts a run, or by name."""

    def gpu(self, folder: Path, name: str, cluster: str = "") -> object:
        config = parse_config(CLUSTERS, "dtlint.toml", folder, cluster)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("torchrun --nproc_per_node 8 train.py\n", encoding="utf-8")
        (run,) = read_runs([folder / name], options_of(config=config)).runs
        return run.plan.value("cluster.gpu")

    def test_the_one_for_all_files(self, tmp_path: Path) -> None:
        assert self.gpu(tmp_path, "jobs/run.sh") == "H100"

    def test_the_one_whose_pattern_fits(self, tmp_path: Path) -> None:
        assert self.gpu(tmp_path, "dev/run.sh") == "A100-40GB"

    def test_the_one_that_the_user_names(self, tmp_path: Path) -> None:
        assert self.gpu(tmp_path, "dev/run.sh", "prod") == "H100"

    def test_one_that_there_is_not(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"no \[clusters.prud\] table; did you mean 'prod'\?"):
            parse_config(CLUSTERS, "dtlint.toml", tmp_path, "prud")


class TestExpectations:
    """[expect]: what every plan has to be."""

    def test_values_are_checked_like_settings(self, tmp_path: Path) -> None:
        config = read(tmp_path, '[expect]\nparallel.tensor = 8\n"batch.micro" = 2\n')
        assert {name: value.value for name, value in config.expected.items()} == {
            "parallel.tensor": 8,
            "batch.micro": 2,
        }

    def test_a_mistyped_one_has_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"dtlint.toml:2: unknown setting 'parallel.tensr'"):
            read(tmp_path, "[expect]\nparallel.tensr = 8\n")

    def test_a_plan_that_departs_is_an_error_by_default(self, tmp_path: Path) -> None:
        assert read(tmp_path, "[expect]\nparallel.tensor = 8\n").severities == {"plan-departs": "error"}

    def test_a_team_may_make_it_less(self, tmp_path: Path) -> None:
        text = '[expect]\nparallel.tensor = 8\n[rules.plan-departs]\nseverity = "warning"\n'
        assert read(tmp_path, text).severities == {"plan-departs": "warning"}

    def test_what_is_not_known_is_undecided(self, tmp_path: Path) -> None:
        config = read(tmp_path, "[expect]\nbatch.global = 64\n")
        (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 8 train.py\n", encoding="utf-8")
        report = check_set(read_runs([tmp_path / "run.sh"], options_of(config=config)), config)
        assert [entry.needs for entry in report.undecided if entry.rule == "plan-departs"] == [("batch.global",)]


class TestCardsOfSeveralSizes:
    """A job asks for `a100`, which has 40 or 80 GB: who names the card tells which."""

    def plan(self, folder: Path, job: str, config: str = "", **given: str) -> Plan:
        (folder / "run.sh").write_text(
            f"#!/bin/bash\n#SBATCH --gres=gpu:{job}:8\nsrun torchrun --nproc_per_node 8 t.py\n", encoding="utf-8"
        )
        settings = {name.replace("__", "."): by_user(value) for name, value in given.items()}
        options = options_of(settings, config=parse_config(config, "dtlint.toml", folder))
        (run,) = read_runs([folder / "run.sh"], options).runs
        return run.plan

    def test_the_card_that_the_user_names_has_one_size(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, "a100", cluster__gpu="A100-SXM-80GB")
        assert plan.number("cluster.gpu_memory_gib") == 79.3

    @pytest.mark.parametrize(
        ("cluster", "memory"), [('gpu = "A100-80GB"', 79.3), ('gpu = "A100-SXM-80GB"\ngpu_memory_gib = 78', 78)]
    )
    def test_so_has_the_one_of_the_same_family_that_the_team_has(
        self, tmp_path: Path, cluster: str, memory: float
    ) -> None:
        plan = self.plan(tmp_path, "a100", f"[clusters.prod]\n{cluster}\n")
        assert plan.number("cluster.gpu_memory_gib") == memory
        assert str(plan.value("cluster.gpu")).startswith("A100")

    @pytest.mark.parametrize(
        ("cluster", "given"),
        [("", {}), ("", {"cluster__gpu": "a100"}), ('gpu = "H100"', {}), ('gpu = "V100-SXM-32GB"', {})],
    )
    def test_a_family_and_the_card_of_another_tell_nothing(
        self, tmp_path: Path, cluster: str, given: dict[str, str]
    ) -> None:
        plan = self.plan(tmp_path, "a100", f"[clusters.prod]\n{cluster}\n" if cluster else "", **given)
        assert isinstance(plan.get("cluster.gpu_memory_gib"), Unknown)

    def test_a_card_of_one_size_is_what_the_job_asks_for(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, "h100", '[clusters.prod]\ngpu = "A100-SXM-80GB"\n')
        assert plan.value("cluster.gpu") == "H100-SXM-80GB"
