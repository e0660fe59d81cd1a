"""Every example of the shipped rules, read once, and checked once with all rules."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dtlint.config import Config
from dtlint.config_file import read_config
from dtlint.plan.vocabulary import fit, term
from dtlint.rulebook.check import Report, check
from dtlint.rulebook.load import built_in
from dtlint.rulebook.rule import Example, Rule
from dtlint.runs import Options, read_runs
from dtlint.runs.model import RunSet
from dtlint.value import given

FOLDERS = TemporaryDirectory(prefix="dtlint-examples-")
"""Where the examples lie; it goes with the process."""

RULES = {rule.name: rule for rule in built_in()}


class Read(NamedTuple):
    """An example in a folder of its own, with the config that stands there."""

    folder: Path
    runs: RunSet
    config: Config


def examples(rule: Rule, kind: str) -> list[tuple[int, Example]]:
    """The bad or the good examples of a rule, by their number from 1."""
    return [(number, each) for number, each in enumerate(rule.examples, 1) if each.kind == kind]


def read(folder: Path, example: Example) -> Read:
    """The runs of an example whose files lie in a folder."""
    file = folder / "dtlint.toml"
    config = read_config(file, file.name) if file.is_file() else Config()
    stated = {name: given(fit(term(name), value)) for name, value in example.set.items()}
    return Read(folder, read_runs([folder], Options(stated, expected=config.expected)), config)


@cache
def reading(name: str, number: int) -> Read:
    """An example of a rule, by the rule's name and the example's number from 1."""
    example = RULES[name].examples[number - 1]
    folder = Path(FOLDERS.name).resolve() / f"{name}-{number}"
    folder.mkdir()
    for path, text in example.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return read(folder, example)


@cache
def report(name: str, number: int) -> Report:
    """What all rules say of an example."""
    found = reading(name, number)
    return check(found.runs, built_in(), found.config)
