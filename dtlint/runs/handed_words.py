"""Words that a launcher puts before those of its program, and that the program's own parser stops at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.release import Releases, older, releases
from dtlint.value import Setting, Value

LAYER = "handed-words"
HANDED, PARSER = "launch.handed", "program.parser"
"""What a launcher hands on, and the parser of a program that stops at what it does not know."""
_RELEASE = "version.torch"
_ALWAYS = {"since": "", "until": ""}
_TOLD = ("key", "by", "keep", "since", "until")
_SILENT = {"section": "", "suggestion": "", "belongs": ""}
"""The fields of config.unknown that say nothing of a word that is handed on."""


def refused_words(readings: Sequence[Reading], settings: Mapping[str, Setting]) -> Reading:
    """The member of config.unknown for a word that the launcher hands to a program which does not take it: `key`,
    `effect` (handed), `by` (the launcher), `program`, `taker` (what takes its words), `declared` (the spelling that the
    program takes, "" for none), `both` (a call that declares both, "" where no call of the program declares the one),
    `keep` (the launcher's flag by which it hands nothing on), `since` and `until` (the torch releases of which it is
    true, "" where it is of all that may be meant).
    """
    parser = next(_members(readings, PARSER), None)
    handed = [word for word in _members(readings, HANDED) if _may_be(word, settings)]
    refused = [word for word in handed if parser is not None and not _takes(parser, _text(word, "key"), settings)]
    if parser is None or not refused:
        return Reading(LAYER)
    certain = len(refused) == len(handed)
    return Reading(LAYER, collections={"config.unknown": (_member(refused[0], parser, certain),)})


def _may_be(word: Member, settings: Mapping[str, Setting]) -> bool:
    """Whether a release that the run may have hands on the word."""
    found = _releases(settings.get(_RELEASE))
    if found is None:
        return True
    since, until = _release(word, "since"), _release(word, "until")
    early = since is not None and older(found, since) is True
    late = until is not None and older(found, until) is False
    return not early and not late


def _releases(setting: Setting | None) -> Releases | None:
    return releases(str(setting.value)) if isinstance(setting, Value) else None


def _release(word: Member, field: str) -> Releases | None:
    text = _text(word, field)
    return releases(text) if text else None


def _member(word: Member, parser: Member, certain: bool) -> Member:
    """The member, at the program's declaration of the other spelling where there is one, else at the launcher."""
    given = {**{name: _text(word, name) for name in _TOLD}, **(_ALWAYS if certain else {})}
    own = {name: _text(parser, name) for name in ("program", "taker", "declared", "both")}
    declared = next((place for place, _ in parser.related), word.place)
    fields = texts(declared, effect="handed", **_SILENT, **given, **own)
    around = ((parser.place, "stops at what it does not know"), (word.place, "hands it on"))
    related = tuple(each for each in around if each[0] != declared)
    return Member(declared, fields, related, {**word.edits, **parser.edits})


def _takes(parser: Member, flag: str, settings: Mapping[str, Setting]) -> bool:
    """Whether the parser takes a flag: one that it has, or the beginning of one, which argparse takes for it."""
    flags = parser.fields["flags"]
    known = [str(each) for each in flags.value] if isinstance(flags, Value) and isinstance(flags.value, tuple) else []
    if _may_be_dashed(parser, settings):
        known.extend(f"--{each[2:].replace('_', '-')}" for each in tuple(known))
    return any(each.startswith(flag) for each in known)


def _may_be_dashed(parser: Member, settings: Mapping[str, Setting]) -> bool:
    """Whether the release of the parser's package may be one that takes its flags with dashes for underscores."""
    since, package = _release(parser, "dashed"), _text(parser, "package")
    found = _releases(settings.get(f"version.{package}"))
    return since is not None and (found is None or older(found, since) is not True)


def _members(readings: Sequence[Reading], name: str) -> Iterator[Member]:
    return (member for reading in readings for member in reading.collections.get(name, ()))


def _text(member: Member, field: str) -> str:
    value = member.fields.get(field)
    return str(value.value) if isinstance(value, Value) else ""
