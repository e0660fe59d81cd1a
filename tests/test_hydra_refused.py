"""Overrides of a command line that hydra refuses before the program starts: what it said of each (hydra 1.3.2), and
where it cannot be known.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from earned_rules import EARNED

from dtlint.api import check
from dtlint.rulebook.finding import Finding

PROGRAM = """import hydra


@hydra.main(config_path="config", config_name="ppo", version_base=None)
def main(config):
    run(config)
"""
CONFIG = """a:
  b: 1
  n: null
  m: ???
  e: {}
  l: [1, 2]
  i: ${a.b}
  s: text
  dict: ${a.e}
top: 3
data:
  train_batch_size: 1024
trainer:
  n_gpus_per_node: 8
"""
LAUNCH = "python3 -m verl.trainer.main_ppo data.train_batch_size=512"


def laid_out(folder: Path, words: str, config: str = CONFIG, program: str = PROGRAM) -> None:
    own = folder / "verl" / "trainer"
    (own / "config").mkdir(parents=True)
    (own / "main_ppo.py").write_text(program)
    (own / "config" / "ppo.yaml").write_text(config)
    (folder / "run.sh").write_text(f"{LAUNCH} {words}\n")


def refused(folder: Path) -> list[Finding]:
    return [finding for finding in check([folder]).findings if finding.rule == "refused-override"]


class TestKeys:
    @pytest.mark.parametrize(
        "words",
        [
            "a.x=1", "z=1", "a.n.q=1", "a.e.q=1", "a.s.q=1", "top.x.y=1", "a.m.q=1", "+a.b=2", "+a.b=null", "+top=1",
            "+a.e=1", "'~a.x'", "a.x=2 +a.x=1", "+x.y=1 a.x=2",
        ],
    )  # fmt: skip
    def test_what_is_refused(self, tmp_path: Path, words: str) -> None:
        laid_out(tmp_path, words)
        assert [finding.severity for finding in refused(tmp_path)] == ["error"]

    @pytest.mark.parametrize(
        "words",
        [
            "a.b=2", "a.l=[3]", "a.l.0=3", "+a.n=1", "+a.m=1", "+a.l=[9]", "+a.e={q:1}", "++a.b=3", "++a.x=3", "'~a.b'",
            "+a.x=1 a.x=2", "+a.x={y:1} a.x.y=2", "++x.y=1 x.y=2", "+a.b.c=1", "hydra.job.name=q", "+a.e.k=null",
        ],
    )  # fmt: skip
    def test_what_is_taken(self, tmp_path: Path, words: str) -> None:
        laid_out(tmp_path, words)
        assert refused(tmp_path) == []

    @pytest.mark.parametrize("words", ["a.dict.q=1", "+a.i=2", '"$@" a.x=1', "$MORE a.x=1", "+a.b=$VALUE"])
    def test_what_is_not_known(self, tmp_path: Path, words: str) -> None:
        laid_out(tmp_path, words)
        assert refused(tmp_path) == []

    def test_hydra_stops_at_the_first(self, tmp_path: Path) -> None:
        laid_out(tmp_path, "a.x=1 a.b=2 z=1 +top=2")
        (finding,) = refused(tmp_path)
        assert finding.message.startswith("'a' of the config composed of ")
        assert finding.message.endswith(
            "has no 'x': only + adds one, and hydra refuses 'a.x=' and 2 more of this command"
        )
        assert [place.label for place in finding.related] == ["the section stands here", "refused too", "refused too"]


class TestConfigs:
    def test_a_key_of_a_group_that_the_command_line_chooses(self, tmp_path: Path) -> None:
        laid_out(tmp_path, "+more@extra=some extra.x=1 extra.y=2")
        (tmp_path / "verl/trainer/config/more").mkdir()
        (tmp_path / "verl/trainer/config/more/some.yaml").write_text("x: 1\ny: 1\n")
        assert refused(tmp_path) == []

    @pytest.mark.parametrize(
        "config",
        [
            "defaults:\n  - actor@a: elsewhere\n  - _self_\n" + CONFIG,
            "hydra:\n  searchpath: [pkg://elsewhere.config]\n" + CONFIG,
        ],
    )
    def test_a_config_of_which_a_part_is_not_here(self, tmp_path: Path, config: str) -> None:
        laid_out(tmp_path, "a.x=1", config)
        assert refused(tmp_path) == []

    def test_a_config_that_is_not_here(self, tmp_path: Path) -> None:
        laid_out(tmp_path, "--config-name other a.x=1")
        assert refused(tmp_path) == []


class TestPrograms:
    @pytest.mark.parametrize(("words", "told"), [("model.width=8", 0), ("model.depth=8", 1), ("+model.depth=8", 0)])
    @pytest.mark.parametrize("launch", ["torchrun --nproc_per_node 8 src/train.py", "accelerate launch src/train.py"])
    def test_a_program_of_ones_own(self, tmp_path: Path, launch: str, words: str, told: int) -> None:
        (tmp_path / "src" / "conf").mkdir(parents=True)
        (tmp_path / "src" / "train.py").write_text(PROGRAM.replace('"config"', '"conf"').replace('"ppo"', '"train"'))
        (tmp_path / "src" / "conf" / "train.yaml").write_text("model:\n  width: 4\n")
        (tmp_path / "run.sh").write_text(f"{launch} {words}\n")
        assert len(refused(tmp_path)) == told

    @pytest.mark.parametrize(
        "program",
        [
            PROGRAM.replace("@hydra", "# @hydra"),
            PROGRAM.replace("version_base=None", "schema=Own"),
            PROGRAM.replace("import hydra", "import hydra\nfrom hydra.core.config_store import ConfigStore"),
        ],
    )
    def test_programs_that_may_take_more(self, tmp_path: Path, program: str) -> None:
        laid_out(tmp_path, "a.x=1", program=program)
        assert refused(tmp_path) == []


class TestWhatStandsBehind:
    """In a tree of several launches nothing else is told of the plan of one that stops there."""

    SETTINGS = """actor_rollout_ref:
  model:
    path: deepseek-ai/deepseek-llm-7b-chat
  actor:
    strategy: megatron
    megatron:
      pipeline_model_parallel_size: 2
      virtual_pipeline_model_parallel_size: 2
"""

    @pytest.mark.parametrize(
        ("words", "rules"),
        [("a.b=1", ["layers-not-divisible", "microbatches-lt-stages"]), ("a.x=1", ["refused-override"])],
    )
    def test_errors_of_the_plan(self, tmp_path: Path, words: str, rules: list[str]) -> None:
        laid_out(tmp_path, words, CONFIG + self.SETTINGS)
        (tmp_path / ".git").mkdir()
        (tmp_path / "other.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
        report = check([tmp_path], rules=EARNED)
        assert sorted(finding.rule for finding in report.findings if finding.severity == "error") == rules

    def test_who_asks_about_the_launch_hears_all(self, tmp_path: Path) -> None:
        laid_out(tmp_path, "a.x=1", CONFIG + self.SETTINGS)
        errors = {finding.rule for finding in check([tmp_path / "run.sh"]).findings if finding.severity == "error"}
        assert errors >= {"refused-override", "layers-not-divisible"}
