"""The folder in which dtlint keeps what it would otherwise work out again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """The folder of the user, which need not be there; None where the user has none."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(folder):  # noqa: PTH117 - the specification says that a relative path is to be ignored
        home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
        if not os.path.isabs(home):  # noqa: PTH117
            return None
        folder = f"{home}/.cache"
    return Path(folder, "dtlint")
