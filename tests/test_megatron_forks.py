"""Forks of Megatron: a parser of their own release in the tree, and flags that no release has."""

from pathlib import Path

import pytest

from dtlint.api import check, options_of
from dtlint.runs import read_runs
from dtlint.value import Unknown

PARSER = """
import argparse

def parse_args(extra=None):
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("training")
    group.add_argument("--tensor-model-parallel-size", type=int, default=1)
    group.add_argument("--pipeline-model-parallel-size", type=int, default=1)
    group.add_argument("--num-layers", type=int, default=None)
    group.add_argument("--hidden-size", type=int, default=None)
    group.add_argument("--num-attention-heads", type=int, default=None)
    group.add_argument("--seq-length", type=int, default=None)
    group.add_argument("--max-position-embeddings", type=int, default=None)
    group.add_argument("--micro-batch-size", type=int, default=None)
    group.add_argument("--global-batch-size", type=int, default=None)
    group.add_argument("--checkpoint-activations", action="store_true")
    group.add_argument("--fp16", action="store_true")
    group.add_argument("--bf16", action="store_true")
    return parser.parse_args()
"""
"""A parser of 2021: no sequence parallelism, no distributed optimizer, one kind of recomputation."""
PROGRAM = "from megatron.training import pretrain\n\npretrain(None, None, None, None)\n"
MODEL = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096"
    " --micro-batch-size 1 --global-batch-size 64 --bf16"
)
LAUNCH = f"torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 {MODEL}"
LATER = {"sequence-parallel-off", "distributed-optimizer-off"}


def findings():
    return {finding.rule: finding for finding in check(["."]).findings}


def plan():
    return read_runs([Path()], options_of()).runs[0].plan


class TestAParserInTheTree:
    @pytest.mark.parametrize("file", ["megatron/arguments.py", "megatron/training/arguments.py"])
    def test_what_it_does_not_know_is_no_remedy(self, tree, file):
        tree({"examples/run.sh": LAUNCH, "pretrain_gpt.py": PROGRAM, file: PARSER})
        assert findings().keys().isdisjoint(LATER)

    def test_nor_where_the_program_is_not_found(self, tree):
        launch = LAUNCH.replace("pretrain_gpt.py", "./tasks/main.py")
        tree({"examples/run.sh": launch, "megatron/arguments.py": PARSER})
        assert findings().keys().isdisjoint(LATER)

    def test_without_a_parser_all_remedies_stand(self, tree):
        tree({"examples/run.sh": LAUNCH, "pretrain_gpt.py": PROGRAM})
        assert findings().keys() >= LATER

    def test_what_it_knows_is_a_remedy(self, tree):
        known = PARSER.replace('"--fp16"', '"--use-distributed-optimizer"')
        tree({"run.sh": LAUNCH, "pretrain_gpt.py": PROGRAM, "megatron/arguments.py": known})
        assert findings().keys() & LATER == {"distributed-optimizer-off"}

    def test_flags_that_the_program_adds_are_known(self, tree):
        program = (
            f"{PROGRAM}\ndef extra(parser):\n    parser.add_argument('--sequence-parallel', action='store_true')\n"
        )
        tree({"run.sh": LAUNCH, "pretrain_gpt.py": program, "megatron/arguments.py": PARSER})
        assert findings().keys() & LATER == {"sequence-parallel-off"}

    def test_a_parser_made_of_classes_is_not_known(self, tree):
        made = f"{PARSER}\nArgumentGroupFactory(TrainingConfig).build_group(parser, 'training')\n"
        tree({"run.sh": LAUNCH, "pretrain_gpt.py": PROGRAM, "megatron/training/arguments.py": made})
        assert findings().keys() >= LATER

    def test_another_file_of_that_name_is_no_parser(self, tree):
        other = "parser.add_argument('--model', type=str)\n"
        tree({"run.sh": LAUNCH, "pretrain_gpt.py": PROGRAM, "megatron/arguments.py": other})
        assert findings().keys() >= LATER

    def test_the_other_remedies_of_a_finding_stay(self, tree):
        launch = LAUNCH.replace("--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 4")
        tree({"run.sh": launch.replace("size 64", "size 8"), "megatron/arguments.py": PARSER})
        remedies = findings()["pipeline-bubble"].remedies
        assert remedies
        assert not any("virtual" in remedy.text for remedy in remedies)


