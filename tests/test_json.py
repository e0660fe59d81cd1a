"""JSON is read as far as it goes: values with their places, and a sentence for every defect."""

from __future__ import annotations

import json
import math
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.languages.json import MAX_DEPTH, read_json
from dtlint.languages.json_tree import Document, Node, entry, member, plain, setting
from dtlint.languages.traced import Piece, WrittenSource
from dtlint.source import Source, Span
from dtlint.value import Step, Unknown, Value


def read(text: str) -> Document:
    return read_json(Source("ds.json", text))


def defects(text: str) -> list[tuple[str, str, str]]:
    """(text at the place, message, loader) of every problem."""
    return [(problem.span.text, problem.message, problem.loader) for problem in read(text).problems]


def value(text: str) -> object:
    root = read(text).root
    assert root is not None
    return plain(root)


PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN_JSON, st.sampled_from([None, 2, "\t"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_valid_json_is_read_as_python_reads_it(data: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    if "\ue000" in text:
        return
    document = read(text)
    assert document.root is not None
    assert document.problems == ()
    assert plain(document.root) == json.loads(text)


@given(st.text(alphabet="{}[]:,\"'\\/#*tfn10-.eE \n$<>_a\ue000", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_is_too_broken(text: str) -> None:
    document = read(text)
    for problem in document.problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(text)
        assert problem.message
    if document.root is None:
        assert document.problems
        return
    for node in nodes(document.root):
        assert 0 <= node.span.start < node.span.end <= len(text)


def nodes(node: Node) -> list[Node]:
    inside = [each.node for each in node.entries] + list(node.items)
    return [node] + [found for each in inside for found in nodes(each)]


def test_places_are_those_of_the_text() -> None:
    document = read('{\n  "zero_optimization": {"stage": 3}\n}')
    stage = entry(member(document.root, "zero_optimization"), "stage")
    assert stage is not None
    assert (stage.place.text, stage.place.line, stage.place.column) == ('"stage"', 2, 25)
    assert (stage.node.span.text, stage.node.span.line, stage.node.span.column) == ("3", 2, 34)


def test_large_whole_numbers_and_floats_are_exact() -> None:
    assert value("[123456789012345678901234567890, 5e8, 0.1, -0.0, 1E400]") == [
        123456789012345678901234567890,
        5e8,
        0.1,
        -0.0,
        math.inf,
    ]


def test_escapes_and_surrogate_pairs() -> None:
    assert value(r'{"\u0061": "\ud83d\ude00\n\/"}') == {"a": "\U0001f600\n/"}


@pytest.mark.parametrize(
    ("text", "read_as", "problems"),
    [
        (
            '{"a": 1, // why\n "b": 2}',
            {"a": 1, "b": 2},
            [("// why", "a comment, which strict JSON does not have", "json")],
        ),
        ('{"a": 1} # end', {"a": 1}, [("# end", "a comment, which strict JSON does not have", "json")]),
        ('{/* x */"a": 1}', {"a": 1}, [("/* x */", "a comment, which strict JSON does not have", "json")]),
        ('{"a": 1,}', {"a": 1}, [(",", "a comma before }", "json")]),
        ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}, [('"', "expected a comma before this key", "json")]),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}, [('"', "expected a comma before this key", "")]),
        ("[1 2]", [1, 2], [("2", "expected a comma before this value", "")]),
        ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}, [(",", "a comma with nothing before it", "")]),
        ('{"a" 1}', {"a": 1}, [('"a"', "expected a colon after this key", "")]),
        ('{"a":, "b": 2}', {"a": None, "b": 2}, [('"a"', 'the key "a" has no value', "")]),
        ('{"a": {"b": 1}', {"a": {"b": 1}}, [("{", "this { is never closed", "")]),
        ('{"a": [1, 2}', {"a": [1, 2]}, [("[", "this [ is never closed", "")]),
        ('{"a": 1}}', {"a": 1}, [("}", "text after the end of the JSON value", "")]),
        ('{"a": "b,\n "c": 1}', {"a": "b", "c": 1}, [('"b', "this string is never closed", "")]),
        ("['it']", ["it"], [("'it'", "single quotes; JSON has double quotes", "json")]),
        ("{a: 1}", {"a": 1}, [("a", "a stands where a quoted key is expected", "json")]),
        ('{"a": True}', {"a": True}, [("True", "True is Python; JSON writes true", "json")]),
        ('{"a": .5}', {"a": 0.5}, [(".5", "JSON does not write a number like this", "json")]),
        ('{"a": 010}', {"a": 10}, [("010", "JSON does not write a number like this", "json")]),
        ('{"a": "\t"}', {"a": "\t"}, [('"\t"', "a control character in a string", "json")]),
        (r'{"a": "\d"}', {"a": r"\d"}, [(r'"\d"', "this string has an escape that JSON does not know", "")]),
    ],
)
def test_defect_is_said_and_the_rest_is_read(text: str, read_as: object, problems: list[tuple[str, str, str]]) -> None:
    assert value(text) == read_as
    assert defects(text) == problems


