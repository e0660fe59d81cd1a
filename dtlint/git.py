"""How git is started: for what it has stored and what it lists, and so that nothing that a repository configures runs.

A stranger's `.git/config` may name programs. Of what could start one here, core.fsmonitor is switched off, hooks are
looked for where none are, pagers wait for terminals, and no protocol is allowed, so that a partial clone fetches
nothing. Filters, textconv and external diffs belong to commands that are not used. Nor does core.excludesFile count,
which may be any file: what is ignored is the same for everyone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

COMMAND = (
    "git",
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    f"core.excludesFile={os.devnull}",
)

OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}
"""A partial clone would fetch the objects that it lacks; older releases of git know only the second."""

ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Variables that lead git to another repository than the one around a folder; hooks have them."""

LISTING = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")

PATIENCE_SECONDS = 30.0
"""How long git may take to list a work tree."""


def listed_by_git(root: Path) -> bytes | None:
    """The files of a work tree with that top which are tracked or not ignored, a NUL behind each name; None where git
    does not list it: it is missing, refuses, fails, or takes too long.
    """
    return listing_by_git(root)()


def listing_by_git(root: Path) -> Callable[[], bytes | None]:
    """Have git begin to list a work tree; what comes back waits for the list."""
    from dtlint.starting import start

    if not (root / ".git").exists():
        return lambda: None
    return start((*COMMAND, "-C", str(root), *LISTING), _environment(root), PATIENCE_SECONDS)


def _environment(root: Path) -> Mapping[str, str]:
    """The variables of the user for git at a root: no folder above it is looked into for a repository."""
    own = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return {**own, **OFFLINE, "GIT_CEILING_DIRECTORIES": str(root.parent)}
