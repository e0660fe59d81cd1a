"""Programs that are passed Megatron's arguments: Megatron's own, those of others, and DeepSpeed's engine in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from earned_rules import EARNED

from dtlint.api import check

FLAGS = (
    "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --num-layers 24 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 1024 --train-iters 1000 --fp16 {words}"
)
ALL = "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64"
CONFIG = '{"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}\n'
OWN = "import megatron\n\nif __name__ == '__main__':\n    args = megatron.get_args()\n    {use}\n"


def told(folder: Path, program: str, words: str) -> list[tuple[str, str]]:
    (folder / "ds.json").write_text(CONFIG)
    (folder / "run.sh").write_text(f"deepspeed --num_gpus 8 {program} {FLAGS.format(words=words)}\n")
    found = check([folder], rules=EARNED).findings
    return sorted((each.rule, each.severity) for each in found if each.severity != "note")


CONFLICT = ("zero-stage-pipeline-conflict", "error")
INERT = ("inert-setting", "warning")


class TestEngine:
    @pytest.mark.parametrize(
        ("words", "findings"),
        [
            (f"{ALL} --deepspeed --deepspeed_config ds.json", [CONFLICT]),
            (f"{ALL} --deepspeed_config ds.json", [INERT]),
            (f"{ALL} --deepspeed_config ds.json --zero-stage 2", [INERT]),
            (f"{ALL} --deepspeed_config ds.json --zero-stage 3", []),
            (f'{ALL} --deepspeed_config ds.json "$@"', [CONFLICT]),
        ],
    )
    def test_only_the_switch_starts_it(self, tmp_path: Path, words: str, findings: list[tuple[str, str]]) -> None:
        assert told(tmp_path, "pretrain_gpt.py", words) == findings

    @pytest.mark.parametrize("switch", ["", "--deepspeed "])
    def test_what_another_program_builds_is_not_known(self, tmp_path: Path, switch: str) -> None:
        assert told(tmp_path, "pretrain_own.py", f"{ALL} {switch}--deepspeed_config ds.json") == []

    def test_two_stages_are_a_pipeline_in_any_program(self, tmp_path: Path) -> None:
        words = f"{ALL} --deepspeed --deepspeed_config ds.json --pipeline-model-parallel-size 2"
        assert CONFLICT in told(tmp_path, "pretrain_own.py", words)

    @pytest.mark.parametrize(
        ("use", "findings"), [("if args.deepspeed: start()", [INERT]), ("start(args.deepspeed_config)", [])]
    )
    def test_a_program_of_the_tree_says_itself_what_it_asks(
        self, tmp_path: Path, use: str, findings: list[tuple[str, str]]
    ) -> None:
        (tmp_path / "pretrain_gpt.py").write_text(OWN.format(use=use))
        assert told(tmp_path, "pretrain_gpt.py", f"{ALL} --deepspeed_config ds.json") == findings


class TestMissing:
    WITHOUT = "--micro-batch-size 4 --global-batch-size 64"

    @pytest.mark.parametrize(
        ("program", "findings"),
        [("pretrain_gpt.py", [("missing-setting", "error")]), ("pretrain_own.py", []), ("run.py", [])],
    )
    def test_what_a_program_of_ones_own_fills_in_is_not_known(
        self, tmp_path: Path, program: str, findings: list[tuple[str, str]]
    ) -> None:
        assert told(tmp_path, program, f"{self.WITHOUT} --deepspeed --no-pipeline-parallel") == findings

    @pytest.mark.parametrize("switch", ["--deepspeed --no-pipeline-parallel", ""])
    def test_what_no_release_takes_is_refused_before(self, tmp_path: Path, switch: str) -> None:
        found = told(tmp_path, "pretrain_gpt.py", f"--batch-size 4 {switch}")
        assert [rule for rule, severity in found if severity == "error"] == ["removed-or-renamed"]

    def test_releases_of_2020_take_the_older_names(self, tmp_path: Path) -> None:
        words = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --fp16"
        more = "--max-position-embeddings 1024 --batch-size 8 --model-parallel-size 2 --warmup .01 --train-iters 1000"
        (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node 8 pretrain_gpt2.py {words} {more}\n")
        assert {each.severity for each in check([tmp_path]).findings} == {"note"}
