"""What imports what: rooms only from rooms above them, and heavy modules only where they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dtlint"

ROOMS = (
    "record",
    "account",
    "source",
    "starting",
    "git",
    "revisions",
    "ground",
    "value",
    "interval",
    "release",
    "blanks",
    "replacing",
    "user_cache",
    "shelf",
    "resting",
    "compiled",
    "catalog",
    "plan",
    "config_schema",
    "config",
    "deep_keys",
    "config_file",
    "languages",
    "frameworks",
    "runs",
    "cost",
    "facts",
    "rulebook",
    "fix",
    "tune",
    "difference",
    "report",
    "api",
    "request",
    "streams",
    "terms",
    "output",
    "commands",
    "comparing",
    "tuning",
    "lsp",
    "cli_options",
    "cli_commands",
    "answers",
    "cli",
)
"""The rooms of the package from the ground up: each knows only rooms that stand before it."""

APART = (("cost", "runs"), ("rulebook", "languages"), ("frameworks", "plan"))
"""Rooms that do not know each other although the order would let the first import the second."""

HEAVY = (
    "jsonschema", "yaml", "tomllib", "tomli", "csv", "ast", "difflib", "subprocess", "dataclasses", "tempfile",
    "tarfile", "threading", "xml",
)  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], file


@cache
def imported_rooms(file: Path) -> frozenset[str]:
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            own = node.module == "dtlint"
            names = [f"dtlint.{alias.name}" for alias in node.names] if own else [node.module]
        for name in names:
            head, _, rest = name.partition(".")
            if head == "dtlint" and rest:
                yield rest.split(".")[0]


def test_every_room_has_a_place_in_the_order() -> None:
    assert {room for room, _ in modules()} - set(ROOMS) == set()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_rooms_above_it(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], "__version__"} - {other for one, other in APART if one == room}
    for own, file in modules():
        if own == room:
            unwanted = imported_rooms(file) - allowed
            assert not unwanted, f"{file.relative_to(PACKAGE)} imports {', '.join(sorted(unwanted))}"


def loaded_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    assert loaded_by("import dtlint.cli") & {*HEAVY, "click"} == set()


def test_the_command_line_loads_no_room_before_it_runs() -> None:
    rooms = {name.split(".")[1] for name in loaded_by("import dtlint.cli") if name.startswith("dtlint.")}
    assert rooms == {"cli"}


def test_reports_load_nothing_heavy() -> None:
    code = "import dtlint.report.text, dtlint.report.json, dtlint.report.plan"
    assert loaded_by(code) & {"jsonschema", "yaml", "tomllib", "csv", "click"} == set()


LEFT_OUT = (
    "config_file", "config_schema", "frameworks.accelerate.config", "frameworks.nemo.config", "frameworks.torchtitan.config", "frameworks.deepspeed.launcher", "frameworks.mpirun",
    "frameworks.slurm", "frameworks.swift", "frameworks.transformers.arguments", "languages.python", "languages.yaml",
    "languages.shell.arithmetic", "languages.shell.compound", "languages.shell.conditions", "languages.shell.deciding",
    "languages.shell.filters", "languages.shell.relevance", "languages.shell.rewriting", "report.explain",
    "report.figures", "report.html", "report.json", "report.plan", "rulebook.grammar", "rulebook.house",
)  # fmt: skip
"""What a plain Megatron script with a DeepSpeed config needs nothing of; loading it would slow down every check."""


def test_a_check_loads_no_more_than_its_files_need() -> None:
    fixture = PACKAGE.parent / "fixtures" / "half-idle-pipeline"
    paths = [str(fixture / "ds_config.json"), str(fixture / "launch.sh")]
    code = (
        f"import io, sys, dtlint.cli\nout, sys.stdout = sys.stdout, io.StringIO()\ndtlint.cli.run(['check', *{paths}])"
    )
    loaded_by(f"{code}\nsys.stdout = out")  # compiles the data, where that has changed
    loaded = loaded_by(f"{code}\nsys.stdout = out")
    assert loaded & {f"dtlint.{name}" for name in LEFT_OUT} == set()
    assert loaded & {*HEAVY, "click"} == set()
