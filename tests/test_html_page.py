"""The plan's page: its numbers are those of the JSON reports, nothing in a file becomes markup, it stays small."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from reports import REPORT
from snapshot import holds

from dtlint.api import check_set
from dtlint.config import Config
from dtlint.cost.pipeline import bubble
from dtlint.report.html import plans_page
from dtlint.report.html.document import text_of
from dtlint.report.html.markup import Markup, element, embedded
from dtlint.report.json import report_json, runs_json
from dtlint.report.plan import plans_text
from dtlint.rulebook.check import Report
from dtlint.runs import read_runs
from dtlint.runs.model import Options, RunSet

FIXTURES = Path(__file__).parents[1] / "fixtures"
STORIES = sorted(folder.name for folder in FIXTURES.iterdir())

LARGE = """\
torchrun --nnodes 2048 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint a:1 pretrain_gpt.py \\
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --sequence-parallel --num-layers 96 \\
  --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 \\
  --micro-batch-size 1 --global-batch-size 4096 --use-distributed-optimizer --bf16
"""

BLOCKS = {
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "dt",
    "dd",
    "li",
    "tr",
    "figcaption",
    "label",
    "summary",
    "caption",
    "div",
    "button",
}


class Page(HTMLParser):
    """What a page holds: its elements, the figures told with their run, its text by lines, its embedded data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[tuple[int, str, object]] = []
        self.lines: list[str] = [""]
        self.scripts: list[str] = []
        self._run, self._within = -1, ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "article":
            self._run = int(found.get("data-run") or -1)
        if "data-of" in found:
            self.figures.append((self._run, found["data-of"] or "", json.loads(found["value"] or "")))
        if tag in ("script", "style", "title"):
            self._within = tag
        if tag in BLOCKS:
            self.lines.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._within = "" if tag == self._within else self._within
        if tag == "th" or tag == "td":
            self.lines[-1] += " | "

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts.append(data)
        elif not self._within:
            self.lines[-1] += data

    @property
    def text(self) -> str:
        return "".join(f"{line.strip()}\n" for line in self.lines if line.strip())


def report_of(*paths: Path, texts: dict[Path, str] | None = None) -> Report:
    return check_set(read_runs(list(paths), Options(texts=texts or {})), Config())


def at(document: object, path: str) -> object:
    """The value at a dotted path; names of settings have dots themselves."""
    if not path:
        return document
    if isinstance(document, list):
        head, _, rest = path.partition(".")
        return at(document[int(head)], rest)
    assert isinstance(document, dict), path
    name = next(name for name in sorted(document, key=len, reverse=True) if path == name or path.startswith(f"{name}."))
    return at(document[name], path[len(name) + 1 :])


