"""What all command lines share: the stretch of text that holds a list of arguments, and members for flags at fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.options import Grammar, Option, Split, canonical, split_options
from dtlint.languages.traced import Piece, Word
from dtlint.source import Span
from dtlint.value import Setting, written

NEAR = 0.8
"""Likeness (difflib's ratio) from which a name is looked at as a misspelling; the edits decide."""
MOST_EDITS = 2
"""Letters that a misspelt flag differs by."""
SHORTEST = 6
"""Letters from which on a likeness is no accident."""


def stretch(words: Sequence[Word], otherwise: Span, anchor: Word | None = None) -> Span:
    """The text in which an absent flag would be written, so that it can be added at its end.

    That is the array, the string or the command line in which `anchor` is literally written, without an anchor the one
    that holds most of the words; `otherwise` where none is literal. It reaches to the last word there, even if that one
    is a variable with its text elsewhere.
    """
    literal = [_route(word.pieces[0]) for word in words if word.pieces and word.pieces[0].text is not None]
    if not literal:
        return otherwise
    route = _route(anchor.pieces[0]) if anchor is not None and anchor.pieces else Counter(literal).most_common(1)[0][0]
    spans = [span for word in words if (span := _seen_from(word, route)) is not None]
    source = spans[0].source
    here = [span for span in spans if span.source is source]
    return Span(source, min(span.start for span in here), max(span.end for span in here))


def unknown_flag(option: Option, known: Iterable[str], tool: str, effect: str = "refused") -> Member:
    """A member of `config.unknown`: the flag (`key`), whose it is (`section`), what the tool does with it (`effect`:
    "refused" or "ignored"), and the nearest known flag (`suggestion`, "" if none is near).
    """
    from difflib import get_close_matches

    near = get_close_matches(option.spelled, list(known), 1, NEAR)
    return misspelt_flag(option, near[0] if near else "", tool, effect)


def misspelt_flag(option: Option, suggestion: str, tool: str, effect: str = "refused") -> Member:
    """A member of `config.unknown` for a flag whose meaning is known."""
    fields = texts(option.place, key=option.spelled, section=tool, effect=effect, suggestion=suggestion, since="0")
    return Member(option.place, fields)


def behind_program(split: Split, names: Sequence[str], started: int = 0, meant: int = 0) -> Iterator[Member]:
    """The member of `launch.lost` for a launcher's own flags that stand behind the program, which gets them: `words`,
    `shown` (the same with their values), `counts` (yes where one is a number of processes), `cause` (script), and where
    fewer processes are started than with them, how many are `started` and how many `meant`. A flag that the launcher is
    given too may be the program's.
    """
    found = _launchers_words(split, names)
    if found:
        place, flags = found[0].place, [word.shown.partition("=")[0] for word in found]
        shown = " and ".join(_with_value(word, split.rest) for word in found)
        counts = "yes" if any(canonical(flag) in _COUNTS for flag in flags) else ""
        fields = texts(place, words=" and ".join(flags), shown=shown, counts=counts, cause="script")
        if 0 < started < meant:
            fields.update(started=written(started, place), meant=written(meant, place))
        yield Member(place, fields, ((split.rest[0].place, "the program begins here"),))


def with_options_behind(split: Split, names: Sequence[str], grammar: Grammar) -> Split:
    """The launcher's options as they are meant: with its own ones that stand behind the program."""
    starts = [split.rest.index(word) for word in _launchers_words(split, names)]
    moved = [split_options(split.rest[at : at + 2], grammar).options[:1] for at in starts]
    return split._replace(options=(*split.options, *(option for options in moved for option in options)))


def _launchers_words(split: Split, names: Sequence[str]) -> list[Word]:
    return [word for word in split.rest[1:] if _is_launchers(word, split, names)]


_COUNTS = ("num-processes", "nproc-per-node", "num-gpus")
"""Options that say how many processes are started."""


def _with_value(word: Word, words: Sequence[Word]) -> str:
    """A flag with the value that follows it (`--num_processes 8`)."""
    index = words.index(word)
    flag, following = word.shown, words[index + 1 : index + 2]
    value = following[0].text if following and "=" not in flag else None
    return flag if value is None or value.startswith("-") else f"{flag} {value}"


def _is_launchers(word: Word, split: Split, names: Sequence[str]) -> bool:
    name = canonical(word.shown.partition("=")[0]) if word.shown.startswith("--") else ""
    return name in names and split.last(name) is None


def meant(name: str, known: Sequence[str]) -> str | None:
    """The known flag that a misspelt one stands for, None if none differs by a letter or two only.

    Forks and sites add flags of their own, which differ from the known ones by whole words.
    """
    from difflib import get_close_matches

    if len(name) < SHORTEST:
        return None
    return next((near for near in get_close_matches(name, known, 3, NEAR) if _edits(name, near) <= MOST_EDITS), None)


def texts(place: Span, **fields: str) -> dict[str, Setting]:
    """Fields of a member that are plain text."""
    return {name: written(value, place) for name, value in fields.items()}


def _route(piece: Piece) -> tuple[tuple[str, int], ...]:
    """The places through which a piece reached the command, outermost first."""
    return tuple((step.span.path, step.span.start) for step in piece.chain)


def _seen_from(word: Word, route: tuple[tuple[str, int], ...]) -> Span | None:
    """Where the text that `route` leads to holds a word: its characters, or the variables that stand for them."""
    spans = [_piece_from(piece, route) for piece in word.pieces if _route(piece)[: len(route)] == route]
    here = [span for span in spans if span.source is spans[0].source]
    if not here:
        return None
    return _with_quotes(Span(here[0].source, min(span.start for span in here), max(span.end for span in here)))


def _piece_from(piece: Piece, route: tuple[tuple[str, int], ...]) -> Span:
    return piece.span if len(piece.chain) == len(route) else piece.chain[len(route)].span


def _with_quotes(span: Span) -> Span:
    """A word with the quotes around it; those of an assignment (`ARGS="--bf16"`) are around the list, not the word."""
    text, start, end = span.source.text, span.start - 1, span.end
    if start < 1 or end >= len(text) or text[start] not in "'\"" or text[start] != text[end] or text[start - 1] == "=":
        return span
    return Span(span.source, start, end + 1)


def _edits(one: str, other: str) -> int:
    """Letters to insert, delete or replace; more than MOST_EDITS where digits differ, which count things."""
    if [char for char in one if char.isdecimal()] != [char for char in other if char.isdecimal()]:
        return MOST_EDITS + 1
    row = list(range(len(other) + 1))
    for index, char in enumerate(one, 1):
        above, row[0] = row[0], index
        for column, against in enumerate(other, 1):
            above, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, above + (char != against))
    return row[-1]
