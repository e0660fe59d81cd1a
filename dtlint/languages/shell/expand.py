"""Expands words: parameters, arithmetic, substitutions, splitting, quote removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeGuard

from dtlint.languages.placeholders import TO_FILL_IN
from dtlint.languages.shell.meanings import meaning_of_output
from dtlint.languages.shell.parameters import Expansion, expand_parameter
from dtlint.languages.shell.splitting import field_separators, split_fields
from dtlint.languages.shell.state import ELEMENTS_OF_A_STEP, MAX_DEPTH, Array, Shell
from dtlint.languages.shell.syntax import (
    Arithmetic,
    Literal,
    Parameter,
    Part,
    Placeholder,
    ProcessSubstitution,
    Sequence,
    Substitution,
    WordSyntax,
)
from dtlint.languages.shell.text import (
    Text,
    bounded,
    is_several,
    known,
    literal,
    place_of,
    stripped_lines,
    through,
    unknown,
)
from dtlint.languages.shell.variables import read_variable, told_by_cluster, unset_text
from dtlint.languages.traced import UNKNOWN_CHARACTER, Piece, Word, pieces_between
from dtlint.record import NamedTuple
from dtlint.source import Span

SPECIAL = frozenset("*?[\\")

RunBody = Callable[[Shell, Sequence], None]
run_body: list[RunBody] = []
"""How the commands of a substitution are run; the evaluator puts itself here, since commands and words need each
other.
"""


def expand_words(shell: Shell, words: Iterable[WordSyntax]) -> list[Word]:
    """The words of a command: any number of words for each one written."""
    result: list[Word] = []
    for word in words:
        if len(word.parts) == 1 and _is_plain(word.parts[0]):
            result.append(Word(literal_pieces(word.parts[0]), place_of(word.span)))
            continue
        for parts in _braces_expanded(shell, word):
            result.extend(_fields(shell, parts, word.span))
    return result


def _braces_expanded(shell: Shell, word: WordSyntax) -> list[tuple[Part, ...]]:
    if "{" not in word.span.text:
        return [word.parts]
    from dtlint.languages.shell.braces import brace_words

    words = brace_words(word.parts)
    shell.spend((len(words) - 1) * ELEMENTS_OF_A_STEP)
    return words


def _is_plain(part: Part) -> TypeGuard[Literal]:
    """Whether a part is characters that stand for themselves and for one word."""
    return isinstance(part, Literal) and (
        part.quoted or not (part.text[:1] in ("", "~") or "{" in part.text or UNKNOWN_CHARACTER in part.text)
    )


def literal_pieces(part: Literal) -> Text:
    """Written characters as pieces; in a text that a script made, each with the place where it was really written."""
    span = part.span
    if len(part.text) == span.end - span.start:
        return pieces_between(span.source, span.start, span.end) or (Piece(part.text, place_of(span)),)
    return (Piece(part.text, place_of(span)),)


class _Field:
    """A word being put together: its pieces, whether it exists even if empty, and whether an unknown part may be
    several words.
    """

    __slots__ = ("exists", "open", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.exists = False
        self.open = False

    def word(self, span: Span) -> Word:
        many = self.open and not any(piece.text for piece in self.pieces)
        return Word(tuple(self.pieces), place_of(span), many)


class _Fields:
    """The words that one written word becomes."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.words: list[Word] = []
        self.current = _Field()

    def add(self, text: Text) -> None:
        self.current.pieces.extend(text)
        self.current.exists = True

    def end(self) -> None:
        if self.current.exists:
            self.words.append(self.current.word(self.span))
        self.current = _Field()


def _fields(shell: Shell, parts: tuple[Part, ...], span: Span) -> list[Word]:
    fields = _Fields(span)
    _add_parts(shell, fields, parts)
    fields.end()
    return fields.words


def _add_parts(shell: Shell, fields: _Fields, parts: tuple[Part, ...]) -> None:
    for number, part in enumerate(parts):
        if isinstance(part, Literal):
            _add_literal(shell, fields, part, number)
        else:
            _add_expansion(shell, fields, part)


def _add_literal(shell: Shell, fields: _Fields, part: Literal, number: int) -> None:
    if number == 0 and part.text[:1] == "~" and not part.quoted:
        fields.add(with_home(shell, part))
        return
    if part.text or part.quoted:
        pieces = literal_pieces(part)
        fields.add(pieces)
        fields.current.open |= not part.quoted and any(piece.text is None for piece in pieces)


def with_home(shell: Shell, part: Literal) -> Text:
    """A literal that begins with `~`: the home folder and the rest."""
    span = part.span
    if part.text[1:2] not in ("", "/"):
        return literal_pieces(part)
    home = Span(span.source, span.start, span.start + 1)
    rest = pieces_between(span.source, span.start + 1, span.end) if len(part.text) > 1 else ()
    return (*(read_home(shell, home)), *rest)


def read_home(shell: Shell, span: Span) -> Text:
    """`$HOME`."""
    value = read_variable(shell, "HOME")
    return unset_text(shell, "HOME", span) if value is None or isinstance(value, Array) else value


