"""`test`, `[ ]` and `[[ ]]`: true, false, or unknown with what each answer would say about the unknowns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtlint.languages.shell.arithmetic import number_of
from dtlint.languages.shell.expand import expand_part, expand_text, pattern_of
from dtlint.languages.shell.files import file_exists
from dtlint.languages.shell.patterns import affordable, compiled, posix_pattern
from dtlint.languages.shell.state import Array, Fact, Shell, Verdict, both, either, opposite
from dtlint.languages.shell.syntax import Condition, Literal, WordSyntax
from dtlint.languages.shell.text import Text, flat, known, literal, sole_unknown
from dtlint.languages.traced import UNKNOWN_CHARACTER, Word
from dtlint.source import Span

UNKNOWN = Verdict(None)
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
FILE_TESTS = frozenset(
    (
        "-a",
        "-b",
        "-c",
        "-d",
        "-e",
        "-f",
        "-g",
        "-h",
        "-k",
        "-p",
        "-r",
        "-s",
        "-u",
        "-w",
        "-x",
        "-L",
        "-O",
        "-G",
        "-S",
        "-N",
    )
)


def test_words(shell: Shell, words: Sequence[Word], span: Span) -> Verdict:
    """The answer of `test` or `[ ]` on its arguments."""
    texts = [word.pieces for word in words]
    if not texts:
        return Verdict(False)
    verdict, used = _or_expression(shell, texts, 0, span)
    return verdict if used == len(texts) else UNKNOWN


def _or_expression(shell: Shell, texts: list[Text], at: int, span: Span) -> tuple[Verdict, int]:
    verdict, at = _and_expression(shell, texts, at, span)
    while at < len(texts) and known(texts[at]) == "-o":
        right, at = _and_expression(shell, texts, at + 1, span)
        verdict = either(verdict, right)
    return verdict, at


def _and_expression(shell: Shell, texts: list[Text], at: int, span: Span) -> tuple[Verdict, int]:
    verdict, at = _primary(shell, texts, at, span)
    while at < len(texts) and known(texts[at]) == "-a":
        right, at = _primary(shell, texts, at + 1, span)
        verdict = both(verdict, right)
    return verdict, at


def _primary(shell: Shell, texts: list[Text], at: int, span: Span) -> tuple[Verdict, int]:
    rest = len(texts) - at
    if rest <= 0:
        return UNKNOWN, at
    first = known(texts[at])
    operator = known(texts[at + 1]) if rest > 1 else None
    if rest >= 3 and operator in BINARY:
        return compare(shell, operator or "", texts[at], texts[at + 2], span), at + 3
    if first == "!" and rest > 1 and at < 40:
        verdict, after = _primary(shell, texts, at + 1, span)
        return opposite(verdict), after
    if first == "(" and rest > 2 and at < 40:
        verdict, after = _or_expression(shell, texts, at + 1, span)
        return verdict, after + 1
    if first is not None and len(first) == 2 and first[0] == "-" and rest > 1 and operator not in ("-a", "-o"):
        return unary(shell, first, texts[at + 1], span), at + 2
    return _not_empty(shell, texts[at]), at + 1


def unary(shell: Shell, operator: str, operand: Text, span: Span) -> Verdict:
    """`-z`, `-n`, `-f` and their like."""
    if operator == "-n":
        return _not_empty(shell, operand)
    if operator == "-z":
        return opposite(_not_empty(shell, operand))
    if operator == "-v":
        name = known(operand)
        return UNKNOWN if name is None else _set(shell, name)
    if operator in FILE_TESTS:
        path = known(operand)
        if path == "":
            return Verdict(False)
        exists = path is not None and operator not in ("-d", "-L", "-h", "-S", "-p") and file_exists(shell, path)
        return Verdict(True) if exists else UNKNOWN
    return UNKNOWN


def _set(shell: Shell, name: str) -> Verdict:
    bare, _, index = name.partition("[")
    value = shell.variables.get(bare)
    if index and isinstance(value, Array) and value.rest is None:
        return Verdict(bool(value.items) if index in ("@]", "*]") else index.rstrip("]") in value.items)
    if bare in shell.variables:
        return Verdict(True)
    how = f"--env {bare}=..."
    unset, empty = (Fact(how, "", False),), (Fact(how, "", True),)
    if bare in shell.world.assigned and not shell.sourced:
        return Verdict(False, unset, empty, f"the caller may set {bare}")
    return Verdict(None, unset, empty)


def _not_empty(shell: Shell, text: Text) -> Verdict:
    if any(piece.text for piece in text):
        return Verdict(True)
    missing = sole_unknown(text)
    if missing is None and all(piece.text is not None for piece in text):
        unset = next((piece for piece in text if piece.assumed), None)
        if unset is None:
            return Verdict(False)
        return Verdict(False, (Fact(unset.how, "", False),) if unset.how else (), (), unset.assumed)
    if missing is None or not missing.how:
        return UNKNOWN
    if "" in shell.world.unequal.get(missing.how, ()):
        return Verdict(True)
    return Verdict(None, (Fact(missing.how, "", False),), (Fact(missing.how, "", True),))


def compare(shell: Shell, operator: str, left: Text, right: Text, span: Span) -> Verdict:
    """A comparison of two texts or numbers."""
    if operator in COMPARISONS:
        return _compare_numbers(shell, operator, left, right, span)
    if operator in ("=", "=="):
        return equality(shell, left, right)
    if operator == "!=":
        return opposite(equality(shell, left, right))
    if operator in ("<", ">") and known(left) is not None and known(right) is not None:
        return Verdict(
            (known(left) or "") < (known(right) or "")
            if operator == "<"
            else (known(left) or "") > (known(right) or "")
        )
    return UNKNOWN


def _compare_numbers(shell: Shell, operator: str, left: Text, right: Text, span: Span) -> Verdict:
    if known(left) is not None and known(right) is not None:
        first, second = number_of(shell, left, span), number_of(shell, right, span)
        return UNKNOWN if first is None or second is None else Verdict(COMPARISONS[operator](first, second))
    if operator not in ("-eq", "-ne"):
        return UNKNOWN
    verdict = equality(shell, left, right)
    return verdict if operator == "-eq" else opposite(verdict)


def equality(shell: Shell, left: Text, right: Text) -> Verdict:
    """Whether two texts are equal."""
    if known(right) == "":
        return opposite(_not_empty(shell, left))
    if known(left) is not None and known(right) is not None:
        return Verdict(known(left) == known(right))
    if known(left) is not None:
        left, right = right, left
    other, missing = known(right), sole_unknown(left)
    if other is None:
        return UNKNOWN
    if missing is None:
        return UNKNOWN if _could_be(left, other) else Verdict(False)
    if not missing.how:
        return UNKNOWN
    if other in shell.world.unequal.get(missing.how, ()):
        return Verdict(False)
    return Verdict(None, (Fact(missing.how, other, True),), (Fact(missing.how, other, False),))


def _could_be(text: Text, other: str) -> bool:
    """Whether a text with unknown stretches could be `other`: its known beginning and end must fit."""
    characters = flat(text)
    beginning, _, _ = characters.partition(UNKNOWN_CHARACTER)
    end = characters.rpartition(UNKNOWN_CHARACTER)[2]
    return other.startswith(beginning) and other.endswith(end) and len(other) >= len(beginning) + len(end)


BINARY = frozenset((*COMPARISONS, "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"))


def evaluate_condition(shell: Shell, condition: Condition) -> Verdict:
    """The answer of `[[ ]]`."""
    verdict, at = _condition_or(shell, condition, 0, 0)
    return verdict if at >= len(condition.tokens) else UNKNOWN


def _condition_or(shell: Shell, condition: Condition, at: int, depth: int) -> tuple[Verdict, int]:
    verdict, at = _condition_and(shell, condition, at, depth)
    while at < len(condition.tokens) and condition.tokens[at] == "||":
        right, at = _condition_and(shell, condition, at + 1, depth)
        verdict = either(verdict, right)
    return verdict, at


def _condition_and(shell: Shell, condition: Condition, at: int, depth: int) -> tuple[Verdict, int]:
    verdict, at = _condition_primary(shell, condition, at, depth)
    while at < len(condition.tokens) and condition.tokens[at] == "&&":
        right, at = _condition_primary(shell, condition, at + 1, depth)
        verdict = both(verdict, right)
    return verdict, at


def _condition_primary(shell: Shell, condition: Condition, at: int, depth: int) -> tuple[Verdict, int]:
    tokens = condition.tokens
    if at >= len(tokens) or depth > 30:
        return UNKNOWN, len(tokens) + 1
    token = tokens[at]
    if token == "!":
        verdict, at = _condition_primary(shell, condition, at + 1, depth + 1)
        return opposite(verdict), at
    if token == "(":
        verdict, at = _condition_or(shell, condition, at + 1, depth + 1)
        return verdict, at + 1
    if isinstance(token, str):
        return UNKNOWN, len(tokens) + 1
    written = token.span.text
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    if len(written) == 2 and written[0] == "-" and isinstance(following, WordSyntax):
        return unary(shell, written, expand_text(shell, following), condition.span), at + 2
    operator = following if isinstance(following, str) else following.span.text if following else ""
    right = tokens[at + 2] if at + 2 < len(tokens) else None
    if isinstance(right, WordSyntax) and operator in CONDITION_OPERATORS:
        return _binary_condition(shell, operator, token, right, condition.span), at + 3
    return _not_empty(shell, expand_text(shell, token)), at + 1


CONDITION_OPERATORS = BINARY | {"=~"}


def _binary_condition(shell: Shell, operator: str, left: WordSyntax, right: WordSyntax, span: Span) -> Verdict:
    text = expand_text(shell, left)
    if operator == "=~":
        return _matches(shell, text, right)
    if operator in ("=", "==", "!="):
        verdict = matches_pattern(shell, text, right)
        return verdict if operator != "!=" else opposite(verdict)
    return compare(shell, operator, text, expand_text(shell, right), span)


def matches_pattern(shell: Shell, text: Text, word: WordSyntax) -> Verdict:
    """Whether a text fits a shell pattern (case, and `==` in `[[ ]]`)."""
    if not _may_be_pattern(shell, word):
        return equality(shell, text, expand_text(shell, word))
    pattern = pattern_of(shell, word)
    if pattern == ".*":
        return Verdict(True)
    if pattern is None or known(text) is None:
        return UNKNOWN
    return _fits(shell, pattern, known(text) or "")


def _may_be_pattern(shell: Shell, word: WordSyntax) -> bool:
    """Whether a word holds pattern characters that are not quoted: written ones, or those of a variable."""
    for part in word.parts:
        if getattr(part, "quoted", False):
            continue
        text = (part.text,) if isinstance(part, Literal) else map(flat, expand_part(shell, part).texts)
        if any(char in each for each in text for char in "*?["):
            return True
    return False


def _fits(shell: Shell, pattern: str, characters: str) -> Verdict:
    matcher = compiled(shell.world, pattern)
    if matcher is None or not affordable(shell.world, pattern, len(characters)):
        return UNKNOWN
    return Verdict(matcher.fullmatch(characters) is not None)


def _matches(shell: Shell, text: Text, word: WordSyntax) -> Verdict:
    expression, characters = known(expand_text(shell, word)), known(text)
    if expression is None or characters is None:
        return UNKNOWN
    pattern = posix_pattern(expression, "E")
    matcher = compiled(shell.world, pattern)
    if matcher is None or not affordable(shell.world, pattern, len(characters)):
        return UNKNOWN
    match = matcher.search(characters)
    if match:
        groups = {str(index): literal(match[index] or "", word.span) for index in range((matcher.groups or 0) + 1)}
        shell.variables["BASH_REMATCH"] = Array(groups)
    return Verdict(match is not None)
