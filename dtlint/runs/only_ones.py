"""Numbers that a program takes from its config and that are 1 wherever the tree sets them: a loss that is divided by
such a number is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.runs.kinds import bytes_of
from dtlint.runs.tree import MOST_SEARCHED, Tree
from dtlint.value import Value

_CONFLICTS = "config.conflicts"
_SUFFIXES = frozenset((
    ".py", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".sh", ".bash", ".slurm", ".sbatch", ".md",
    ".rst", ".txt", "",
))  # fmt: skip
"""Files that set numbers of a config, or show command lines that do."""
_LARGEST = 1_000_000
"""Largest file that is searched, in bytes."""

_ASSIGNED = re.compile(
    r"""["'`]?\s{0,9}(?::\s{0,9}(?:Optional\[)?int\]?(?:\s?\|\s?None)?\s{0,9})?(?:=(?!=)|:)\s{0,9}(?:field\()?([^\n]*)"""
)
"""What follows a name that is given a value: `NAME = 1`, `name: int = 1`, `"name": 1`, `--name=1`."""
_BEHIND = re.compile(r"""["']?,?[ \t]{1,9}["']?(\d[\w.]*|\$[^\n]*)""")
"""What follows an option on a command line, or a key in a list of keys and values: `--name 1`, `NAME $STEPS`."""
_DECLARED = re.compile(r"""["']\s{0,9},((?:(?!add_argument)[^\0]){0,400})""")
"""What follows an option that a parser is told of."""
_DEFAULT = re.compile(r"\bdefault\s{0,9}=\s{0,9}([^\n]*)")
_ASKED_FOR = "?"
"""The value of an option without a default."""
_ONE = re.compile(r"""(?:default\s?=\s?)?["']?1(?:\.0)?["']?\s{0,9}(?:$|[,;)}\]#\\]|--)""")


def with_known_ones(collections: dict[str, tuple[Member, ...]], tree: Tree) -> dict[str, tuple[Member, ...]]:
    """The collections with `ones` told of conflicts whose number the program leaves open and the tree sets to 1."""
    members = collections.get(_CONFLICTS, ())
    open_keys = {_text(each, "key") for each in members if _text(each, "ones") == "perhaps"} - {""}
    ones = frozenset(key for key in open_keys if _is_one_alone(key, tree))
    if not ones:
        return collections
    return {**collections, _CONFLICTS: tuple(_told(each) if _text(each, "key") in ones else each for each in members)}


def _told(member: Member) -> Member:
    return member._replace(fields={**member.fields, **texts(member.place, ones="yes")})


def _is_one_alone(key: str, tree: Tree) -> bool:
    """Whether each place of the tree that gives a name a value gives it 1, and there is one."""
    if tree.listing.cut:
        return False
    given = [value for text in _texts(key, tree) for value in _given(key, text)]
    return bool(given) and all(_ONE.match(value) for value in given)


def _texts(key: str, tree: Tree) -> Iterator[str]:
    """The texts of the tree that hold a name, a character for a byte: what is asked of them is ASCII."""
    wanted = key.lower().encode()
    for file in [file for file in tree.listing.files if file.suffix in _SUFFIXES][:MOST_SEARCHED]:
        data = bytes_of(file, _LARGEST)
        if wanted in data.lower().replace(b"-", b"_"):
            yield data.decode("latin-1")


def _given(key: str, text: str) -> Iterator[str]:
    """What a text gives a name, in any case and with dashes too."""
    wanted, spelled = key.lower(), text.lower().replace("-", "_")
    at = spelled.find(wanted)
    while at >= 0:
        if not (spelled[at - 1 : at].isalnum() or text[at - 1 : at] == "_"):
            yield from _given_behind(text, at + len(key), wanted)
        at = spelled.find(wanted, at + len(key))


def _given_behind(text: str, end: int, wanted: str) -> Iterator[str]:
    """What the text behind a name gives it: not what hands it on under the same name (`name=args.name`)."""
    found = _ASSIGNED.match(text, end) or _BEHIND.match(text, end)
    if found is not None and found[1] and wanted not in re.split(r"[,;)\s]", found[1])[0].lower():
        yield found[1].strip()
    elif (declared := _DECLARED.match(text, end)) is not None:
        default = _DEFAULT.search(declared[1])
        yield default[1].strip() if default is not None else _ASKED_FOR


def _text(member: Member, field: str) -> str:
    found = member.fields.get(field)
    return str(found.value) if isinstance(found, Value) else ""
