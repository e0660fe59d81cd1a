"""TOML is read as tomllib reads it, with a place for every key and value."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlint.languages.json_tree import Document, Node, entry, member, plain, setting
from dtlint.languages.toml import MAX_DEPTH, read_toml
from dtlint.languages.traced import Piece, WrittenSource
from dtlint.source import Source
from dtlint.value import Unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(text: str) -> Document:
    return read_toml(Source("a.toml", text))


def value(text: str) -> object:
    root = read(text).root
    assert root is not None
    return plain(root)


def node(text: str, *path: str) -> Node:
    found = member(read(text).root, *path)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\nb = 1_000\nc = 0x1f\nd = 1e-5\ne = -2.5\nf = true\ng = inf\n",
        "a = 'x'\nb = \"y\\t\\u0041\"\nc = '''\nline\n'''\nd = \"\"\"\\\n  folded \\\n  text\"\"\"\n",
        'a = """quote ""inside"" it"""\nb = """ends with one""""\n',
        "[training]\nlocal_batch_size = 8 # a comment\nseq_len=2048\n\n[parallelism]\ntensor_parallel_degree = 2\n",
        "[a.b]\nx = 1\n[a]\ny = 2\n[a.c]\nz = 3\n",
        "a.b.c = 1\na.b.d = 2\n'quoted key'.e = 3\n\"f\" . g = 4\n",
        "list = [1, 2,\n  3, # three\n]\nempty = []\nnested = [[1], ['a', \"b\"]]\n",
        "point = {x = 1, y = {z = 2}, s = 'a,b}'}\n",
        "[[stage]]\nlayers = 4\n[[stage]]\nlayers = 5\n[stage.inner]\nx = 1\n",
        "[quantize.linear.float8]\nfilter_fqns = ['output', 'router.gate']\n",
        "a = 1\r\n[b]\r\nc = 'x'\r\n",
        "",
        "# nothing\n",
    ],
)
def test_the_values_are_those_of_the_standard_reader(text):
    assert value(text) == tomllib.loads(text)


TABLE = st.dictionaries(
    st.text("abcdefg_-123", min_size=1, max_size=6),
    st.integers() | st.booleans() | st.floats(allow_nan=False) | st.text(st.characters(codec="ascii"), max_size=12),
    max_size=5,
)


@given(st.dictionaries(st.text("uvwxyz", min_size=1, max_size=4), TABLE, max_size=4))
def test_generated_tables_come_back(tables):
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {written(each)}" for key, each in table.items()]
    text = "\n".join(lines)
    assert value(text) == tomllib.loads(text) == tables


def written(each: object) -> str:
    if isinstance(each, bool):
        return str(each).lower()
    if isinstance(each, str):
        return (
            '"'
            + "".join(f"\\u{ord(char):04x}" if char in '"\\' or not char.isprintable() else char for char in each)
            + '"'
        )
    return repr(each)


def test_every_key_and_value_knows_its_place():
    text = '[training]\nlocal_batch_size = 8\n[model]\nflavor = "8B" # the size\n'
    assert node(text, "training", "local_batch_size").span.text == "8"
    found = entry(node(text, "model"), "flavor")
    assert found is not None
    assert (found.place.text, found.place.line, found.node.span.text) == ("flavor", 4, '"8B"')


def test_a_table_ends_with_its_last_value():
    assert node("[a]\nx = 1\n\n# comment\n[b]\ny = 2\n", "a").span.text == "a]\nx = 1"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("[a]\nx = = 1\n", "=", "no TOML: Invalid value"),
        ("a = 1\na = 2\n", "\n", "no TOML: Cannot overwrite a value"),
    ],
)
def test_a_broken_file_says_where(text, place, message):
    document = read(text)
    assert document.root is None
    assert [(each.span.text, each.message, each.fatal) for each in document.problems] == [(place, message, True)]


def test_a_template_is_no_defect():
    problem = read("[a]\nx = {{ size }}\n").problems[0]
    assert (problem.loader, problem.fatal) == ("template", False)


def test_a_placeholder_in_a_text_is_not_known():
    found = setting(node('[training]\ndataset = "${DATA}"\n', "training", "dataset"))
    assert isinstance(found, Unknown)


def test_an_unknown_stretch_of_a_written_file_is_not_known():
    text = Source("launch.sh", "cat <<EOF\n$TP\nEOF")
    pieces = (
        Piece("[parallelism]\ntensor_parallel_degree = ", text.span(0, 4)),
        Piece(None, text.span(10, 13), unknown="$TP is set by the caller"),
        Piece("\npipeline_parallel_degree = 2\n", text.span(13, 14)),
    )
    root = read_toml(WrittenSource("conf.toml", pieces)).root
    unknown, told = (
        member(root, "parallelism", "tensor_parallel_degree"),
        member(root, "parallelism", "pipeline_parallel_degree"),
    )
    assert unknown is not None and told is not None
    assert setting(unknown).reason == "$TP is set by the caller"
    assert told.value == 2


def test_deep_nesting_is_refused():
    document = read("a = " + "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))
    assert document.root is None and len(document.problems) == 1
