"""Expressions of rules: they equal Python's on what is known, never guess, and say where they are wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dtlint.interval import Interval
from dtlint.rulebook.expressions import ExpressionError, Names, compile_condition, compile_expression
from dtlint.rulebook.functions import Type, invoke, type_of
from dtlint.rulebook.library import FUNCTIONS
from dtlint.rulebook.operands import OPEN, Operand
from dtlint.rulebook.parts import parts
from dtlint.rulebook.sentences import compile_sentence, fill
from dtlint.value import Unknown

MISSING = Unknown("no file tells it")

VALUES: Mapping[str, Operand] = {
    "parallel.tensor": 8,
    "parallel.pipeline": 8,
    "parallel.virtual_pipeline": 2,
    "batch.global": 512,
    "batch.micro": MISSING,
    "pipeline.bubble": Interval(0.1, 0.3),
    "framework": "megatron",
    "framework.version": "0.12.1",
    "overlap.gradients": False,
    "parallel.order": ("tensor", "data"),
    "limits.bubble": 0.15,
    "communication.env": (("NCCL_DEBUG", "INFO"), ("NCCL_IB_DISABLE", "1")),
}


class Table:
    """Names that mean what a table says."""

    def __init__(self, values: Mapping[str, Operand]) -> None:
        self.values = values
        self.reads: list[str] = []

    def read(self, name: str) -> Operand:
        self.reads.append(name)
        return self.values[name]

    def origin(self, name: str) -> str:
        return "unknown" if isinstance(self.values[name], Unknown) else "written"

    def tells(self, name: str) -> bool:
        return not isinstance(self.read(name), Unknown)

    def stands(self, name: str) -> bool:
        return not isinstance(self.values[name], Unknown)

    def environment(self, name: str) -> str | None:
        return None


def names(values: Mapping[str, Operand]) -> Names:
    def lookup(name: str) -> Type | None:
        if name not in values:
            return None
        return "number" if isinstance(values[name], Unknown) else type_of(values[name])

    return Names(lookup, lambda: values)


def value(text: str, values: Mapping[str, Operand] = VALUES) -> Operand:
    return compile_expression(text, names(values)).evaluate(Table(values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch.global // parallel.tensor % 3", 1),
        ("-7 // 2", -4),
        ("2 < parallel.tensor <= 8", True),
        ("not parallel.tensor == 8 or framework == 'megatron'", True),
        ('framework in ["deepspeed", "megatron"]', True),
        ("'data' not in parallel.order", False),
        ("1 if overlap.gradients else 2", 2),
        ("overlap.gradients == none", False),
        ("max(parallel.tensor, 3, 4) + min(1, 2)", 9),
        ("ceil(7 / 2) * 10 + floor(7 / 2)", 43),
        ("lcm(4, 6)", 12),
        ("divides(8, batch.global)", True),
        ("nearest_multiple(500, 64)", 512),
        ("multiple_above(500, 64)", 512),
        ("multiple_below(500, 64)", 448),
        ("largest_divisor(46, 4)", 2),
        ("gcd(12, 8)", 4),
        ("abs(0 - 3) + length(parallel.order)", 5),
        ("starts_with(framework, 'mega')", True),
        ("before(framework.version, '0.9')", False),
        ("before('0.9', framework.version)", True),
        ("divisors_text(12)", "1, 2, 4, 12"),
        ("variable('NCCL_IB_DISABLE') == '1'", True),
        ("variable('NCCL_P2P_DISABLE') == none", True),
        ("known(batch.micro)", False),
        ("written(parallel.tensor) and origin(batch.micro) == 'unknown'", True),
    ],
)
def test_an_expression_has_the_value_that_it_reads_as(text: str, expected: Operand) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch.micro > 1", MISSING),
        ("batch.micro + 1", MISSING),
        ("overlap.gradients and batch.micro > 1", False),
        ("batch.micro > 1 and overlap.gradients", False),
        ("batch.micro > 1 or parallel.tensor == 8", True),
        ("batch.micro > 1 or overlap.gradients", MISSING),
        ("not batch.micro > 1", MISSING),
        ("max(batch.micro, 1)", MISSING),
        ("2 if batch.micro > 1 else 2", 2),
        ("2 if batch.micro > 1 else 3", MISSING),
    ],
)
def test_what_is_unknown_stays_unknown_unless_the_rest_decides(text: str, expected: Operand) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pipeline.bubble > limits.bubble", OPEN),
        ("pipeline.bubble > 0.05", True),
        ("pipeline.bubble > 0.3", False),
        ("pipeline.bubble >= 0.1", True),
        ("pipeline.bubble == 0.2", OPEN),
        ("pipeline.bubble == 0.5", False),
        ("pipeline.bubble * 10 + 1", Interval(2, 4)),
        ("1 - pipeline.bubble", Interval(0.7, 0.9)),
        ("ceil(pipeline.bubble * 20)", Interval(2, 6)),
        ("max(pipeline.bubble, 0.2)", Interval(0.2, 0.3)),
    ],
)
def test_a_range_is_compared_as_a_whole(text: str, expected: Operand) -> None:
    found = value(text)
    if isinstance(expected, Interval):
        assert isinstance(found, Interval)
        assert found == pytest.approx(expected)
    else:
        assert found == expected


@pytest.mark.parametrize(
    "text", ["1 / 0", "1 // 0", "1 % 0", "1 / (pipeline.bubble - 0.2)", "lcm(1.5, 2)", "2 / (3 - 3)"]
)
def test_what_has_no_value_is_unknown_and_no_error(text: str) -> None:
    assert isinstance(value(text), Unknown)


def test_factors_that_grow_without_bound_are_not_multiplied_out() -> None:
    huge = str(2**100)
    assert isinstance(value(" * ".join([huge] * 5)), Unknown)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("paralel.tensor > 1", 0, "unknown name 'paralel.tensor'; did you mean 'parallel.tensor'?"),
        ("1 + tensor", 4, "unknown name 'tensor'; did you mean 'parallel.tensor'?"),
        ("1 + ceiling(2)", 4, "unknown function 'ceiling'; did you mean 'ceil'?"),
        ("divides(8)", 0, "divides() takes 2 arguments (number, number -> flag), not 1"),
        ("framework > 1", 12, "a word is compared with a number"),
        ("framework + 1 > 2", 0, "a number is needed here, and this is a word"),
        ("parallel.tensor and overlap.gradients", 0, "a flag is needed here, and this is a number"),
        ("overlap.gradients < true", 20, "a flag has no order"),
        ("1 in 2", 5, "'in' needs a list on its right, and this is a number"),
        ("2 ** 3", 3, "expected a value, found '*'"),
        ("parallel.order[0]", 14, "expected the end, found '['"),
        ("(1).real", 3, "'.' is not allowed in an expression"),
        ("framework = 'x'", 10, "'=' alone; equality is written =="),
        ("1 > 0 & 2 > 1", 6, "'&'; write 'and'"),
        ("max(1, 2", 8, "expected ')', found the end"),
        ("'a", 0, "a text that does not end, or that has a backslash in it"),
        ("1 +", 3, "expected a value, found the end"),
        ("", 0, "expected a value, found the end"),
        ("known(3)", 6, "known() takes the name of a setting"),
        ("1 if true", 9, "expected 'else', found the end"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, names(VALUES))
    assert (caught.value.message, caught.value.offset) == (message, column)


def test_the_caret_stands_under_the_place_at_fault() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("1 < tensor", names(VALUES))
    assert caught.value.caret() == "1 < tensor\n    ^"


def test_a_condition_is_true_or_false() -> None:
    with pytest.raises(ExpressionError, match="a condition is needed, and this is a number"):
        compile_condition("parallel.tensor + 1", names(VALUES))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200 + "1" + ")" * 200,
        "-" * 300 + "1",
        "not " * 90 + "true",
        "1" + " + 1" * 90,
        "[" * 390,
        "max(1," * 60,
        "1" * 399,
        "9" * 401,
    ],
)
def test_a_hostile_expression_is_refused_at_once(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text, names(VALUES))


@given(st.text(max_size=60))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        compile_expression(text, names(VALUES)).evaluate(Table(VALUES))
    except ExpressionError as error:
        assert 0 <= error.offset <= len(error.text)


def test_only_the_names_that_decide_are_read() -> None:
    table = Table(VALUES)
    compile_expression("overlap.gradients and batch.micro > 1", names(VALUES)).evaluate(table)
    assert table.reads == ["overlap.gradients"]


# On known values an expression is what Python makes of the same text.

numbers = st.one_of(st.integers(-1000, 1000), st.floats(-1000, 1000, allow_nan=False))


def number_texts(leaves: st.SearchStrategy[str], signs: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(signs), inner).map(" ".join),
            inner.map("({})".format),
            inner.map("-{}".format),
            st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
        ),
        max_leaves=5,
    )


def flag_texts(number: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    compared = st.tuples(number, signs, number).map(" ".join)
    chained = st.tuples(number, signs, number, signs, number).map(" ".join)
    listed = st.tuples(number, st.sampled_from(["in", "not in"]), st.lists(number, max_size=3).map(", ".join)).map(
        lambda parts: f"{parts[0]} {parts[1]} [{parts[2]}]"
    )
    return st.recursive(
        st.one_of(compared, chained, listed),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
            inner.map("not {}".format),
            inner.map("({})".format),
        ),
        max_leaves=3,
    )


LITERALS = st.one_of(
    st.integers(0, 50).map(str), st.floats(0, 50, allow_nan=False).map(repr), st.sampled_from(["a.x", "a.y"])
)
NUMBERS = number_texts(LITERALS, ("+", "-", "*", "/", "//", "%"))
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(st.one_of(NUMBERS, flag_texts(NUMBERS)), numbers, numbers)
def test_known_values_give_what_python_gives(text: str, one: float, other: float) -> None:
    values: Mapping[str, Operand] = {"a.x": one, "a.y": other}
    try:
        found = value(text, values)
    except ExpressionError:
        assume(False)
    try:
        wanted = eval(text, {"a": SimpleNamespace(x=one, y=other), "max": max})
    except (ZeroDivisionError, OverflowError):
        assert isinstance(found, Unknown) or type(found) is bool
        return
    if isinstance(found, Unknown):
        assert "/" in text or "%" in text
        return
    assert type(found) is type(wanted)
    assert found == wanted or (isinstance(wanted, float) and math.isnan(wanted))


@UNHURRIED
@given(
    number_texts(st.sampled_from(["a.x", "a.y", "2", "0.5"]), ("+", "-", "*", "/")),
    st.tuples(numbers, numbers),
    st.floats(0, 1),
)
def test_a_range_holds_every_value_that_it_stands_for(text: str, ends: tuple[float, float], share: float) -> None:
    low, high = sorted(ends)
    inside = min(high, max(low, low + share * (high - low)))
    values: Mapping[str, Operand] = {"a.x": Interval(low, high), "a.y": 3}
    found, exact = value(text, values), value(text, {**values, "a.x": inside})
    if isinstance(found, Interval) and isinstance(exact, (int, float)):
        slack = 1e-6 * max(1.0, abs(found.low), abs(found.high))
        assert found.low - slack <= exact <= found.high + slack


@UNHURRIED
@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(st.one_of(st.floats(), st.integers()), min_size=3, max_size=3))
def test_a_function_has_a_value_or_none_for_any_numbers(name: str, arguments: list[float]) -> None:
    function = FUNCTIONS[name]
    if set(function.parameters) == {"number"}:
        count = len(function.parameters) + (function.more is not None)
        found = invoke(function, Table(VALUES), tuple(arguments[:count]))
        assert isinstance(found, (bool, int, float, str, Interval, Unknown))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > 1", ["a > 1"]),
        ("a > 1 and (b or c) and d in [1, 2]", ["a > 1", "(b or c)", "d in [1, 2]"]),
        ("a and b or c", ["a and b or c"]),
        ('name == "this and that" and\n b', ['name == "this and that"', "b"]),
        ("a and (b and c)", ["a", "(b and c)"]),
        ("1 if a and b else c", ["1 if a and b else c"]),
    ],
)
def test_the_parts_of_a_condition_that_must_all_hold(condition: str, expected: list[str]) -> None:
    assert parts(condition) == expected


# Sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idles {pipeline.bubble:percent} of each step", "idles 10-30% of each step"),
        ("{7 / 15:percent}", "47%"),
        ("{0.004:percent}", "0.4%"),
        ("TP {parallel.tensor} over {framework}", "TP 8 over megatron"),
        ("{batch.micro} samples", "(not known) samples"),
        ("TP 8[[ on {parallel.tensor} GPUs]][[, {batch.micro} samples]] a step", "TP 8 on 8 GPUs a step"),
        ("[[ $A ]] && run {parallel.tensor}", "[[ $A ]] && run 8"),
        ("{16 * 7e10:gb}", "1,120 GB"),
        ("{17179869184:gib}", "16 GiB"),
        ("{25165824:bytes}", "24 MiB"),
        ("{0.0123:seconds}", "12.3 ms"),
        ("{pipeline.bubble * 10:seconds}", "1-3 s"),
        ("{7e10:count} parameters on {4096:count} GPUs", "70B parameters on 4,096 GPUs"),
        ('{{"stage": {parallel.tensor}}}', '{"stage": 8}'),
        ("{9 - parallel.tensor} micro-batches on {9 - parallel.tensor} GPUs", "1 micro-batch on 1 GPU"),
        ("{parallel.tensor + 3} processes, {0.1} times, ZeRO-1 nodes", "11 processes, 0.1 times, ZeRO-1 nodes"),
        ("{overlap.gradients}", "false"),
        ("{parallel.order}", "tensor, data"),
        ("{'megatron' if overlap.gradients else 'none'}", "none"),
    ],
)
def test_a_sentence_shows_its_numbers(text: str, expected: str) -> None:
    assert fill(compile_sentence(text, names(VALUES)), Table(VALUES)) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("TP {tensor}", 4, "unknown name 'tensor'; did you mean 'parallel.tensor'?"),
        ("TP { tensor}", 5, "unknown name 'tensor'; did you mean 'parallel.tensor'?"),
        ("{parallel.tensor:persent}", 17, "unknown format 'persent'; did you mean 'percent'?"),
        ("TP {parallel.tensor", 3, "a brace without its partner (a brace as such is written twice)"),
    ],
)
def test_a_wrong_sentence_is_refused_with_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_sentence(text, names(VALUES))
    assert (caught.value.message, caught.value.offset) == (message, column)
