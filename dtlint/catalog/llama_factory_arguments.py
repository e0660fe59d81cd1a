"""The arguments of LLaMA-Factory beside TrainingArguments, and what each takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "data" / "llama_factory_arguments.csv"


@cache
def llama_factory_arguments() -> Mapping[str, str]:
    """By name: int, float, flag, text, or words with | between."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {name: takes for name, _, takes in (line.partition(",") for line in lines[1:])}
