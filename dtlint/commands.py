"""What each command does, between its options and its exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from dtlint.cli_options import Destination, Reading, near
from dtlint.record import NamedTuple
from dtlint.report.terminal import colour_wanted, printable, terminal_width

if TYPE_CHECKING:
    from dtlint.config import Config
    from dtlint.fix import Fixed
    from dtlint.rulebook.check import Report
    from dtlint.rulebook.finding import Finding
    from dtlint.rulebook.rule import Rule
    from dtlint.runs.model import RunSet

MACHINE_FORMATS = ("json", "sarif", "github", "gitlab", "rdjson", "junit", "markdown")
"""Formats whose module in dtlint.report is named as they are, with a function `report_FORMAT`."""

STANDARD_INPUT = "-"

BROKEN_PIPE = 141
"""Exit status when the reader of the output went away, as of other commands: 128 + SIGPIPE."""


class Refusal(click.ClickException):
    """Something in the user's way of calling that cannot be done, with the sentence that says what."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence to standard error."""
        click.echo(f"dtlint: {self.format_message()}", file=file, err=file is None)


Mend = Literal["no", "write", "show"]


def mending(fix: bool, diff: bool, unsafe: bool) -> Mend:
    """What the user's flags ask for."""
    if fix and diff:
        raise Refusal("--fix writes and --diff only shows: give one of them")
    if unsafe and not (fix or diff):
        raise Refusal("--unsafe-fixes says which remedies to write: give --fix or --diff with it")
    return "write" if fix else "show" if diff else "no"


class Choice(NamedTuple):
    """Which rules a check looks at, and what makes it fail; () and None leave it to the config. `mend`: whether
    remedies are written into the files or shown as a patch, `unsafe` ones too.
    """

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    fail_on: str | None
    fail_over: float | None
    show_undecided: bool
    mend: Mend = "no"
    unsafe: bool = False


def check_files(reading: Reading, choice: Choice, destinations: Sequence[Destination]) -> int:
    """`dtlint check`: report, and tell by the exit status whether anything reaches the fail level."""
    from dtlint.api import check_set

    config = _with_choice(_config(reading), choice)
    rules = _rules([*config.rule_folders, *reading.rule_folders])
    _know_names(config, rules)
    if choice.mend == "show":
        return _show_patch(_fixed(reading, config, rules, choice.unsafe))
    if choice.mend == "write":
        report = _write_fixes(_fixed(reading, config, rules, choice.unsafe))
    else:
        report = check_set(_runs(reading, config), config, rules)
    _say_remarks(report)
    for destination in destinations:
        write(_rendered(report, destination.format, choice), destination.file)
        if destination.format == "github":
            _add_step_summary(report)
    return exit_status(report.findings, config.fail_on, config.fail_over)


def _fixed(reading: Reading, config: Config, rules: Sequence[Rule], unsafe: bool) -> Fixed:
    """What can be mended in the files that the user names."""
    from dtlint.api import check_set
    from dtlint.fix import fix

    if reading.command or STANDARD_INPUT in reading.paths:
        raise Refusal("--fix and --diff need files: they cannot change standard input or a command")
    return fix(lambda texts: check_set(_runs(reading, config, texts), config, rules), unsafe)


def _show_patch(fixed: Fixed) -> int:
    from dtlint.fix import diff

    write(diff(fixed.texts, _shown), None)
    return int(bool(fixed.texts))


def _write_fixes(fixed: Fixed) -> Report:
    """Write what was mended, say so, and give the report of what is left."""
    from dtlint.fix import Unwritable
    from dtlint.fix import write as write_files
    from dtlint.report.frame import place

    try:
        write_files(fixed.texts)
    except Unwritable as error:
        raise Refusal(printable(str(error))) from None
    for finding, remedy in fixed.fixes:
        click.echo(f"fixed {finding.rule} ({place(finding.span.original())}): {printable(remedy.text)}", err=True)
    return fixed.report


def show_plan(reading: Reading, destination: Destination) -> int:
    """`dtlint plan`: the plan of every run."""
    runs = _runs(reading, _config(reading))
    if destination.format == "json":
        from dtlint.report.json import runs_json

        write(runs_json(runs.runs), destination.file)
        return 0
    from dtlint.report.plan import plans_text

    write(plans_text(runs, terminal_width()), destination.file)
    return 0


def explain_rule(name: str, reading: Reading) -> int:
    """`dtlint explain`: a rule's page, or, with something to read, what it says of these plans."""
    config = _config(reading)
    rule = _rule(name, _rules([*config.rule_folders, *reading.rule_folders]))
    if not (reading.paths or reading.command):
        from dtlint.report.explain import citations, explain_text

        write(explain_text(rule, citations(), terminal_width()), None)
        return 0
    from dtlint.report.verdict import verdict_text

    write(verdict_text(rule, _runs(reading, config), config.limits, terminal_width()), None)
    return 0


def list_rules(folders: Sequence[Path]) -> int:
    """`dtlint rules`."""
    from dtlint.report.explain import rules_text

    write(rules_text(_rules(folders), terminal_width()), None)
    return 0


def test_rules(folder: Path) -> int:
    """`dtlint test`: 1 if an example of the folder's rules does not find what it says."""
    from dtlint.report.words import counted
    from dtlint.rulebook.examples import run_examples

    rules = _house_rules(folder)
    failures = [printable(str(failure)) for failure in run_examples(rules)]
    examples = sum(len(rule.examples) for rule in rules)
    counts = [counted(len(rules), "rule"), counted(examples, "example"), counted(len(failures), "failure")]
    write("\n".join([*failures, ", ".join(counts)]) + "\n", None)
    return int(bool(failures))


