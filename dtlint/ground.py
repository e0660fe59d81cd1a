"""Where a check takes its terms from (dtlint.toml, house rules, baseline, ignores): the files beside the code, or an
earlier revision, which the change under review cannot touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from dtlint.account import is_file, spoil
from dtlint.record import NamedTuple
from dtlint.source import Source


class Ground(NamedTuple):
    """`text` gives what a file holds there (None: it is not there), `folder` what a folder holds, as a folder on disk
    for as long as the context lasts. `text_before` gives the earlier text of a file, where that decides which ignores
    count.
    """

    text: Callable[[Path], str | None]
    folder: Callable[[Path], AbstractContextManager[Path]]
    text_before: Callable[[Source], str | None] | None = None


def work_tree() -> Ground:
    """The files as they are."""
    return Ground(_text, nullcontext)


def at_revision(revision: str, start: Path) -> Ground:
    """The files of the git work tree around `start`, as they were at a revision; GitError where there is none."""
    from dtlint.revisions import commit_of, text_at, top_of, unpack

    spoil()
    top = top_of(start)
    commit = commit_of(top, revision)

    @contextmanager
    def folder(path: Path) -> Iterator[Path]:
        from tempfile import TemporaryDirectory

        relative = path.resolve().relative_to(top).as_posix()
        with TemporaryDirectory(prefix="dtlint-") as name:
            unpack(top, commit, Path(name), [relative])
            yield Path(name, relative)

    def text_before(source: Source) -> str | None:
        return None if source.file is None else text_at(top, commit, source.file.resolve())

    return Ground(lambda file: text_at(top, commit, file.resolve()), folder, text_before)


def _text(file: Path) -> str | None:
    """The text of a file on disk; Unreadable for one that is there and has none."""
    from dtlint.source import read_source

    return read_source(file, file.as_posix()).text if is_file(file) else None
