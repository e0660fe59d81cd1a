"""What one program tells of a file is handed on to other programs, and only to those that would have told the same."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import dtlint.languages.python as python
from dtlint.languages.python import Shared, follow, memo
from dtlint.languages.python.calls import calls
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program, definition, entry_script, holder_of, subclasses, with_given
from dtlint.languages.python.reach import stands
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.tree import HERE
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source
from dtlint.value import Value, written

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

    return [follow(Source(f"{number}.py", text), find, shared=shared) for number, text in enumerate(scripts)]


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
    with_settings = follow(Source("a.py", script), both.get, shared=shared)
    without = follow(Source("b.py", script), {"library": source}.get, shared=shared)
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


LOADING = """\
from omegaconf import OmegaConf
from torch.nn.parallel import DistributedDataParallel

config = OmegaConf.load("conf.yaml")
if config.distributed:
    model = DistributedDataParallel(model)
"""


def loading(*texts: str) -> list[Program]:
    """Programs of one tree whose library loads `conf.yaml`, a file of another text in each program's folder."""
    library, shared = Source("library.py", LOADING), Shared()
    return [
        follow(
            Source(f"{number}/train.py", "import library\n"),
            {"library": library}.get,
            {"conf.yaml": read_yaml(Source(f"{number}/conf.yaml", text)).root}.get,
            shared,
        )
        for number, text in enumerate(texts)
    ]


def started(program: Program, given: dict[str, bool]) -> Program:
    """The program as a launch starts it that passes these values and no more."""
    span = program.main.source.span(0, 0)
    return with_given(program, {name: written(value, span) for name, value in given.items()}, False)


def test_a_config_file_that_each_program_has_of_its_own_decides_there_only() -> None:
    found = [wraps(started(program, {})) for program in loading("distributed: true\n", "distributed: false\n")]
    assert found == [True, False]


def test_a_key_of_a_config_that_a_launch_sets_decides_in_that_launch_only() -> None:
    (program,) = loading("distributed: true\n")
    assert [wraps(started(program, given)) for given in ({}, {"distributed=": False})] == [True, False]
    assert wraps(program) is None


def test_a_program_without_its_config_files_is_not_told_what_another_one_reads() -> None:
    library, shared = Source("library.py", LOADING), Shared()
    script = "import library\n"
    config = {"conf.yaml": read_yaml(Source("conf.yaml", "distributed: true\n")).root}
    reading = follow(Source("a.py", script), {"library": library}.get, config.get, shared)
    blind = follow(Source("b.py", script), {"library": library}.get, None, shared)
    assert [wraps(started(program, {})) for program in (reading, blind)] == [True, None]


def test_a_function_that_programs_hand_over_is_called_as_each_of_them_calls_it() -> None:
    script = "from library import wrap\nfrom specs import Spec\nspec = Spec(shard=wrap)\nspec.shard(model, {})\n"
    found = programs(script.format(True), script.format(False))
    values = [kept(program, "key", lambda program=program: evaluate(condition_of(program))) for program in found]
    assert [value.value for value in values if isinstance(value, Value)] == [True, False]


def test_a_default_that_a_class_of_one_program_overrides_is_told_to_the_others_only() -> None:
    library = LIBRARY.replace("model, distributed):\n    if distributed", "model, config: Config):\n    if config.ddp")
    library = f"class Config:\n    ddp = False\n\n{library}"
    script = "from library import Config, wrap\n"
    plain, overriding = programs(script, f"{script}class Mine(Config):\n    ddp = True\n", library=library)
    assert [kept(each, "ddp", partial(has_value, each)) for each in (plain, overriding)] == [True, False]


def condition_of(program: Program) -> Place:
    """The condition around the call of a library."""
    (call,) = calls(program, DDP)
    (guard,) = call.place.guards
    assert guard.test is not None
    return call.place._replace(node=guard.test, guards=())


def has_value(program: Program) -> bool:
    """Whether a condition of a library has a value in a program."""
    return isinstance(evaluate(condition_of(program)), Value)


def test_a_file_that_is_read_late_in_one_program_and_lacks_in_another_decides_there_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dtlint.languages.python.imported.MAX_MODULES", 2)
    library = LOADING.replace('config = OmegaConf.load("conf.yaml")', "import settings as config")
    source, settings, shared = Source("library.py", library), Source("settings.py", "distributed = False\n"), Shared()
    script = "import library\n"
    both = {"library": source, "settings": settings}
    late = follow(Source("a.py", script), both.get, shared=shared)
    without = follow(Source("b.py", script), {"library": source}.get, shared=shared)
    again = follow(Source("c.py", script), both.get, shared=shared)
    assert "settings" not in late.modules
    assert [wraps(late), wraps(without), wraps(again)] == [False, None, False]


@pytest.mark.parametrize(
    "ask",
    [
        lambda program: holder_of(program, HELPER),
        lambda program: entry_script(program).source.path,
        lambda program: subclasses(program, "Base"),
    ],
    ids=["which file of the program a text is", "which script is launched", "which classes build on another one"],
)
def test_programs_that_answer_a_question_differently_are_told_apart(ask: Callable[[Program], object]) -> None:
    library, shared = Source("library.py", LIBRARY), Shared()
    files = {"library": library, "helper": HELPER}
    scripts = ("import library\n", "import library, helper\n")
    found = [follow(Source(f"{number}.py", text), files.get, shared=shared) for number, text in enumerate(scripts)]
    told = [kept(program, "key", partial(ask, program)) for program in found]
    assert told == [ask(program) for program in found]
    assert told[0] != told[1]


HELPER = Source("helper.py", "class Mine(Base):\n    pass\n")


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


def test_what_was_not_used_of_late_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST_CHARACTERS", 0)
    once, always, shared = Source("once.py", "x = 1\n"), Source("always.py", "y = 2\n"), Shared()
    read: list[str] = []

    def reader(source: Source) -> python.Module:
        read.append(source.path)
        return python.read_module(source)

    shared.module(once, "once", reader)
    for number in range(4):
        shared.module(always, "always", reader)
        shared.module(Source(f"{number}.py", ""), "other", reader)
        shared.read = 1
        shared.forget_older()
    assert read.count("always.py") == 1
    shared.module(once, "once", reader)
    assert read.count("once.py") == 2


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


INTO_A_PROGRAM = frozenset(("arguments", "configs", "entry", "given", "late", "main", "modules", "open"))
MAY_LOOK = frozenset(("__init__.py", "callers.py", "program.py", "sharing.py"))


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
        and ast.unparse(node.value).endswith(("program", "memo.files"))
    }
    assert looking == set()
