"""How names of GPUs, machines and models are compared: letters in any case, `_ - . :` and spaces alike, nothing left
out.
"""

from __future__ import annotations

_SEPARATORS = str.maketrans(dict.fromkeys("_.:()-", " "))


def normalized(name: str) -> str:
    """The name in small letters with one `-` for every run of separators (opt-1.3b stays apart from opt-13b)."""
    return "-".join(name.lower().translate(_SEPARATORS).split())
