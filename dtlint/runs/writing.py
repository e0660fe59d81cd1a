"""Edits that write a setting into the text that a reading was made from, in the form that the text has.

They are proposals: `dtlint.fix` reads the changed text again and keeps them only if the setting has its value then and
no other setting another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dtlint.frameworks import Claim, Reading
from dtlint.runs.configs import YAML_SUFFIXES
from dtlint.runs.entries import stands, yaml_entry
from dtlint.source import Edit, Span
from dtlint.value import Choice

Writer = Callable[[Reading, str], "Edit | None"]
"""Gives the edit that adds a setting, spelled as the front end has it, to a reading's text; None where none can."""

_FLAG = r"--?[A-Za-z][\w-]*(?:=[\w.+,:/-]+|(?: (?!--?[A-Za-z])[\w.+,:/-]+)?)"
_ARGUMENTS = re.compile(rf"{_FLAG}(?: {_FLAG})*")
_ENTRY = re.compile(r"(\w+): [\w.+-]+")
_SECTION_ENTRY = re.compile(r"(?P<section>\w+(?:\.\w+)*)\.(?P<entry>\w+(?:: | = )(?:[\w.+-]+|\"[\w.+-]+\"))")
_KEYED = re.compile(r"[+]{0,2}\"?(?P<path>\w+(?:[.-]\w+)*)\"?(?:: |=)(?P<text>[\w.+-]+|\"[\w.+-]+\"|'[\w.+-]+')")
_LAST_WORD = re.compile(r"[\s'\"]")
_LONGEST_WORD = 300
_QUOTES = "'\""
_WITH_LISTS = (".py", *YAML_SUFFIXES)
"""Ends of paths of files that hold commands as lists of words."""
_KEYWORD = re.compile(r"\w+=(?:True|False|None|[\d.]+|'[\w.-]*')")


def added(reading: Reading, spelled: str) -> Edit | None:
    """The edit that adds a setting to a reading's text; None for a text that no file holds or whose form is not
    known.
    """
    write = WRITERS.get(reading.layer)
    place = reading.place
    if write is None or place is None or place.original().source.file is None:
        return None
    return write(reading, spelled)


def replaced(reading: Reading, setting: str, spelled: str) -> Edit | None:
    """The edit that puts another word in the place of a config's literal, where the word is not the setting's value
    (`mode = "full"`, `dtype: bfloat16`); `spelled` is the whole entry.
    """
    kept = (_section_entry, _keyed_entry)
    found = _SECTION_ENTRY.fullmatch(spelled) if WRITERS.get(reading.layer) in kept else None
    if found is None:
        return None
    key, _, word = re.split(r"(: | = )", found["entry"])
    name = f"{found['section']}.{key}"
    claims = [claim for claim in reading.claims if claim.setting == setting and claim.name == name]
    span = place_of(claims[-1]) if claims else None
    if span is None or not _is_line(span, reading):
        return None
    return Edit(span.original(), word)


def place_of(claim: Claim) -> Span | None:
    """Where the value of a claim is written, None for one that holds under conditions or nowhere."""
    if isinstance(claim.value, Choice) or claim.value.origin is None:
        return None
    return claim.value.origin.span


def removed(span: Span) -> Edit | None:
    """The edit that takes a flag out, the blanks before it too, and its whole line where nothing else stands there."""
    span = span.original()
    text = span.source.text
    if not re.fullmatch(r"--[\w-]+", span.text) or text[span.end : span.end + 1] not in (" ", "\n", "\r", "\t", ""):
        return None
    start = len(text[: span.start].rstrip(" \t"))
    rest = re.compile(r"[ \t]*\\?\r?\n").match(text, span.end)
    if rest is not None and text[start - 1 : start] == "\n" and "\\" in rest.group():
        return Edit(span.source.span(start, rest.end()), "")
    if rest is not None and text[:start].endswith("\\\n"):
        start = len(text[: start - 2].rstrip(" \t"))
    return Edit(span.source.span(start, span.end), "")


def _argument(reading: Reading, spelled: str) -> Edit | None:
    """A flag behind the last one of the list that it belongs to."""
    if reading.place is None or not _ARGUMENTS.fullmatch(spelled):
        return None
    place = reading.place.original()
    if not place.text or _ends_in_quoted_word(place):
        return None
    return Edit(place.source.span(place.end, place.end), f" {spelled}")


def _ends_in_quoted_word(place: Span) -> bool:
    """Whether a list of arguments ends in a word with quotes of its own that no shell reads: an item of a list."""
    text = place.source.text
    end = place.end - (text[place.end - 1] in _QUOTES)
    start = end - len(_LAST_WORD.split(text[max(0, end - _LONGEST_WORD) : end])[-1])
    alone = text[end : end + 1] in (*_QUOTES,) and text[start - 1 : start] == text[end]
    return alone and place.source.path.lower().endswith(_WITH_LISTS)


