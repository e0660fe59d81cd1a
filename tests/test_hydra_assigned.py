"""Keys that a program assigns to the config that hydra hands it are not known, be they written or overridden."""

from __future__ import annotations

from typing import Any

import pytest

from dtlint.frameworks.hydra.assigned import assigned_in
from dtlint.runs import Options, read_runs
from dtlint.value import Unknown

HEAD = 'import hydra\n\n@hydra.main(config_path="conf", config_name="gpt")\ndef main(cfg):\n'
CONFIG = """\
trainer: {devices: 8, num_nodes: 1}
model:
  micro_batch_size: 16
  global_batch_size: 16
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: null
"""


def keys(body: str) -> list[str]:
    return [each.key for each in assigned_in(HEAD + "".join(f"    {line}\n" for line in body.split("\n")))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("cfg.model.global_batch_size = cfg.trainer.devices * 16", ["model.global_batch_size"]),
        ('cfg["model"]["seed"] = 1', ["model.seed"]),
        ('cfg.model["seed"] += 1', ["model.seed"]),
        ("model = cfg.model\nmodel.seed = 1", ["model.seed"]),
        ("with open_dict(cfg):\n    cfg.model.seed = 1", ["model.seed"]),
        ("if cfg.wide:\n    cfg.model.seed = 1\nelse:\n    cfg.model.bias = 2", ["model.seed", "model.bias"]),
        ('OmegaConf.update(cfg, "model.seed", 1)', ["model.seed"]),
        ('OmegaConf.update(cfg.model, "seed", 1)', ["model.seed"]),
        ("seed = cfg.model.seed\nseed = 1", []),
        ("other.model.seed = 1", []),
        ("cfg = OmegaConf.merge(base, cfg)\nprint(cfg.model.seed)", []),
    ],
)
def test_keys_that_are_assigned(body: str, expected: list[str]) -> None:
    assert keys(body) == expected


def test_a_function_of_the_file_that_is_given_a_section() -> None:
    helper = "def widen(model, by):\n    model.seed = by\n\n"
    assert [each.key for each in assigned_in(helper + HEAD + "    widen(cfg.model, by=2)\n")] == ["model.seed"]


def test_functions_that_call_each_other_end() -> None:
    many = "".join(
        f"def f{i}(c):\n" + "".join(f"    f{j}(c)\n" for j in range(30)) + f"    c.k{i} = 1\n" for i in range(30)
    )
    assert len(assigned_in(many + HEAD + "    f0(cfg)\n")) == 30


def test_an_expression_without_end_is_left_alone() -> None:
    assert assigned_in(HEAD + "    cfg" + ".a" * 5000 + " = 1\n") == ()


def test_a_function_that_hydra_does_not_call() -> None:
    assert assigned_in("def main(cfg):\n    cfg.model.seed = 1\n") == ()


@pytest.mark.parametrize("text", ["def main(", "", "@hydra.main()\ndef main():\n    pass\n"])
def test_no_program(text: str) -> None:
    assert assigned_in(text) == ()


def batch_and_stages(tree: Any, body: str, launched: bool) -> tuple[object, object]:
    files = {
        "conf/gpt.yaml": CONFIG,
        "train.py": HEAD + f"    {body}\n",
        "run.sh": "python train.py model.global_batch_size=32\n",
    }
    folder = tree(files)
    (run,) = read_runs([folder / ("run.sh" if launched else "conf/gpt.yaml")], Options()).runs
    found = (run.plan.setting(name) for name in ("batch.global", "parallel.pipeline"))
    total, stages = (each.reason if isinstance(each, Unknown) else each and each.value for each in found)
    return total, stages


@pytest.mark.parametrize("launched", [True, False])
@pytest.mark.parametrize(
    ("body", "total", "stages"),
    [
        ("pass", None, None),
        ("cfg.model.global_batch_size = 8 * 16", "train.py:5 sets model.global_batch_size anew", None),
        ("cfg.model.global_batch_size = cfg.model.global_batch_size or 64", None, None),
        ("cfg.model.seed = 1", None, None),
        ("cfg.model = load(cfg.path, cfg.model)", None, None),
        ("cfg.model.pipeline_model_parallel_size = 2", None, "train.py:5 sets model.pipeline_model_parallel_size anew"),
        (
            "cfg.model.pipeline_model_parallel_size = cfg.model.pipeline_model_parallel_size or 2",
            None,
            "train.py:5 sets model.pipeline_model_parallel_size anew",
        ),
    ],
)
def test_the_plan(tree: Any, launched: bool, body: str, total: str | None, stages: str | None) -> None:
    written = 32 if launched else 16
    assert batch_and_stages(tree, body, launched) == (total or written, stages)


def test_a_key_that_is_filled_in_where_it_is_empty(tree: Any) -> None:
    body = "if cfg.model.global_batch_size is None:\n        cfg.model.global_batch_size = 64"
    assert batch_and_stages(tree, body, launched=False)[0] == 16


def test_programs_outside_the_root_are_not_looked_at(tmp_path: Any) -> None:
    root = tmp_path / "root"
    (root / "conf").mkdir(parents=True)
    (root / ".git").mkdir()
    (tmp_path / "other").mkdir()
    (root / "conf/gpt.yaml").write_text(CONFIG)
    (root / "linked").symlink_to(tmp_path / "other")
    outside = HEAD.replace('"conf"', '"../conf"') + "    cfg.model.global_batch_size = 8\n"
    for place in (tmp_path / "train.py", tmp_path / "other/train.py"):
        place.write_text(outside)
    (run,) = read_runs([root / "conf/gpt.yaml"], Options()).runs
    assert run.plan.value("batch.global") == 16
