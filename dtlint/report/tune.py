"""What a search over plans found, for people: the best beside today's, what changes where, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dtlint.interval import Interval
from dtlint.report.frame import Paint
from dtlint.report.terminal import printable, styled, width, wrap
from dtlint.report.words import (
    bounds_shown,
    counted,
    listed,
    plan_line,
    run_place,
    step_time,
    telling,
    unknown_shown,
    value_shown,
)
from dtlint.rulebook.sentences import spell

if TYPE_CHECKING:
    from dtlint.cost import Estimate
    from dtlint.plan import Plan
    from dtlint.runs.model import Run
    from dtlint.tune import Change, Offer, Tuned

INDENT = "  "
BOLD: Paint = partial(styled, bold=True)

FIXED = ("batch.global", "data.sequence_length", "model.name", "model.parameters", "optimizer.name")
"""What a search never changes unasked, as far as the plan tells it."""

Row = tuple[str, str, str, str, str]
HEAD: Row = ("", "typically", "step", "GPU memory", "free")


def tuned_text(pairs: Sequence[tuple[Run, Tuned]], columns: int) -> str:
    """The search of every run."""
    blocks = ["\n".join(_lines(run, tuned, columns)) for run, tuned in pairs]
    return "\n\n\n".join(blocks or ["no plan was read that can be searched"]) + "\n"


def _lines(run: Run, tuned: Tuned, columns: int) -> Iterable[str]:
    role = "" if run.role == "train" else f" ({printable(run.role)})"
    yield BOLD(f"{run_place(run)}{role}")
    yield from wrap(plan_line(tuned.today), "", INDENT, columns)
    if tuned.needs:
        yield from _needs(tuned, columns)
        return
    yield from wrap(counts_line(tuned), "", INDENT, columns)
    yield ""
    yield from _table(tuned)
    for name, offer in named_offers(tuned):
        yield ""
        yield from _offer(name, offer, tuned, columns)
    yield ""
    for sentence in (*left_out(tuned), *remarks(tuned)):
        yield from wrap(sentence, "", INDENT, columns)


def _needs(tuned: Tuned, columns: int) -> Iterable[str]:
    yield "not ranked: memory and time cannot be told apart without"
    for unknown in tuned.needs:
        yield from wrap(unknown_shown(unknown), INDENT, INDENT * 2, columns)


def counts_line(tuned: Tuned) -> str:
    """How many plans were looked at, how many rank, and where today's stands among them."""
    found = tuned.search
    place = f"today's is number {tuned.place:,}" if tuned.place else f"today's is not among them ({tuned.against})"
    return (
        f"{counted(found.considered, 'plan')} looked at, {found.priced:,} of them priced; {len(found.ranked):,} can be "
        f"and fit, and {place}"
    )


def named_offers(tuned: Tuned) -> Iterable[tuple[str, Offer]]:
    """The offers by the numbers that reports give them."""
    yield from ((str(number), offer) for number, offer in enumerate(tuned.offers, 1))
    if tuned.surest is not None:
        yield "surest", tuned.surest


def _table(tuned: Tuned) -> Iterable[str]:
    rows = [HEAD, *([] if tuned.estimate is None else [_row("today", tuned.estimate)])]
    rows += [_row(name, offer.estimate) for name, offer in named_offers(tuned)]
    plans = ["plan", split_shown(tuned.today), *(split_shown(offer.plan) for _, offer in named_offers(tuned))]
    widths = [max(width(row[column]) for row in rows) for column in range(len(HEAD))]
    for row, plan in zip(rows, plans, strict=True):
        cells = (cell.ljust(size) if index == 0 else cell.rjust(size) for index, (cell, size) in _sized(row, widths))
        yield f"{INDENT}{'  '.join(cells)}  {plan}".rstrip()


def _sized(row: Row, widths: Sequence[int]) -> Iterable[tuple[int, tuple[str, int]]]:
    return enumerate(zip(row, widths, strict=True))


def _row(name: str, found: Estimate) -> Row:
    whole = Interval(found.low.step_seconds, found.high.step_seconds)
    memory = Interval(found.low.memory.device_bytes, found.high.memory.device_bytes)
    typical = step_time(Interval(found.step_seconds, found.step_seconds))
    return name, typical, step_time(whole), spell(memory, "gb"), free_shown(found)


def free_shown(found: Estimate) -> str:
    """The share of a GPU's memory that stays free; how much is wanting where it does not fit."""
    low, high = (1 - end.memory.device_bytes / end.memory.available_bytes for end in (found.high, found.low))
    return f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{low:.0%} to {high:.0%}"


