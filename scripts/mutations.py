"""Makes hostile text of ordinary text: by byte, token, line and structure."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

LONGEST = 20_000
"""Characters of a mutated text, so that many can be tried; tests/test_bounds.py has the huge ones."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_NUMBER = re.compile(r"\d+")
_STRANGE = (
    *("\0", "\ufeff", "\r", "\r\n", "\t", "\x0b", "\x0c", "\x1b[31m", "\x1b]0;x\x07", "\x85", "\u2028", "\u202e"),
    *(
        "\ud800",
        "\ufffd",
        "\U0001f600",
        "e\u0301",
        "\u00a0",
        "\x7f",
        "\x9b",
        "\ue000",
        "\\",
        "\\\n",
        "%0A",
        "::error::",
    ),
    *(
        "'",
        '"',
        "`",
        "$",
        "${",
        "$(",
        "$((",
        "))",
        "((",
        "[[",
        "]]",
        "{",
        "}",
        "<<",
        "<<<",
        "<(",
        ">&",
        "|&",
        ";;",
        "&&",
    ),
    *(
        "[",
        "]",
        "(",
        ")",
        "{{",
        "}}",
        "{%",
        "<",
        ">",
        ":",
        ": ",
        "- ",
        ",",
        "=",
        "+=",
        "&a ",
        "*a",
        "<<: *a",
        "!!python/x ",
    ),
    *(
        "|",
        ">-",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "? ",
        "#",
        "//",
        "/*",
        "*/",
        '"""',
        "'''",
        "lambda x: ",
        "*",
        "**",
        "@",
    ),
    *(
        "=~",
        "!",
        "!=",
        ":=",
        "-1",
        "0x",
        "1e999",
        "NaN",
        "-Infinity",
        "null",
        "true",
        "~",
        "auto",
        "inf",
        "0",
        "../../",
    ),
    *("if ", "then ", "fi\n", "for x in ", "do ", "done\n", "case x in ", "esac\n", "function f { ", "eval ", "exec "),
    *(
        "def f(",
        "class A(",
        "async ",
        "await ",
        "yield ",
        "return ",
        "import ",
        "from . import *\n",
        "with ",
        "match x:\n",
    ),
)
_HUGE = (
    "9" * 30,
    "9" * 400,
    "1" + "0" * 5000,
    "-" + "9" * 25,
    "1e400",
    "0x" + "f" * 40,
    "9223372036854775808",
    "0" * 60,
)
_NESTS = (
    *(
        ("[", "]"),
        ("{", "}"),
        ("(", ")"),
        ("$(", ")"),
        ('"$(', ')"'),
        ("{a: ", "}"),
        ('{"a":', "}"),
        ("- ", ""),
        ("if x; then ", "; fi"),
    ),
    *(
        ("$((", "))"),
        ("${a:-", "}"),
        ("{a,", "}"),
        ("`", "`"),
        ("not ", ""),
        ("-", ""),
        ("f(", ")"),
        ("lambda: ", ""),
        ("x.", "y"),
    ),
)


