"""Loads the rules that dtlint ships, from a compiled form where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.rulebook.rule import PAGE, Data, Page, Rule, page_of, rule_of


def rules_folder() -> Path:
    """Where the rules that dtlint ships lie: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"


def rule_files(folder: Path) -> list[Path]:
    """The rule files below a folder, in order of their names: `<family>/<name>.yaml`."""
    families = (entry.path for entry in os.scandir(folder) if entry.is_dir())
    files = (entry for family in families for entry in os.scandir(family) if entry.name.endswith(".yaml"))
    return [Path(path) for path in sorted(entry.path for entry in files if entry.is_file())]


@lru_cache(maxsize=1)
def built_in() -> tuple[Rule, ...]:
    """The rules that dtlint ships, by id."""
    return tuple(sorted(_rules(_shipped()["rules"]), key=lambda rule: rule.id))


def shipped_trees() -> Mapping[str, object]:
    """The expressions of the shipped rules by their text, each with its packed tree."""
    return _shipped()["trees"]


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, Mapping[str, object]]:
    sources = [*rule_files(rules_folder()), Path(__file__).with_name("grammar.py")]
    return cast("Mapping[str, Mapping[str, object]]", load("rules", sources))


def build() -> object:
    """What a check needs of the shipped rule files, as YAML reads them, by path below the folder, and the trees of
    their expressions."""
    from dtlint.rulebook.trees import packed_trees

    files = _files()
    needed = {path: {part: data[part] for part in data if part not in PAGE} for path, data in files.items()}
    return {"rules": needed, "trees": packed_trees(_rules(files))}


def build_pages() -> object:
    """What the shipped rule files have for people to read, as YAML reads it."""
    return {path: {part: data[part] for part in data if part in PAGE} for path, data in _files().items()}


def _rules(files: Mapping[str, object]) -> Iterator[Rule]:
    for path, data in files.items():
        yield rule_of(cast("Data", data), path.split("/", 1)[0], path, partial(_page, path))


def _page(path: str) -> Page:
    return page_of(_pages()[path])


@lru_cache(maxsize=1)
def _pages() -> Mapping[str, Data]:
    return cast("Mapping[str, Data]", load("rule-pages", rule_files(rules_folder())))


def _files() -> Mapping[str, Data]:
    import yaml

    folder = rules_folder()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        file.relative_to(folder).as_posix(): yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
        for file in rule_files(folder)
    }
