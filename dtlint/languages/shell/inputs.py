"""What a filter reads: the files that it names, else its input; and its options."""

from __future__ import annotations

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.files import read_file
from dtlint.languages.shell.text import Text
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple


class Options(NamedTuple):
    """The options of a filter (name -> value, "" for those without) and the words that are no options."""

    values: dict[str, Word | None]
    operands: list[Word]

    def text(self, name: str) -> str | None:
        """The value of an option, None without it or if it is unknown."""
        word = self.values.get(name)
        return word.text if word is not None else None


def read_options(call: Call, with_value: str) -> Options | None:
    """Split a filter's words; `with_value` holds the letters of the options that take a value. None if a word that
    matters is unknown.
    """
    values: dict[str, Word | None] = {}
    operands: list[Word] = []
    words = call.words[1:]
    number = 0
    while number < len(words):
        word = words[number]
        text = word.text
        number += 1
        if text is None or text[:1] != "-" or text == "-":
            operands.append(word)
        elif text == "--":
            return Options(values, [*operands, *words[number:]])
        elif text.startswith("--"):
            name, equals, _ = text[2:].partition("=")
            values[name] = word.part(len(name) + 3) if equals else None
        else:
            number += _letters(word, text, with_value, words[number:], values)
    return Options(values, operands)


def _letters(word: Word, text: str, with_value: str, following: list[Word], values: dict[str, Word | None]) -> int:
    """Note the options of a word such as `-nr`; how many of the following words are used as a value."""
    for at in range(1, len(text)):
        if text[at] not in with_value:
            values[text[at]] = None
        elif at + 1 < len(text):
            values[text[at]] = word.part(at + 1)
            return 0
        elif following:
            values[text[at]] = following[0]
            return 1
    return 0


def input_of(call: Call, files: list[Word]) -> Text | None:
    """The text of the files one after the other, of the input without files; None if any of it is not known."""
    if not files:
        return call.shell.stdin
    pieces: list[Text] = []
    for word in files:
        text = call.shell.stdin if word.text == "-" else read_file(call.shell, word.pieces, call.place)
        if text is None:
            return None
        pieces.append(text)
    return tuple(piece for text in pieces for piece in text)
