"""What a git repository held at a revision: single files, and whole trees put into a folder. Only git's own objects are
read; no hook, filter or command that the repository configures is run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from dtlint.git import COMMAND, OFFLINE
from dtlint.source import MAX_BYTES


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

    Links, and files longer than any config or script, are left out. GitError where a path was not there. The files are
    as git stores them: `git archive` would run filters over them, and leave out what an attribute says.
    """
    listed = _git(
        top, "ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", *(path for path in paths if path != ".")
    )
    if paths and not listed:
        raise GitError(f"no {' or '.join(paths)} in {commit}")
    files = [found for entry in listed.split(b"\0") if (found := _file_of(entry)) is not None]
    names = b"".join(blob + b"\n" for blob, _ in files)
    stored = BytesIO(_git(top, "cat-file", "--batch", given=names))
    for _, name in files:
        size = int(stored.readline().split()[2])
        _put(folder / name, stored.read(size))
        stored.read(1)


def _file_of(entry: bytes) -> tuple[bytes, str] | None:
    """The blob and the name of a regular file in a line of `git ls-tree`, None for anything else."""
    head, _, path = entry.partition(b"\t")
    name = os.fsdecode(path)
    if not head.startswith(b"100") or not _is_inside(name):
        return None
    _, _, blob, size = head.split()
    return (blob, name) if int(size) <= MAX_BYTES else None


def _put(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and not {"..", ".git"} & set(path.parts)


def _git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    command = [*COMMAND, "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, input=given, env={**os.environ, **OFFLINE})
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(lines[-1] if lines else f"git {arguments[0]} failed")
    return done.stdout
