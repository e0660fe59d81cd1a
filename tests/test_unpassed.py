"""Branches on parameters that no caller gives: what they hold is a note where nobody names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

TEACHER = """\
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Teacher:
    def __init__(self, model, data, spread=False):
        self.model = model
        self.data = data
        self.spread = spread

    def teach(self):
        sampler = None
        if self.spread:
            self.model = DistributedDataParallel(self.model)
            sampler = DistributedSampler(self.data)
        loader = DataLoader(self.data, sampler=sampler, shuffle=sampler is None)
        for epoch in range(20):
            for batch in loader:
                self.model(batch).backward()
"""
TEACH = """\
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def teach(model, data, alone=True):
    sampler = None
    if not alone:
        model = DistributedDataParallel(model)
        sampler = DistributedSampler(data)
    for epoch in range(20):
        for batch in DataLoader(data, sampler=sampler):
            model(batch).backward()
"""


def severities(folder: Path, library: str, caller: str, focus: str = "") -> list[str]:
    (folder / "teacher.py").write_text(library)
    (folder / "train.py").write_text(caller)
    found = check([folder / focus]).findings
    return [each.severity for each in found if each.rule == "sampler-set-epoch-missing"]


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        ("model, data=data", "note"),
        ("model, data", "note"),
        ("model, data, spread=True", "warning"),
        ("model, data, True", "warning"),
        ("model, **options", "warning"),
        ("*parts", "warning"),
    ],
)
def test_parameter_of_a_class(tmp_path: Path, given: str, severity: str) -> None:
    caller = f"from teacher import Teacher\n\nTeacher({given}).teach()\n"
    assert severities(tmp_path, TEACHER, caller) == [severity]


@pytest.mark.parametrize(
    "caller",
    [
        "from teacher import Teacher\n\nclass Own(Teacher):\n    pass\n\nTeacher(model, data).teach()\n",
        "from teacher import Teacher\n\nmine = Teacher(model, data)\nmine.spread = True\nmine.teach()\n",
    ],
)
def test_what_may_give_it_in_another_way(tmp_path: Path, caller: str) -> None:
    assert severities(tmp_path, TEACHER, caller) == ["warning"]


def test_a_file_that_is_named_is_told_as_it_stands(tmp_path: Path) -> None:
    caller = "from teacher import Teacher\n\nTeacher(model, data).teach()\n"
    assert severities(tmp_path, TEACHER, caller, "teacher.py") == ["warning"]


def test_parameter_of_a_function_and_a_branch_for_its_being_false(tmp_path: Path) -> None:
    used = "from teacher import teach\n\nteach(model, data)\n"
    assert set(severities(tmp_path, TEACH, used)) == {"note"}
    assert set(severities(tmp_path, TEACH, used.replace("data)", "data, alone=False)"))) == {"warning"}


@pytest.mark.parametrize(
    "caller", ["import other\n", "from teacher import teach\n\nrun = teach\nrun(model, data, False)\n"]
)
def test_a_function_that_no_file_calls_by_its_name(tmp_path: Path, caller: str) -> None:
    assert set(severities(tmp_path, TEACH, caller)) == {"warning"}
