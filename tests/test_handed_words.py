"""Words that a launcher puts before those of its program, and programs whose parser stops at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.cli import run
from dtlint.rulebook.finding import Finding

LAUNCH = "python -m torch.distributed.launch --nproc_per_node=8"
DASHED, OLD = '"--local-rank"', '"--local_rank"'
PROGRAM = """import argparse

import torch

parser = argparse.ArgumentParser({told})
parser.add_argument("config")
parser.add_argument("--lr", type=float, default=0.1)
{declares}
args = {parsed}
torch.distributed.init_process_group("nccl")
"""


def added(*flags: str) -> str:
    return f"parser.add_argument({', '.join(flags)}, type=int, default=0)"


def program(declares: str = "", parsed: str = "parser.parse_args()", told: str = "") -> str:
    return PROGRAM.format(declares=declares, parsed=parsed, told=told)


def findings(folder: Path, text: str, torch: str = "", launch: str = LAUNCH, words: str = "a.py") -> list[Finding]:
    (folder / "train.py").write_text(text)
    (folder / "run.sh").write_text(f"{launch} train.py {words}\n")
    if torch:
        (folder / "requirements.txt").write_text(f"torch{torch}\n")
    return [each for each in check([folder]).findings if each.rule == "unknown-setting"]


def severities(folder: Path, text: str, torch: str = "", launch: str = LAUNCH) -> list[str]:
    return [each.severity for each in findings(folder, text, torch, launch)]


class TestSpellings:
    @pytest.mark.parametrize(
        ("declared", "torch", "severity"),
        [
            (added(OLD), "==2.0.0", ["error"]),
            (added(OLD), ">=2.1", ["error"]),
            (added(OLD), "", ["note"]),
            (added(OLD), ">=1.7", ["note"]),
            (added(OLD), "==1.13.1", []),
            (added(OLD), "<2.0", []),
            (added(DASHED), "==1.13.1", ["error"]),
            (added(DASHED), ">=1.13", ["note"]),
            (added(DASHED), "==2.0.0", []),
            (added(DASHED), "", []),
            ("", "==1.13.1", ["error"]),
            ("", "==2.4.0", ["error"]),
            ("", "", ["error"]),
        ],
    )
    def test_the_release_decides_which_one_is_handed_on(
        self, tmp_path: Path, declared: str, torch: str, severity: list[str]
    ) -> None:
        assert severities(tmp_path, program(declared), torch) == severity

    @pytest.mark.parametrize(
        "declared",
        [
            added(OLD, DASHED),
            added(DASHED, OLD),
            added('"--local_rank_id"') + "\n" + added('"--local-rank-id"'),
            added(OLD) + "\n" + added(DASHED, 'dest="other"'),
        ],
    )
    def test_both_are_taken(self, tmp_path: Path, declared: str) -> None:
        assert severities(tmp_path, program(declared), "==2.1.0") == []
        assert severities(tmp_path, program(declared), "==1.9.0") == []

    def test_the_release_and_both_spellings_are_said(self, tmp_path: Path) -> None:
        (finding,) = findings(tmp_path, program(added(OLD)))
        assert finding.message == (
            "train.py takes '--local_rank' only, and torch.distributed.launch hands it '--local-rank' since torch 2.0: "
            "it stops there"
        )
        assert finding.span.text == added(OLD)
        assert {related.span.text for related in finding.related} >= {"torch.distributed.launch", "parser.parse_args()"}

    def test_a_program_that_takes_none_is_told_at_its_launch(self, tmp_path: Path) -> None:
        (finding,) = findings(tmp_path, program(), "==1.9.0")
        assert finding.span.text == "torch.distributed.launch"
        assert "'--local_rank'" in finding.message

    def test_launches_of_one_program_are_one_finding(self, tmp_path: Path) -> None:
        (tmp_path / "again.sh").write_text(f"{LAUNCH} train.py b.py\n")
        (finding,) = findings(tmp_path, program(added(OLD)), "==2.1.0")
        assert len(finding.runs) == 2


class TestLaunchers:
    @pytest.mark.parametrize(
        "launch",
        [
            f"{LAUNCH} --use_env",
            f"{LAUNCH} --use-env",
            f"{LAUNCH} $MORE",
            "torchrun --nproc_per_node=8",
            "python -m torch.distributed.run --nproc_per_node=8",
            "deepspeed --no_local_rank",
            "deepspeed --launcher openmpi --hostfile hosts",
            "deepspeed --launcher slurm --hostfile hosts",
            "deepspeed --elastic_training",
            "deepspeed $MORE",
        ],
    )
    def test_those_that_hand_nothing_on(self, tmp_path: Path, launch: str) -> None:
        assert severities(tmp_path, program(), "==2.1.0", launch) == []

    @pytest.mark.parametrize("launch", ["deepspeed --num_gpus 8", "deepspeed --launcher pdsh --hostfile hosts"])
    @pytest.mark.parametrize(
        "declares", ["", added(DASHED), "import deepspeed\ndeepspeed.add_config_arguments(parser)"]
    )
    def test_deepspeed_hands_on_the_same_word_in_every_release(
        self, tmp_path: Path, launch: str, declares: str
    ) -> None:
        (finding,) = findings(tmp_path, program(declares), "", launch)
        assert finding.severity == "error"
        assert "'--local_rank'" in finding.message

    def test_a_program_of_deepspeed_that_takes_it(self, tmp_path: Path) -> None:
        declares = f"import deepspeed\n{added(OLD)}\nparser = deepspeed.add_config_arguments(parser)"
        assert severities(tmp_path, program(declares), "", "deepspeed --num_gpus 8") == []

    def test_the_file_of_the_launcher(self, tmp_path: Path) -> None:
        launch = "python /opt/torch/distributed/launch.py --nproc_per_node 8"
        assert severities(tmp_path, program(added(OLD)), "==2.1.0", launch) == ["error"]


class TestParsers:
    """Only of a parser that certainly stops at what it does not know something is said."""

    @pytest.mark.parametrize(
        "text",
        [
            program(parsed="parser.parse_known_args()[0]"),
            program(parsed='parser.parse_args(["a.py"])'),
            program(declares="parser.add_subparsers()"),
            program(declares='parser.add_argument("rest", nargs=argparse.REMAINDER)'),
            program(declares='parser.add_argument("--" + "local_rank")'),
            program(declares="for flag in FLAGS:\n    parser.add_argument(flag)"),
            program(declares="import options\noptions.add_to(parser)"),
            program(declares="import options\nparser = options.with_more(parser)"),
            program(declares="import sys\nsys.argv.pop(1)"),
            program(declares="import sys\nsys.argv = [each for each in sys.argv if 'rank' not in each]"),
            program(told='prefix_chars="+"'),
            program(told="parents=[common]"),
            program().replace("argparse.ArgumentParser", "configargparse.ArgParser"),
            program().replace("import argparse", "from jsonargparse import argparse"),
        ],
    )
    def test_parsers_that_may_take_more(self, tmp_path: Path, text: str) -> None:
        assert severities(tmp_path, text, "==2.1.0") == []

    @pytest.mark.parametrize(
        "text",
        [
            program(parsed="parser.parse_args(sys.argv[1:])"),
            program(declares='parser.add_argument("--set", nargs=argparse.REMAINDER)'),
            program(declares="group = parser.add_argument_group('more')\ngroup.add_argument('--size')"),
            program(declares="first, rest = parser.parse_known_args()", parsed="parser.parse_args(rest)"),
            program(told='description="trains", allow_abbrev=False'),
            program(declares="print(parser)"),
            program().replace("args = parser", "parser = parser") + "\n'{}'.format(parser)\n",
        ],
    )
    def test_parsers_that_stop(self, tmp_path: Path, text: str) -> None:
        assert severities(tmp_path, text, "==2.1.0") == ["error"]

    def test_a_parser_of_functions_and_files(self, tmp_path: Path) -> None:
        (tmp_path / "options.py").write_text(
            "import argparse\n\n\ndef common():\n    parser = argparse.ArgumentParser(add_help=False)\n"
            '    parser.add_argument("--local_rank", type=int)\n    return parser\n\n\n'
            'def with_sizes(parser):\n    parser.add_argument("--size", type=int)\n    return parser\n'
        )
        text = (
            "import argparse\nimport torch\nfrom options import common, with_sizes\n\n\ndef main(args):\n"
            '    torch.distributed.init_process_group("nccl")\n\n\nif __name__ == "__main__":\n'
            '    parser = argparse.ArgumentParser("train", parents=[common()])\n'
            "    parser = with_sizes(parser)\n    main(parser.parse_args())\n"
        )
        (tmp_path / "second.py").write_text(text)
        (tmp_path / "second.sh").write_text(f"{LAUNCH} second.py\n")
        (finding,) = findings(tmp_path, text, "==2.1.0", words="")
        assert finding.span.path.endswith("options.py")
        assert finding.message.startswith("options.py takes '--local_rank' only")

    def test_a_rank_that_another_parser_declares(self, tmp_path: Path) -> None:
        (tmp_path / "tool.py").write_text(
            "import argparse\n\n\ndef options():\n    parser = argparse.ArgumentParser()\n"
            '    parser.add_argument("--local_rank", type=int)\n    return parser\n'
        )
        assert severities(tmp_path, program("import tool"), "==2.1.0") == []
        (finding,) = findings(tmp_path, program(f"import tool\n{added(OLD)}"), "==2.1.0")
        assert finding.span.path.endswith("train.py")

    def test_a_class_that_makes_its_parser_once(self, tmp_path: Path) -> None:
        text = (
            "import argparse\nimport torch\n\n\nclass Options:\n    made = False\n\n    def parse(self):\n"
            "        if not self.made:\n            self.make()\n        return self.parser.parse_args()\n\n"
            "    def make(self):\n        self.made = True\n        self.parser = argparse.ArgumentParser()\n"
            '        self.parser.add_argument("--local_rank", type=int)\n\n\n'
            'args = Options().parse()\ntorch.distributed.init_process_group("nccl")\n'
        )
        assert severities(tmp_path, text, "==2.1.0") == ["error"]

    def test_a_script_that_is_only_imported_parses_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "tool.py").write_text(
            'import argparse\n\nif __name__ == "__main__":\n    argparse.ArgumentParser().parse_args()\n'
        )
        text = 'import tool\nimport torch\n\ntorch.distributed.init_process_group("nccl")\n'
        assert severities(tmp_path, text, "==2.1.0") == []


class TestRemedies:
    @pytest.mark.parametrize("declared", [added("'--local_rank'"), added('"-r"', OLD)])
    def test_the_other_spelling_is_declared_beside_the_one(self, tmp_path: Path, declared: str) -> None:
        findings(tmp_path, program(declared), "==2.1.0")
        run(["check", "--fix", "--no-cache", str(tmp_path)])
        quote = "'" if "'" in declared else '"'
        assert f"{quote}--local_rank{quote}, {quote}--local-rank{quote}, type" in (tmp_path / "train.py").read_text()
        assert severities(tmp_path, (tmp_path / "train.py").read_text(), "==2.1.0") == []

    @pytest.mark.parametrize(
        ("launch", "mended"),
        [
            (LAUNCH, "python -m torch.distributed.launch --use_env --nproc_per_node=8 train.py a.py\n"),
            ("deepspeed --num_gpus 8", "deepspeed --no_local_rank --num_gpus 8 train.py a.py\n"),
            (
                "python -m deepspeed.launcher.runner --num_gpus 8",
                "python -m deepspeed.launcher.runner --no_local_rank --num_gpus 8 train.py a.py\n",
            ),
        ],
    )
    def test_a_program_that_takes_none_is_handed_none(self, tmp_path: Path, launch: str, mended: str) -> None:
        findings(tmp_path, program(), "", launch)
        run(["check", "--fix", "--no-cache", str(tmp_path)])
        assert (tmp_path / "run.sh").read_text() == mended


TRAINER = """from transformers import HfArgumentParser, Trainer, TrainingArguments

