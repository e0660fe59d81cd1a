"""A file that another program of the tree imports is read with that program, unless it starts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.runs.import_roots import import_roots
from dtlint.runs.tree import Tree
from dtlint.source import Source

LIBRARY = "import torch.distributed as dist\n\n\nclass Learner:\n    def step(self):\n        dist.barrier()\n"
PROGRAM = "import torch.distributed as dist\nfrom parts import Learner\n\nLearner().step()\n"
START = '\n\nif __name__ == "__main__":\n    Learner().step()\n'


def roots(folder: Path, files: dict[str, str], launched: tuple[str, ...] = ()) -> list[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    sources = {name: Source(name, text, folder / name) for name, text in files.items()}
    lone = [source for name, source in sources.items() if name not in launched]
    others = [sources[name] for name in launched]
    return [each.path for each in import_roots(lone, others, Tree(folder, folder))]


def test_what_a_program_imports_is_read_with_it(tmp_path: Path) -> None:
    assert roots(tmp_path, {"parts.py": LIBRARY, "learn.py": PROGRAM}) == ["learn.py"]


def test_what_a_launched_program_imports_is_read_with_it(tmp_path: Path) -> None:
    assert roots(tmp_path, {"parts.py": LIBRARY, "learn.py": PROGRAM}, launched=("learn.py",)) == []


def test_what_nothing_imports_is_read_alone(tmp_path: Path) -> None:
    assert roots(tmp_path, {"parts.py": LIBRARY, "learn.py": "import torch\n"}) == ["parts.py", "learn.py"]


def test_what_is_imported_on_the_way_through_another_file_is_read_with_the_program(tmp_path: Path) -> None:
    program = "import torch.distributed\nimport between\n"
    files = {"parts.py": LIBRARY, "between.py": "from parts import Learner\n", "learn.py": program}
    assert "parts.py" not in roots(tmp_path, files)


@pytest.mark.parametrize(
    "text",
    [
        LIBRARY + START,
        LIBRARY + "\n\ndef main():\n    Learner().step()\n\n\nmain()\n",
        LIBRARY + "\n\nfor _ in range(3):\n    Learner().step()\n",
    ],
)
def test_what_starts_itself_is_read_alone_too(tmp_path: Path, text: str) -> None:
    assert roots(tmp_path, {"parts.py": text, "learn.py": PROGRAM}) == ["parts.py", "learn.py"]


def test_what_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    assert roots(tmp_path, {"parts.py": LIBRARY + "def (:\n", "learn.py": PROGRAM}) == ["parts.py", "learn.py"]


def test_of_files_that_import_each_other_the_first_stays(tmp_path: Path) -> None:
    files = {"parts.py": "import more\n" + LIBRARY, "more.py": "import parts\n" + LIBRARY}
    assert roots(tmp_path, files) == ["parts.py"]


def test_a_file_that_says_nothing_of_training_is_left_to_others(tmp_path: Path) -> None:
    files = {"parts.py": "class Learner:\n    pass\n", "learn.py": PROGRAM}
    assert roots(tmp_path, files) == ["parts.py", "learn.py"]


def test_what_a_file_imports_that_is_not_read_itself_is_read_alone(tmp_path: Path) -> None:
    assert roots(tmp_path, {"parts.py": LIBRARY, "start.py": "import parts\n"}) == ["parts.py", "start.py"]