def split_shown(plan: Plan) -> str:
    """The degrees of a plan and what else a search varies, in a few words."""
    chunks, micro = plan.integer("parallel.virtual_pipeline") or 1, plan.integer("batch.micro")
    recompute = plan.word("checkpointing.activations") or "none"
    parts = [
        plan_line(plan).partition(" on ")[0],
        f"ZeRO-{stage}" if (stage := plan.integer("sharding.stage")) else "",
        counted(chunks, "chunk") if chunks > 1 else "",
        f"micro-batch {micro}" if micro else "",
        f"{recompute} recomputation" if recompute != "none" else "",
        f"shard groups of {group}" if (group := _smaller_group(plan)) else "",
    ]
    return ", ".join(filter(None, parts))


def _smaller_group(plan: Plan) -> int | None:
    """The ranks of a shard group where it is stated that not all share the states."""
    return plan.integer("sharding.group") if plan.stated("sharding.group") is not None else None


def _offer(name: str, offer: Offer, tuned: Tuned, columns: int) -> Iterable[str]:
    yield BOLD(f"{name}. {split_shown(offer.plan)}") + f": {gain_shown(offer, tuned)}"
    if not offer.changes:
        yield f"{INDENT}today's plan as it is"
    for change in offer.changes:
        yield from wrap(change_shown(change), INDENT, INDENT * 3, columns)
    for sentence in cautions(offer):
        yield from wrap(sentence, INDENT, INDENT * 2, columns)


def gain_shown(offer: Offer, tuned: Tuned) -> str:
    """What a plan saves of today's time for a token at the middle."""
    share = saved(offer, tuned)
    if share is None:
        return "today's step is not known"
    per = "step" if offer.plan.value("batch.global") == tuned.today.value("batch.global") else "token"
    if abs(share) < 0.0005:
        return "as fast as today's"
    return f"saves {share:.1%} per {per}" if share > 0 else f"costs {-share:.1%} per {per}"


def saved(offer: Offer, tuned: Tuned) -> float | None:
    """The share of today's time for a token that a plan saves, at the middle."""
    before = tuned.estimate
    if before is None:
        return None
    then = offer.estimate.step_seconds / offer.estimate.tokens_per_step
    return 1 - then / (before.step_seconds / before.tokens_per_step)


def change_shown(change: Change) -> str:
    """A change with its place: what stands there, and what would."""
    old = change.old or f"not written, {value_shown(change.before)}"
    return f"{place_shown(change)}{change.setting}: {printable(old)} -> {printable(change.new)}"


def place_shown(change: Change) -> str:
    """Where the setting stands or would stand, with a blank behind it; "" where that is not known."""
    if change.place is None:
        return ""
    span = change.place.original()
    return printable(f"{span.path}:{span.line}:{span.column}") + " "


def cautions(offer: Offer) -> Iterable[str]:
    """What speaks against a plan, and what has to be written by hand."""
    if not offer.fits:
        yield "may not fit: the high end of its memory, with the model's error of 10%, is more than a GPU has"
    if offer.raises:
        yield f"dtlint check would warn of {listed(offer.raises)}"
    if offer.changes and not offer.edits:
        yield "by hand: one of these values is worked out where it stands, or stands in no file that was read"


def left_out(tuned: Tuned) -> Iterable[str]:
    """How many plans were left out, each reason with its number."""
    refused = sorted(tuned.search.refused.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count:,} {reason}" for reason, count in refused]
    if shown:
        yield "left out: " + "; ".join(shown)
    if tuned.faulty:
        yield f"not offered: {counted(tuned.faulty, 'split')} in which a rule finds an error"


def remarks(tuned: Tuned) -> Iterable[str]:
    """What the search left as it is, and what it does not know."""
    varied = {axis.setting for axis in tuned.search.axes}
    fixed = [name for name in FIXED if name not in varied and tuned.today.value(name) is not None]
    if fixed:
        yield f"as today: {listed(fixed)}; --vary SETTING=VALUE,... tries others"
    if tuned.untold:
        yield f"as today, for no file tells them: {listed(tuned.untold)}"
    assumed = () if tuned.estimate is None else tuned.estimate.assumed
    if assumed:
        taken = listed([f"{name} {bounds_shown(name)}" for name in assumed])
        yield f"not known, ranked by the middle: {taken}; say it with {telling(assumed[0])}"
    yield "two plans that differ by more than 10% come in the right order in 87 of 100 measured pairs"
