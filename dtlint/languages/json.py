"""JSON as people write it: a tree with a place for every key and value, and a sentence for every defect."""

from __future__ import annotations

import re
from typing import Literal, NoReturn

from dtlint.languages.json_tokens import Token, bare_word, string_token, template_token, word_token
from dtlint.languages.json_tree import Document, Entry, Kind, Node
from dtlint.languages.traced import UNKNOWN_CHARACTER
from dtlint.source import Problem, Source, Span

MAX_DEPTH = 100
"""Objects and arrays nested deeper than this are not read; no config is."""

MAX_PROBLEMS = 100
"""After so many defects a file is given up."""


def read_json(source: Source) -> Document:
    """Read JSON, as far as it goes: with comments, commas too many or missing, single quotes, bare words, brackets
    never closed.
    """
    reader = _Reader(source)
    root = reader.read()
    return Document(source, root, tuple(reader.problems))


_SPACE = re.compile(r"[\s\ufeff]*")
_COMMENT = r"//[^\n]*|#[^\n]*|/\*"
_HIDDEN_ENTRIES = UNKNOWN_CHARACTER + r"(?!\s*:)"
_CLOSER = {"object": "}", "array": "]"}


class _Frame:
    """An object or array being read; the bottom one, of kind "file", takes the value of the whole."""

    __slots__ = ("comma", "entries", "hidden", "items", "key", "keys", "kind", "start")

    def __init__(self, kind: Literal["object", "array", "file"], start: int) -> None:
        self.kind = kind
        self.start = start
        self.key: tuple[str, Span] | None = None
        self.keys: dict[str, Span] = {}
        self.entries: list[Entry] = []
        self.items: list[Node] = []
        self.comma: Span | None = None
        self.hidden: Span | None = None

    @property
    def last_end(self) -> int:
        """Where the last element ends; -1 if there is none."""
        node = self.entries[-1].node if self.entries else self.items[-1] if self.items else None
        return max(node.span.end if node else -1, self.hidden.end if self.hidden else -1)


class _GivenUp(Exception):  # noqa: N818 - no error: the rest of the text is not read
    """The text is nested too deeply, or has too many defects."""


