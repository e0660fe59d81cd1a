"""Words whose every character knows where it was written; the unit that shell readers hand to framework readers."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from dtlint.record import NamedTuple
from dtlint.source import Problem, Source, Span
from dtlint.value import Origin, Setting, Step, Unknown, Value

CURRENT_FOLDER = "folder.current"
"""What an unknown piece stands for that is the folder in which a script runs."""


class Piece(NamedTuple):
    """A stretch of a word with one origin.

    `text` None: not known; then `unknown` says why, `how` how to tell it, and `means` which setting of the cluster
    it stands for, if any
    (`$SLURM_NNODES` -> "cluster.nodes"). `span` is where the characters are literally written (for an unknown: the
    expansion).
    `chain` leads from the place of use (outermost first) to that literal. `assumed` is why a known text may differ
    (a `${X:-d}` default).
    """

    text: str | None
    span: Span
    chain: tuple[Step, ...] = ()
    assumed: str = ""
    unknown: str = ""
    how: str = ""
    means: str = ""


def is_elsewhere(folder: str) -> bool:
    """Whether a folder is one of the machine of the run (`/home/me/project`, `?/project` where a part is not known),
    and not one that is reached from where a script starts.
    """
    return folder.startswith(("/", "?"))


def path_from_folder(pieces: Sequence[Piece], moved: str = "") -> str:
    """A path as it is found from the folder in which a script runs, `?` for each unknown stretch: `./` and `$PWD/`
    before it are left off. `moved` is where `cd` led from there; where it led elsewhere, it counts for nothing.
    """
    path = "".join("?" if piece.text is None else piece.text for piece in pieces)
    first = next((piece for piece in pieces if piece.text != ""), None)
    if first is not None and first.text is None:
        rooted = first.means == CURRENT_FOLDER and path.startswith("?/")
        path = path[1:].lstrip("/") if rooted else path
    elif moved and not is_elsewhere(moved):
        path = posixpath.join(moved, path)
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return posixpath.normpath(path) if "/../" in path else path


def file_key(pieces: Sequence[Piece], moved: str = "") -> str:
    """The name under which a file is kept that a script writes: its path, and where its own name is not known what
    stands for it: two such files are one only where the same unknown names both.
    """
    path = path_from_folder(pieces, moved)
    if path.rpartition("/")[2].partition(".")[0].strip("?"):
        return path
    unknowns = (piece for piece in pieces if piece.text is None)
    return "".join((path, *(f"?<{_identity(piece)}>" for piece in unknowns)))


def _identity(piece: Piece) -> str:
    """What tells an unknown from others: what would tell it, else why and where it is not known."""
    return piece.how or f"{piece.unknown} {piece.span.source.path} {piece.span.start}"


class Word(NamedTuple):
    """One word of a command after expansion. `many`: it may stand for any number of words (an unquoted unknown,
    `"$@"`).
    """

    pieces: tuple[Piece, ...]
    place: Span
    many: bool = False

    @property
    def text(self) -> str | None:
        """The word, or None if any of it is unknown."""
        if self.many or any(piece.text is None for piece in self.pieces):
            return None
        return "".join(piece.text or "" for piece in self.pieces)

    @property
    def adds_none(self) -> bool:
        """Whether it stands for a script's arguments of which none is given."""
        return self.many and any(piece.unknown == OPEN_ARGUMENTS for piece in self.pieces)

    @property
    def shown(self) -> str:
        """The word for people, `?` for what is unknown."""
        return "".join("?" if piece.text is None else piece.text for piece in self.pieces)

    def part(self, start: int, end: int | None = None) -> Word:
        """The characters from `start` on as a word of their own (`--flag=VALUE` -> VALUE); pieces keep their
        origins.
        """
        kept: list[Piece] = []
        at, stop = 0, len(self.shown) if end is None else end
        for piece in self.pieces:
            length = 1 if piece.text is None else len(piece.text)
            low, high = max(start, at), min(stop, at + length)
            if low < high:
                kept.append(_cut(piece, low - at, high - at))
            at += length
        return Word(tuple(kept), _place(kept, self.place), self.many and end is None)


class Command(NamedTuple):
    """A simple command as it would be started: its words and what its environment adds. `place` spans the command
    where it is written.

    `env` holds exported variables and assignments before the command. `background`: followed by `&`. `wrapper`: the
    commands that this one
    is an argument of, outermost first (a `bash -c` text under srun has srun's command here). `folder` is where `cd` led
    from the folder in which the script runs, or elsewhere, "" where it did not, or nobody knows. `sourced` is a file
    that was sourced before and is not at hand, so that it may have set more, "" for none. `pauses` counts how often the
    script has waited before it.
    """

    argv: tuple[Word, ...]
    env: Mapping[str, Word]
    place: Span
    wrapper: tuple[Command, ...] = ()
    background: bool = False
    folder: str = ""
    sourced: str = ""
    pauses: int = 0


class Lost(NamedTuple):
    """Words that a broken continuation cut off from the command before them."""

    command: Span
    cause: Span
    words: Span


