"""A team's own rules: read from YAML, every mistake named at its place; examples that are tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.rulebook.examples import run_example
from dtlint.rulebook.house import check_rule, house_rules
from dtlint.rulebook.rule import Rule, RuleError
from dtlint.source import Source

GOOD = """\
id: ACME001
name: too-wide-for-us
summary: TP wider than our nodes
applies: parallel.tensor > 1
when: parallel.tensor > limits.widest
limits: {widest: 4}
outcome: slower
at: [parallel.tensor, cluster.gpus_per_node]
say: "TP {parallel.tensor} is wider than {limits.widest}"
remedies:
  - set: {parallel.tensor: "min(parallel.tensor, limits.widest)"}
    say: "one node"
why: Nodes of ours have four GPUs.
examples:
  - bad: |
      torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8
    finds: [{line: 1}]
  - good: |
      torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4
"""


def refusal(text: str) -> str:
    with pytest.raises(RuleError) as caught:
        check_rule(Source("rule.yaml", text), "house")
    return str(caught.value)


def test_a_rule_file_says_what_it_means() -> None:
    rule = check_rule(Source("rule.yaml", GOOD), "house")
    assert (rule.id, rule.name, rule.family) == ("ACME001", "too-wide-for-us", "house")
    assert [(verdict.when, verdict.outcome) for verdict in rule.verdicts] == [
        ("parallel.tensor > limits.widest", "slower")
    ]
    assert rule.at == ("parallel.tensor", "cluster.gpus_per_node")
    assert [example.kind for example in rule.examples] == ["bad", "good"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "tensor > limits.widest",
            "tensor > limits.widst",
            "rule.yaml:5:25: unknown name 'limits.widst'; did you mean 'limits.widest'?",
        ),
        (
            '"min(parallel.tensor, limits.widest)"',
            "min(parallel.tensor, limits.widest)",
            "rule.yaml:11:49: an expression with a comma in it stands in quotes inside { }",
        ),
        ("applies:", "aplies:", "rule.yaml:4:1: unknown field 'aplies'; did you mean 'applies'?"),
        ("    say: one", "    saay: one", "rule.yaml:12:5: unknown field 'saay'; did you mean 'say'?"),
        ("outcome: slower", "outcome: slow", "rule.yaml:7:10: 'slow' is none of launch-fails,"),
        ("why: Nodes of ours have four GPUs.\n", "", "rule.yaml:1:1: the field 'why' is missing"),
        ("{widest: 4}", "{widest: four}", "rule.yaml:6:18: a number is needed here"),
        ("name: too-wide", "name: Too_wide", "rule.yaml:2:7: 'Too_wide-for-us' does not have the form"),
        ("at: [parallel.tensor", "at: [parallel.tenso", "rule.yaml:8:6: unknown setting 'parallel.tenso'"),
        ("{limits.widest}", "{limits.wide}", "rule.yaml:9:43: unknown name 'limits.wide'"),
        (
            "when: parallel.tensor > limits.widest",
            "when: [{when: parallel.tensor > limits.widest, at: parallel.tenso}]",
            "rule.yaml:5:52: unknown setting 'parallel.tenso'",
        ),
        ("{parallel.tensor: ", "{parallel.tenso: ", "rule.yaml:11:11: unknown setting 'parallel.tenso'"),
        ("summary: TP", "summary: [TP", "rule.yaml:4:8: not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_at_its_place(old: str, new: str, message: str) -> None:
    text = GOOD.replace('"one node"', "one node")
    assert old in text
    assert refusal(text.replace(old, new, 1)).startswith(message)


def test_a_wrong_expression_is_shown_with_a_mark_under_it() -> None:
    with pytest.raises(RuleError) as caught:
        check_rule(Source("rule.yaml", GOOD.replace("tensor > limits.widest", "tensor >> 1")), "house")
    assert caught.value.excerpt == "parallel.tensor >> 1\n                 ^"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "- a",
        "[" * 5000,
        "{a: " * 5000,
        "a: &a [*a, *a]",
        "a: 'b",
        "\x01",
        "a: !!python/object:os.system x",
        "? [a]\n: b",
    ],
)
def test_what_is_no_rule_file_is_refused_with_a_place(text: str) -> None:
    assert refusal(text).startswith("rule.yaml:")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=":-[]{}'\"\n abc&*!|>", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        check_rule(Source("rule.yaml", text), "house")
    except RuleError as error:
        assert error.line >= 1


def test_a_folder_gives_its_rules_and_those_of_its_folders(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "b.yaml").write_text(GOOD.replace("ACME001", "ACME002").replace("too-wide-for-us", "other"))
    assert [(rule.id, rule.family) for rule in house_rules(tmp_path)] == [
        ("ACME001", tmp_path.name),
        ("ACME002", "team"),
    ]


def test_a_name_stands_for_one_rule(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("ACME001", "ACME002"))
    with pytest.raises(RuleError, match=r"b.yaml:2:7: name 'too-wide-for-us' is taken by .*a.yaml"):
        house_rules(tmp_path)


def test_a_folder_without_rules_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no rule files"):
        house_rules(tmp_path)


def example_of(text: str) -> Rule:
    head = dedent("""
        id: ACME001
        name: two-ranks
        summary: s
        when: sharding.stage == 3
        outcome: slower
        at: sharding.stage
        say: stage 3
        why: w
        examples:
    """)
    return check_rule(Source("rule.yaml", head + text), "house")


STAGE_3 = """{"train_micro_batch_size_per_gpu": 1,
         "zero_optimization": {"stage": 3}}"""


@pytest.mark.parametrize(
    ("example", "complaints"),
    [
        (f"  - bad: |\n      {STAGE_3}\n    finds: [{{line: 2}}]", []),
        (f"  - bad: |\n      {STAGE_3}", []),
        (f"  - bad:\n    files: {{ds.json: '{STAGE_3}'}}\n    finds: [{{file: ds.json, line: 1}}]", []),
        (
            f"  - bad: |\n      {STAGE_3}\n    finds: [{{line: 1}}]",
            ["this bad example is to be found at line 1; it is found at ds_config.json:2"],
        ),
        (f"  - good: |\n      {STAGE_3}", ["this good example is found at ds_config.json:2"]),
        (
            f"  - bad: |\n      {STAGE_3.replace('3', '2')}",
            ["this bad example is to be found at any line; nothing is found"],
        ),
        (
            f"  - bad:\n    files: {{../ds.json: '{STAGE_3}'}}",
            ["this bad example cannot be set up: the file '../ds.json' lies outside the example"],
        ),
    ],
)
def test_an_example_is_borne_out_or_says_why_not(example: str, complaints: list[str]) -> None:
    rule = example_of(example)
    assert run_example(rule, rule.examples[0]) == complaints


def test_the_headline_of_an_example_has_all_its_numbers() -> None:
    rule = example_of(f"  - bad: |\n      {STAGE_3}")._replace(say="stage {sharding.stage} of {model.layers} layers")
    assert run_example(rule, rule.examples[0]) == [
        "the headline lacks a number: stage 3 of (not told: --set model.layers=...) layers"
    ]
