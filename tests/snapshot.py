"""Whole outputs, compared with the files in snapshots/ (DTLINT_SNAPSHOTS=write writes them anew)."""

from __future__ import annotations

import os
from pathlib import Path

import click

SNAPSHOTS = Path(__file__).with_name("snapshots")


def holds(name: str, text: str) -> None:
    """Whether `text`, without colours, is what the snapshot says."""
    file = SNAPSHOTS / name
    shown = click.unstyle(text)
    if os.environ.get("DTLINT_SNAPSHOTS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