class _Reader:
    """Reads a text token by token; what is open stands on a stack, so that no nesting can overflow Python's."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.problems: list[Problem] = []
        self.stack = [_Frame("file", 0)]

    def read(self) -> Node | None:
        bottom = self.stack[0]
        try:
            self._read_value(bottom)
        except _GivenUp:
            self.at = len(self.text)
        while len(self.stack) > 1:
            self._finish()
        if not bottom.items and not self.problems:
            self._problem(0, len(self.text), "the file holds no JSON value")
        return bottom.items[0] if bottom.items else None

    def _read_value(self, bottom: _Frame) -> None:
        self._skip()
        while self.at < len(self.text) and not bottom.items:
            self._step()
            self._skip()
        if self.at < len(self.text):
            self._problem(self.at, self.at + 1, "text after the end of the JSON value")
        if len(self.stack) > 1:
            self._never_closed()

    def _step(self) -> None:
        frame, char = self.stack[-1], self.text[self.at]
        if char in "}]":
            self._close(char)
        elif char == ",":
            self._comma(frame)
        elif char == ":":
            self._problem(self.at, self.at + 1, "a colon without a key before it")
            self.at += 1
        elif frame.kind == "object" and frame.key is None:
            self._key(frame)
        else:
            self._value(frame)

    # Between the tokens

    def _skip(self) -> None:
        """Step over white space and comments."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.text[self.at : self.at + 1] not in ("/", "#"):
                return
            comment = re.compile(_COMMENT).match(self.text, self.at)
            if comment is None:
                return
            start = self.at
            self.at = comment.end() if comment[0] != "/*" else self._comment_end(start)
            self._problem(start, self.at, "a comment, which strict JSON does not have", "json")

    def _comment_end(self, start: int) -> int:
        end = self.text.find("*/", start + 2)
        if end < 0:
            self._problem(start, start + 2, "this comment is never closed")
        return end + 2 if end >= 0 else len(self.text)

    def _comma(self, frame: _Frame) -> None:
        if frame.key is not None:
            self._missing_value(frame)
        elif frame.comma is not None or frame.last_end < 0:
            self._problem(self.at, self.at + 1, "a comma with nothing before it")
        frame.comma = self.source.span(self.at, self.at + 1)
        self.at += 1

    def _expect_comma(self, frame: _Frame, what: str) -> None:
        """Before a further element: take note of the comma, or say that it is missing."""
        last = frame.last_end
        if frame.comma is None and last >= 0 and not (frame.hidden and frame.hidden.end == last):
            on_new_line = "\n" in self.text[last : self.at]
            self._problem(self.at, self.at + 1, f"expected a comma before this {what}", "json" if on_new_line else "")
        frame.comma = None

    # Tokens

    def _key(self, frame: _Frame) -> None:
        start = self.at
        if self.text[start] == UNKNOWN_CHARACTER and re.compile(_HIDDEN_ENTRIES).match(self.text, start):
            self.at += len(UNKNOWN_CHARACTER)
            frame.hidden, frame.comma = self.source.span(start, self.at), None
            return
        self._expect_comma(frame, "key")
        key = self._key_text()
        if key is None:
            return
        place = self.source.span(start, self.at)
        self._skip()
        if self._colon(key, place):
            self._note_key(frame, key, place)
            frame.key = (key, place)

    def _key_text(self) -> str | None:
        """The key at this place, None if nothing there can be one."""
        start, quoted = self.at, self.text[self.at] in "\"'"
        if quoted:
            token = self._take(string_token(self.text, start))
            return self.text[start + 1 : token.end - 1] if token.kind == "unknown" else str(token.value)
        word = bare_word(self.text, start)
        self.at += len(word)
        if not word:
            self._unexpected()
            return None
        self._problem(start, self.at, f"{word} stands where a quoted key is expected", "json")
        return word

    def _colon(self, key: str, place: Span) -> bool:
        """Step over the colon after a key; False where no value follows either."""
        follows = self.text[self.at : self.at + 1]
        if follows == ":":
            self.at += 1
            return True
        if follows in ",}]":
            self._problem(place.start, place.end, f"expected a colon and a value after {key}")
            return False
        self._problem(place.start, place.end, "expected a colon after this key")
        return True

    def _note_key(self, frame: _Frame, key: str, place: Span) -> None:
        if UNKNOWN_CHARACTER in key:
            frame.hidden = place
        elif key in frame.keys:
            line = frame.keys[key].line
            self._problem(place.start, place.end, f'the key "{key}" stands here and in line {line}', "duplicate")
        frame.keys[key] = place

    def _value(self, frame: _Frame) -> None:
        if frame.kind == "array":
            self._expect_comma(frame, "value")
        char, start = self.text[self.at], self.at
        if char in "\"'":
            self._put_scalar(string_token(self.text, start))
        elif char in "{[":
            template = template_token(self.text, start)
            self._open(char) if template is None else self._put_scalar(template)
        else:
            word = word_token(self.text, start)
            self._unexpected() if word is None else self._put_scalar(word)

    def _put_scalar(self, token: Token) -> None:
        start = self.at
        self._take(token)
        self._put(Node(token.kind, token.value, self.source.span(start, token.end)))

    def _take(self, token: Token) -> Token:
        if token.defect:
            self._problem(self.at, token.end, token.defect, token.loader)
        self.at = token.end
        return token

    # Objects and arrays

    def _open(self, char: str) -> None:
        if len(self.stack) > MAX_DEPTH:
            self._give_up(f"nested deeper than {MAX_DEPTH} levels; the rest is not read")
        self.stack.append(_Frame("object" if char == "{" else "array", self.at))
        self.at += 1

    def _close(self, char: str) -> None:
        matching = next((frame for frame in reversed(self.stack) if _CLOSER.get(frame.kind) == char), None)
        self.at += 1
        if matching is None:
            self._problem(self.at - 1, self.at, f"{char} closes nothing")
            return
        while self.stack[-1] is not matching:
            self._never_closed()
        if matching.key is not None:
            self._missing_value(matching)
        elif matching.comma is not None:
            self._problem(matching.comma.start, matching.comma.end, f"a comma before {char}", "json")
        self._finish()

    def _never_closed(self) -> None:
        frame = self.stack[-1]
        self._problem(frame.start, frame.start + 1, f"this {self.text[frame.start]} is never closed")
        self._finish()

    def _finish(self) -> None:
        """The top of the stack is complete: it becomes a value of what is below."""
        frame = self.stack.pop()
        if frame.key is not None:
            frame.entries.append(Entry(*frame.key, Node("unknown", None, frame.key[1])))
        span = self.source.span(frame.start, self.at)
        kind: Kind = "object" if frame.kind == "object" else "array"
        self._put(Node(kind, None, span, tuple(frame.entries), tuple(frame.items), frame.hidden))

    def _put(self, node: Node) -> None:
        frame = self.stack[-1]
        if frame.key is None:
            frame.items.append(node)
            return
        frame.entries.append(Entry(*frame.key, node))
        frame.key = None

    # Problems

    def _missing_value(self, frame: _Frame) -> None:
        if frame.key is None:
            return
        key, place = frame.key
        self._problem(place.start, place.end, f'the key "{key}" has no value')
        self._put(Node("unknown", None, place))

    def _unexpected(self) -> None:
        self._problem(self.at, self.at + 1, f"unexpected {self.text[self.at]}")
        self.at += 1

    def _problem(self, start: int, end: int, message: str, loader: str = "") -> None:
        """Take note of a defect; of what some loaders take (comments, templates) only the first hundred are noted."""
        full = len(self.problems) >= MAX_PROBLEMS
        if full and loader:
            return
        place = self.source.span(start, min(end, len(self.text)))
        self.problems.append(Problem(place, message, not loader, loader))
        if full:
            self._give_up(f"{MAX_PROBLEMS} defects; the rest is not read")

    def _give_up(self, message: str) -> NoReturn:
        span = self.source.span(self.at, min(self.at + 1, len(self.text)))
        self.problems.append(Problem(span, message))
        raise _GivenUp
