"""A torchtune config that a recipe for one device is given."""

from __future__ import annotations

from dtlint.frameworks.torchtune.config import LAYER, read_program, read_single, spell

__all__ = ["LAYER", "read_config", "read_program", "recognise", "recognise_program", "spell"]

read_config = read_single


def recognise(document: object) -> bool:
    """The recipe decides, not the file."""
    return False


def recognise_program(program: object) -> bool:
    """torchtune's own reader takes every recipe."""
    return False
