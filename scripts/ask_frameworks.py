"""Asks the frameworks' own parsers about generated configs and keeps their answers in tests/data/oracles.

    python scripts/ask_frameworks.py deepspeed torchrun

Each framework named needs its packages installed (none needs a GPU); tests/test_oracles.py holds dtlint against the
answers, so this runs once per release of a framework and never in .ci/run.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, metadata
from os import environ
from typing import cast

from oracles import ANSWERS, Oracle, keep


def main(names: list[str]) -> int:
    """Ask each framework that is named; 2 without a name."""
    if not names:
        print(__doc__, file=sys.stderr)
        return 2
    for name in names:
        _ask(name)
    return 0


def _ask(name: str) -> None:
    oracle = cast(Oracle, import_module(f"oracles.{name}"))
    rows = [(question, oracle.ask(question)) for question in oracle.questions()]
    versions = {package: metadata.version(package) for package in oracle.PACKAGES}
    versions |= {name: _commit(environ[variable]) for name, variable in getattr(oracle, "CHECKOUTS", {}).items()}
    path = keep(name, versions, rows, oracle.EXPLAINED, getattr(oracle, "ANSWERS", ANSWERS))
    refused = sum(answer.refused is not None for _, answer in rows)
    print(f"{path}: {len(rows)} questions, {refused} refused")


def _commit(checkout: str) -> str:
    command = ["git", "-C", checkout, "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
