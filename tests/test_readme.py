"""The README shows what dtlint really prints, and its examples work."""

import re
import subprocess
import sys
from pathlib import Path

from dtlint.config_file import read_config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)[number]


def test_the_output_shown_is_the_output():
    dtlint = Path(sys.executable).with_name("dtlint")
    run = subprocess.run(
        [dtlint, "check", "fixtures/half-idle-pipeline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout == block("text")


def test_the_picture_is_what_the_page_draws():
    run = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_picture.py", "--check"], capture_output=True, text=True, check=False
    )
    assert run.stdout == "current\n", run.stdout + run.stderr


def test_the_config_shown_is_read(tmp_path):
    file = tmp_path / "dtlint.toml"
    file.write_text(block("toml"))
    assert read_config(file, "dtlint.toml").cluster["cluster.gpu"].value == "H100-SXM-80GB"


def test_the_python_shown_runs(monkeypatch):
    monkeypatch.chdir(ROOT / "fixtures" / "half-idle-pipeline")
    scope: dict[str, object] = {}
    exec(block("python"), scope)
    assert scope["report"].findings
    assert scope["estimate"].step_seconds > 0


def test_the_config_of_the_docs_is_read(tmp_path):
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    (tmp_path / "dtlint.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    config = read_config(tmp_path / "dtlint.toml", "dtlint.toml")
    assert config.clusters[0][0] == "dev/*" and config.expected["parallel.tensor"].value == 8
