"""The account of a run: what it looked at on disk and what it said, for whoever keeps its answer.

Whatever reads what a user names looks at the disk through this module. While an account is kept, each look is noted
with what was seen; a path is looked at once, so that a run sees one state of it. Without an account nothing is noted.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    _Seen = TypeVar("_Seen")

Entry = tuple[str, str]
"""A name in a folder and the kind of what stands there: one of the four below, or LINK."""

FILE, FOLDER, OTHER, NOTHING, LINK = "file", "folder", "other", "", "link"

Stamp = tuple[int, int, int, int]
"""Size in bytes, times of modification and of change in nanoseconds, number of the file: what a change changes too."""


class Account:
    """What one run looked at and said.

    `current` is the folder in which the run began, `started` when, in nanoseconds. `kinds` of what paths hold, links
    followed; `contents` of files: the stamp, how many bytes the digest is of, and the digest; `folders` with a stamp
    and the digest of their entries; `listings` of work trees by git, as digests. `said` are the texts in order, each
    with where it went. Only what is `vouched` for is complete; a run that rests on something else as well (standard
    input, a revision, a file that it may not read) is `spoiled`.
    """

    __slots__ = ("contents", "current", "folders", "kinds", "listings", "said", "spoiled", "started", "vouched")

    def __init__(self) -> None:
        self.started = time.time_ns()
        self.current = os.getcwd()  # noqa: PTH109 - as a text
        self.kinds: dict[str, str] = {}
        self.contents: dict[str, tuple[Stamp, int, str]] = {}
        self.folders: dict[str, tuple[Stamp, str]] = {}
        self.listings: dict[str, str] = {}
        self.said: list[tuple[str, str, str]] = []
        self.vouched = False
        self.spoiled = False

    def name(self, path: str | Path) -> str:
        """A path from the top, otherwise as it is: what `..` leads to depends on links."""
        return os.path.join(self.current, path)  # noqa: PTH118 - for every file of a tree


_current: list[Account] = []


@contextmanager
def keeping() -> Iterator[Account]:
    """Keep an account of what is done meanwhile."""
    account = Account()
    _current.append(account)
    try:
        yield account
    finally:
        _current.remove(account)


def vouch() -> None:
    """Say that the answer is whole, and rests on nothing but what the account has."""
    for account in _current:
        account.vouched = True


def spoil() -> None:
    """Say that the answer rests on something that the account does not have."""
    for account in _current:
        account.spoiled = True


def include(other: Account) -> None:
    """Take over the looks of an account that was kept elsewhere, as in another process; what it saw differently changed
    meanwhile.
    """
    for account in _current:
        for name, (stamp, length, digested) in other.contents.items():
            _take_content(account, name, stamp, length, partial(str, digested))
        same = [
            _agree(account.kinds, other.kinds),
            _agree(account.folders, other.folders),
            _agree(account.listings, other.listings),
        ]
        account.spoiled = account.spoiled or other.spoiled or not all(same)


def _agree(own: dict[str, _Seen], others: Mapping[str, _Seen]) -> bool:
    """Add what others saw, and tell whether nobody saw anything else."""
    return all(own.setdefault(name, seen) == seen for name, seen in others.items())


def said(where: str, text: str, file: str = "") -> None:
    """Note a text that goes to `where` ("out", "error", or "file" and "end" of one: anew, or behind what it holds)."""
    for account in _current:
        account.said.append((where, text, file))


def kind_at(path: str | Path) -> str:
    """What stands at a path, links followed: FILE, FOLDER, OTHER, or NOTHING, also for what cannot be looked at."""
    for account in _current:
        name = account.name(path)
        if name not in account.kinds:
            account.kinds[name] = _kind(name)
        return account.kinds[name]
    return _kind(str(path))


def is_file(path: str | Path) -> bool:
    """Whether a path leads to a regular file."""
    return kind_at(path) == FILE


def is_folder(path: str | Path) -> bool:
    """Whether a path leads to a folder."""
    return kind_at(path) == FOLDER


def is_there(path: str | Path) -> bool:
    """Whether a path leads to anything."""
    return kind_at(path) != NOTHING


def standing(path: str) -> str:
    """What stands at a path itself: one of the kinds, or LINK."""
    try:
        kind = kind_of_mode(os.lstat(path).st_mode)
    except (OSError, ValueError):
        kind = NOTHING
    if kind == LINK:
        kind_at(path)
        return LINK
    for account in _current:
        account.kinds.setdefault(account.name(path), kind)
    return kind


def content(file: Path, most: int, wanted: int = -1) -> tuple[int, bytes]:
    """The size of a file in bytes and what it holds: the first `wanted` bytes, or all of at most `most` bytes (of a
    longer one nothing). OSError where it cannot be read, and for what is no regular file: a pipe is not waited for.
    """
    try:
        with open(file, "rb", opener=_unhindered) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError("not a regular file")
            size = status.st_size
            data = stream.read(wanted) if size <= most or wanted >= 0 else b""
    except OSError:
        spoil()
        raise
    for account in _current:
        _take_content(account, account.name(file), stamp_of(status), len(data), partial(digest, data))
    return size, data


def size_of(file: Path) -> int:
    """The size of a regular file in bytes; OSError as for its content."""
    return content(file, 0, 0)[0]


def _unhindered(path: str, flags: int) -> int:
    """Open without waiting for whoever may be at the other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def entries(folder: str | Path) -> tuple[Entry, ...] | None:
    """What a folder holds, by name; None where the system does not list it."""
    name = str(folder)
    try:
        status = os.stat(name)  # noqa: PTH116 - called for every folder of a tree
        found = listed(name)
    except (OSError, ValueError):
        if kind_at(name) == FOLDER:
            spoil()
        return None
    for account in _current:
        account.folders.setdefault(account.name(name), (stamp_of(status), digest_of(found)))
    return found


