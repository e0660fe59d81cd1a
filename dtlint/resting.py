"""What an answer rests on, as data that can be kept, and whether the disk still says the same.

A sight is what was seen of one path: a kind; `[LINK, where it leads]`; of a file that was read its stamp (size, times,
number), how many bytes were read, and their digest; of a folder that was listed its stamp and the digest of its
entries. A stamp stands for what it was taken of as long as it is the same. Where it differs, or was taken so soon after
a change that another one may have left it as it is, the contents are looked at again.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dtlint.account import (
    FILE,
    LINK,
    NOTHING,
    Account,
    Stamp,
    digest,
    digest_of,
    kind_of_mode,
    listed,
    listing_digest,
    stamp_of,
)
from dtlint.git import listing_by_git
from dtlint.record import NamedTuple

Sight = str | list[int | str]

RACE_NS = 2_000_000_000
"""What changed less than this before it was looked at, in nanoseconds, may change again and keep its times: no file
system counts coarser than two seconds.
"""


class Rest(NamedTuple):
    """What an answer rests on: sights by folder and name, and the digests of what git lists below a root."""

    sights: Mapping[str, Mapping[str, Sight]]
    listings: Mapping[str, str]


if TYPE_CHECKING:
    from typing import TypeVar

    _Seen = TypeVar("_Seen")


class Changing(Exception):  # noqa: N818 - a fact about the disk, not a programming error
    """Something changed while a run looked at it."""


def rest_of(account: Account) -> Rest | None:
    """What the answer of an account rests on; None where that is not known."""
    if account.spoiled or not account.vouched:
        return None
    try:
        return Rest(_by_folder(account), account.listings)
    except (Changing, OSError, ValueError):
        return None


def _by_folder(account: Account) -> Mapping[str, Mapping[str, Sight]]:
    sights: dict[str, dict[str, Sight]] = {}
    for path, status in _standing(account).items():
        folder, name = os.path.split(path)
        sights.setdefault(folder, {})[name] = _sight(path, status, account)
    return sights


def still(rest: Rest) -> Rest | None:
    """The same with stamps that tell more, if the disk still says what it said; None if it does not."""
    listings = {root: listing_by_git(Path(root)) for root in rest.listings}
    sights = _all_seen_again(rest)
    same = all(listing_digest(listings[root]()) == known for root, known in rest.listings.items())
    return rest._replace(sights=sights) if same and sights is not None else None


def _all_seen_again(rest: Rest) -> Mapping[str, Mapping[str, Sight]] | None:
    """All sights if each is what it was."""
    now = time.time_ns()
    sights: dict[str, Mapping[str, Sight]] = {}
    for folder, named in rest.sights.items():
        sights[folder] = dict(_seen_again(folder, named, now))
        if len(sights[folder]) < len(named):
            return None
    return sights


def _seen_again(folder: str, named: Mapping[str, Sight], now: int) -> Iterator[tuple[str, Sight]]:
    """The sights of a folder, up to the first that is another."""
    for name, sight in named.items():
        path = os.path.join(folder, name)  # noqa: PTH118 - for every file of a tree
        again = _seen(path, sight, now)
        if again is None:
            return
        yield name, again


def _seen(path: str, sight: Sight, now: int) -> Sight | None:
    """What is seen of a path if it is what was seen; with its stamp where that has become one that tells."""
    status = _status(path)
    if status is None:
        return sight if sight == NOTHING else None
    # The same number with the same times is the same thing, and so of the same kind.
    if sight[:4] == [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]:
        return sight
    kind = kind_of_mode(status.st_mode)
    if isinstance(sight, str):
        return sight if sight == kind else None
    if sight[0] == LINK:
        return sight if kind == LINK and os.path.realpath(path) == sight[1] else None
    again = _file(path, status, sight) if kind == FILE and len(sight) == 6 else _folder(path, status, sight)
    return None if again is None or again != sight[4:] else [*_told(stamp_of(status), now), *again]


def _file(path: str, status: os.stat_result, sight: list[int | str]) -> list[int | str] | None:
    """How many bytes were read of a file, and the digest that they have now."""
    length = sight[4]
    if status.st_size != sight[0] or not isinstance(length, int):
        return None
    with open(path, "rb") as stream:  # noqa: PTH123 - a path of a file that was looked at just now
        return [length, digest(stream.read(length))]


def _folder(path: str, status: os.stat_result, sight: list[int | str]) -> list[int | str] | None:
    """The digest that the entries of a folder have now."""
    return [digest_of(listed(path))] if stat.S_ISDIR(status.st_mode) and len(sight) == 5 else None


def _told(stamp: Stamp, since: int) -> list[int | str]:
    """A stamp as it is kept: without what tells nothing of a thing that changed shortly before a time, or after it."""
    size, modified, changed, number = stamp
    return [size, modified, changed, number] if max(modified, changed) < since - RACE_NS else [size, 0, 0, 0]


def _standing(account: Account) -> dict[str, os.stat_result | None]:
    """What stands at every path of an account, at the folders above it, and at what links lead to, to which goes what
    was seen at the link; None for nothing.
    """
    waiting = [*account.kinds, *account.contents, *account.folders]
    found: dict[str, os.stat_result | None] = {}
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = status = _status(path)
        waiting.append(os.path.dirname(path))  # noqa: PTH120 - for every file of a tree
        if status is not None and stat.S_ISLNK(status.st_mode):
            real = os.path.realpath(path)
            _hand_on(path, real, account.kinds)
            _hand_on(path, real, account.contents)
            _hand_on(path, real, account.folders)
            waiting.append(real)
    return found


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _hand_on(path: str, real: str, seen: dict[str, _Seen]) -> None:
    """Give what was seen at a link to where it leads."""
    if path in seen:
        seen.setdefault(real, seen[path])


def _sight(path: str, status: os.stat_result | None, account: Account) -> Sight:
    """What was seen of a path; Changing where something else stands there by now."""
    if status is None:
        if account.kinds.get(path, NOTHING) != NOTHING or path in account.contents or path in account.folders:
            raise Changing
        return NOTHING
    kind = kind_of_mode(status.st_mode)
    if kind == LINK:
        if status.st_ctime_ns >= account.started:
            raise Changing
        return [LINK, os.path.realpath(path)]
    if account.kinds.get(path, kind) != kind:
        raise Changing
    if path in account.contents:
        stamp, length, digested = account.contents[path]
        return [*_told(stamp, account.started), length, digested]
    if path in account.folders:
        stamp, digested = account.folders[path]
        return [*_told(stamp, account.started), digested]
    return kind
