"""A folder of kept texts, private to the user: each whole or not there, the oldest thrown away when it grows too large.

Nothing here is ever in the way: what cannot be read is not there, what cannot be written is not kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

LARGEST = 16_000_000
"""Longest text that is kept, in bytes."""

MOST_BYTES = 64_000_000
"""All texts together."""

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600


def taken(folder: Path, name: str) -> bytes | None:
    """What is kept under a name; None for nothing, and for what somebody else may have put there."""
    try:
        if not _is_private(folder.lstat(), stat.S_ISDIR):
            return None
        file = folder / name
        status = file.lstat()
        return file.read_bytes() if _is_private(status, stat.S_ISREG) and status.st_size <= LARGEST else None
    except OSError:
        return None


def keep(folder: Path, name: str, data: bytes) -> None:
    """Keep a text under a name, if that can be."""
    from dtlint.replacing import replace

    if len(data) > LARGEST:
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if _is_private(folder.lstat(), stat.S_ISDIR) and not (folder / name).is_symlink():
            replace(folder / name, data, PRIVATE_FILE)
            _prune(folder)
    except OSError:
        return


def _prune(folder: Path) -> None:
    """Throw the oldest texts away until the others are few enough."""
    files = sorted(_files(folder), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > MOST_BYTES:
            os.unlink(path)  # noqa: PTH108


def _files(folder: Path) -> Iterator[tuple[int, int, str]]:
    """When each file was written, its size, its path; those that a killed process left are among them."""
    with os.scandir(folder) as found:
        for entry in found:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime_ns, status.st_size, entry.path


def _is_private(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Whether it is what it should be, the user's own, and nobody else's to read or write."""
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    others = 0 if os.name == "nt" else stat.S_IMODE(status.st_mode) & 0o077
    return is_kind(status.st_mode) and own and not others
