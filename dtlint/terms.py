"""The terms of a check as a command names them: dtlint.toml, house rules, baseline; one sentence for each mistake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.account import is_folder
from dtlint.report.terminal import printable
from dtlint.request import STANDARD_INPUT, Reading, Refusal, near, shown_path

if TYPE_CHECKING:
    from dtlint.config import Config
    from dtlint.ground import Ground
    from dtlint.rulebook.rule import Rule


def ground_of(revision: str | None, reading: Reading) -> Ground:
    """Where the terms come from: the files as they are, or a revision."""
    from dtlint.ground import at_revision, work_tree

    if revision is None:
        return work_tree()
    from dtlint.revisions import GitError

    try:
        return at_revision(revision, first_folder(reading.paths))
    except GitError as error:
        raise Refusal(printable(str(error))) from None


def config_of(reading: Reading, ground: Ground) -> Config:
    """The config that the user names, else the nearest one above the first path."""
    from dtlint.config import Config, ConfigError
    from dtlint.source import Unreadable

    try:
        found = _config_text(reading, ground)
        if found is None:
            return Config(text_before=ground.text_before)
        from dtlint.config_file import parse_config

        file, text = found
        config = parse_config(text, shown_path(file), file.resolve().parent, reading.cluster)
    except (ConfigError, Unreadable) as error:
        raise Refusal(printable(str(error))) from None
    return config._replace(text_before=ground.text_before)


def with_baseline(config: Config, file: Path | None, ground: Ground) -> Config:
    """The config with the baseline in a file."""
    if file is None:
        return config
    from dtlint.rulebook.baseline import BaselineError, parse_baseline
    from dtlint.source import Unreadable

    try:
        text = ground.text(file)
        if text is None:
            raise Refusal(f"no such baseline: {printable(str(file))}")
        return config._replace(baseline=parse_baseline(text, shown_path(file), file.resolve().parent))
    except (Unreadable, BaselineError) as error:
        raise Refusal(printable(str(error))) from None


def rules_of(folders: Sequence[Path], ground: Ground) -> tuple[Rule, ...]:
    """The rules that dtlint ships and those of `folders`."""
    from dtlint.rulebook.load import built_in

    rules = built_in()
    for folder in folders:
        rules = (*rules, *_grounded(folder, rules, ground))
    return rules


def house_rules_of(folder: Path, known: Sequence[Rule] | None = None) -> tuple[Rule, ...]:
    """The rules of a folder on disk; `known` are those whose names are taken."""
    from dtlint.rulebook.house import house_rules
    from dtlint.rulebook.rule import RuleError

    if not is_folder(folder):
        raise Refusal(f"no such folder of rules: {printable(str(folder))}")
    try:
        return house_rules(folder, known)
    except RuleError as error:
        raise Refusal(printable(str(error))) from None


def rule_named(name: str, rules: Iterable[Rule]) -> Rule:
    """The rule of that name or id."""
    known = {word: rule for rule in rules for word in (rule.id, rule.name)}
    found = known.get(name) or known.get(name.upper())
    if found is None:
        raise Refusal(f"no rule '{printable(name)}'{near(name, tuple(known))}")
    return found


def know_names(config: Config, rules: Sequence[Rule]) -> None:
    """Refuse names of rules that mean none, and limits that no rule has."""
    from dtlint.rulebook.check import names_rule

    per_file = [name for _, names in config.file_ignores for name in names]
    for name in (*config.select, *config.ignore, *config.severities, *per_file):
        if not any(names_rule((name,), rule) for rule in rules):
            known = tuple(rule.name for rule in rules)
            raise Refusal(f"no rule '{printable(name)}'{near(name, known)}; dtlint rules lists them")
    limits = tuple(f"{rule.name}.{limit}" for rule in rules for limit in rule.limits)
    for name in config.limits:
        if name not in limits:
            raise Refusal(f"no limit '{printable(name)}'{near(name, limits)}; dtlint explain shows a rule's limits")


def first_folder(paths: Sequence[str]) -> Path:
    """The folder of the first path, which the config and the repository are looked for around."""
    first = Path(next((path for path in paths if path != STANDARD_INPUT), "."))
    return first if is_folder(first) else first.parent


def _config_text(reading: Reading, ground: Ground) -> tuple[Path, str] | None:
    """The config file and what it holds, None where there is none."""
    from dtlint.config import find_config

    file = reading.config_file or find_config(first_folder(reading.paths), ground.text)
    if file is None:
        if reading.cluster:
            raise Refusal(f"--cluster {printable(reading.cluster)}: there is no dtlint.toml that describes it")
        return None
    text = ground.text(file)
    if text is None:
        raise Refusal(f"no such config file: {printable(str(file))}")
    return file, text


def _grounded(folder: Path, known: Sequence[Rule], ground: Ground) -> tuple[Rule, ...]:
    from dtlint.revisions import GitError

    try:
        with ground.folder(folder) as there:
            return house_rules_of(there, known)
    except (GitError, ValueError):
        raise Refusal(f"no such folder of rules in that revision: {printable(str(folder))}") from None
