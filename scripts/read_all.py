"""Checks each file named on the command line by itself and fails on a crash; findings are none of its business."""

from __future__ import annotations

import sys
import traceback

from dtlint.api import check


def main(paths: list[str]) -> int:
    """How many files crashed, at most 1 as an exit status."""
    crashed = [path for path in paths if not _reads(path)]
    print(f"{len(paths)} files read, {len(crashed)} crashed")
    return int(bool(crashed))


def _reads(path: str) -> bool:
    try:
        check([path])
    except Exception:  # noqa: BLE001 - the very thing that is looked for
        print(f"{path}\n{traceback.format_exc()}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
