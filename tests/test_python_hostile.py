"""Odd and hostile Python files: a note with a place, or nothing, and never a crash."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import dtlint

HEAD = b"import torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"

UNREADABLE = {
    "a syntax error": (HEAD + b"model = DDP(Net()\nfor x in y:\n", 3),
    "Python 2": (HEAD + b"print 'two'\n", 3),
    "an exception of Python 2": (HEAD + b"try:\n    pass\nexcept IOError, e:\n    pass\n", 5),
    "tabs and blanks": (HEAD + b"if x:\n\ty = 1\n        z = 1\n", 5),
    "a merge conflict": (HEAD + b"<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n", 3),
    "brackets without end": (HEAD + b"x = " + b"(" * 20_000, 3),
    "a decimal number too long": (HEAD + b"x = " + b"9" * 10_000 + b"\n", None),
    "a null character in a string": (HEAD + b"x = '\\x00'\n", None),
    "Latin-1": (HEAD + b"# caf\xe9\nname = 'caf\xe9'\n", None),
    "UTF-16": ((HEAD + b"x = 1\n").decode().encode("utf-16"), None),
    "a byte-order mark": (b"\xef\xbb\xbf" + HEAD, None),
    "line ends of old Macs": (HEAD.replace(b"\n", b"\r"), None),
    "form feeds": (HEAD + b"\x0c\nx = 1\n", None),
    "nothing but words": (b"torch.distributed", None),
}


@pytest.mark.parametrize(("data", "line"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_odd_file_is_a_note_with_its_line_or_nothing(data: bytes, line: int | None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(data)
    found = [item for item in dtlint.check([tmp_path / "train.py"], {}).findings if b"\0" not in data]
    if line is None:
        assert [item for item in found if item.rule == "unreadable-input"] == [] or line is None
    else:
        assert [(item.rule, item.severity, item.span.line) for item in found] == [("unreadable-input", "note", line)]


NESTED = {
    "parentheses": b"x = " + b"(" * 90 + b"1" + b")" * 90 + b"\n",
    "lists in lists": b"x = " + b"[" * 5_000 + b"]" * 5_000 + b"\n",
    "a sum of many": b"x = " + b"1 + " * 20_000 + b"1\n",
    "unary operators": b"x = " + b"-" * 20_000 + b"1\n",
    "attributes": b"x = a" + b".b" * 20_000 + b"\n",
    "calls of calls": b"x = f" + b"()" * 5_000 + b"\n",
    "functions in functions": b"".join(b" " * level + b"def f():\n" for level in range(90)) + b" " * 90 + b"pass\n",
    "names that stand for names": b"".join(f"a{i} = a{i - 1} + a{i - 1}\n".encode() for i in range(1, 2_000)),
    "a loss of many names": b"l0 = f()\n"
    + b"".join(f"l{i} = l{i - 1} * w + l{i - 1}\n".encode() for i in range(1, 2_000))
    + b"m = DDP(Net())\nl1999.backward()\n",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_deep_nesting_ends(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(HEAD + text)
    started = time.monotonic()
    dtlint.check([tmp_path / "train.py"], {})
    assert time.monotonic() - started < 20


def test_a_file_of_a_megabyte_ends(tmp_path: Path) -> None:
    step = b"""
for epoch in range(10):
    for x, y in loader:
        loss = criterion(model(x), y) * dist.get_world_size()
        loss.backward()
        optimizer.step()
"""
    text = HEAD + b"model = DDP(Net())\n" + step * (1_000_000 // len(step))
    (tmp_path / "train.py").write_bytes(text)
    started = time.monotonic()
    dtlint.check([tmp_path / "train.py"], {})
    assert time.monotonic() - started < 60
