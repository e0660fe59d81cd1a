"""Every rule about gradients in code rests on facts that were run, or says what was read instead: docs/semantics.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Rule

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
TABLE = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = TABLE[1:]
RUN = {rule for row in ROWS for rule in row[-1].split(", ")}
READ = {line[2:].partition(":")[0] for line in PAGE.splitlines() if line.startswith("- ")}
RULES = {rule.name: rule for rule in built_in()}


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.family == "gradients"], ids=lambda r: r.name)
def test_a_rule_about_gradients_has_a_fact(rule: Rule) -> None:
    assert (rule.name in RUN) is not (rule.name in READ)


def test_every_rule_that_is_named_exists() -> None:
    assert set(RULES) >= RUN | READ


def test_every_row_is_whole_and_borne_out() -> None:
    assert len(ROWS) > 60
    assert all(len(row) == 5 and all(row) for row in ROWS)
    assert "NOT BORNE OUT" not in PAGE


def test_the_page_says_which_release_was_run() -> None:
    assert "torch 2." in PAGE
    assert "deepspeed 0." in PAGE
