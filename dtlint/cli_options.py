"""The options of commands: how each is written, what it means, and the sentence for each way to get it wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dtlint.request import Destination, Reading, near

if TYPE_CHECKING:
    from dtlint.value import Plain, Value

Command = Callable[..., int]

FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "rdjson", "junit", "markdown")
PLAN_FORMATS = ("text", "json", "html")
TUNE_FORMATS = ("text", "json", "html")
DIFFERENCE_FORMATS = ("text", "json", "markdown")
COMMAND_WORDS = "dtlint.command"


class CommandLine(click.Command):
    """A command after whose `--` stands a command to look at, word by word, rather than paths."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows `--` apart from the paths and options before it."""
        own = args[: args.index("--")] if "--" in args else args
        ctx.meta[COMMAND_WORDS] = tuple(args[len(own) + 1 :])
        return super().parse_args(ctx, list(own))


def reading_options(command: Command) -> Command:
    """The paths and options of every command that reads runs, handed to it together as `reading`."""
    return _decorated(command, (_PATHS, *_STATING))


def stating_options(command: Command) -> Command:
    """The options of a command that finds its files by itself, handed to it together as `reading`."""
    return _decorated(command, _STATING)


def _decorated(command: Command, decorators: Sequence[Callable[[Command], Command]]) -> Command:
    @wraps(command)
    def bundled(**options: object) -> int:
        words = click.get_current_context().meta[COMMAND_WORDS]
        own = {name: options.pop(name, ()) for name in Reading._fields if name != "command"}
        return command(reading=Reading(command=words, **own), **options)  # type: ignore[arg-type]

    decorated: Command = bundled
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    return decorated


def parse_settings(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, Value]:
    """`--set KEY=VALUE`, checked against the vocabulary."""
    if not texts:
        return {}
    from dtlint.plan.vocabulary import Misfit, parse

    try:
        return {name: parse(name, value) for name, value in (_split(text, "KEY=VALUE") for text in texts)}
    except Misfit as error:
        raise click.BadParameter(str(error)) from None


def parse_arguments(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, str]:
    """`--arg N=VALUE`: positional parameters of the script, from 1."""
    arguments = dict(_split(text, "N=VALUE") for text in texts)
    for number in arguments:
        if not re.fullmatch(_POSITION, number):
            raise click.BadParameter(f"'{number}' is no positional parameter; write 1=VALUE for $1")
    return arguments


def parse_environment(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, str]:
    """`--env NAME=VALUE`: variables that the caller of the script sets."""
    environment = dict(_split(text, "NAME=VALUE") for text in texts)
    for name in environment:
        if not (name.isascii() and name.isidentifier()):
            raise click.BadParameter(f"'{name}' is no name of a variable")
    return environment


def parse_formats(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[Destination, ...]:
    """`--format FORMAT[=FILE]`: text to standard output where nothing is asked for; one report at most goes there."""
    return _destinations(texts, FORMATS)


def parse_difference_formats(
    _: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[Destination, ...]:
    """`--format FORMAT[=FILE]` of a comparison."""
    return _destinations(texts, DIFFERENCE_FORMATS)


def _destinations(texts: tuple[str, ...], formats: tuple[str, ...]) -> tuple[Destination, ...]:
    destinations = tuple(_destination(text, formats) for text in texts)
    shown = [each.format for each in destinations if each.file is None]
    if len(shown) > 1:
        raise click.BadParameter(f"{' and '.join(shown)} both go to standard output; give one a file: {shown[1]}=FILE")
    return destinations or (Destination(),)


def parse_plan_format(_: click.Context, parameter: click.Parameter, text: str) -> Destination:
    """`--format FORMAT[=FILE]` of a plan."""
    return _destination(text, PLAN_FORMATS)


def parse_tune_format(_: click.Context, parameter: click.Parameter, text: str) -> Destination:
    """`--format FORMAT[=FILE]` of a search."""
    return _destination(text, TUNE_FORMATS)


def parse_values(
    _: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> Mapping[str, tuple[Plain, ...]]:
    """`--vary SETTING=VALUE,...`, each value checked against the vocabulary."""
    if not texts:
        return {}
    from dtlint.plan.vocabulary import Misfit, parse

    pairs = [_split(text, "SETTING=VALUE,...") for text in texts]
    try:
        return {name: tuple(parse(name, value).value for value in values.split(",")) for name, values in pairs}
    except Misfit as error:
        raise click.BadParameter(str(error)) from None


def parse_share(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """`--fail-over 20%`."""
    if text is None:
        return None
    from dtlint.config import share

    try:
        return share(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_names(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names that may be repeated or separated by commas."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def complete_rules(_: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Names of rules that begin like the last of the names so far."""
    from dtlint.rulebook.load import built_in

    head, comma, last = begun.rpartition(",")
    return [f"{head}{comma}{rule.name}" for rule in built_in() if rule.name.startswith(last)]


def complete_formats(_: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Report formats that begin like that."""
    return [name for name in FORMATS if name.startswith(begun)]


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"'{text}' is not of the form {form}")
    return name.strip(), value


def _destination(text: str, formats: tuple[str, ...]) -> Destination:
    name, equals, file = text.partition("=")
    if name not in formats:
        raise click.BadParameter(f"unknown format '{name}'{near(name, formats)}; formats are {', '.join(formats)}")
    if equals and not file:
        raise click.BadParameter(f"no file after '{text}'")
    return Destination(name, Path(file) if file else None)


_POSITION = "[1-9][0-9]{0,2}"

_PATHS: Callable[[Command], Command] = click.argument("paths", nargs=-1, metavar="[PATH]...")

_STATING: tuple[Callable[[Command], Command], ...] = (
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", callback=parse_settings,
        help="State a setting of the plan, such as cluster.gpu=H100; it wins over the files.",
    ),
    click.option(
        "--arg", "arguments", multiple=True, metavar="N=VALUE", callback=parse_arguments,
        help="Give the script its positional parameter $N.",
    ),
    click.option(
        "--env", "environment", multiple=True, metavar="NAME=VALUE", callback=parse_environment,
        help="Give the script a variable that its caller sets.",
    ),
    click.option(
        "--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
        help="Read this dtlint.toml instead of the nearest one.",
    ),
    click.option(
        "--cluster", default="", metavar="NAME", help="Take the [clusters.NAME] table of dtlint.toml for every file.",
    ),
    click.option(
        "--rules", "rule_folders", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
        help="Add the rules of a folder.",
    ),
)  # fmt: skip