class World(NamedTuple):
    """What a script does under one set of assumptions: the commands in order, the files it writes, and the condition
    (`branch`). `unread` are files that it writes, with the reason why nothing of their text is known.
    """

    commands: tuple[Command, ...]
    files: Mapping[str, Source]
    branch: str | None = None
    unread: Mapping[str, str] = {}


class Script(NamedTuple):
    """A launch script read: its worlds (one unless an undecided condition matters), `#SBATCH` words, broken places.

    `late` are the words of each `#SBATCH` line that stands too low to be read by sbatch, `queued` those of `#PBS`
    lines. `steps` is how many commands were followed in all ways through it.
    """

    source: Source
    worlds: tuple[World, ...]
    directives: tuple[Word, ...] = ()
    problems: tuple[Problem, ...] = ()
    lost: tuple[Lost, ...] = ()
    late: tuple[tuple[Word, ...], ...] = ()
    steps: int = 0
    queued: tuple[Word, ...] = ()


def literal_word(text: str, span: Span) -> Word:
    """A word written as it stands."""
    return Word((Piece(text, span),), span)


def setting_of(word: Word, value: object = None) -> Setting:
    """The word as a setting: `value` (default: its text) with the word's origin, or the Unknown that its first
    unknown piece states.
    """
    for piece in word.pieces:
        if piece.text is None:
            return Unknown(
                piece.unknown,
                piece.how,
                Origin("written", piece.span, piece.chain),
                piece.means if len(word.pieces) == 1 else "",
            )
    if word.many:
        return Unknown("the list of arguments is open", "", Origin("written", word.place))
    main = max(word.pieces, key=lambda piece: len(piece.text or ""), default=None)
    if main is None:
        return Value("" if value is None else value, Origin("written", word.place))  # type: ignore[arg-type]
    soft = next((piece.assumed for piece in word.pieces if piece.assumed), "")
    origin = Origin("assumed" if soft else "written", main.span, main.chain, soft)
    return Value(word.text if value is None else value, origin)  # type: ignore[arg-type]


def _cut(piece: Piece, start: int, end: int) -> Piece:
    if piece.text is None:
        return piece
    span = piece.span
    if span.end - span.start == len(piece.text):
        span = span.source.span(span.start + start, span.start + end)
    return piece._replace(text=piece.text[start:end], span=span)


def _place(pieces: Iterable[Piece], otherwise: Span) -> Span:
    first = next(iter(pieces), None)
    return first.span if first is not None and first.span.source is otherwise.source else otherwise


OPEN_ARGUMENTS = "the list of the script's arguments is open"
"""The `unknown` of the piece that stands for `"$@"` where no argument is given: it adds no words, but some may come."""

UNKNOWN_CHARACTER = "\ue000"
"""Stands for an unknown stretch in the text of a file that a script writes (a private-use code point)."""


def characters_of(piece: Piece) -> str:
    """The characters of a piece, UNKNOWN_CHARACTER for an unknown one: where a file itself writes that code point,
    U+FFFD stands for it, so that it stands for nothing else.
    """
    if piece.text is None:
        return UNKNOWN_CHARACTER
    return piece.text.replace(UNKNOWN_CHARACTER, "\ufffd") if UNKNOWN_CHARACTER in piece.text else piece.text


class WrittenSource(Source):
    """Text that a script writes or hands on: a config from a heredoc, a command line for `bash -c`.

    `pieces` are where its characters come from; an unknown piece is one UNKNOWN_CHARACTER in `text`. Spans in it map
    back to the script.
    """

    __slots__ = ("pieces", "starts")

    def __init__(self, path: str, pieces: tuple[Piece, ...]) -> None:
        texts = [characters_of(piece) for piece in pieces]
        self.pieces = pieces
        self.starts = [0]
        for text in texts:
            self.starts.append(self.starts[-1] + len(text))
        underlying = tuple((start, piece.span) for start, piece in zip(self.starts, pieces, strict=False))
        super().__init__(path, "".join(texts), None, underlying)


def pieces_between(source: Source, start: int, end: int) -> tuple[Piece, ...]:
    """The characters from `start` to `end` as pieces: where they were written, through texts that write texts."""
    if not isinstance(source, WrittenSource):
        return (Piece(source.text[start:end], source.span(start, end)),)
    kept: list[Piece] = []
    for index in range(max(0, bisect_right(source.starts, start) - 1), len(source.pieces)):
        low, high = max(start, source.starts[index]), min(end, source.starts[index + 1])
        if source.starts[index] >= end:
            break
        if low < high:
            kept.append(_cut(source.pieces[index], low - source.starts[index], high - source.starts[index]))
    return tuple(kept)


def unknown_at(source: Source, offset: int) -> Piece | None:
    """The unknown piece that the UNKNOWN_CHARACTER at `offset` stands for (None where the text is known)."""
    if not isinstance(source, WrittenSource) or source.text[offset : offset + 1] != UNKNOWN_CHARACTER:
        return None
    piece = source.pieces[bisect_right(source.starts, offset) - 1]
    return piece if piece.text is None else None
