"""Jupyter notebooks: their code cells are a program, and a place in it is that of a line of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtlint
from dtlint.languages.notebook import read_notebook
from dtlint.languages.python import read_module
from dtlint.source import Source

TRAIN = """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(Net().cuda())
"""
LOOP = """\
for batch in batches:
    loss = model(batch).loss
    loss = loss / dist.get_world_size()
    loss.backward()
"""


def notebook(*cells: str, as_lines: bool = True, **others: object) -> str:
    """A notebook as Jupyter writes it, a string for each line of a cell."""
    written = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True) if as_lines else cell}
        for cell in cells
    ]
    return json.dumps({"cells": written, "metadata": {}, "nbformat": 4, **others}, indent=1)


def line_of(text: str, words: str) -> int:
    """The number of the line of a file that holds some words."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def findings(folder: Path, text: str) -> list[tuple[str, str, int]]:
    file = folder / "train.ipynb"
    file.write_text(text, encoding="utf-8")
    found = dtlint.check([file], {}).findings
    return [(item.rule, item.severity, item.span.original().line) for item in found]


def test_a_finding_in_a_cell_stands_at_the_line_of_the_file(tmp_path: Path) -> None:
    text = notebook(TRAIN, "# words\n", LOOP)
    assert findings(tmp_path, text) == [("grad-double-averaged", "error", line_of(text, "loss / dist"))]


def test_a_folder_holds_its_notebooks(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(notebook(TRAIN, LOOP), encoding="utf-8")
    (tmp_path / "plots.ipynb").write_text(notebook("import matplotlib\n", "x = (\n"), encoding="utf-8")
    found = dtlint.check([tmp_path], {}).findings
    assert [(item.rule, Path(item.span.path).name) for item in found] == [("grad-double-averaged", "train.ipynb")]


def test_a_cell_that_is_one_string(tmp_path: Path) -> None:
    text = notebook(TRAIN, LOOP, as_lines=False)
    assert findings(tmp_path, text) == [("grad-double-averaged", "error", line_of(text, "loss / dist"))]


def test_escapes_keep_the_column() -> None:
    text = notebook('print("tab\\t", "\\\\", "\u00e9"); call(7)\n')
    code = read_notebook(Source("a.ipynb", text)).code
    assert code.text == 'print("tab\\t", "\\\\", "\u00e9"); call(7)\n\n'
    start = code.text.index("call")
    place = code.span(start, start + 7).original()
    assert place.text == "call(7)"


def test_text_cells_and_other_languages_are_no_code() -> None:
    cells = [{"cell_type": "markdown", "source": ["import os\n"]}, {"cell_type": "code", "source": ["x = 1\n"]}]
    assert read_notebook(Source("a.ipynb", json.dumps({"cells": cells}))).code.text == "x = 1\n\n"
    julia = notebook("x = 1", metadata={"language_info": {"name": "julia"}})
    assert read_notebook(Source("a.ipynb", julia)).code.text == ""


def test_the_third_format() -> None:
    text = json.dumps({"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = 1"]}]}]})
    assert read_notebook(Source("a.ipynb", text)).code.text == "x = 1\n"


@pytest.mark.parametrize(
    "cell",
    [
        "!pip install torch\nx = 1\n",
        "%matplotlib inline\nx = 1\n",
        "!torchrun \\\n  train.py\nx = 1\n",
        "files = !ls\nx = 1\n",
        "if a:\n    !ls\nx = 1\n",
        "model?\nx = 1\n",
        "%%time\nx = 1\n",
    ],
)
def test_lines_for_ipython_are_left_out(cell: str) -> None:
    read = read_notebook(Source("a.ipynb", notebook(cell)))
    assert read.problems == ()
    assert len(read.code.text) == len(cell) + 1
    assert "x" in read_module(read.code).top.bindings


def test_a_cell_for_another_program_is_left_out() -> None:
    read = read_notebook(Source("a.ipynb", notebook("%%bash\necho $((1 + 1))\n", "x = 1\n")))
    assert read.problems == ()
    assert list(read_module(read.code).top.bindings) == ["x"]


def test_a_remainder_at_the_start_of_a_line_is_python() -> None:
    read = read_notebook(Source("a.ipynb", notebook("x = (7\n  % 2)\n")))
    assert read.code.text == "x = (7\n  % 2)\n\n"


def test_a_cell_that_is_no_python_is_a_note_and_the_others_are_read(tmp_path: Path) -> None:
    text = notebook(TRAIN, "pip install torch\n", "print 'two'\n", LOOP)
    assert sorted(findings(tmp_path, text)) == [
        ("grad-double-averaged", "error", line_of(text, "loss / dist")),
        ("unreadable-input", "note", line_of(text, "pip install")),
        ("unreadable-input", "note", line_of(text, "print 'two'")),
    ]


BROKEN = {
    "nothing": "",
    "no JSON": "import torch.distributed\n",
    "a list": "[1, 2]",
    "cells that are none": '{"cells": [1, null, "torch.distributed", {"cell_type": 3, "source": {}}]}',
    "cells that are a word": '{"cells": "torch.distributed"}',
    "half a file": notebook(TRAIN, LOOP)[:-200],
    "nested deeply": '{"cells": ' + "[" * 5_000,
    "a surrogate": '{"cells": [{"cell_type": "code", "source": "x = \'\\ud800\'"}]}',
    "an escape that is none": '{"cells": [{"cell_type": "code", "source": "x = \'\\q\'"}]}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_notebook_is_a_note_or_nothing(text: str, tmp_path: Path) -> None:
    assert {(rule, severity) for rule, severity, _ in findings(tmp_path, text)} <= {
        ("unreadable-input", "note"),
        ("grad-double-averaged", "error"),
    }


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='{}[]",:\\n u0d8!%?x=(1)#\n', max_size=120))
def test_any_text_is_read(cell: str) -> None:
    for text in (notebook(cell), f'{{"cells": [{{"cell_type": "code", "source": "{cell}"}}]}}', cell):
        code = read_notebook(Source("a.ipynb", text)).code
        span = code.span(0, len(code.text)).original()
        assert 0 <= span.start <= span.end <= len(text)


def test_many_cells_are_bounded() -> None:
    code = read_notebook(Source("a.ipynb", notebook(*["x = 1\n"] * 3_000))).code
    assert code.text.count("x = 1") == 1_000
