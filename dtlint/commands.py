"""What each command does, between its options and its exit status."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dtlint.account import is_there, spoil, vouch
from dtlint.output import write, write_report
from dtlint.record import NamedTuple
from dtlint.report.terminal import printable, terminal_width
from dtlint.report.waiting import waiting
from dtlint.request import STANDARD_INPUT, Destination, Reading, Refusal, say, shown_path
from dtlint.terms import config_of, ground_of, house_rules_of, know_names, rule_named, rules_of, with_baseline

if TYPE_CHECKING:
    from dtlint.config import Config
    from dtlint.fix import Fixed
    from dtlint.ground import Ground
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding
    from dtlint.rulebook.rule import Rule
    from dtlint.runs.model import RunSet

Mend = Literal["no", "write", "show"]


class Choice(NamedTuple):
    """Which rules a check looks at, and what makes it fail; () and None leave it to the config.

    `mend`: whether remedies are written into the files or shown as a patch, `unsafe` ones too. `terms_from` is the
    revision that config, ignores, house rules and `baseline` are taken from, None for the files as they are.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    fail_over: float | None = None
    show_undecided: bool = False
    mend: Mend = "no"
    unsafe: bool = False
    baseline: Path | None = None
    terms_from: str | None = None


class _Terms(NamedTuple):
    """The config with the user's choice in it, and the rules."""

    config: Config
    rules: tuple[Rule, ...]


def mending(fix: bool, diff: bool, unsafe: bool) -> Mend:
    """What the user's flags ask for."""
    if fix and diff:
        raise Refusal("--fix writes and --diff only shows: give one of them")
    if unsafe and not (fix or diff):
        raise Refusal("--unsafe-fixes says which remedies to write: give --fix or --diff with it")
    return "write" if fix else "show" if diff else "no"


def check_files(reading: Reading, choice: Choice, destinations: Sequence[Destination]) -> int:
    """`dtlint check`: report, and tell by the exit status whether anything reaches the fail level."""
    terms = _terms(reading, choice)
    if choice.mend == "show":
        return _show_patch(_fixed(reading, terms, choice.unsafe))
    with waiting(f"dtlint: reading {printable(' '.join(reading.paths) or 'this folder')}"):
        fixed = _fixed(reading, terms, choice.unsafe) if choice.mend == "write" else None
        report = _checked(reading, terms) if fixed is None else fixed.report
    if fixed is not None:
        _write_fixes(fixed)
    _say_remarks(report)
    for destination in destinations:
        write_report(report, destination, choice.show_undecided)
    vouch()
    return exit_status(report.findings, terms.config.fail_on, terms.config.fail_over)


def keep_baseline(reading: Reading, choice: Choice, file: Path) -> int:
    """`dtlint check --write-baseline`: keep today's findings as known ones."""
    from dtlint.report.words import counted
    from dtlint.rulebook.baseline import baseline_text

    terms = _terms(reading, choice._replace(baseline=None))
    ignorable = {rule.name for rule in terms.rules if rule.ignorable}
    known = [finding for finding in _checked(reading, terms).findings if finding.rule in ignorable]
    write(baseline_text(known, file.resolve().parent), file)
    say(f"{counted(len(known), 'finding')} in {printable(shown_path(file))}")
    return 0


def list_kinds(reading: Reading) -> int:
    """`dtlint check --list-files`: what the paths hold, without judging it."""
    from dtlint.report.files import files_text

    write(files_text(read_all(reading, config_of(reading, _here(reading)))), None)
    return 0


def show_plan(reading: Reading, destination: Destination) -> int:
    """`dtlint plan`: the plan of every run."""
    if destination.format == "html":
        return _show_page(reading, destination.file)
    runs = read_all(reading, config_of(reading, _here(reading)))
    for remark in () if runs.runs else runs.remarks:
        say(f"dtlint: {printable(remark)}")
    if destination.format == "json":
        from dtlint.report.json import runs_json

        write(runs_json(runs.runs), destination.file)
        return 0
    from dtlint.report.plan import plans_text

    write(plans_text(runs, terminal_width()), destination.file)
    return 0


def _show_page(reading: Reading, file: Path | None) -> int:
    """The plans with what the rules find in them and what each remedy would bring, as a page."""
    from dtlint.api import check_set
    from dtlint.report.html import plans_page

    terms = _terms(reading, Choice())
    runs = read_all(reading, terms.config)
    report = check_set(runs, terms.config, terms.rules)
    write(plans_page(report, runs.problems), file)
    return 0


def explain_rule(name: str, reading: Reading) -> int:
    """`dtlint explain`: a rule's page, or, with something to read, what it says of these plans."""
    ground = _here(reading)
    config = config_of(reading, ground)
    rule = rule_named(name, rules_of([*config.rule_folders, *reading.rule_folders], ground))
    if not (reading.paths or reading.command):
        from dtlint.report.explain import citations, explain_text

        write(explain_text(rule, citations(), terminal_width()), None)
        return 0
    from dtlint.report.verdict import verdict_text

    write(verdict_text(rule, read_all(reading, config), config.limits, terminal_width()), None)
    return 0


