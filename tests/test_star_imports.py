"""Names that packages hand on by `from .x import *`, also of modules that did not come along."""

from __future__ import annotations

from time import perf_counter

from dtlint.languages.python import link, read_module
from dtlint.languages.python.program import Program, definition
from dtlint.source import Source

PARTS = tuple(f"part{number}" for number in range(14))


def package(present: tuple[str, ...], last: str) -> Program:
    """A script beside a package that imports all of its parts, as each part does of the others; one defines `build`."""
    stars = "".join(f"from .{part} import *\n" for part in PARTS)
    files = {"train.py": "from net import build\nbuild()\n", "net/__init__.py": stars}
    files |= {f"net/{part}.py": stars + ("def build(): pass\n" if part == last else "") for part in present}
    return link({path: read_module(Source(path, text)) for path, text in files.items()})


def test_a_name_is_found_behind_parts_that_import_each_other() -> None:
    program = package(PARTS, PARTS[-1])
    found = definition(program, program.main, "net.build")
    assert found is not None and found.module.name == f"net.{PARTS[-1]}"


def test_parts_that_are_not_here_lead_nowhere_and_at_once() -> None:
    program = package(PARTS[:10], "")
    begun = perf_counter()
    assert definition(program, program.main, "net.build") is None
    assert perf_counter() - begun < 1