def _add_expansion(shell: Shell, fields: _Fields, part: Part) -> None:
    expansion = expand_part(shell, part)
    if expansion.operand is not None:
        _add_parts(shell, fields, expansion.operand.parts)
        return
    if getattr(part, "quoted", False):
        _add_quoted(fields, expansion)
        return
    separators = field_separators(shell)
    for number, text in enumerate(expansion.texts):
        if number:
            fields.end()
        _add_split(fields, text, separators)


def _add_quoted(fields: _Fields, expansion: Expansion) -> None:
    for number, text in enumerate(expansion.texts):
        if number:
            fields.end()
        fields.add(text)
        fields.current.open |= is_several(text) or (expansion.open and number == len(expansion.texts) - 1)


def _add_split(fields: _Fields, text: Text, separators: str) -> None:
    """Add an unquoted expansion: it ends the word at each separator, and an empty one leaves nothing."""
    if text and all(piece.text is None or piece.unknown for piece in text):
        fields.add(text)
        fields.current.open = True
        return
    for number, piece in enumerate(split_fields(text, separators)):
        if number:
            fields.end()
        if piece is None:
            continue
        fields.add(piece)
        fields.current.open |= any(each.text is None for each in piece)


def expand_part(shell: Shell, part: Part) -> Expansion:
    """What one part of a word becomes."""
    if isinstance(part, Parameter):
        return expand_parameter(shell, part, Expander(expand_text, expand_pattern))
    if isinstance(part, Arithmetic):
        from dtlint.languages.shell.arithmetic import evaluate

        return Expansion([(evaluate(shell, expand_text(shell, part.expression), place_of(part.span)),)])
    if isinstance(part, Substitution):
        return Expansion([substitute(shell, part)])
    if isinstance(part, Placeholder):
        return Expansion([unknown(part.span, f"{part.span.text}{TO_FILL_IN}")])
    if isinstance(part, ProcessSubstitution):
        substitute(shell, Substitution(part.body, part.span))
        return Expansion([unknown(part.span, "a file name that the shell makes up")])
    return Expansion([literal_pieces(part)])


class Expander(NamedTuple):
    """How the operands of a parameter expansion are expanded: as a text, and as a pattern (None: it holds unknowns)."""

    text: Callable[[Shell, WordSyntax], Text]
    pattern: Callable[[Shell, WordSyntax], str | None]


def substitute(shell: Shell, part: Substitution) -> Text:
    """What `$( ... )` gives: the setting that it asks the cluster for, or what its commands print."""
    commands = part.span.text.strip("`")
    commands = commands[2:-1] if commands.startswith("$(") else commands
    means = meaning_of_output(commands)
    if means in shell.world.given.cluster:
        return told_by_cluster(shell, means, part.span)
    if means and not _answerable(shell, commands):
        return unknown(
            part.span, f"the output of {' '.join(commands.split())[:60]} is known only when it runs", "", means
        )
    output = command_output(shell, part.body)
    label = " ".join(part.span.text.split())[:40]
    return bounded(through(stripped_lines(output), part.span, label))


def _answerable(shell: Shell, commands: str) -> bool:
    """Whether a question about the cluster reads a file, which may be in the tree."""
    return (
        "scontrol" not in commands
        and "nvidia-smi" not in commands
        and ("<" in commands or "cat " in commands or "wc " in commands)
    )


def command_output(shell: Shell, body: Sequence) -> Text:
    """What the commands print, run in a subshell; its status becomes the shell's."""
    child = shell.child()
    child.depth += 1
    if child.depth > MAX_DEPTH:
        return unknown(body.span, "nested deeper than is followed")
    child.out = []
    run_body[0](child, body)
    shell.status = child.status
    return tuple(child.out)


def expand_text(shell: Shell, word: WordSyntax) -> Text:
    """A word where nothing is split: the value of an assignment, the subject of case, a heredoc."""
    pieces: list[Piece] = []
    for number, part in enumerate(word.parts):
        if isinstance(part, Literal):
            home = number == 0 and not part.quoted and part.text[:1] == "~"
            pieces.extend(with_home(shell, part) if home else literal_pieces(part) if part.text else ())
            continue
        expansion = expand_part(shell, part)
        texts = expansion.texts if expansion.operand is None else [expand_text(shell, expansion.operand)]
        for index, text in enumerate(texts):
            pieces.extend(literal(" ", part.span) if index else ())
            pieces.extend(text)
    return bounded(tuple(pieces))


def expand_pattern(shell: Shell, word: WordSyntax) -> str | None:
    """A word as a shell pattern in which a backslash stands before every special character that was quoted; None if
    unknown.
    """
    result: list[str] = []
    for part in word.parts:
        quoted = getattr(part, "quoted", False)
        text = (
            literal_pieces(part)
            if isinstance(part, Literal)
            else tuple(p for text in expand_part(shell, part).texts for p in text)
        )
        characters = known(text)
        if characters is None:
            return None
        result.append(
            "".join("\\" + char if char in "*?[]\\+@!()|" else char for char in characters) if quoted else characters
        )
    return "".join(result)


def pattern_of(shell: Shell, word: WordSyntax) -> str | None:
    """A word as a Python pattern for the whole of a text, None if it is unknown."""
    from dtlint.languages.shell.patterns import glob_pattern

    glob = expand_pattern(shell, word)
    return None if glob is None else glob_pattern(glob)
