"""The config files that a command writes which is not followed: what they hold is known only when it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.files import unknown_file, write_file
from dtlint.languages.shell.text import flat, literal
from dtlint.languages.traced import Word

_CONFIG = re.compile(r"\.(?:json|ya?ml|toml)$")
_IN_PLACE = frozenset(("sed", "yq", "perl"))
_COPIES = frozenset(("cp", "mv", "rsync", "install", "ln"))
_TARGETS = re.compile(r"--?(?:o|out|output|save|dest|destination|write|target)(?:_\w+)?(?:-\w+)*")
_OPENED = re.compile(r"""open\(\s*f?["']([^"'\n]+)["']\s*,\s*(?:mode\s*=\s*)?["'][wa]""")
_PATH_WRITTEN = re.compile(r"""Path\(\s*f?["']([^"'\n]+)["']\s*\)\.(?:write_text|open\(\s*["'][wa])""")


def forget_written(call: Call) -> None:
    """Take the text of the config files that a command writes for unknown."""
    name = (call.words[0].text or "").rpartition("/")[2]
    for word in _targets(call, name):
        if _CONFIG.search(word.shown):
            write_file(call.shell, word.pieces, unknown_file(call.place, name))
    for path in _written_by_python(call, name):
        write_file(call.shell, literal(path, call.place), unknown_file(call.place, name))


def _targets(call: Call, name: str) -> Iterator[Word]:
    """The words that name a file to write: of an editor in place, of a copy, behind `--output`."""
    words = call.words[1:]
    if name in _IN_PLACE and any(re.match(r"-\w*i|--in-?place", word.shown) for word in words):
        yield from words
    elif name in _COPIES:
        yield from words[1:][-1:]
    else:
        yield from (value for flag, value in pairwise(words) if _TARGETS.fullmatch(flag.shown))
        yield from (word.part(len(flag) + 1) for word in words if _TARGETS.fullmatch(flag := word.shown.split("=")[0]))


def _written_by_python(call: Call, name: str) -> Iterator[str]:
    """The files that a program opens for writing which stands on the command line or in a heredoc."""
    if not name.startswith("python"):
        return
    texts = [word.shown for option, word in pairwise(call.words) if option.text == "-c"]
    stdin = call.shell.stdin
    for text in (*texts, flat(stdin).replace("\ue000", "?") if stdin is not None else ""):
        for pattern in (_OPENED, _PATH_WRITTEN):
            yield from pattern.findall(text)