class TestWhatTheStartUpRefuses:
    """core_v0.4.0 megatron/arguments.py:362: RETRO takes no sequence parallelism."""

    def test_is_no_remedy(self, tree):
        tree({"run.sh": f"{LAUNCH} --retro-add-retriever"})
        assert "sequence-parallel-off" not in findings()

    def test_a_flag_that_is_given_beside_it_is_refused(self, tree):
        tree({"run.sh": f"{LAUNCH} --retro-add-retriever --sequence-parallel"})
        assert "refused-combination" in findings()

    def test_the_batch_of_a_prepared_folder_is_not_known(self, tree):
        tree({"run.sh": f"{LAUNCH} --retro-project-dir data"})
        assert isinstance(plan().setting("batch.global"), Unknown)


UNEVEN = "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 5"


class TestFlagsOfForks:
    @pytest.mark.parametrize(
        "flags",
        [
            "--pipeline-model-parallel-method block --pipeline-model-parallel-blocks 6,6,6,7,7",
            "--custom-pipeline-layers 6,6,6,7,7",
            "--num-layer-list 6,6,6,7,7",
            "--pipeline_layer_partition 6,6,6,7,7",
        ],
    )
    def test_a_cut_of_the_fork_is_not_judged(self, tree, flags):
        launch = LAUNCH.replace("--tensor-model-parallel-size 2", UNEVEN).replace("node 8", "node 5")
        tree({"run.sh": f"{launch} {flags}"})
        assert "layers-not-divisible" not in findings()

    @pytest.mark.parametrize("flags", ["", "--pipeline-model-parallel-method uniform"])
    def test_the_even_cut_is(self, tree, flags):
        launch = LAUNCH.replace("--tensor-model-parallel-size 2", UNEVEN).replace("node 8", "node 5")
        tree({"run.sh": f"{launch} {flags}"})
        assert "layers-not-divisible" in findings()

    def test_recomputation_of_the_fork_is_not_known(self, tree):
        tree({"run.sh": f"{LAUNCH} --custom-pipeline-recompute-layers 1,2"})
        assert isinstance(plan().setting("checkpointing.activations"), Unknown)

    def test_known_flags_beside_it_count(self, tree):
        tree({"run.sh": f"{LAUNCH} --recompute-granularity selective --recompute-per-stage 1,2"})
        assert plan().value("checkpointing.activations") == "selective"
        assert isinstance(plan().setting("checkpointing.layers"), Unknown)

    @pytest.mark.parametrize(
        ("flag", "unknown"),
        [
            ("--overlapped-distributed-optimizer", {"sharding.stage", "overlap.gradients", "overlap.parameters"}),
            ("--use-sharded-optim", {"sharding.stage", "overlap.gradients", "overlap.parameters"}),
            ("--overlap-dp-grad-comm", {"overlap.gradients", "overlap.parameters"}),
            ("--async-tensor-linear", {"overlap.tensor"}),
            ("--use-fancy-optimizer", set()),
        ],
    )
    def test_sharding_and_overlap_of_the_fork_are_not_known(self, tree, flag, unknown):
        tree({"run.sh": f"{LAUNCH} --sequence-parallel {flag}"})
        settings = ("sharding.stage", "overlap.gradients", "overlap.parameters", "overlap.tensor", "overlap.pipeline")
        assert {name for name in settings if isinstance(plan().setting(name), Unknown)} == unknown
        assert ("distributed-optimizer-off" in findings()) is ("sharding.stage" not in unknown)

    def test_a_release_of_megatron_states_them(self, tree):
        tree({"run.sh": f"{LAUNCH} --use-distributed-optimizer --overlapped-distributed-optimizer"})
        assert plan().value("sharding.stage") == 1


WRAPPING = """
from torch.nn.parallel.distributed import DistributedDataParallel as torchDDP

def setup(model, rank):
    model = torchDDP(model, device_ids=[rank])
    return model
"""


class TestACopyOfTheFramework:
    """Megatron's own code in the tree wraps the model as the arguments choose."""

    def test_what_its_wrapper_lacks_is_told_of_the_launch(self, tree):
        tree(
            {
                "run.sh": LAUNCH,
                "pretrain_gpt.py": PROGRAM,
                "megatron/__init__.py": "",
                "megatron/training.py": f"{WRAPPING}\ndef pretrain(*given):\n    setup(*given)\n",
            }
        )
        found = findings()["distributed-optimizer-off"]
        assert found.span.path == "run.sh"
        assert all("--use-distributed-optimizer" in remedy.text for remedy in found.remedies)

    def test_a_wrapper_of_the_program_stands(self, tree):
        tree({"run.sh": LAUNCH, "pretrain_gpt.py": f"{PROGRAM}{WRAPPING}\nsetup(1, 2)\n"})
        found = findings()["distributed-optimizer-off"]
        assert found.span.path == "pretrain_gpt.py"
        assert all("sharding." not in remedy.text for remedy in found.remedies)
