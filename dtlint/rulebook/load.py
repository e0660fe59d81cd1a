"""Loads the rules that dtlint ships, from a compiled form where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.rulebook.rule import Rule, rule_of


def rules_folder() -> Path:
    """Where the rules that dtlint ships lie: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


def rule_files(folder: Path) -> list[Path]:
    """The rule files below a folder, in order of their names: `<family>/<name>.yaml`."""
    return sorted(file for file in folder.glob("*/*.yaml") if file.is_file())


@lru_cache(maxsize=1)
def built_in() -> tuple[Rule, ...]:
    """The rules that dtlint ships, by id."""
    data = cast("Mapping[str, Mapping[str, object]]", load("rules", rule_files(rules_folder()), build))
    rules = (rule_of(entry, path.split("/", 1)[0], path) for path, entry in data.items())
    return tuple(sorted(rules, key=lambda rule: rule.id))


def build() -> object:
    """The shipped rule files as YAML reads them, by path below the folder."""
    import yaml

    folder = rules_folder()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        file.relative_to(folder).as_posix(): yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
        for file in rule_files(folder)
    }
