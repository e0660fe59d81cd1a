"""The commands as click reads them: what each takes, what it prints, and the status it ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dtlint import __version__
from dtlint.cli_options import (
    CommandLine,
    complete_formats,
    complete_rules,
    parse_difference_formats,
    parse_formats,
    parse_names,
    parse_plan_format,
    parse_share,
    parse_tune_format,
    parse_values,
    reading_options,
    stating_options,
)
from dtlint.request import INTERRUPTED, Destination, Reading

if TYPE_CHECKING:
    from dtlint.value import Plain

_FILE = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="dtlint %(version)s")
def commands() -> None:
    """Read what starts a distributed training run and say what is wrong with its plan, and what that costs.

    \b
    dtlint check launch.sh        what is wrong, where, what it costs, what to write instead
    dtlint plan launch.sh         what is split, memory, communication, step time, money
    dtlint tune launch.sh         which plans on the same machines are faster
    dtlint diff main              what this branch changes

    Completion of commands, options and rules: eval "$(_DTLINT_COMPLETE=bash_source dtlint)" (or zsh_source,
    fish_source).
    """


@commands.command(cls=CommandLine, short_help="Say what is wrong with a plan, and what it costs.")
@reading_options
@click.option(
    "--select",
    multiple=True,
    metavar="RULE,...",
    callback=parse_names,
    shell_complete=complete_rules,
    help="Check these rules only.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE,...",
    callback=parse_names,
    shell_complete=complete_rules,
    help="Leave these rules out.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    help="Least severity that makes the exit status 1. [default: error]",
)
@click.option(
    "--fail-over",
    metavar="SHARE",
    callback=parse_share,
    help="Exit status 1 if a finding wastes more than this share of a step, such as 20%.",
)
@click.option(
    "--format",
    "destinations",
    multiple=True,
    metavar="FORMAT[=FILE]",
    callback=parse_formats,
    shell_complete=complete_formats,
    help="text (default), concise, json, sarif, github, gitlab, rdjson, junit or markdown, to standard output or a "
    "file; may be repeated.",
)
@click.option("--baseline", type=_FILE, metavar="FILE", help="Hide the findings that this file has as known ones.")
@click.option("--write-baseline", type=_FILE, metavar="FILE", help="Keep today's findings in this file, and no report.")
@click.option(
    "--config-from",
    metavar="REVISION",
    help="Take dtlint.toml, ignores, house rules and baseline from this git revision: a change cannot silence itself.",
)
@click.option("--fix", is_flag=True, help="Write remedies that leave the training as it is into the files.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: remedies that change the training too.")
@click.option("--diff", is_flag=True, help="Print what --fix would change as a patch, and write nothing.")
@click.option("--list-files", is_flag=True, help="List the training configs and launch scripts with their kinds.")
@click.option("--no-cache", is_flag=True, help="Work the answer out anew and keep none for the next time.")
@click.option("--show-undecided", is_flag=True, help="List each rule that could not be decided, and what it needs.")
def check(
    reading: Reading,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    fail_over: float | None,
    destinations: tuple[Destination, ...],
    baseline: Path | None,
    write_baseline: Path | None,
    config_from: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    list_files: bool,
    no_cache: bool,
    show_undecided: bool,
) -> int:
    """Print findings: what is wrong, where it is written, what it costs, what to write instead.

    Without a PATH every relevant file below the current folder is read; `-` reads standard input; after `--` stands a
    command to look at before it is submitted.

    \b
    dtlint check ds_config.json launch.sh             both files are one plan
    dtlint check --set cluster.gpu=H100 launch.sh     what the files do not tell
    dtlint check -- torchrun --nnodes 4 train.py ...  a command, before it is submitted
    dtlint check --fix launch.sh                      write the remedies that keep the training as it is
    dtlint check --format sarif=dtlint.sarif .        a report for code scanning

    Exit status: 0 nothing at the fail level, 1 findings, 2 bad usage or a crash.
    """
    from dtlint.commands import Choice, check_files, keep_baseline, list_kinds, mending

    if list_files:
        return list_kinds(reading)
    mend = mending(fix, diff, unsafe_fixes)
    choice = Choice(select, ignore, fail_on, fail_over, show_undecided, mend, unsafe_fixes, baseline, config_from)
    if write_baseline is not None:
        return keep_baseline(reading, choice, write_baseline)
    return check_files(reading, choice, destinations)


@commands.command(cls=CommandLine, short_help="Print the plan: splits, memory, step time, money.")
@reading_options
@click.option(
    "--format",
    "destination",
    default="text",
    metavar="FORMAT[=FILE]",
    callback=parse_plan_format,
    help="text (default), json or html (a page with pictures), to standard output or a file.",
)
def plan(reading: Reading, destination: Destination) -> int:
    """Print the plan: what is split and why, memory per GPU, communication and its links, step time and money.

    \b
    dtlint plan launch.sh
    dtlint plan --format json=plan.json launch.sh
    dtlint plan --format html=plan.html launch.sh     one file that needs no network
    """
    from dtlint.commands import show_plan

    return show_plan(reading, destination)


@commands.command(cls=CommandLine, short_help="Search faster plans on the same machines.")
@reading_options
@click.option(
    "--keep",
    multiple=True,
    metavar="SETTING,...",
    callback=parse_names,
    help="Leave these settings as they are, such as parallel.pipeline.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="SETTING=VALUE,...",
    callback=parse_values,
    help="Try these values for a setting, such as batch.global=512,1024, which is left as it is otherwise.",
)
@click.option(
    "--format",
    "destination",
    default="text",
    metavar="FORMAT[=FILE]",
    callback=parse_tune_format,
    help="text (default), json or html, to standard output or a file.",
)
def tune(
    reading: Reading, keep: tuple[str, ...], vary: Mapping[str, tuple[Plain, ...]], destination: Destination
) -> int:
    """Search plans for the same model on the same machines: degrees, sharding, micro-batch, recomputation, offload and
    overlap, within what the framework allows; the five fastest that fit beside today's, with what to change where.

    Global batch, sequence length, model and optimizer stay as they are.

    \b
    dtlint tune launch.sh
    dtlint tune --keep parallel.pipeline --vary batch.global=512,1024 launch.sh
    dtlint tune --format html=plans.html launch.sh
    """
    from dtlint.tuning import tune_plans

    return tune_plans(reading, keep, vary, destination)


@commands.command(cls=CommandLine, short_help="Say what a change does to plans and their cost.")
@click.argument("base")
@click.argument("head", required=False)
@stating_options
@click.option(
    "--format",
    "destinations",
    multiple=True,
    metavar="FORMAT[=FILE]",
    callback=parse_difference_formats,
    help="text (default), json or markdown, to standard output or a file; may be repeated.",
)
@click.option(
    "--fail-over",
    metavar="SHARE",
    callback=parse_share,
    help="Exit status 1 if a token surely takes longer by more than this share, such as 5%.",
)
@click.option(
    "--config-from",
    metavar="REVISION",
    help="Take dtlint.toml, ignores and house rules from this git revision.",
)
def diff(
    base: str,
    head: str | None,
    reading: Reading,
    destinations: tuple[Destination, ...],
    fail_over: float | None,
    config_from: str | None,
) -> int:
    """Compare two git revisions (HEAD: the files as they are), or two folders: plans, cost, findings.

    Prints nothing where no plan and no finding changed.

    \b
    dtlint diff main                                  this branch, as it is, against main
    dtlint diff main HEAD --format markdown=pr.md     the comment on a pull request
    dtlint diff old/ new/ --fail-over 5%              two folders
    """
    from dtlint.comparing import Comparison, compare

    return compare(Comparison(base, head, fail_over, config_from), reading, destinations)


@commands.command(cls=CommandLine, short_help="Explain a rule, in general or on a plan.")
@click.argument("rule", shell_complete=complete_rules)
@reading_options
def explain(rule: str, reading: Reading) -> int:
    """Explain a rule: why, when the setting is fine, the formula, examples and sources.

    With a PATH: this plan's numbers, or why the rule did not fire.

    \b
    dtlint explain pipeline-bubble
    dtlint explain DT301 launch.sh
    """
    from dtlint.commands import explain_rule

    return explain_rule(rule, reading)


@commands.command(cls=CommandLine, short_help="Serve editors over the Language Server Protocol.")
@stating_options
def lsp(reading: Reading) -> int:
    """Speak the Language Server Protocol over standard input and output: findings as diagnostics, values under the
    cursor, remedies as quick fixes. Editors start it; docs/editors.md says how.

    Needs pygls: pip install 'dtlint[lsp]'
    """
    from dtlint.lsp import serve_editor

    return serve_editor(reading)


@commands.command()
@click.option("--rules", "folders", multiple=True, type=click.Path(path_type=Path), metavar="DIR", help="Add a folder.")
def rules(folders: tuple[Path, ...]) -> int:
    """List the rules."""
    from dtlint.commands import list_rules

    return list_rules(folders)


@commands.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
def test(folder: Path) -> int:
    """Run the examples of a folder of rules."""
    from dtlint.commands import test_rules

    return test_rules(folder)


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line that click reads, and return its exit status."""
    try:
        status = commands.main(list(arguments), prog_name="dtlint", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    return status if isinstance(status, int) else 0
