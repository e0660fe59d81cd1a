"""Runs the examples of rules: a bad one must be found where it says, a good one must not be found at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from dtlint.config import Config
from dtlint.plan.vocabulary import Misfit, fit, term
from dtlint.record import NamedTuple
from dtlint.rulebook.check import check
from dtlint.rulebook.finding import Finding
from dtlint.rulebook.rule import Example, Found, Rule
from dtlint.rulebook.sentences import LACKING
from dtlint.runs import Options, read_runs
from dtlint.value import given


class Failure(NamedTuple):
    """An example that is not borne out: the rule, the example's number (from 1), and a sentence."""

    rule: Rule
    number: int
    message: str

    def __str__(self) -> str:
        return f"{self.rule.path}: example {self.number} of {self.rule.name}: {self.message}"


def run_examples(rules: Iterable[Rule]) -> list[Failure]:
    """Every example of the rules that is not borne out."""
    failures: list[Failure] = []
    for rule in rules:
        for number, example in enumerate(rule.examples, 1):
            failures.extend(Failure(rule, number, message) for message in run_example(rule, example))
    return failures


def run_example(rule: Rule, example: Example) -> list[str]:
    """What is wrong with one example: a place that is not found, or something found in a good one."""
    with TemporaryDirectory(prefix="dtlint-") as name:
        folder = Path(name).resolve()
        try:
            _write(folder, example)
            settings = {key: given(fit(term(key), value)) for key, value in example.set.items()}
        except (ValueError, OSError, Misfit) as error:
            return [f"this {example.kind} example cannot be set up: {error}"]
        config = _config(folder)
        report = check(read_runs([folder], Options(settings, expected=config.expected)), [rule], config)
        found = [(_file(finding, folder), finding.span.line) for finding in report.findings]
    holes = [finding.message for finding in report.findings if LACKING.search(finding.message)]
    return [*_complaints(example, found, bool(report.undecided)), *map(_about_hole, holes)]


def _config(folder: Path) -> Config:
    """The example's own dtlint.toml, if it has one."""
    from dtlint.config_file import read_config

    file = folder / "dtlint.toml"
    return read_config(file, file.name) if file.is_file() else Config()


def _write(folder: Path, example: Example) -> None:
    for name, text in example.files.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder) or file == folder:
            raise ValueError(f"the file '{name}' lies outside the example")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _file(finding: Finding, folder: Path) -> str:
    file = finding.span.source.file
    return file.resolve().relative_to(folder).as_posix() if file is not None else finding.span.path


def _complaints(example: Example, found: list[tuple[str, int]], open_: bool) -> Iterator[str]:
    shown = ", ".join(f"{file}:{line}" for file, line in found)
    if example.kind == "good" and found:
        yield f"this good example is found at {shown}"
    nothing = "nothing is found (it could not be decided)" if open_ else "nothing is found"
    for wanted in example.finds if example.kind == "bad" else ():
        if not any(_meets(wanted, file, line) for file, line in found):
            place = f"line {wanted.line}" + (f" of {wanted.file}" if wanted.file else "") if wanted.line else "any line"
            yield f"this bad example is to be found at {place}; " + (f"it is found at {shown}" if shown else nothing)


def _about_hole(message: str) -> str:
    return f"the headline lacks a number: {message}"


def _meets(wanted: Found, file: str, line: int) -> bool:
    return wanted.line in (0, line) and wanted.file in ("", file)
