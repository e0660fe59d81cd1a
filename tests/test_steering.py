"""No name and no value in a file steers a terminal, a CI server or a pull request, in any report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dtlint.cli import run
from dtlint.report.markdown_text import code, escaped

ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r::error::owned%0A::warning::x <script>alert(1)</script> [a](http://x.y) @team #1 `x`|"
NAMES = (
    "a\x1b[2Jb",
    "x\n::error::owned",
    "y\r::error file=z::owned",
    "<img src=x>",
    "[a](javascript:b)",
    "\u202egnp",
    "a`b|c",
    "%0A",
)
FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "rdjson", "junit", "markdown")
COMMANDS = [*(["check", ".", "--format", form, "--show-undecided"] for form in FORMATS), ["check", ".", "--list-files"]]
COMMANDS += [["plan", "."], ["plan", ".", "--format", "json"], ["explain", "DT401", "."]]
COMMANDS += [[command, ".", "--format", "html"] for command in ("plan", "tune")]
COMMANDS += [["tune", "."], ["tune", ".", "--format", "json"]]
COMMANDS += [
    ["diff", "old", "new"],
    ["diff", "old", "new", "--format", "markdown"],
    ["diff", "old", "new", "--format", "json"],
]
STEERING = {
    *map(chr, (*range(9), 11, 12, *range(13, 32), 127, *range(128, 160))),
    *"\u2028\u2029\u202d\u202e\u2066\u2067",
}
MEGATRON = (
    "--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16"
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Launches and configs with findings, under names and with values that would steer."""
    for side, tensor in (("old", 8), ("new", 16)):
        for number, name in enumerate(NAMES):
            folder = tmp_path / side / f"{number}{name}"
            folder.mkdir(parents=True)
            written = ATTACK.replace("`", "\\`").replace("\r", "")
            (folder / f"{name}.sh").write_text(
                f"NOTE='{written}'\nTP={tensor}\ntorchrun --nnodes 4 --nproc_per_node 8 --rdzv_id '{ATTACK}' pretrain_gpt.py "
                f"--tensor-model-parallel-size $TP {MEGATRON} --tensor-model-parallel-sizes '{written}' --exp-name \"$NOTE\"\n"
            )
            config = '{"zero_optimization": {"stage": "ATTACK"}, "train_batch_sizATTACK": 1}'
            (folder / "ds.json").write_text(config.replace("ATTACK", ATTACK))
            (folder / "conf.yaml").write_text(f'distributed_type: "{name!r} \\e]0;x"\nnum_machines: "\\e[2J"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_report_steers(command: list[str], hostile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(command) in (0, 1)
    shown = capfd.readouterr()
    for text in (shown.out, shown.err):
        assert STEERING.intersection(text) == set()
        assert not re.search(r"(?m)^\s*::(error|warning)(?! title=dtlint )", text)
    if "html" in command:
        assert not re.search(r"<img src=x>|<script>alert|href=\"(?!#)|javascript:b\"", shown.out)
    if "markdown" in command:
        assert not re.search(r"(?<![\\`])<(?:script|img)|(?<!\\)\]\(|@team|https?://", _without_code(shown.out))


def _without_code(text: str) -> str:
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


@pytest.mark.parametrize("text", ["https://a.b/c", "HTTP://a.b", "www.a.b", "WWW.a.b", "a@b.c", "#12", "ftp://a.b"])
def test_a_code_host_makes_no_link_of_a_value(text: str) -> None:
    assert "\N{ZERO WIDTH SPACE}" in escaped(text)


@pytest.mark.parametrize("text", ["`", "``a```b`", "a|b", "x\n- y", "\\`", "` ` `"])
def test_code_stays_code(text: str) -> None:
    fence = re.match("`+", code(text))
    assert fence is not None
    inside = code(text)[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inside)
    assert "\n" not in inside and "|" not in inside
