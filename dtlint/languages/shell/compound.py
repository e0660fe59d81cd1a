"""Reads compound commands: if, case, loops, groups, functions, `[[ ]]` and `(( ))`."""

from __future__ import annotations

import re
from collections.abc import Callable

from dtlint.languages.shell.arithmetic_reading import read_arithmetic, read_parenthesised
from dtlint.languages.shell.cursor import Cursor, SyntaxFault
from dtlint.languages.shell.simple import read_simple
from dtlint.languages.shell.syntax import (
    ArithmeticCommand,
    ArithmeticFor,
    Case,
    Condition,
    For,
    Function,
    Group,
    If,
    Literal,
    Node,
    Part,
    Sequence,
    While,
    WordSyntax,
)
from dtlint.languages.shell.tokens import skip_blanks, skip_lines
from dtlint.languages.shell.words import read_unquoted_part, read_until, read_word
from dtlint.record import NamedTuple
from dtlint.source import Span

NAME = re.compile(r"[A-Za-z_]\w*")
KEYWORD = re.compile(r"[a-z]+(?=[\s;&|()<>]|$)")
CONDITION_OPERATOR = re.compile(r"&&|\|\||[()<>]|!(?=[\s(])")
FUNCTION_NAME = re.compile(r"[^\s()<>&|;]+")


class Grammar(NamedTuple):
    """The parts of the grammar that compound commands are made of."""

    sequence: Callable[[Cursor, frozenset[str]], Sequence]
    command: Callable[[Cursor], Node]


def _expect(cursor: Cursor, word: str, start: int, opener: str) -> None:
    skip_lines(cursor)
    if not cursor.text.startswith(word, cursor.at):
        raise SyntaxFault(start, f"this {opener} has no {word}")
    cursor.at += len(word)


def _sequence(cursor: Cursor, grammar: Grammar, *stop: str) -> Sequence:
    return grammar.sequence(cursor, frozenset(stop))


def read_if(cursor: Cursor, grammar: Grammar) -> Node:
    """`if ...; then ...; elif ...; else ...; fi`."""
    start = cursor.at
    cursor.at += 2
    arms: list[tuple[Sequence, Sequence]] = []
    while True:
        condition = _sequence(cursor, grammar, "then")
        _expect(cursor, "then", start, "if")
        arms.append((condition, _sequence(cursor, grammar, "elif", "else", "fi")))
        if not cursor.text.startswith("elif", cursor.at):
            break
        cursor.at += 4
    otherwise = None
    if cursor.text.startswith("else", cursor.at):
        cursor.at += 4
        otherwise = _sequence(cursor, grammar, "fi")
    _expect(cursor, "fi", start, "if")
    return If(tuple(arms), otherwise, cursor.span(start))


def read_while(cursor: Cursor, grammar: Grammar) -> Node:
    """`while ...; do ...; done` and `until`."""
    start = cursor.at
    until = cursor.text.startswith("until", start)
    cursor.at += 5
    condition = _sequence(cursor, grammar, "do")
    body = _read_do(cursor, grammar, start, "until" if until else "while")
    return While(condition, body, until, cursor.span(start))


def _read_do(cursor: Cursor, grammar: Grammar, start: int, opener: str) -> Sequence:
    skip_lines(cursor)
    if cursor.peek() == ";":
        cursor.at += 1
        skip_lines(cursor)
    if cursor.peek() == "{":
        cursor.at += 1
        body = _sequence(cursor, grammar, "}")
        _expect(cursor, "}", start, opener)
        return body
    _expect(cursor, "do", start, opener)
    body = _sequence(cursor, grammar, "done")
    _expect(cursor, "done", start, opener)
    return body


def read_for(cursor: Cursor, grammar: Grammar) -> Node:
    """`for NAME in words`, `for ((...))` and `select`."""
    start = cursor.at
    keyword = KEYWORD.match(cursor.text, start)
    cursor.at = keyword.end() if keyword else start
    skip_blanks(cursor)
    if cursor.text.startswith("((", cursor.at):
        return _read_arithmetic_for(cursor, grammar, start)
    name = NAME.match(cursor.text, cursor.at)
    if not name:
        raise SyntaxFault(start, "this for names no variable")
    cursor.at = name.end()
    skip_lines(cursor)
    words = _loop_words(cursor)
    return For(name[0], words, _read_do(cursor, grammar, start, "for"), cursor.span(start))


def _loop_words(cursor: Cursor) -> tuple[WordSyntax, ...] | None:
    keyword = KEYWORD.match(cursor.text, cursor.at)
    if not keyword or keyword[0] != "in":
        return None
    cursor.at += 2
    words: list[WordSyntax] = []
    while True:
        skip_blanks(cursor)
        word = read_word(cursor)
        if word is None:
            return tuple(words)
        words.append(word)


def _read_arithmetic_for(cursor: Cursor, grammar: Grammar, start: int) -> Node:
    cursor.at += 2
    clauses = [read_arithmetic(cursor, read_until, closing) for closing in (";", ";", "))")]
    first, second, third = clauses
    if first is None or second is None or third is None:
        raise SyntaxFault(start, "this for (( )) is never closed")
    skip_blanks(cursor)
    return ArithmeticFor((first, second, third), _read_do(cursor, grammar, start, "for"), cursor.span(start))


