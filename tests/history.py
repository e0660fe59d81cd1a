"""Small git histories for tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

NAMES = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
"""Who commits: git asks, and no test may hang on the answer of the machine."""


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env={**os.environ, **NAMES})
