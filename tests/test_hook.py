"""The pre-commit hook: which files it is given, and that dtlint knows each of their kinds."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dtlint.runs.tree import SHELL_SUFFIXES

ROOT = Path(__file__).parents[1]


def hook() -> dict[str, object]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_hook_runs_the_entry_point() -> None:
    assert (hook()["id"], hook()["entry"], hook()["language"]) == ("dtlint", "dtlint check", "python")


def test_the_hook_is_given_every_kind_of_script() -> None:
    pattern = str(hook()["files"])
    names = [f"train{suffix}" for suffix in (*SHELL_SUFFIXES, ".json", ".hjson", ".yaml", ".yml", ".toml", ".py")]
    assert [name for name in names if not re.search(pattern, name)] == []
    assert not re.search(pattern, "README.md")