def mutated(text: str, other: str, random: Random) -> str:
    """`text` after one to four mutations; `other` is what is spliced into it."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        text = random.choice(_MUTATIONS)(text, other, random)[:LONGEST]
    return text


def _flip_bytes(text: str, other: str, random: Random) -> str:
    data = bytearray(text.encode("utf-8", "replace"))
    for _ in range(random.randint(1, 6)):
        if data:
            data[random.randrange(len(data))] = random.randrange(256)
    return data.decode("utf-8-sig", "replace")


def _drop_bytes(text: str, other: str, random: Random) -> str:
    start = random.randint(0, len(text))
    return text[:start] + text[start + random.choice((1, 1, 2, 5, 40)) :]


def _insert_strange(text: str, other: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + random.choice(_STRANGE) * random.choice((1, 1, 1, 2, 3, 50)) + text[at:]


def _swap_token(text: str, other: str, random: Random) -> str:
    tokens, others = _TOKEN.findall(text), _TOKEN.findall(other[:2000])
    if not tokens:
        return other
    tokens[random.randrange(len(tokens))] = random.choice(others) if others else random.choice(_STRANGE)
    return "".join(tokens)


def _strange_token(text: str, other: str, random: Random) -> str:
    tokens = _TOKEN.findall(text) or [""]
    tokens[random.randrange(len(tokens))] = random.choice(_STRANGE)
    return "".join(tokens)


def _move_token(text: str, other: str, random: Random) -> str:
    tokens = _TOKEN.findall(text)
    if tokens:
        token = tokens.pop(random.randrange(len(tokens)))
        tokens.insert(random.randint(0, len(tokens)), token)
    return "".join(tokens)


def _huge_number(text: str, other: str, random: Random) -> str:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text + random.choice(_HUGE)
    found = random.choice(numbers)
    return text[: found.start()] + random.choice((*_HUGE, "0", "-1", "1.5", "''")) + text[found.end() :]


def _on_lines(change: Callable[[list[str], int, Random], None]) -> Callable[[str, str, Random], str]:
    def mutation(text: str, other: str, random: Random) -> str:
        lines = text.splitlines(keepends=True) or ["\n"]
        change(lines, random.randrange(len(lines)), random)
        return "".join(lines)

    return mutation


def _drop_line(lines: list[str], at: int, random: Random) -> None:
    del lines[at]


def _repeat_line(lines: list[str], at: int, random: Random) -> None:
    lines[at] *= random.choice((2, 2, 3, 30))


def _swap_lines(lines: list[str], at: int, random: Random) -> None:
    other = random.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


def _indent_line(lines: list[str], at: int, random: Random) -> None:
    lines[at] = random.choice(("\t", " ", "    ", " " * 80)) + lines[at]


def _dedent_line(lines: list[str], at: int, random: Random) -> None:
    lines[at] = lines[at].lstrip()


def _splice(text: str, other: str, random: Random) -> str:
    return text[: random.randint(0, len(text))] + other[random.randint(0, len(other)) :]


def _insert_other(text: str, other: str, random: Random) -> str:
    at, start = random.randint(0, len(text)), random.randint(0, len(other))
    return text[:at] + other[start : start + random.randint(1, 300)] + text[at:]


def _truncate(text: str, other: str, random: Random) -> str:
    return text[: random.randint(0, len(text))]


def _duplicate(text: str, other: str, random: Random) -> str:
    return text + random.choice(("", "\n", "---\n")) + text


def _nest(text: str, other: str, random: Random) -> str:
    opening, closing = random.choice(_NESTS)
    depth = random.choice((1, 2, 5, 30, 70, 150, 1200))
    tokens = _TOKEN.findall(text) or [""]
    at = random.randrange(len(tokens))
    tokens[at] = opening * depth + tokens[at] + closing * random.choice((depth, depth, depth - 1, 0))
    return "".join(tokens)


def _line_ends(text: str, other: str, random: Random) -> str:
    return text.replace("\n", random.choice(("\r\n", "\r", "\n\r", "\x85")))


def _byte_order_mark(text: str, other: str, random: Random) -> str:
    return "\ufeff" + text


def _blanks(text: str, other: str, random: Random) -> str:
    return text.replace(random.choice(("  ", " ", "=", ":")), random.choice(("\t", "", "\u00a0", " = ")))


_MUTATIONS: tuple[Callable[[str, str, Random], str], ...] = (
    *(_flip_bytes, _drop_bytes, _insert_strange, _insert_strange, _swap_token, _strange_token, _strange_token),
    *(_move_token, _huge_number, _splice, _insert_other, _truncate, _duplicate, _nest, _line_ends, _byte_order_mark),
    *(_blanks, *map(_on_lines, (_drop_line, _repeat_line, _swap_lines, _indent_line, _dedent_line))),
)
