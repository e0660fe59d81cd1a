"""Writes files as a whole or not at all: whenever the process is killed, a file holds the old text or the new one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""How a draft is opened: it must not be there yet."""


def replace(file: Path, data: bytes, mode: int | None = None) -> None:
    """Put `data` in the place of what a file holds, with its mode unless another is given; OSError where that
    cannot be.

    A link stays one. What is no regular file (a pipe, a device) is written to, for there is nothing to replace.
    """
    target = file.resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    mode = _mode(target) if mode is None else mode
    draft = target.with_name(f".{target.name[:100]}.{os.urandom(8).hex()}")
    try:
        with os.fdopen(os.open(draft, NEW, 0o600), "wb") as opened:
            opened.write(data)
        draft.chmod(mode)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _mode(file: Path) -> int:
    """The permissions of a file; of one that is not there what the user's mask leaves a new one."""
    try:
        return stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