def list_rules(folders: Sequence[Path]) -> int:
    """`dtlint rules`."""
    from dtlint.ground import work_tree
    from dtlint.report.explain import rules_text

    write(rules_text(rules_of(folders, work_tree()), terminal_width()), None)
    return 0


def test_rules(folder: Path) -> int:
    """`dtlint test`: 1 if an example of the folder's rules does not find what it says."""
    from dtlint.report.words import counted
    from dtlint.rulebook.examples import run_examples

    rules = house_rules_of(folder)
    failures = [printable(str(failure)) for failure in run_examples(rules)]
    examples = sum(len(rule.examples) for rule in rules)
    counts = [counted(len(rules), "rule"), counted(examples, "example"), counted(len(failures), "failure")]
    write("\n".join([*failures, ", ".join(counts)]) + "\n", None)
    return int(bool(failures))


def exit_status(findings: Sequence[Finding], fail_on: str, fail_over: float | None) -> int:
    """1 if a finding is at least as severe as `fail_on` ("never": none is) or surely wastes more than `fail_over`."""
    from dtlint.rulebook.rule import WORST_FIRST

    failing = WORST_FIRST[: WORST_FIRST.index(fail_on) + 1] if fail_on in WORST_FIRST else ()
    severe = any(finding.severity in failing for finding in findings)
    return int(severe or (fail_over is not None and any(_wasted(finding) > fail_over for finding in findings)))


def _terms(reading: Reading, choice: Choice) -> _Terms:
    ground = ground_of(choice.terms_from, reading)
    config = with_baseline(_with_choice(config_of(reading, ground), choice), choice.baseline, ground)
    rules = rules_of([*config.rule_folders, *reading.rule_folders], ground)
    know_names(config, rules)
    return _Terms(config, rules)


def _here(reading: Reading) -> Ground:
    return ground_of(None, reading)


def _with_choice(config: Config, choice: Choice) -> Config:
    return config._replace(
        select=choice.select or config.select,
        ignore=(*config.ignore, *choice.ignore),
        fail_on=choice.fail_on or config.fail_on,
        fail_over=config.fail_over if choice.fail_over is None else choice.fail_over,
    )


def _checked(reading: Reading, terms: _Terms, texts: Mapping[Path, str] | None = None) -> Report:
    from dtlint.api import check_set

    return check_set(read_all(reading, terms.config, texts), terms.config, terms.rules)


def _fixed(reading: Reading, terms: _Terms, unsafe: bool) -> Fixed:
    """What can be mended in the files that the user names."""
    from dtlint.fix import fix

    spoil()
    if reading.command or STANDARD_INPUT in reading.paths:
        raise Refusal("--fix and --diff need files: they cannot change standard input or a command")
    return fix(lambda texts: _checked(reading, terms, texts), unsafe)


def _show_patch(fixed: Fixed) -> int:
    from dtlint.fix import diff

    patch = diff(fixed.texts, shown_path)
    write("".join(map(_harmless, patch.split("\n"))) if sys.stdout.isatty() else patch, None)
    return int(bool(fixed.texts))


def _harmless(line: str) -> str:
    """A line of a patch for a terminal, which it cannot steer; into a pipe or file the patch goes as it is."""
    return "\t".join(map(printable, line.split("\t"))) + "\n" if line else ""


def _write_fixes(fixed: Fixed) -> None:
    """Write what was mended, and say so."""
    from dtlint.fix import Unwritable
    from dtlint.fix import write as write_files
    from dtlint.report.frame import place

    try:
        write_files(fixed.texts)
    except Unwritable as error:
        raise Refusal(printable(str(error))) from None
    for finding, remedy in fixed.fixes:
        say(f"fixed {finding.rule} ({place(finding.span.original())}): {printable(remedy.text)}")


def read_all(reading: Reading, config: Config, texts: Mapping[Path, str] | None = None) -> RunSet:
    """What the paths hold, standard input among them, or the command after `--`; `texts` stand for files on disk."""
    from dtlint.api import options_of
    from dtlint.runs import read_command_line, read_runs

    options = options_of(reading.settings, reading.arguments, reading.environment, config)
    options = options._replace(texts=texts or {})
    if reading.command:
        return read_command_line(reading.command, options)
    paths = [Path(path) for path in reading.paths] or [Path()]
    for path in paths:
        if str(path) != STANDARD_INPUT and not is_there(path):
            raise Refusal(f"no such file or folder: {printable(str(path))}")
    return read_runs(paths, options, _standard_input() if STANDARD_INPUT in reading.paths else None)


def _standard_input() -> str:
    from dtlint.source import MAX_BYTES

    spoil()
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refusal(f"standard input is longer than {MAX_BYTES:,} bytes")
    if b"\0" in data:
        raise Refusal("standard input is binary (it holds a NUL byte)")
    return data.decode("utf-8-sig", errors="replace")


def _say_remarks(report: Report) -> None:
    for remark in report.remarks:
        say(f"dtlint: {printable(remark)}")
    if not (report.runs or report.findings):
        say("dtlint: nothing to check: no launch and no training config was read")


def _wasted(finding: Finding) -> float:
    share = finding.cost.share_of_step
    return share.low if share is not None else 0.0
