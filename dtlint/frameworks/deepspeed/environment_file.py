"""`.deepspeed_env`: variables that the deepspeed launcher exports on every machine (deepspeed/launcher/runner.py: the
file of that name, or of DS_ENV_FILE, in the folder where it is started; only where it starts several machines).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.environment import PREFIXES, members_of
from dtlint.source import Source, Span
from dtlint.value import Setting, written

NAME = ".deepspeed_env"
CHOSEN_BY = "DS_ENV_FILE"
"""The variable that names another file."""

_LINE = re.compile(r"(?m)^(?P<name>[A-Za-z_]\w*)[ \t]*=(?P<value>.*)$")


def read_environment(source: Source) -> Mapping[str, tuple[Member, ...]]:
    """The collections of the variables of the file that matter; the last line of a name counts."""
    found = {name: (name, value, place) for name, value, place in _variables(source) if name.startswith(PREFIXES)}
    return members_of(found.values())


def _variables(source: Source) -> Iterator[tuple[str, Setting, Span]]:
    for line in _LINE.finditer(source.text):
        value = line["value"].strip()
        place = source.span(line.start("name"), line.start("value") + len(line["value"].rstrip()))
        yield line["name"], written(value.strip("\"'"), place), place
