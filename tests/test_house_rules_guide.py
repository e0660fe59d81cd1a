"""The worked example of docs/house-rules.md: its rules hold, its files are those that the guide shows, its output is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dtlint.api import check_set, options_of
from dtlint.config_file import read_config
from dtlint.report.text import report_concise
from dtlint.rulebook.examples import run_examples
from dtlint.rulebook.house import house_rules
from dtlint.runs import read_runs

DOCS = Path(__file__).parent.parent / "docs"
GUIDE = (DOCS / "house-rules.md").read_text(encoding="utf-8")
EXAMPLE = DOCS / "house-rules"
BLOCKS = re.findall(r"(?s)```(\w+)\n(.*?)```", GUIDE)


def test_the_rules_of_the_guide_are_borne_out_by_their_examples() -> None:
    rules = house_rules(EXAMPLE / "our-rules")
    assert [rule.name for rule in rules] == ["four-gpus-a-node", "no-offload"]
    assert run_examples(rules) == []


@pytest.mark.parametrize("file", ["dtlint.toml", "our-rules/no-offload.yaml", "our-rules/four-gpus-a-node.yaml"])
def test_the_guide_shows_its_files_as_they_are(file: str) -> None:
    assert (file.rsplit(".", 1)[-1], (EXAMPLE / file).read_text(encoding="utf-8")) in BLOCKS


def test_the_guide_shows_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    monkeypatch.chdir(EXAMPLE)
    config = read_config(Path("dtlint.toml").resolve(), "dtlint.toml")
    rules = [rule for folder in config.rule_folders for rule in house_rules(folder)]
    report = check_set(read_runs([Path()], options_of(config=config)), config, rules)
    assert ("text", click.unstyle(report_concise(report))) in BLOCKS