def listing(root: Path, listed_by: Callable[[Path], bytes | None]) -> bytes | None:
    """What git lists below a root, None where it lists nothing."""
    found = listed_by(root)
    for account in _current:
        account.listings[str(root)] = listing_digest(found)
    return found


def listed(folder: str) -> tuple[Entry, ...]:
    """What a folder holds, by name, links not followed; OSError where it is not listed."""
    with os.scandir(folder) as found:
        return tuple(sorted((entry.name, _entry_kind(entry)) for entry in found))


def stamp_of(status: os.stat_result) -> Stamp:
    """Size, times and number."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def digest_of(found: tuple[Entry, ...]) -> str:
    """A short text that no other list of entries has."""
    return digest("\0".join(f"{kind}\0{name}" for name, kind in found).encode(errors="surrogateescape"))


def listing_digest(found: bytes | None) -> str:
    """A short text that no other listing has, "" for none."""
    return "" if found is None else digest(found)


def digest(data: bytes) -> str:
    """A short text that no other data has. What hashlib hands on is loaded without OpenSSL, where that can be."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=16).hexdigest()


def _take_content(account: Account, name: str, stamp: Stamp, length: int, digested: Callable[[], str]) -> None:
    known = account.contents.get(name)
    if known is not None and known[0] != stamp:
        account.spoiled = True
    if known is None or known[1] < length:
        account.contents[name] = stamp, length, digested()


def _kind(name: str) -> str:
    try:
        return kind_of_mode(os.stat(name).st_mode)  # noqa: PTH116 - called for every file of a tree
    except (OSError, ValueError):
        return NOTHING


def kind_of_mode(mode: int) -> str:
    """The kind that the mode of a status tells."""
    if stat.S_ISLNK(mode):
        return LINK
    return FILE if stat.S_ISREG(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER


def _entry_kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    return FOLDER if entry.is_dir(follow_symlinks=False) else FILE if entry.is_file(follow_symlinks=False) else OTHER
