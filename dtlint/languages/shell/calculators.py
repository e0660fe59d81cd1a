"""seq, expr and bc."""

from __future__ import annotations

import re

from dtlint.languages.shell.arithmetic import evaluate
from dtlint.languages.shell.call import Call
from dtlint.languages.shell.patterns import affordable, compiled, posix_pattern
from dtlint.languages.shell.state import MAX_LOOP, Verdict
from dtlint.languages.shell.text import Text, derived, known, literal
from dtlint.languages.traced import Word

INTEGER = re.compile(r"[-+]?\d{1,12}$")
BC_TOKEN = re.compile(r"\s*(\d+\.?\d*|\.\d+|\*\*|[-+*/%^()]|[<>=!]=|[<>])")


def run_seq(call: Call) -> Text | None:
    """`seq [FIRST [STEP]] LAST`."""
    words = call.words[1:]
    separator = "\n"
    padded = bool(words) and words[0].text in ("-w", "--equal-width")
    words = words[1:] if padded else words
    if words and (words[0].text or "").startswith("-s"):
        glued = (words[0].text or "")[2:]
        separator, words = (glued, words[1:]) if glued else ((words[1].text or "\n") if words[1:] else "\n", words[2:])
    texts = [word.text for word in words]
    if not texts or len(texts) > 3 or any(text is None or not INTEGER.match(text) for text in texts):
        return None
    numbers = [int(text or 0) for text in texts]
    first, step = (numbers[0] if len(numbers) > 1 else 1), (numbers[1] if len(numbers) > 2 else 1)
    if step == 0 or abs(numbers[-1] - first) // abs(step) > 16 * MAX_LOOP:
        return None
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    if not values:
        return ()
    width = max(len(str(value)) for value in (*values, first)) if padded else 0
    return (derived(separator.join(str(value).zfill(width) for value in values) + "\n", words[-1].pieces),)


def run_expr(call: Call) -> Text | None:
    """`expr A + B`, comparisons, and `expr TEXT : PATTERN`, `length`, `substr`."""
    words = call.words[1:]
    texts = [word.text for word in words]
    if len(words) == 3 and texts[1] == ":":
        return _match(call, words)
    if len(words) == 2 and texts[0] == "length" and texts[1] is not None:
        return literal(f"{len(texts[1])}\n", call.place)
    expression: list[Text] = []
    for word in words:
        symbol = {"=": "==", "&": "&&", "|": "||"}.get(word.text or "")
        expression.append(word.pieces if symbol is None else literal(symbol, call.place))
        expression.append(literal(" ", call.place))
    piece = evaluate(call.shell, tuple(piece for text in expression for piece in text), call.place)
    call.shell.status = Verdict(None if piece.text is None else piece.text != "0")
    return (piece, *literal("\n", call.place))


def _match(call: Call, words: list[Word]) -> Text | None:
    text, expression = words[0].text, words[2].text
    if text is None or expression is None:
        return None
    pattern = posix_pattern(expression, "")
    matcher = compiled(call.shell.world, pattern)
    if matcher is None or not affordable(call.shell.world, pattern, len(text)):
        return None
    match = matcher.match(text)
    call.shell.status = Verdict(match is not None)
    if matcher.groups:
        return literal((match[1] if match else "") + "\n", call.place)
    return literal(f"{match.end() if match else 0}\n", call.place)


def run_bc(call: Call) -> Text | None:
    """The value of an expression from the input, with `scale=N` before it."""
    text = call.shell.stdin
    characters = known(text) if text is not None else None
    if text is None or characters is None or len(characters) > 300:
        return None
    digits = 20 if any(word.text in ("-l", "-lq", "-ql") for word in call.words[1:]) else 0
    shown = ""
    for statement in re.split(r"[;\n]", characters):
        scale = re.fullmatch(r"\s*scale\s*=\s*(\d{1,2})\s*", statement)
        if scale:
            digits = int(scale[1])
        elif statement.strip():
            number = _bc_value(statement, digits)
            if number is None:
                return None
            shown += number + "\n"
    return (derived(shown, text),) if text else ()


def _bc_value(statement: str, digits: int) -> str | None:
    from dtlint.languages.shell.decimals import decimal_value

    tokens: list[str] = []
    at = 0
    statement = statement.strip()
    while at < len(statement):
        match = BC_TOKEN.match(statement, at)
        if not match:
            return None
        tokens.append(match[1])
        at = match.end()
    return decimal_value(tokens, digits)
