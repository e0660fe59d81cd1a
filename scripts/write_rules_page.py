"""Writes docs/rules.md from the rule files: an index by topic, and a section for each rule. A test holds it current."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import cast

import yaml

from dtlint.rulebook.earned import has_earned
from dtlint.rulebook.load import built_in, rules_folder
from dtlint.rulebook.rule import SEVERITIES, WORST_FIRST, Cure, Example, Judged, Rule

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"

TOPICS: Mapping[str, str] = {
    "input": "Input: the files themselves",
    "topology": "Topology: degrees and machines",
    "memory": "Memory",
    "pipeline": "Pipeline",
    "communication": "Communication and overlap",
    "checkpointing": "Activation checkpointing",
    "batch": "Batch",
    "gradients": "Gradients and ranks",
    "launch": "Launch and cluster",
    "scaling": "Scaling",
}

LANGUAGES: Mapping[str, str] = {
    "json": "json",
    "py": "python",
    "sh": "sh",
    "toml": "toml",
    "yaml": "yaml",
}

INTRODUCTION = """\
# The rules

Each rule is one documented mistake. This page is written from the rule files by `scripts/write_rules_page.py`;
`dtlint explain NAME` shows a rule in the terminal with all of its examples, and `dtlint explain NAME PATH` with a
plan's own numbers. [policy.md](policy.md) says what is no rule, [house-rules.md](house-rules.md) how a team writes one.

An **error** fails, runs out of memory, hangs or trains wrongly; a **warning** wastes time or money; a **note** is
advice. Where a repository is checked as a whole, what a rule says that was right in less than nine of ten of its
latest judged findings is a note, unless the file is named. Expressions speak of the settings and facts that
`dtlint plan` prints. Where a number in a condition is not known the rule is listed as not decided, with what would
tell it.
"""


def page(rules: Sequence[Rule], sources: Mapping[str, Mapping[str, str]]) -> str:
    """The whole page."""
    ordered = sorted(rules, key=lambda rule: (list(TOPICS).index(rule.family), rule.id))
    families = [(family, list(group)) for family, group in groupby(ordered, lambda rule: rule.family)]
    blocks = [INTRODUCTION.rstrip(), *(index(family, group) for family, group in families)]
    blocks += [section(rule, sources) for _, group in families for rule in group]
    return "\n\n".join(blocks) + "\n"


def index(family: str, rules: Iterable[Rule]) -> str:
    """The rules of a topic in a table, each with a link to its section."""
    rows = [f"| [{rule.id} {rule.name}](#{anchor(rule)}) | {rule.summary} | {severities(rule)} |" for rule in rules]
    return "\n".join([f"## {TOPICS[family]}", "", "| rule | what | |", "|---|---|---|", *rows])


def anchor(rule: Rule) -> str:
    """The anchor of the rule's heading."""
    return f"{rule.id}-{rule.name}".lower()


def severities(rule: Rule) -> str:
    """How bad it can be: `error, warning`."""
    found = {SEVERITIES[verdict.outcome] for verdict in rule.verdicts}
    return ", ".join(kind for kind in WORST_FIRST if kind in found)


def section(rule: Rule, sources: Mapping[str, Mapping[str, str]]) -> str:
    """What, why, when, what it costs, what to write, when it is fine, examples, limits, sources."""
    parts = [
        f"### {rule.id} {rule.name}",
        f"{rule.summary} ({severities(rule)}).{judged(rule)}",
        f"**Why.** {flowing(rule.why)}",
        "**Fires when**\n\n" + "\n".join(conditions(rule)),
        cost(rule),
        "**What to write**\n\n" + "\n".join(map(remedy, rule.cures)),
        f"**Fine when.** {flowing(rule.fine_when)}",
        limits(rule),
        "\n\n".join(examples(rule)),
        "**Sources.** " + "; ".join(citation(sources[key]) for key in rule.sources),
    ]
    return "\n\n".join(part for part in parts if part)