def without_ends(value: object) -> object:
    """A single number of the JSON report as the range that it is, and a range without its unit."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if name != "unit"}
    return {"low": value, "high": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else value


@pytest.mark.parametrize("story", STORIES)
def test_every_figure_is_that_of_the_json_report(story: str) -> None:
    report = report_of(FIXTURES / story)
    found, plans = json.loads(report_json(report)), json.loads(runs_json(report.runs))["runs"]
    figures = Page(plans_page(report)).figures
    assert len(figures) > 30
    for run, path, value in figures:
        told = at(found if path.startswith(("findings.", "summary.")) else plans[run], path)
        assert value in (told, without_ends(told)), path


def test_the_page_tells_the_headline_the_stages_and_the_parts_of_the_step() -> None:
    paths = {path for _, path, _ in Page(plans_page(report_of(FIXTURES / "half-idle-pipeline"))).figures}
    assert {
        "estimate.step.seconds", "estimate.throughput.mfu", "estimate.pipeline.bubble", "estimate.stages.7.device_bytes",
        "estimate.step.fastest.compute", "estimate.step.slowest.bubble", "estimate.topology.axes.tensor.sent_bytes",
        "findings.0.cost.share_of_step", "findings.0.remedies.0.saves.share_of_step", "settings.parallel.pipeline.value",
    } <= paths  # fmt: skip


def test_the_sliders_show_what_the_formula_says() -> None:
    page = Page(plans_page(report_of(FIXTURES / "half-idle-pipeline")))
    sliders = json.loads(page.scripts[0])[0]["pipeline"]
    for stages, line in zip(sliders["stages"], sliders["at"], strict=True):
        for count, stop in zip(sliders["microbatches"], line, strict=True):
            assert stop["idle"] == pytest.approx(bubble(stages, count), rel=1e-5)
            rows = sliders["pictures"][stop["picture"]]["rows"]
            assert len(rows) == len(stop["names"]) == min(stages, 16)
    assert 8 in sliders["stages"] and 64 in sliders["microbatches"]
    assert all(96 % stages == 0 for stages in sliders["stages"])


def test_what_is_unknown_is_said_with_the_option_that_tells_it() -> None:
    page = Page(plans_page(report_of(FIXTURES / "half-idle-pipeline")))
    assert "what a GPU has is unknown: no file tells the GPU --set cluster.gpu=..." in page.text
    assert "unknown: no file tells cluster.internode_gbit_per_s --set cluster.internode_gbit_per_s=..." in page.text
    kinds = [found.get("class") or "" for _, found in page.tags]
    assert "part-limit" not in kinds  # no end of the GPU's memory is drawn
    assert "estimate.step.fastest.compute" in {path for _, path, _ in page.figures}  # both ends, and no middle


def test_a_plan_without_an_estimate_says_why(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(
        "torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 4\n"
    )
    text = Page(plans_page(report_of(tmp_path / "launch.sh"))).text
    assert "cost\nunknown: no file tells parallel.world_size --set parallel.world_size=..." in text
    assert "launch.nodes unknown: $N is not set in this script --env N=..." in text


def test_the_page_reads_as_told() -> None:
    # Up to the settings, whose list grows with the vocabulary.
    holds("plan-page.txt", Page(plans_page(REPORT)).text.partition("\nUnknown\n")[0] + "\n")


def test_nothing_in_a_file_becomes_markup(tmp_path: Path) -> None:
    hostile = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>'
    script = tmp_path / "a<b onclick=x>&'.sh"
    script.write_text(
        f"NAME='{hostile}'\nexport NCCL_DEBUG='{hostile}'\n"
        "torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 pretrain_gpt.py --tensor-model-parallel-size 16 \\\n"
        '  --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --optimizer "$NAME" --lr-decay-style "</style>"\n'
    )
    page = Page(plans_page(report_of(script)))
    tags = [tag for tag, _ in page.tags]
    assert "img" not in tags and tags.count("script") == 2 and tags.count("style") == 1
    assert not [name for _, found in page.tags for name in found if name.startswith("on")]
    assert len(page.scripts) == 2
    assert hostile.split(">")[1].split("<")[1][:12] in page.text  # it is there, as text


def test_only_what_was_made_here_is_markup() -> None:
    assert element("p", "<b>&\"'", element("i", "x")) == "<p>&lt;b&gt;&amp;&quot;&#39;<i>x</i></p>"
    assert element("a", "x", href="\"'><b>") == '<a href="&quot;&#39;&gt;&lt;b&gt;">x</a>'
    assert element("p", "\u202egnp.exe") == "<p>\\u202egnp.exe</p>"  # a character that turns the text around
    assert embedded({"a": "</script><!--"}) == '{"a":"\\u003c/script\\u003e\\u003c!--"}'
    assert isinstance(element("p"), Markup)


def test_the_page_asks_nobody_for_anything() -> None:
    text = plans_page(report_of(FIXTURES / "half-idle-pipeline"))
    assert "default-src 'none'" in text.replace("&#39;", "'")
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert "url(http" not in text and "@import" not in text


def test_lines_that_nothing_speaks_of_are_not_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text("export WANDB_API_KEY=not-yours\n" + LARGE)
    page = plans_page(report_of(tmp_path / "launch.sh"))
    assert "not-yours" not in page and "--hidden-size 12288" in page


def test_sixteen_thousand_gpus_are_folded(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(LARGE)
    report = report_of(tmp_path / "launch.sh")
    began = time.process_time()
    text = plans_page(report)
    assert time.process_time() - began < 2
    assert len(text.encode()) < 2_000_000
    assert "2,000 more nodes with 16,000 GPUs" in Page(text).text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--pipeline-model-parallel-size 16", "--pipeline-model-parallel-size 16384"),
        ("--nproc_per_node 8", "--nproc_per_node 1000"),
        ("--num-layers 96", "--num-layers 160000 --num-layers-per-virtual-pipeline-stage 1"),
        ("--global-batch-size 4096", "--global-batch-size 1073741824"),
    ],
)
def test_numbers_that_nobody_trains_with_end_soon(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(LARGE.replace("-size 8 ", "-size 1 ").replace(old, new))
    began = time.process_time()
    report = report_of(tmp_path / "launch.sh")
    assert len(plans_page(report).encode()) < 2_000_000
    assert click.unstyle(plans_text(RunSet(report.runs, (), (), frozenset()), 80))
    assert time.process_time() - began < 20


def test_the_same_plan_gives_the_same_page(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(LARGE)
    pages = [
        subprocess.run(
            [Path(sys.executable).with_name("dtlint"), "plan", "--format", "html", "launch.sh"],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=tmp_path, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert pages[0] == pages[1] and pages[0].startswith(b"<!DOCTYPE html>")


def test_dark_colours_stand_for_colours_of_the_light_page() -> None:
    """A colour that only one of the themes has would be nothing, or light on light, in the other."""
    light, dark = (set(re.findall(r"^ *(--[a-z]+):", text_of(file), re.M)) for file in ("page.css", "dark.css"))
    assert light == dark
