"""What one program tells of a file is handed on to other programs, and only to those that would have told the same."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import dtlint.languages.python as python
from dtlint.languages.python import Shared, follow
from dtlint.languages.python.calls import calls
from dtlint.languages.python.program import Program, definition, with_given
from dtlint.languages.python.reach import stands
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import HERE
from dtlint.source import Source
from dtlint.value import written

LIBRARY = """\
from torch.nn.parallel import DistributedDataParallel

def wrap(model, distributed):
    if distributed:
        return DistributedDataParallel(model)
    return model
"""
DDP = ("torch.nn.parallel.DistributedDataParallel",)


def programs(*scripts: str, library: str = LIBRARY) -> list[Program]:
    """Programs of one tree that import `library`."""
    source, shared = Source("library.py", library), Shared()

    def find(name: str) -> Source | None:
        return source if name == "library" else None

    return [follow(Source(f"{number}.py", text), find, shared) for number, text in enumerate(scripts)]


def wraps(program: Program) -> bool | None:
    (call,) = calls(program, DDP)
    return stands(call.place)


def test_programs_that_call_a_function_differently_are_told_apart() -> None:
    call = "from library import wrap\nwrap(model, {})\n"
    yes, no, again = programs(call.format(True), call.format(False), call.format(True))
    assert [wraps(yes), wraps(no), wraps(again)] == [True, False, True]


def test_a_definition_that_only_one_program_has_decides_there_only() -> None:
    library = "from settings import distributed\n" + LIBRARY.replace("model, distributed", "model")
    source, settings, shared = Source("library.py", library), Source("settings.py", "distributed = False\n"), Shared()
    both = {"library": source, "settings": settings}
    script = "from library import wrap\nwrap(model)\n"
    with_settings = follow(Source("a.py", script), both.get, shared)
    without = follow(Source("b.py", script), {"library": source}.get, shared)
    assert [wraps(with_settings), wraps(without)] == [False, None]


def test_what_a_launch_gives_is_not_handed_on_to_another_launch() -> None:
    script = (
        "import argparse\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--ddp', type=int, default=0)\n"
        "args = parser.parse_args()\nif args.ddp:\n    DistributedDataParallel(model)\n"
    )
    (program,) = programs(script)
    span = program.main.source.span(0, 0)
    on, off = (with_given(program, {"ddp": written(number, span)}, False) for number in (1, 0))
    assert [wraps(on), wraps(off), wraps(program)] == [True, False, None]


def test_a_file_is_read_once_for_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    reader = python.read_module

    def counted(source: Source) -> python.Module:
        read.append(source.path)
        return reader(source)

    monkeypatch.setattr(python, "read_module", counted)
    first, second = programs("import library\n", "import library\n")
    assert sorted(read) == ["0.py", "1.py", "library.py"]
    assert first.modules["library"] is second.modules["library"]


@pytest.mark.parametrize(
    ("question", "askers"),
    [
        (lambda program: definition(program, program.modules["library"], f"{HERE}.wrap"), ["0.py"]),
        (lambda program: len(list(calls(program, DDP))), ["0.py", "1.py"]),
    ],
    ids=["about a shared file", "about all files"],
)
def test_an_answer_is_found_once_where_programs_agree(question: Callable[[Program], object], askers: list[str]) -> None:
    asked: list[str] = []

    def find(program: Program) -> object:
        asked.append(program.main.source.path)
        return question(program)

    script = "from library import wrap\nwrap(model, True)\n"
    first, second = programs(script, script)
    found = [kept(program, "key", partial(find, program)) for program in (first, first, second)]
    assert found[0] == found[1] == found[2]
    assert asked == askers


INTO_A_PROGRAM = frozenset(("arguments", "entry", "given", "main", "modules", "open"))
MAY_LOOK = frozenset(("__init__.py", "program.py", "sharing.py"))


def test_only_noted_questions_look_into_a_program() -> None:
    """An answer that is handed on must rest on nothing that was not noted."""
    folder = Path(python.__file__).parent
    looking = {
        f"{file.name}:{node.lineno}"
        for file in folder.glob("*.py")
        if file.name not in MAY_LOOK
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in INTO_A_PROGRAM
        and ast.unparse(node.value).endswith("program")
    }
    assert looking == set()