def judged(rule: Rule) -> str:
    """How often it was right, and what follows where it has not earned its severity."""
    right, of = rule.judged or Judged(0, 0)
    told = f" Right in {right} of {of} judged findings" if of else " Not judged yet"
    speaks_up = any(verdict.outcome != "advice" for verdict in rule.verdicts)
    return f"{told}: a note in a whole repository." if speaks_up and not has_earned(rule) else f"{told}."


def flowing(text: str) -> str:
    """A paragraph without the line ends of the file."""
    return " ".join(text.split())


def conditions(rule: Rule) -> Iterator[str]:
    """A line for each condition with what comes of it."""
    each = f"for each {rule.each.variable} in `{rule.each.collection}`: " if rule.each else ""
    applies = f"`{flowing(rule.applies)}`, and " if rule.applies else ""
    for verdict in rule.verdicts:
        yield f"- {each}{applies}`{flowing(verdict.when)}` ({verdict.outcome})"


def cost(rule: Rule) -> str:
    """The formula of the cost, and the formula that the finding shows."""
    named = {"share of a step": rule.share, "seconds a step": rule.cost.get("seconds_per_step", ""),
             "bytes on a GPU": rule.cost.get("memory_bytes", "")}  # fmt: skip
    parts = [f"{what} = `{flowing(text)}`" for what, text in named.items() if text]
    if rule.cost.get("amount"):
        parts.append(f"where neither is known, `{flowing(rule.cost['amount'])}` {flowing(rule.cost['unit'])}")
    stops = sorted({verdict.outcome for verdict in rule.verdicts if SEVERITIES[verdict.outcome] == "error"})
    if stops:
        parts.append(
            f"an error ({', '.join(stops)}) stops the {rule.stops or 'launch, the step or the run'}, on all GPUs"
        )
    shown = "".join(f"\n\n    {flowing(formula.say)}" for formula in rule.formulas)
    return f"**What it costs.** {'; '.join(parts)}.{shown}" if parts else ""


def remedy(cure: Cure) -> str:
    """A line for a remedy."""
    changes = ", ".join(f"`{name}` = `{flowing(value)}`" for name, value in cure.set.items())
    text = cure.text if cure.text and not changes else f"{changes}{': ' + cure.say if cure.say else ''}"
    condition = f" (when `{flowing(cure.when)}`)" if cure.when else ""
    return f"- {flowing(text)}{condition}{'; changes the training' if cure.changes_training else ''}"


def limits(rule: Rule) -> str:
    """The thresholds, and how a team sets them."""
    if not rule.limits:
        return ""
    lines = [f"{name} = {value:g}" for name, value in rule.limits.items()]
    return "\n".join(["**Limits**, in `dtlint.toml`:", "", "```toml", f"[rules.{rule.name}.limits]", *lines, "```"])


def examples(rule: Rule) -> Iterator[str]:
    """The first bad and the first good example."""
    for kind, title in (("bad", "Found"), ("good", "Not found")):
        example = next(each for each in rule.examples if each.kind == kind)
        stated = ", ".join(f"{name} {value}" for name, value in example.set.items())
        yield f"**{title}**{f', with {stated}' if stated else ''}{place(example)}:"
        yield "\n\n".join(fenced(name, text) for name, text in example.files.items())
    yield f"More in [rules/{rule.path}](../rules/{rule.path})."


def place(example: Example) -> str:
    """Where an example is found."""
    lines = [
        f"line {found.line}" + (f" of {found.file}" if found.file else "") for found in example.finds if found.line
    ]
    return f" ({', '.join(lines)})" if lines else ""


def fenced(name: str, text: str) -> str:
    """A file as a block of code under its name."""
    return f"`{name}`\n\n```{LANGUAGES.get(name.rsplit('.', 1)[-1], '')}\n{text.rstrip()}\n```"


def citation(source: Mapping[str, str]) -> str:
    """A source as a link, where it has an address."""
    title = source["title"]
    return f"[{title}]({source['url']})" if source.get("url") else title


def written() -> str:
    """The page as the rule files have it today."""
    entries = yaml.safe_load((rules_folder() / "sources.yaml").read_text(encoding="utf-8"))
    return page(built_in(), cast("Mapping[str, Mapping[str, str]]", entries))


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    main()
