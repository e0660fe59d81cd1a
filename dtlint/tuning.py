"""What `dtlint tune` does: reads the runs, searches plans beside each, prints the best."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from dtlint.commands import read_all
from dtlint.output import write
from dtlint.plan.vocabulary import vocabulary
from dtlint.report.terminal import printable, terminal_width
from dtlint.report.waiting import CLEAR
from dtlint.request import Destination, Reading, Refusal, near
from dtlint.terms import config_of, ground_of, know_names, rules_of
from dtlint.tune import Tuned, Wishes, tune
from dtlint.value import Plain

if TYPE_CHECKING:
    from dtlint.config import Config
    from dtlint.rulebook.ready import ReadyRule
    from dtlint.rulebook.rule import Rule
    from dtlint.runs.model import Run

Pairs = Sequence[tuple["Run", Tuned]]

SECONDS_BETWEEN = 0.2
"""How often the line on standard error is written anew."""


def tune_plans(
    reading: Reading, keep: tuple[str, ...], vary: Mapping[str, tuple[Plain, ...]], destination: Destination
) -> int:
    """Print the best plans beside those that the paths hold."""
    for name in (*keep, *vary):
        _know(name)
    ground = ground_of(None, reading)
    config = config_of(reading, ground)
    rules = rules_of([*config.rule_folders, *reading.rule_folders], ground)
    know_names(config, rules)
    runs = [run for run in read_all(reading, config).runs if run.role != "other"]
    wishes, ready = Wishes(frozenset(keep), vary), _ready(rules, config)
    pairs = [(run, _tuned(run, wishes, ready)) for run in runs]
    write(_rendered(pairs, destination.format), destination.file)
    return 0


def _know(name: str) -> None:
    known = tuple(vocabulary())
    if name not in known:
        raise Refusal(f"no setting is called '{printable(name)}'{near(name, known)}")


def _ready(rules: Sequence[Rule], config: Config) -> list[ReadyRule]:
    """The rules that look at a plan as a whole: those that a search can ask of each."""
    from dtlint.rulebook.check import select
    from dtlint.rulebook.ready import ReadyRule

    return [ReadyRule(rule, config.limits) for rule in select(rules, config) if rule.scope == "plan" and not rule.each]


def _tuned(run: Run, wishes: Wishes, ready: Sequence[ReadyRule]) -> Tuned:
    from dtlint.rulebook.price import Watch

    firing = frozenset(rule.rule.name for rule in ready if rule.fires(run.plan) is not None)
    teller = _Teller()
    try:
        return tune(run.plan, wishes, Watch(ready, firing), teller.tell)
    finally:
        teller.clear()


class _Teller:
    """A line on standard error that says how far the search is; nothing where that is no terminal."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self.last = monotonic()

    def tell(self, done: int, total: int) -> None:
        """Say it, but not more often than people can read."""
        if self.shown and monotonic() - self.last > SECONDS_BETWEEN:
            self.last = monotonic()
            sys.stderr.write(f"{CLEAR}dtlint: {done:,} of {total:,} plans")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()


def _rendered(pairs: Pairs, form: str) -> str:
    if form == "json":
        from dtlint.report.tune_json import tuned_json

        return tuned_json(pairs)
    if form == "html":
        from dtlint.report.tune_html import tuned_html

        return tuned_html(pairs)
    from dtlint.report.tune import tuned_text

    return tuned_text(pairs, terminal_width())
