"""What `dtlint diff` does: reads both sides, compares them, prints what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dtlint.output import write
from dtlint.record import NamedTuple
from dtlint.report.terminal import printable, terminal_width
from dtlint.request import Destination, Reading, Refusal
from dtlint.terms import config_of, ground_of, know_names, rules_of

if TYPE_CHECKING:
    from dtlint.config import Config
    from dtlint.difference import Difference
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.rule import Rule


Folder = AbstractContextManager[Path]


class Comparison(NamedTuple):
    """Two revisions or two folders; without `head` the files as they are. `fail_over` is a share of a token's time."""

    base: str
    head: str | None
    fail_over: float | None = None
    terms_from: str | None = None


def compare(comparison: Comparison, reading: Reading, destinations: Sequence[Destination]) -> int:
    """Print what changed; 1 if a token surely takes longer by more than the limit."""
    from dtlint.difference import difference
    from dtlint.revisions import GitError

    ground = ground_of(comparison.terms_from, reading)
    config = config_of(reading, ground)
    rules = rules_of([*config.rule_folders, *reading.rule_folders], ground)
    know_names(config, rules)
    with ExitStack() as stack:
        try:
            folders = [stack.enter_context(side) for side in _sides(comparison)]
        except GitError as error:
            raise Refusal(printable(str(error))) from None
        before, after = (_report(folder, reading, config, rules) for folder in folders)
        found = difference(before, after)
        for destination in destinations:
            write(_rendered(found, destination.format), destination.file)
    return int(comparison.fail_over is not None and _is_slower(found, comparison.fail_over))


def _sides(comparison: Comparison) -> list[Folder]:
    """Both sides as folders: two that are given, or what git has of them."""
    base, head = Path(comparison.base), Path(comparison.head or ".")
    if base.is_dir() and comparison.head is not None and head.is_dir():
        return [nullcontext(base.resolve()), nullcontext(head.resolve())]
    from dtlint.revisions import commit_of

    top = _top(comparison)
    sides = [_unpacked(top, commit_of(top, comparison.base))]
    if comparison.head is None:
        return [*sides, nullcontext(top)]
    return [*sides, _unpacked(top, commit_of(top, comparison.head))]


def _top(comparison: Comparison) -> Path:
    from dtlint.revisions import GitError, top_of

    try:
        return top_of(Path.cwd())
    except GitError as error:
        raise Refusal(f"{printable(str(error))}: give two folders, or call dtlint diff inside a repository") from None


@contextmanager
def _unpacked(top: Path, commit: str) -> Iterator[Path]:
    from dtlint.revisions import unpack

    with TemporaryDirectory(prefix="dtlint-") as name:
        folder = Path(name).resolve()
        unpack(top, commit, folder)
        yield folder


def _report(folder: Path, reading: Reading, config: Config, rules: Sequence[Rule]) -> Report:
    """What is told of one side. Who compares asks about every file, for only what differs is shown."""
    from dtlint.api import check_set, options_of
    from dtlint.runs import read_runs

    options = options_of(reading.settings, reading.arguments, reading.environment, config)
    runs = read_runs([folder], options._replace(current=folder, folder=folder))
    return check_set(runs._replace(asked=frozenset(source.path for source in runs.sources)), config, rules)


def _rendered(found: Difference, form: str) -> str:
    from dtlint.report.difference import difference_json, difference_markdown, difference_text

    if form == "json":
        return difference_json(found)
    return difference_markdown(found) if form == "markdown" else difference_text(found, terminal_width())


def _is_slower(found: Difference, limit: float) -> bool:
    return any(change.slower is not None and change.slower.low > limit for change in found.runs)