def read_case(cursor: Cursor, grammar: Grammar) -> Node:
    """`case word in pattern) ... ;; esac`."""
    start = cursor.at
    cursor.at += 4
    skip_blanks(cursor)
    subject = read_word(cursor)
    if subject is None:
        raise SyntaxFault(start, "this case has no word")
    _expect(cursor, "in", start, "case")
    arms: list[tuple[tuple[WordSyntax, ...], Sequence, str]] = []
    while True:
        skip_lines(cursor)
        keyword = KEYWORD.match(cursor.text, cursor.at)
        if keyword and keyword[0] == "esac":
            cursor.at += 4
            return Case(subject, tuple(arms), cursor.span(start))
        arms.append(_read_arm(cursor, grammar, start))


def _read_arm(cursor: Cursor, grammar: Grammar, start: int) -> tuple[tuple[WordSyntax, ...], Sequence, str]:
    if cursor.peek() == "(":
        cursor.at += 1
    patterns: list[WordSyntax] = []
    while True:
        skip_blanks(cursor)
        pattern = read_word(cursor)
        if pattern is None:
            raise SyntaxFault(max(start, cursor.at), "this case has no esac")
        patterns.append(pattern)
        skip_blanks(cursor)
        char = cursor.peek()
        cursor.at += 1
        if char == ")":
            break
        if char != "|":
            raise SyntaxFault(cursor.at - 1, "a pattern of a case ends in )")
    body = _sequence(cursor, grammar, ";;", "esac")
    terminator = next((mark for mark in (";;&", ";;", ";&") if cursor.text.startswith(mark, cursor.at)), "")
    cursor.at += len(terminator)
    return tuple(patterns), body, terminator


def read_group(cursor: Cursor, grammar: Grammar) -> Node:
    """`{ commands; }`."""
    start = cursor.at
    cursor.at += 1
    body = _sequence(cursor, grammar, "}")
    _expect(cursor, "}", start, "{")
    return Group(body, False, cursor.span(start))


def read_subshell(cursor: Cursor, grammar: Grammar) -> Node:
    """`( commands )`, or `(( expression ))` where the parentheses close as those of arithmetic do."""
    start = cursor.at
    if cursor.text.startswith("((", start):
        expression = read_parenthesised(cursor, start + 2, read_until)
        if expression is not None:
            return ArithmeticCommand(expression, cursor.span(start))
    cursor.at += 1
    body = _sequence(cursor, grammar, ")")
    _expect(cursor, ")", start, "(")
    return Group(body, True, cursor.span(start))


def read_function(cursor: Cursor, grammar: Grammar) -> Node:
    """`function name { ... }`."""
    start = cursor.at
    cursor.at += len("function")
    skip_blanks(cursor)
    name = FUNCTION_NAME.match(cursor.text, cursor.at)
    if not name:
        raise SyntaxFault(start, "this function has no name")
    cursor.at = name.end()
    parentheses = re.compile(r"[ \t]*\([ \t]*\)").match(cursor.text, cursor.at)
    cursor.at = parentheses.end() if parentheses else cursor.at
    return read_function_body(cursor, name[0], start, grammar.command)


def read_function_body(cursor: Cursor, name: str, start: int, read_command: Callable[[Cursor], Node]) -> Node:
    """The body of a function whose name and parentheses have been read."""
    skip_lines(cursor)
    cursor.depth += 1
    body = read_command(cursor)
    cursor.depth -= 1
    return Function(name, body, cursor.span(start))


def read_condition(cursor: Cursor, grammar: Grammar) -> Node:
    """`[[ ... ]]`."""
    start = cursor.at
    cursor.at += 2
    tokens: list[WordSyntax | str] = []
    while True:
        skip_lines(cursor)
        if cursor.text.startswith("]]", cursor.at):
            cursor.at += 2
            return Condition(tuple(tokens), cursor.span(start))
        tokens.append(_condition_token(cursor, tokens, start))


def _condition_token(cursor: Cursor, tokens: list[WordSyntax | str], start: int) -> WordSyntax | str:
    if tokens and isinstance(tokens[-1], WordSyntax) and tokens[-1].span.text == "=~":
        return _regular_expression(cursor)
    operator = CONDITION_OPERATOR.match(cursor.text, cursor.at)
    if operator:
        cursor.at = operator.end()
        return operator[0]
    word = read_word(cursor)
    if word is None:
        raise SyntaxFault(start, "[[ is never closed")
    return word


def _regular_expression(cursor: Cursor) -> WordSyntax:
    """The word behind `=~`, in which parentheses, bars and angles are ordinary."""
    start = cursor.at
    parts: list[Part] = []
    depth = 0
    while cursor.at < cursor.end:
        if cursor.peek() not in "()|<>&;" and read_unquoted_part(cursor, parts):
            continue
        char = cursor.peek()
        if char == "\n" or (char in " \t" and depth == 0):
            break
        depth += {"(": 1, ")": -1}.get(char, 0)
        parts.append(Literal(char, Span(cursor.source, cursor.at, cursor.at + 1)))
        cursor.at += 1
    return WordSyntax(tuple(parts), cursor.span(start))


def _read_coprocess(cursor: Cursor, grammar: Grammar) -> Node:
    cursor.at += len("coproc")
    skip_blanks(cursor)
    return read_simple(cursor)


READERS: dict[str, Callable[[Cursor, Grammar], Node]] = {
    "if": read_if,
    "while": read_while,
    "until": read_while,
    "for": read_for,
    "select": read_for,
    "case": read_case,
    "{": read_group,
    "(": read_subshell,
    "function": read_function,
    "[[": read_condition,
    "coproc": _read_coprocess,
}
