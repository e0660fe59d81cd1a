"""What `sys.argv` holds: the words of the launch behind the script, by their number."""

from __future__ import annotations

import ast
import re
from functools import partial

from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import COUNT, WORDS, entry_script, given_argument, of_file
from dtlint.languages.python.tree import Module
from dtlint.value import Origin, Setting, Value

_CHANGES = re.compile(r"\bargv(\[[^\]\n]{0,40}\])? ?(\+?=(?!=)|\.(pop|remove|insert|append|extend|clear)\()")
"""How a program puts other words into the place of those that it was passed."""


def is_whole(place: Place) -> bool:
    """Whether every word is known that the launch passes."""
    return given_argument(place.program, COUNT)[0] is not None


def word_of(holder: Place, key: object) -> Setting | None:
    """`sys.argv[1]`, `sys.argv[1:][0]`, `sys.argv[-1]`: a word that the launch passes; None for anything else."""
    first = _first(holder)
    if first is None or not isinstance(key, int) or _is_changed(holder):
        return None
    count = count_of_words(holder)
    if key < 0 and not isinstance(count, Value):
        return None
    number = first + key if key >= 0 else first + int(str(count.value if isinstance(count, Value) else 0)) + key
    return given_argument(holder.program, _numbered(number))[0]


def count_of_words(holder: Place) -> Setting | None:
    """`len(sys.argv)`; None for anything else, and where that is not known."""
    first = _first(holder)
    found = given_argument(holder.program, COUNT)[0] if first is not None and not _is_changed(holder) else None
    whole = found.value if isinstance(found, Value) and isinstance(found.value, int) else None
    return None if whole is None or first is None else Value(max(whole - first, 0), Origin("written"))


def _numbered(number: int) -> str:
    return f"{WORDS}[{number}]"


def _first(holder: Place) -> int | None:
    """The number of the word that a list begins with: 0 for `sys.argv`, 1 for `sys.argv[1:]`."""
    node = holder.node
    if isinstance(node, ast.Name | ast.Attribute):
        return 0 if qualified(holder.module, node, holder.scope) == (WORDS,) else None
    part = node.slice if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else None
    if part is None or part.upper is not None or part.step is not None or not isinstance(part.lower, ast.Constant):
        return None
    before = _first(holder.inner(node.value)) if isinstance(node, ast.Subscript) else None
    start = part.lower.value
    return before + start if before is not None and isinstance(start, int) and start >= 0 else None


def _is_changed(holder: Place) -> bool:
    """Whether the script or the file at hand changes the words before it reads them."""
    modules = (holder.module, entry_script(holder.program))
    return any(of_file(holder.program, "changes argv", module.top, partial(_changes, module)) for module in modules)


def _changes(module: Module) -> bool:
    return _CHANGES.search(module.source.text) is not None