def _entry(reading: Reading, spelled: str) -> Edit | None:
    """A line of YAML below the last key that begins with the same word, else below the last key."""
    found = _ENTRY.fullmatch(spelled)
    written = ((place_of(claim), claim.name) for claim in reading.claims)
    known = {span.original(): name for span, name in written if span is not None and _is_line(span, reading)}
    if found is None or not known:
        return None
    family = found[1].partition("_")[0] + "_"
    alike = [span for span, name in known.items() if name.rpartition(".")[2].startswith(family)]
    anchor = max(alike or known, key=lambda span: span.start)
    return _line_below(anchor, spelled)


def _section_entry(reading: Reading, spelled: str) -> Edit | None:
    """A line below the last key of the section that a dotted name begins with; None where the section is not there."""
    found = _SECTION_ENTRY.fullmatch(spelled)
    if found is None:
        return None
    alike = (claim for claim in reading.claims if claim.name.rpartition(".")[0] == found["section"])
    spans = [span.original() for claim in alike if (span := place_of(claim)) is not None and _is_line(span, reading)]
    return _line_below(max(spans, key=lambda span: span.start), found["entry"]) if spans else None


def _keyed_entry(reading: Reading, spelled: str) -> Edit | None:
    """A key in the mapping of a YAML file that it belongs to, beside keys of its kind where there are some, or the
    override of a command line that says it.
    """
    found = _KEYED.fullmatch(spelled)
    place = reading.place.original() if reading.place is not None else None
    if found is None or place is None:
        return None
    if place.source.path.lower().endswith(YAML_SUFFIXES):
        return _file_entry(reading, spelled)
    return Edit(place.source.span(place.end, place.end), f" ++{found['path']}={found['text']}") if place.text else None


def _file_entry(reading: Reading, spelled: str) -> Edit | None:
    """A key in the mapping of a YAML file that it belongs to; None for a command line, which takes no overrides."""
    found = _KEYED.fullmatch(spelled)
    place = reading.place.original() if reading.place is not None else None
    if found is None or place is None or not place.source.path.lower().endswith(YAML_SUFFIXES):
        return None
    path = found["path"].split(".")
    if stands(place.source, path):
        return yaml_entry(place.source, path, found["text"])
    beside = _section_entry(reading, spelled) if len(path) > 1 else _entry(reading, spelled)
    return beside or yaml_entry(place.source, path, found["text"])


def _is_line(span: Span, reading: Reading) -> bool:
    """Whether a `key: value` line of the reading's own file ends with the span."""
    here = span.original()
    rest = here.source.line_text(here.line)[here.end_column - 1 :]
    same = reading.place is not None and here.source is reading.place.original().source
    return same and not rest.strip().strip("'\"").partition("#")[0].strip()


def _line_below(anchor: Span, entry: str) -> Edit:
    source, line = anchor.source, anchor.line
    shown = source.line_text(line)
    indentation = shown[: len(shown) - len(shown.lstrip())]
    newline = "\r\n" if "\r\n" in source.text else "\n"
    end = source.line_start(line) + len(shown)
    return Edit(source.span(end, end), f"{newline}{indentation}{entry}")


def _keyword(reading: Reading, spelled: str) -> Edit | None:
    """A keyword argument behind the last argument of a call."""
    if reading.place is None or not _KEYWORD.fullmatch(spelled):
        return None
    source = reading.place.original().source
    close = _closing(source.text, reading.place.original().end)
    if close is None:
        return None
    before = source.text[:close].rstrip()
    lead = "" if before.endswith("(") else " " if before.endswith(",") else ", "
    tail = "," if before.endswith(",") else ""
    return Edit(source.span(len(before), len(before)), f"{lead}{spelled}{tail}")


def _closing(text: str, start: int) -> int | None:
    """The parenthesis that closes the call whose name ends before `start`, or the one just before it."""
    if text[start - 1 : start] == ")":
        return start - 1
    if text[start : start + 1] != "(":
        return None
    depth = 0
    for match in re.compile(r"""[()]|'[^'\n]*'|"[^"\n]*"|#[^\n]*""").finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if not depth:
            return match.start()
    return None


WRITERS: Mapping[str, Writer] = {
    "megatron-arguments": _argument,
    "transformers-arguments": _argument,
    "accelerate-yaml": _entry,
    "transformers-file": _entry,
    "torchtitan-toml": _section_entry,
    "lightning-cli": _keyed_entry,
    "lightning-hydra": _keyed_entry,
    "nemo-yaml": _keyed_entry,
    "nanotron-yaml": _keyed_entry,
    "verl": _keyed_entry,
    "verl-critic": _keyed_entry,
    "verl-sft": _keyed_entry,
    "easyr1": _keyed_entry,
    "gpt-neox": _file_entry,
    "axolotl": _keyed_entry,
    "composer": _keyed_entry,
    "fsdp-python": _keyword,
    "ddp-python": _keyword,
    "lightning-python": _keyword,
    "transformers-python": _keyword,
}
"""How the text of a layer takes a new setting."""
