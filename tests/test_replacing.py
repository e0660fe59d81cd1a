"""A kill at any moment leaves each file whole: the old text or the new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtlint.replacing import replace

OLD, NEW = b"old\n" * 200_000, b"new\n" * 300_000
REPLACER = """
import sys
from pathlib import Path
from dtlint.replacing import replace
file = Path(sys.argv[1])
print(flush=True)
while True:
    replace(file, b"new\\n" * 300_000)
    replace(file, b"old\\n" * 200_000)
"""


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13])
def test_a_killed_process_leaves_a_whole_file(milliseconds: int, tmp_path: Path) -> None:
    file = tmp_path / "launch.sh"
    file.write_bytes(OLD)
    with subprocess.Popen([sys.executable, "-c", REPLACER, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGKILL)
    assert file.read_bytes() in (OLD, NEW)


@pytest.mark.parametrize("failing", ["fdopen", "chmod", "replace"])
def test_what_fails_on_the_way_leaves_the_file_and_nothing_beside_it(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> object:
        raise KeyboardInterrupt

    file = tmp_path / "launch.sh"
    file.write_bytes(OLD)
    monkeypatch.setattr(os if failing == "fdopen" else Path, failing, fail)
    with pytest.raises(KeyboardInterrupt):
        replace(file, NEW)
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (OLD, [file])


def test_mode_and_link_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "launch.sh", tmp_path / "link.sh"
    file.write_bytes(OLD)
    file.chmod(0o750)
    link.symlink_to(file)
    replace(link, NEW)
    assert (file.read_bytes(), file.stat().st_mode & 0o777, link.is_symlink()) == (NEW, 0o750, True)


def test_a_device_is_written_to() -> None:
    replace(Path(os.devnull), NEW)
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("module", ["fix", "streams", "compiled", "shelf"])
def test_whatever_writes_files_writes_them_whole(module: str) -> None:
    import dtlint

    text = Path(dtlint.__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    assert ".write_text(" not in text
    assert ".write_bytes(" not in text
    assert "import replace" in text
