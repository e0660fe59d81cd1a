"""The rules that dtlint ships: whole, borne out by their own examples, resting on sources that are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.rulebook.examples import run_example
from dtlint.rulebook.house import check_rule
from dtlint.rulebook.load import built_in, rules_folder
from dtlint.rulebook.mistakes import mistakes
from dtlint.rulebook.rule import Rule
from dtlint.source import Source


@pytest.mark.parametrize("rule", built_in(), ids=lambda rule: rule.name)
def test_a_shipped_rule_has_no_mistake(rule: Rule) -> None:
    assert [mistake.message for mistake in mistakes(rule)] == []
    text = (rules_folder() / rule.path).read_text(encoding="utf-8")
    read = check_rule(Source(rule.path, text), rule.family)
    assert (read._replace(page=rule.page), read.page()) == (rule, rule.page())


@pytest.mark.parametrize("rule", built_in(), ids=lambda rule: rule.name)
def test_the_examples_of_a_shipped_rule_are_borne_out(rule: Rule) -> None:
    assert [
        f"{number}: {message}"
        for number, example in enumerate(rule.examples, 1)
        for message in run_example(rule, example)
    ] == []
    assert {example.kind for example in rule.examples} == {"bad", "good"}


def test_shipped_rules_have_names_and_ids_of_their_own_and_known_sources() -> None:
    import yaml

    words = [word for rule in built_in() for word in (rule.id, rule.name)]
    assert len(set(words)) == len(words)
    known = yaml.safe_load((rules_folder() / "sources.yaml").read_text(encoding="utf-8"))
    assert {source for rule in built_in() for source in rule.sources} - known.keys() == set()
    assert all(Path(rule.path).stem == rule.name for rule in built_in())


def test_the_schema_is_one() -> None:
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(json.loads((rules_folder() / "rule.schema.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("sequence", "severity"), [(1024, "note"), (65536, "warning")])
def test_sequence_parallelism_that_would_save_little_is_advice(tmp_path: Path, sequence: int, severity: str) -> None:
    (tmp_path / "run.sh").write_text(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 1 "
        "--num-layers 12 --hidden-size 768 --num-attention-heads 16 --vocab-size 50304 --use-flash-attn "
        f"--seq-length {sequence} --max-position-embeddings {sequence} --micro-batch-size 1 --global-batch-size 8 --bf16\n"
    )
    found = {finding.rule: finding.severity for finding in check([tmp_path / "run.sh"]).findings}
    assert found["sequence-parallel-off"] == severity


def test_a_setting_without_effect_counts_itself(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        '{"train_micro_batch_size_per_gpu": 1,\n "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n'
    )
    (found,) = [each for each in check([tmp_path / "ds.json"]).findings if each.rule == "inert-setting"]
    assert found.cost.amount is not None
    assert (found.cost.amount.size.low, found.cost.amount.unit) == (1, "setting without effect")
