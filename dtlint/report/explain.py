"""What a rule says of itself: why, when the setting is fine, its condition, remedies, examples and sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dtlint.report.frame import Paint
from dtlint.report.terminal import paragraphs, printable, styled, width, wrap
from dtlint.report.words import listed

if TYPE_CHECKING:
    from dtlint.rulebook.rule import Cure, Example, Rule

BOLD: Paint = partial(styled, bold=True)
DIM: Paint = partial(styled, dim=True)
INDENT = "  "


def explain_text(rule: Rule, sources: Mapping[str, str], columns: int) -> str:
    """The page of a rule; `sources` gives the citation of each source key."""
    title = wrap(printable(rule.summary), f"{rule.id} {rule.name}: ", INDENT, columns)
    sections = [
        ("Why", paragraphs(rule.why, INDENT, columns)),
        ("Fine when", paragraphs(rule.fine_when, INDENT, columns)),
        ("Fires when", list(_condition(rule, columns))),
        ("What to write", [line for cure in rule.cures for line in _cure(cure, columns)]),
        ("Examples", [line for example in rule.examples for line in _example(example)]),
        ("Sources", [line for key in rule.sources for line in _source(sources.get(key, key), columns)]),
        (
            "To silence it",
            [INDENT + f"# dtlint: ignore[{rule.name}] reason" if rule.ignorable else INDENT + "cannot be"],
        ),
    ]
    shown = (f"{BOLD(name)}\n" + "\n".join(lines) for name, lines in sections if lines)
    return "\n\n".join([*map(BOLD, title)][:1] + ["\n".join(title[1:])] * (len(title) > 1) + list(shown)) + "\n"


def citations() -> Mapping[str, str]:
    """What the rules that dtlint ships rest on, by key."""
    import yaml

    from dtlint.rulebook.load import rules_folder

    entries: dict[str, dict[str, str]] = yaml.safe_load((rules_folder() / "sources.yaml").read_text(encoding="utf-8"))
    return {key: " ".join(filter(None, (entry.get("title"), entry.get("url")))) for key, entry in entries.items()}


def rules_text(rules: Sequence[Rule], columns: int) -> str:
    """A table of rules: id, name, summary, outcomes."""
    names = max((width(rule.name) for rule in rules), default=0)
    lines: list[str] = []
    for rule in rules:
        head = f"{rule.id}  {rule.name:<{names}}  "
        text = f"{printable(rule.summary)} ({_outcomes(rule)})"
        lines.extend(wrap(text, head, " " * len(head), max(columns, len(head) + 20)))
    return "\n".join([*lines, f"{len(rules)} rules; dtlint explain NAME tells more"]) + "\n"


def _outcomes(rule: Rule) -> str:
    return "/".join(dict.fromkeys(verdict.outcome for verdict in rule.verdicts))


def _condition(rule: Rule, columns: int) -> Iterable[str]:
    each = f"for each {rule.each.variable} in {rule.each.collection}: " if rule.each else ""
    applies = f"{rule.applies}, and " if rule.applies else ""
    for verdict in rule.verdicts:
        yield from wrap(f"{each}{applies}{verdict.when} ({verdict.outcome})", INDENT, INDENT * 2, columns)
    if rule.limits:
        limits = listed([f"{name} {value:g}" for name, value in rule.limits.items()])
        yield from wrap(
            f"{limits}; a team sets them in [rules.{rule.name}.limits] of dtlint.toml",
            f"{INDENT}limits: ",
            INDENT * 2,
            columns,
        )


def _cure(cure: Cure, columns: int) -> Iterable[str]:
    changes = ", ".join(f"{name} = {value}" for name, value in cure.set.items()) or cure.text
    condition = f", when {cure.when}" if cure.when else ""
    training = "; changes the training" if cure.changes_training else ""
    yield from wrap(printable(changes + condition + training), INDENT, INDENT * 2, columns)


def _example(example: Example) -> Iterable[str]:
    found = {(each.file, each.line) for each in example.finds}
    for index, (name, text) in enumerate(example.files.items()):
        lead = f"{'found' if example.kind == 'bad' else 'not found'} in " if index == 0 else "with "
        yield f"{INDENT}{lead}{printable(name)}:"
        for number, line in enumerate(text.rstrip("\n").splitlines(), 1):
            marked = (name, number) in found or ("", number) in found
            yield f"{INDENT}{'>' if marked else ' '} {DIM(f'{number:>2} |')} {printable(line)}".rstrip()


def _source(citation: str, columns: int) -> Iterable[str]:
    return wrap(printable(citation), f"{INDENT}- ", INDENT * 2, columns)
