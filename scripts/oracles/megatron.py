"""Megatron-LM: what its start-up up to the first step says to launch scripts (MEGATRON_LM names a checkout).

pip install torch triton numpy einops packaging; MEGATRON_LM=~/Megatron-LM python scripts/ask_frameworks.py megatron
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from oracles import VALID, Answer, Question
from oracles import megatron_ask as start
from oracles.megatron_mistakes import MISTAKES, mistaken
from oracles.megatron_runs import valid_runs

PACKAGES = ("torch",)
CHECKOUTS: Mapping[str, str] = {"Megatron-LM": "MEGATRON_LM"}
EXPLAINED: Mapping[str, str] = {}

VALID_RUNS = 95
AT_LEAST = 30
"""Mistakes of each kind."""


def questions() -> list[Question]:
    """Valid launches, then one mistake in each."""
    pick = random.Random(0)
    valid = list(valid_runs(pick, VALID_RUNS))
    asked = [run.question(f"{VALID}-{number:03}", VALID) for number, run in enumerate(valid)]
    for kind, mistakes in MISTAKES.items():
        wrong = mistaken(pick, valid, mistakes, max(AT_LEAST, len(mistakes)))
        asked.extend(run.question(f"{kind}-{number:03}", kind) for number, run in enumerate(wrong))
    return asked


def ask(question: Question) -> Answer:
    """Its verdict, and the settings on which it settles."""
    return start.ask(question)