@pytest.mark.parametrize("text", ["", "  \n", "// nothing"])
def test_file_without_a_value(text: str) -> None:
    document = read(text)
    assert document.root is None
    assert document.problems


def test_not_a_number_is_taken_with_a_remark() -> None:
    assert math.isnan(value('{"a": NaN}')["a"])  # type: ignore[index]
    assert defects('{"a": NaN}') == [("NaN", "NaN is no JSON, though Python's reader takes it", "number")]


def test_repeated_key_counts_last_and_is_said() -> None:
    text = '{"stage": 1,\n "stage": 2}'
    assert value(text) == {"stage": 2}
    assert defects(text) == [('"stage"', 'the key "stage" stands here and in line 1', "duplicate")]
    assert [problem.fatal for problem in read(text).problems] == [False]


@pytest.mark.parametrize(
    "word",
    ["CONFIG_BATCH_SIZE", "<fill in>", "${STAGE:-2}", "$(nproc)", "{{ stage }}", "{STAGE}", "@STAGE@", "__STAGE__"],
)
def test_placeholder_of_a_template_is_unknown(word: str) -> None:
    document = read(f'{{"stage": {word}, "b": 1}}')
    node = member(document.root, "stage")
    assert node is not None
    found = setting(node)
    assert isinstance(found, Unknown)
    assert found.reason == f"placeholder {word} is filled by another program"
    assert [(problem.loader, problem.fatal) for problem in document.problems] == [("template", False)]
    assert value(f'{{"stage": {word}, "b": 1}}') == {"stage": word, "b": 1}


def written_config(*parts: str | Piece) -> WrittenSource:
    """A config that a script writes: known text, and pieces of their own."""
    script = Source("launch.sh", "".join(part for part in parts if isinstance(part, str)))
    pieces, at = [], 0
    for part in parts:
        if isinstance(part, Piece):
            pieces.append(part)
            continue
        pieces.append(Piece(part, script.span(at, at + len(part))))
        at += len(part)
    return WrittenSource("ds.json", tuple(pieces))


def test_unknown_variable_in_a_written_config() -> None:
    line = Source("launch.sh", "STAGE=$1").span(6, 8)
    source = written_config('{"stage": ', Piece(None, line, unknown="$1 is not given", how="--arg 1=..."), ', "b": 1}')
    document = read_json(source)
    node = member(document.root, "stage")
    assert node is not None
    found = setting(node)
    assert isinstance(found, Unknown)
    assert (found.reason, found.how) == ("$1 is not given", "--arg 1=...")
    assert document.problems == ()


def test_known_variable_in_a_written_config_leads_to_its_assignment() -> None:
    script = Source("launch.sh", "STAGE=2\ncat > ds.json <<EOF")
    piece = Piece("2", script.span(6, 7), (Step(script.span(0, 7), "STAGE"),))
    document = read_json(written_config('{"stage": ', piece, "}"))
    node = member(document.root, "stage")
    assert node is not None
    found = setting(node)
    assert isinstance(found, Value)
    assert found.value == 2
    assert found.origin.span == Span(script, 6, 7)
    assert [step.label for step in found.origin.chain] == ["STAGE"]


def test_unknown_text_among_the_keys_hides_entries() -> None:
    document = read('{"a": 1, \ue000 "b": 2}')
    assert document.problems == ()
    assert document.root is not None
    assert document.root.hidden is not None
    assert plain(document.root) == {"a": 1, "b": 2}


def test_deep_nesting_is_refused_without_an_exception() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)):
        assert any("nested deeper" in problem.message for problem in read(text).problems)
    assert defects("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []


@pytest.mark.parametrize("unit", ["[", '"', "/*", "${", "<", "{{", "a:", "}", "1 ", "'", "\\", "#\n"])
def test_time_grows_with_the_length_only(unit: str) -> None:
    start = perf_counter()
    read(unit * (300_000 // len(unit)))
    assert perf_counter() - start < 2


def test_a_file_full_of_what_some_loaders_take_is_read_to_its_end() -> None:
    text = "{\n" + "".join(f'"key{number}": "{{{{value}}}}", // said\n' for number in range(400)) + '"last": 1}'
    document = read_json(Source("conf.json", text))
    assert all(problem.loader for problem in document.problems)
    assert document.root is not None
    assert document.root.entries[-1].key == "last"


def test_file_of_defects_is_given_up() -> None:
    assert len(defects("{" + "a:b," * 1000 + "}")) < 200
