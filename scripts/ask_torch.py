"""Runs what rules about code rely on, with two gloo processes on the CPU, and writes docs/semantics.md.

    python scripts/ask_torch.py

It needs torch (the CPU build will do) and, for the facts about ZeRO, deepspeed; it runs once per release of these and
never in .ci/run. It ends with 1 when an outcome is not the one that the fact says.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from semantics import Fact, data, ddp, exchange, fsdp, zero
from semantics.pair import Outcome, run_pair
from semantics.table import page

PAGE = Path(__file__).parents[1] / "docs" / "semantics.md"
PACKAGES = ("torch", "deepspeed")


def main() -> int:
    """Run every fact and write the page; 1 if one does not hold."""
    facts = (*ddp.FACTS, *exchange.FACTS, *fsdp.FACTS, *data.FACTS, *zero.FACTS)
    rows = [(fact, _told(fact)) for fact in facts]
    versions = {package: metadata.version(package) for package in PACKAGES}
    PAGE.write_text(page(rows, versions), encoding="utf-8")
    wrong = [(fact, outcome) for fact, outcome in rows if outcome != fact.expected]
    for fact, outcome in wrong:
        print(f"{fact.name}: {fact.expected} expected, {outcome} seen", file=sys.stderr)
    print(f"{PAGE.name}: {len(rows)} facts, {len(wrong)} not borne out")
    return 1 if wrong else 0


def _told(fact: Fact) -> Outcome:
    outcome = run_pair(fact.run)
    print(f"{fact.name}: {outcome}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
