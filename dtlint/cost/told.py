"""Numbers and words among whole settings."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.value import Plain

Values = Mapping[str, Plain]


def count_in(values: Values, name: str, otherwise: int) -> int:
    """A setting as a whole number, `otherwise` where it is told as none."""
    found = values.get(name)
    return int(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else otherwise


def amount_in(values: Values, name: str, otherwise: float) -> float:
    """A setting as a number above zero, `otherwise` where it is told as none."""
    found = values.get(name)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0 else otherwise


def word_in(values: Values, name: str, otherwise: str) -> str:
    """A setting as a word, `otherwise` where it is told as none."""
    found = values.get(name)
    return found if isinstance(found, str) and found else otherwise
