"""What stands under the cursor: the settings that a text states, with their values and where these come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dtlint.plan import Plan, term
from dtlint.report.terminal import printable
from dtlint.report.words import origin_shown, unknown_shown, value_shown
from dtlint.runs.model import Run
from dtlint.source import Source, Span
from dtlint.value import Choice, Origin, Setting, Unknown, Value


def sources_of(runs: Iterable[Run], file: Path) -> list[Source]:
    """The texts of a file as runs were read from it."""
    found = (source for run in runs for source in run.sources)
    return [source for source in found if source.file is not None and source.file.resolve() == file]


def hover_text(runs: Iterable[Run], file: Path, offset: int) -> str:
    """A paragraph of Markdown for each setting that the place states or hands on; "" where it states none."""
    lines = (line for run in runs for line in _lines(run.plan, file, offset))
    return "\n\n".join(dict.fromkeys(lines))


def _lines(plan: Plan, file: Path, offset: int) -> Iterator[str]:
    for name, setting in sorted(plan.settings.items()):
        if any(_covers(span, file, offset) for span in _places(setting)):
            yield _line(plan, name, setting)


def _line(plan: Plan, name: str, setting: Setting) -> str:
    found = plan.get(name)
    meaning = printable(term(name).meaning)
    if isinstance(found, Unknown):
        return f"**{name}** is unknown: {unknown_shown(found)}\n\n{meaning}"
    unit = f" {term(name).unit}" if term(name).unit else ""
    return f"**{name}** = `{value_shown(found.value)}`{unit}\n\n{meaning}; {origin_shown(found.origin, plan)}"


def _places(setting: Setting) -> Iterator[Span]:
    """Where a setting is written and the way to it, of each of its options."""
    if isinstance(setting, Choice):
        for option in setting.options:
            yield from _places(option.value)
        return
    yield from _spans(setting.origin if isinstance(setting, (Value, Unknown)) else None)


def _spans(origin: Origin | None) -> Iterator[Span]:
    if origin is not None:
        yield from (span for span in (origin.span, *(step.span for step in origin.chain)) if span is not None)


def _covers(span: Span, file: Path, offset: int) -> bool:
    here = span.original()
    same = here.source.file is not None and here.source.file.resolve() == file
    return same and here.start <= offset <= here.end
