"""Writes into each rule file how often the rule was right among the latest findings that docs/precision.md lists.

python scripts/write_judged.py            writes the rule files
python scripts/write_judged.py --check    fails where one differs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECTION = "## A hundred findings"
"""How the heading begins whose tables list findings with their verdicts."""

LATEST = 20
"""Most findings of a rule that count, the last ones on the page."""

_ROW = re.compile(r"\| [^|]+/[^|]+ \| [0-9a-f]{7} \| `[^|]+` \| ([a-z0-9-]+) \| ([a-z| ]+) \|")
_LINE = re.compile(r"^judged: .*\n", re.MULTILINE)
_BEFORE = re.compile(r"^scope: .*\n", re.MULTILINE)


def verdicts(page: str) -> Iterator[tuple[str, bool]]:
    """The rule of each judged finding, and whether all of its readers call it true."""
    for row in _ROW.finditer(page[page.index(SECTION) :]):
        yield row[1], set(re.split(r"[ |]+", row[2].strip())) == {"true"}


def counts(page: str) -> Mapping[str, tuple[int, int]]:
    """Right and judged findings by rule, of the LATEST of each: what was false before is mended in kind."""
    judged: dict[str, list[bool]] = {}
    for rule, true in verdicts(page):
        judged.setdefault(rule, []).append(true)
    latest = {rule: found[-LATEST:] for rule, found in judged.items()}
    return {rule: (sum(found), len(found)) for rule, found in latest.items()}


def with_counts(text: str, right: int, of: int) -> str:
    """A rule file with its counts, behind its scope."""
    bare = _LINE.sub("", text)
    scope = _BEFORE.search(bare)
    end = scope.end() if scope else bare.index("\nwhen:") + 1
    return f"{bare[:end]}judged: {{right: {right}, of: {of}}}\n{bare[end:]}"


def written() -> Mapping[Path, str]:
    """Each rule file as it should be."""
    found = counts((ROOT / "docs" / "precision.md").read_text(encoding="utf-8"))
    files = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "rules").glob("*/*.yaml"))}
    return {path: with_counts(text, *found.get(path.stem, (0, 0))) for path, text in files.items()}


def main() -> int:
    """1 where --check finds a file that differs."""
    stale = {path: text for path, text in written().items() if path.read_text(encoding="utf-8") != text}
    if "--check" not in sys.argv[1:]:
        for path, text in stale.items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)}: its counts are not those of docs/precision.md")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
