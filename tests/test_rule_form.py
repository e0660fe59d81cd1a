"""The form of a shipped rule: what it says of itself, and in which texts its examples make the mistake."""

from __future__ import annotations

import re

import pytest
from rule_examples import examples

from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Example, Rule

each_rule = pytest.mark.parametrize("rule", built_in(), ids=lambda rule: rule.name)

FAMILIES = {0: "input", 1: "topology", 2: "memory", 3: "pipeline", 4: "communication", 5: "checkpointing", 6: "batch",
            7: "gradients", 8: "launch", 9: "scaling"}  # fmt: skip

SHELL_ALONE = {
    "overlap-flag-dependency": "the flags are Megatron's own",
    "stage-split-mismatch": "the flags are Megatron's own",
    "refused-combination": "the flags are Megatron's own",
    "batch-rampup-ignored": "the flags are Megatron's own",
    "tp-comm-overlap-off": "NeMo's switch is read, and no small example of it exceeds the limit",
}
"""Rules about one front end's arguments, whose mistake no other text can make."""


@each_rule
def test_a_rule_says_what_why_when_not_and_from_where(rule: Rule) -> None:
    missing = [name for name in ("summary", "say", "why", "fine_when", "sources", "cures") if not getattr(rule, name)]
    assert missing == []
    assert not rule.summary.endswith(".")
    assert len(rule.summary) <= 100


@each_rule
def test_a_rule_stands_in_the_folder_of_its_number(rule: Rule) -> None:
    assert rule.family == FAMILIES[int(rule.id[2:]) // 100]


@each_rule
def test_a_rule_has_two_bad_and_two_good_examples(rule: Rule) -> None:
    assert min(len(examples(rule, "bad")), len(examples(rule, "good"))) >= 2


@each_rule
def test_a_rule_for_several_frameworks_shows_its_mistake_in_the_texts_of_more_than_one(rule: Rule) -> None:
    frameworks = set(re.findall(r'"([\w-]+)"', " ".join(re.findall(r"framework in \[([^]]*)\]", rule.applies))))
    texts = {text for _, example in examples(rule, "bad") for text in written_in(example)}
    if len(frameworks) > 1 and rule.name not in SHELL_ALONE:
        assert len(texts) > 1


def written_in(example: Example) -> set[str]:
    """What kinds of text an example is made of, Megatron's arguments apart from other commands."""
    kinds = {name.rsplit(".", 1)[-1] for name in example.files}
    megatron = any("pretrain_gpt" in text for text in example.files.values())
    return {"megatron" if kind == "sh" and megatron else kind for kind in kinds} | set(
        map(str, example.set.get("framework", "").split())
    )  # type: ignore[union-attr]
