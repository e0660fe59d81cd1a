"""What a git repository held at a revision: single files, and whole trees put into a folder. Only git's own objects are
read; no hook, filter or command that the repository configures is run.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from dtlint.source import MAX_BYTES

GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


class GitError(Exception):
    """Something that git cannot give, with the sentence that says what."""


def top_of(folder: Path) -> Path:
    """The top of the work tree that holds `folder`; GitError where none does."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    except GitError:
        raise GitError(f"{folder} is not in a git work tree") from None


def commit_of(top: Path, revision: str) -> str:
    """The full name of the commit that `revision` means; GitError for one that does not exist."""
    try:
        return (
            _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        )
    except GitError:
        raise GitError(f"no revision '{revision}' in {top}") from None


def text_at(top: Path, commit: str, file: Path) -> str | None:
    """The text that a file below `top` had in a commit; None where it did not exist or is no text."""
    if not file.is_relative_to(top):
        return None
    try:
        data = _git(top, "cat-file", "blob", f"{commit}:{file.relative_to(top).as_posix()}")
    except GitError:
        return None
    return None if b"\0" in data or len(data) > MAX_BYTES else data.decode("utf-8-sig", errors="replace")


def unpack(top: Path, commit: str, folder: Path, paths: Sequence[str] = ()) -> None:
    """Put the regular files of a commit into a folder: those below `paths` (relative to `top`), all without paths.

    Links, and files longer than any config or script, are left out. GitError where a path was not there.
    """
    data = _git(top, "archive", "--format=tar", commit, "--", *paths)
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        for member in archive:
            if member.isfile() and member.size <= MAX_BYTES and _is_inside(member.name):
                _put(archive, member, folder)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    opened = archive.extractfile(member)
    if opened is not None:
        file = folder / member.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(opened.read())


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run([*GIT, "-C", str(folder), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(lines[-1] if lines else f"git {arguments[0]} failed")
    return done.stdout
