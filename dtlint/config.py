"""What a team states once for all its runs: dtlint.toml, or [tool.dtlint] in pyproject.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.account import LINK, is_there, standing
from dtlint.record import NamedTuple
from dtlint.value import Value

if TYPE_CHECKING:
    from dtlint.source import Source

NAMES = ("dtlint.toml", ".dtlint.toml", "pyproject.toml")


Counts = Mapping[str, Mapping[str, int]]
"""How many findings each rule has in each file; paths are relative to the baseline's folder, `/` between parts."""


class Baseline(NamedTuple):
    """Known findings: `path` is what messages call the file, `folder` what its paths are relative to."""

    path: str
    folder: Path
    counts: Counts


class Config(NamedTuple):
    """A team's settings.

    `cluster` fills what no file says, `settings` win over the files; both by setting name. `limits` are by rule and
    limit ("pipeline-bubble.bubble"), `severities` by rule (error, warning, note, off), `file_ignores` pairs of a
    path pattern (relative to `folder`) and the rules to leave out there. `fail_over` is a share of a step, 0 to 1.
    `expected` are values that every plan has to have. `clusters` are further clusters, by the pattern of the files that
    run on them, `run` patterns of the files that the team runs. `baseline` are the findings that are known. Where
    `text_before` gives the earlier text of a file, only the ignores count that stood in it.
    """

    path: str = ""
    folder: Path | None = None
    cluster: Mapping[str, Value] = {}
    settings: Mapping[str, Value] = {}
    rule_folders: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = "error"
    fail_over: float | None = None
    limits: Mapping[str, float] = {}
    severities: Mapping[str, str] = {}
    file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    expected: Mapping[str, Value] = {}
    clusters: tuple[tuple[str, Mapping[str, Value]], ...] = ()
    run: tuple[str, ...] = ()
    baseline: Baseline | None = None
    text_before: Callable[[Source], str | None] | None = None


class ConfigError(ValueError):
    """A config file that cannot be used: where and why."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.message = message


def find_config(start: Path, text: Callable[[Path], str | None]) -> Path | None:
    """The nearest config file in `start` or above it, up to the top of the git work tree (without one: `start`).

    `text` gives what a file holds, None for one that is not there. ConfigError for a link that leads out of there.
    """
    folder = start.resolve()
    top = top_of(folder)
    above = (each for each in (folder, *folder.parents) if each.is_relative_to(top))
    files = (each / name for each in above for name in NAMES)
    return next((file for file in files if _is_own(file, top) and _holds_config(file.name, text(file))), None)


def top_of(folder: Path) -> Path:
    """The top of the git work tree that a resolved folder lies in; the folder itself where it lies in none."""
    return next((each for each in (folder, *folder.parents) if is_there(each / ".git")), folder)


def _is_own(file: Path, top: Path) -> bool:
    """Whether a file is no link that leads out of the work tree, as one of a stranger may: to what only we can read."""
    if standing(str(file)) != LINK or file.resolve().is_relative_to(top):
        return True
    if file.name == "pyproject.toml":
        return False
    raise ConfigError(file.as_posix(), 1, "a link that leads outside of the repository; to use it, give it to --config")


def _holds_config(name: str, text: str | None) -> bool:
    return text is not None and (name != "pyproject.toml" or "tool.dtlint" in text)


def share(text: str) -> float:
    """A share of a step: "20%" or "0.2"; ValueError with a sentence if it is neither or not between 0 and 1."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        raise ValueError(f"'{text}' is no share of a step; write 20% or 0.2") from None
    if not 0 <= value <= 1:
        raise ValueError(f"a share of a step lies between 0% and 100%, not at {text}")
    return value