def exit_status(findings: Sequence[Finding], fail_on: str, fail_over: float | None) -> int:
    """1 if a finding is at least as severe as `fail_on` ("never": none is) or surely wastes more than `fail_over`."""
    from dtlint.rulebook.rule import WORST_FIRST

    failing = WORST_FIRST[: [*WORST_FIRST, "never"].index(fail_on) + 1] if fail_on != "never" else ()
    severe = any(finding.severity in failing for finding in findings)
    return int(severe or (fail_over is not None and any(_wasted(finding) > fail_over for finding in findings)))


def write(text: str, file: Path | None) -> None:
    """Put a report on standard output or into a file, without colours where none are wanted."""
    if file is None:
        _print(text)
        return
    try:
        file.write_text(click.unstyle(text), encoding="utf-8")
    except OSError as error:
        raise Refusal(f"cannot write {printable(str(file))}: {error.strerror}") from None


def _add_step_summary(report: Report) -> None:
    """The report as Markdown at the end of the file that GitHub shows as the job's summary, where there is one."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if file:
        from dtlint.report.markdown import report_markdown

        try:
            with Path(file).open("a", encoding="utf-8") as summary:
                summary.write(report_markdown(report))
        except OSError as error:
            raise Refusal(f"cannot write {printable(file)}: {error.strerror}") from None


def _print(text: str) -> None:
    try:
        click.echo(text, nl=False, color=colour_wanted(sys.stdout))
    except BrokenPipeError:
        # Whoever read the output is gone; without this, Python would say so when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(BROKEN_PIPE) from None


def _config(reading: Reading) -> Config:
    """The config that the user names, else the nearest one above the first path."""
    from dtlint.config import Config, ConfigError, find_config

    file = reading.config_file or find_config(_first_folder(reading.paths))
    if file is None:
        return Config()
    if not file.is_file():
        raise Refusal(f"no such config file: {printable(str(file))}")
    from dtlint.config_file import read_config

    try:
        return read_config(file, _shown(file))
    except ConfigError as error:
        raise Refusal(printable(str(error))) from None


def _with_choice(config: Config, choice: Choice) -> Config:
    return config._replace(
        select=choice.select or config.select,
        ignore=(*config.ignore, *choice.ignore),
        fail_on=choice.fail_on or config.fail_on,
        fail_over=config.fail_over if choice.fail_over is None else choice.fail_over,
    )


def _runs(reading: Reading, config: Config, texts: Mapping[Path, str] | None = None) -> RunSet:
    """What the paths hold, standard input among them, or the command after `--`; `texts` stand for files on disk."""
    from dtlint.api import options_of
    from dtlint.runs import read_command_line, read_runs

    options = options_of(reading.settings, reading.arguments, reading.environment, config)
    options = options._replace(texts=texts or {})
    if reading.command:
        return read_command_line(reading.command, options)
    paths = [Path(path) for path in reading.paths] or [Path()]
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise Refusal(f"no such file or folder: {printable(str(path))}")
    return read_runs(paths, options, _standard_input() if STANDARD_INPUT in reading.paths else None)


def _standard_input() -> str:
    from dtlint.source import MAX_BYTES

    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refusal(f"standard input is longer than {MAX_BYTES:,} bytes")
    if b"\0" in data:
        raise Refusal("standard input is binary (it holds a NUL byte)")
    return data.decode("utf-8-sig", errors="replace")


def _rules(folders: Sequence[Path]) -> tuple[Rule, ...]:
    """The rules that dtlint ships and those of `folders`."""
    from dtlint.rulebook.load import built_in

    rules = built_in()
    for folder in folders:
        rules = (*rules, *_house_rules(folder, rules))
    return rules


def _house_rules(folder: Path, known: Sequence[Rule] | None = None) -> tuple[Rule, ...]:
    from dtlint.rulebook.house import house_rules
    from dtlint.rulebook.rule import RuleError

    if not folder.is_dir():
        raise Refusal(f"no such folder of rules: {printable(str(folder))}")
    try:
        return house_rules(folder, known)
    except RuleError as error:
        raise Refusal(printable(str(error))) from None


def _rule(name: str, rules: Iterable[Rule]) -> Rule:
    known = {word: rule for rule in rules for word in (rule.id, rule.name)}
    found = known.get(name) or known.get(name.upper())
    if found is None:
        raise Refusal(f"no rule '{printable(name)}'{near(name, tuple(known))}")
    return found


def _know_names(config: Config, rules: Sequence[Rule]) -> None:
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


def _rendered(report: Report, form: str, choice: Choice) -> str:
    if form in MACHINE_FORMATS:
        from importlib import import_module

        rendered: str = getattr(import_module(f"dtlint.report.{form}"), f"report_{form}")(report)
        return rendered
    from dtlint.report.text import report_concise, report_text, undecided_text

    text = report_concise(report) if form == "concise" else report_text(report, terminal_width())
    return text + undecided_text(report.undecided, terminal_width()) if choice.show_undecided else text


def _say_remarks(report: Report) -> None:
    for remark in report.remarks:
        click.echo(f"dtlint: {printable(remark)}", err=True)
    if not (report.runs or report.findings):
        click.echo("dtlint: nothing to check: none of the files starts a training run or configures one", err=True)


def _first_folder(paths: Sequence[str]) -> Path:
    first = Path(next((path for path in paths if path != STANDARD_INPUT), "."))
    return first if first.is_dir() else first.parent


def _shown(file: Path) -> str:
    return file.relative_to(Path.cwd()).as_posix() if file.is_relative_to(Path.cwd()) else file.as_posix()


def _wasted(finding: Finding) -> float:
    share = finding.cost.share_of_step
    return share.low if share is not None else 0.0