(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses({told})
Trainer(model=load(), args=arguments, train_dataset=data()).train()
"""


class TestTrainer:
    """HfArgumentParser declares the names of fields, `local_rank` among them, with dashes too since Transformers 4.46."""

    @pytest.mark.parametrize(
        ("transformers", "torch", "severity"),
        [
            ("==4.28.1", "==2.0.1", ["error"]),
            ("<4.46", ">=2.0", ["error"]),
            ("==4.28.1", ">=1.10", ["note"]),
            ("==4.46.3", "==2.0.1", []),
            (">=4.30", "==2.0.1", []),
            ("==4.28.1", "==1.13.1", []),
        ],
    )
    def test_both_releases_decide(self, tmp_path: Path, transformers: str, torch: str, severity: list[str]) -> None:
        (tmp_path / "pyproject.toml").write_text(f'[project]\ndependencies = ["transformers{transformers}"]\n')
        found = findings(tmp_path, TRAINER.format(told=""), torch, words="--output_dir out")
        assert [each.severity for each in found] == severity

    def test_it_reads_the_environment_too(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["transformers==4.28.1"]\n')
        findings(tmp_path, TRAINER.format(told=""), "==2.1.0", words="--output_dir out")
        run(["check", "--fix", "--no-cache", str(tmp_path)])
        assert "launch --use_env" in (tmp_path / "run.sh").read_text()

    def test_deepspeed_hands_on_what_it_takes(self, tmp_path: Path) -> None:
        found = findings(tmp_path, TRAINER.format(told=""), "==2.1.0", "deepspeed", "--output_dir out")
        assert [each for each in found if "hands" in each.message] == []

    def test_a_parser_that_returns_the_rest(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["transformers==4.28.1"]\n')
        text = TRAINER.format(told="return_remaining_strings=True").replace("(arguments,)", "arguments, rest")
        assert findings(tmp_path, text, "==2.1.0", words="--output_dir out") == []
