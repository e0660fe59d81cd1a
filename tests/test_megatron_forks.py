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


class TestAProgramWithTheLayersAlone:
    """Programs of 2020 and 2021: Megatron's layers as `mpu` beside a parser of the program's own."""

    LAUNCH = (
        "torchrun --nproc_per_node 4 finetune.py --model-parallel-size 2 --num-layers 8 --hidden-size 512"
        " --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 30000 --batch-size 8"
        " --warmup 0.1 --fp16\n"
    )
    OWN = "import mpu\nfrom arguments import parse_args\nmpu.initialize_model_parallel(parse_args().model_parallel_size)\n"
    FLAGS = ("model-parallel-size", "num-layers", "hidden-size", "num-attention-heads", "seq-length")
    MORE = ("max-position-embeddings", "vocab-size", "batch-size")

    def files(self):
        flags = (*self.FLAGS, *self.MORE)
        adds = "".join(f"    parser.add_argument('--{flag}', type=int)\n" for flag in flags)
        rest = (
            "    parser.add_argument('--warmup', type=float)\n    parser.add_argument('--fp16', action='store_true')\n"
        )
        own = f"import argparse\ndef parse_args():\n    parser = argparse.ArgumentParser()\n{adds}{rest}"
        return {
            "run.sh": self.LAUNCH,
            "finetune.py": self.OWN,
            "arguments.py": f"{own}    return parser.parse_args()\n",
        }

    def test_its_flags_are_those_that_it_declares(self, tree):
        tree({**self.files(), "mpu/__init__.py": "from .initialize import initialize_model_parallel\n"})
        assert "removed-or-renamed" not in findings()
        assert (plan().integer("parallel.tensor"), plan().integer("parallel.data")) == (2, 2)


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

    @pytest.mark.parametrize(
        "flags",
        [
            "--forward-backward-disaggregating",
            "--ignore-forward-tensor-parallel",
            "--max-training-rank 4",
            "--encoder_side_tensor_parallel_size 1",
        ],
    )
    def test_ranks_that_the_fork_lays_out_are_not_counted(self, tree, flags):
        launch = LAUNCH.replace("node 8", "node 7")
        tree({"run.sh": f"{launch} {flags}"})
        assert "world-size-mismatch" not in findings()
        assert isinstance(plan().get("parallel.world_size"), Unknown)
        assert isinstance(plan().get("parallel.data"), Unknown)

    @pytest.mark.parametrize(
        "flags",
        ["", "--context-parallel-algo ring", "--tensor-parallel-comm-dtype bf16", "--parallel-attn", "--lora-rank 8"],
    )
    def test_those_of_other_flags_are(self, tree, flags):
        tree({"run.sh": f"{LAUNCH.replace('node 8', 'node 7')} {flags}"})
        assert "world-size-mismatch" in findings()

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


def severities(*rules):
    return {finding.rule: finding.severity for finding in check(["."]).findings if finding.rule in rules}


class TestAProgramThatIsAFork:
    """What a rule knows of the releases is a note there."""

    OF_RELEASES = ("distributed-optimizer-off", "setting-type", "refused-combination")
    FAULTY = f"{LAUNCH} --train-iters 1e6 --recompute-granularity selective --recompute-method uniform"

    def test_without_a_sign_of_a_fork_they_stand(self, tree):
        tree({"run.sh": self.FAULTY, "pretrain_gpt.py": PROGRAM})
        assert severities(*self.OF_RELEASES) == dict(zip(self.OF_RELEASES, ("warning", "error", "error"), strict=True))

    @pytest.mark.parametrize("flags", ["--num-subgroup 8", "--outer-sync-interval 50 --num-subgroup 8"])
    def test_flags_that_no_release_has(self, tree, flags):
        tree({"run.sh": f"{self.FAULTY} {flags}"})
        assert severities(*self.OF_RELEASES) == dict.fromkeys(self.OF_RELEASES, "note")
        assert "this program is a fork: no release" in findings()["distributed-optimizer-off"].message

    def test_a_misspelt_flag_is_no_sign(self, tree):
        tree({"run.sh": f"{self.FAULTY} --use-mpi", "pretrain_gpt.py": PROGRAM})
        assert severities("distributed-optimizer-off", "unknown-setting") == {
            "distributed-optimizer-off": "warning",
            "unknown-setting": "error",
        }

    def test_nor_is_one_that_the_program_adds_itself(self, tree):
        program = f"{PROGRAM}\ndef extra(parser):\n    parser.add_argument('--num-subgroup', type=int)\n"
        tree({"run.sh": f"{self.FAULTY} --num-subgroup 8", "pretrain_gpt.py": program})
        assert severities(*self.OF_RELEASES)["refused-combination"] == "error"

    def test_one_that_a_copy_of_megatron_adds_is(self, tree):
        parser = PARSER.replace('"--fp16"', '"--num-subgroup", type=int)\n    group.add_argument("--train-iters"')
        known = parser.replace('"--checkpoint-activations"', '"--use-distributed-optimizer"')
        tree({"run.sh": f"{LAUNCH} --num-subgroup 8", "pretrain_gpt.py": PROGRAM, "megatron/arguments.py": known})
        assert severities("distributed-optimizer-off") == {"distributed-optimizer-off": "note"}

    @pytest.mark.parametrize(
        "line", ["import modellink", "from mindspeed import megatron_adaptor", "import my_adaptor"]
    )
    def test_an_adaptor_that_the_program_imports(self, tree, line):
        tree({"run.sh": self.FAULTY, "pretrain_gpt.py": f"{line}\n{PROGRAM}"})
        assert set(severities(*self.OF_RELEASES).values()) == {"note"}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (".gitmodules", '[submodule "m"]\n\tpath = m\n\turl = https://github.com/someone/Megatron-DeepSpeed.git\n'),
            ("README.md", "```\ngit clone https://github.com/someone/Megatron-LM\n```\n"),
        ],
    )
    def test_a_fork_that_is_fetched(self, tree, name, text):
        tree({"run.sh": self.FAULTY, name: text})
        assert set(severities(*self.OF_RELEASES).values()) == {"note"}
        assert "someone/Megatron" in findings()["distributed-optimizer-off"].message

    @pytest.mark.parametrize("owner", ["NVIDIA", "deepspeedai", "microsoft"])
    def test_a_release_that_is_fetched(self, tree, owner):
        tree({"run.sh": self.FAULTY, "README.md": f"git clone https://github.com/{owner}/Megatron-LM\n"})
        assert severities(*self.OF_RELEASES)["refused-combination"] == "error"

    def test_degrees_that_do_not_fit_stay_errors(self, tree):
        launch = LAUNCH.replace("--tensor-model-parallel-size 2", "--tensor-model-parallel-size 3")
        tree({"run.sh": f"{launch} --num-subgroup 8"})
        assert severities("world-size-mismatch") == {"world-size-mismatch": "error"}

    def test_a_config_of_deepspeed_beside_it_is_read_by_deepspeed(self, tree):
        config = '{"train_batch_size": 64, "gradient_accumulation_steps": "8"}'
        flags = "--deepspeed --deepspeed_config ds.json --num-subgroup 8"
        tree({"run.sh": f"{LAUNCH} {flags}", "ds.json": config})
        assert severities("setting-type") == {"setting-type": "error"}


class TestTypesOfAParserInTheTree:
    @pytest.mark.parametrize(("kind", "told"), [("float", False), ("int", True)])
    def test_the_copy_of_megatron_decides(self, tree, kind, told):
        parser = PARSER.replace(
            '"--fp16"', f'"--rotary-base", type={kind}, default=10000)\n    group.add_argument("--x"'
        )
        launch = f"{LAUNCH} --rotary-base 1000000.0"
        tree({"run.sh": launch, "pretrain_gpt.py": PROGRAM, "megatron/training/arguments.py": parser})
        assert ("setting-type" in findings()) is told

    @pytest.mark.parametrize(("kind", "told"), [("float", False), ("int", True)])
    def test_so_does_a_parser_of_the_program(self, tree, kind, told):
        program = (
            "from megatron.training import pretrain\nfrom arguments import extra\n\npretrain(None, None, None, extra)\n"
        )
        arguments = f"def extra(parser):\n    parser.add_argument('--rotary-base', type={kind}, default=10000)\n"
        tree({"run.sh": f"{LAUNCH} --rotary-base 1e6", "pretrain_gpt.py": program, "arguments.py": arguments})
        assert ("setting-type" in findings()) is told


OLD_LAUNCH = (
    "deepspeed --num_gpus 8 pretrain_gpt2.py --model-parallel-size 1 --num-layers 24 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --batch-size 4 --fp16"
    " --deepspeed --deepspeed_config ds.json"
)
STAGE_2 = '{"train_batch_size": 2048, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}}'


class TestWithoutAPipelineEngine:
    @pytest.mark.parametrize(
        ("parser", "told"),
        [(PARSER.replace("--pipeline-model-parallel-size", "--other"), False), (PARSER, True), ("", True)],
    )
    def test_a_copy_that_has_no_flag_for_a_pipeline_builds_none(self, tree, parser, told):
        launch = OLD_LAUNCH.replace("--model-", "--tensor-model-").replace("--batch", "--micro-batch")
        tree({"run.sh": launch, "ds.json": STAGE_2, "pretrain_gpt2.py": PROGRAM, "megatron/arguments.py": parser})
        assert ("zero-stage-pipeline-conflict" in findings()) is told

    @pytest.mark.parametrize(
        ("flags", "severity"),
        [("", None), ("--pipe-parallel-size 0", None), ("--pipe-parallel-size 2 --gas 4", "error")],
    )
    def test_the_examples_before_megatron_deepspeed_build_one_where_they_are_told_to(self, tree, flags, severity):
        tree({"run.sh": f"{OLD_LAUNCH} {flags}", "ds.json": STAGE_2})
        found = findings().get("zero-stage-pipeline-conflict")
        assert (found.severity if found is not None else None) == severity


class TestAnotherFrameworksArguments:
    """The usual names with `_` in them are many programs' (a Trainer's config of a model)."""

    SHAPE = "--hidden_size 512 --num_attention_heads 8 --max_position_embeddings 1024 --vocab_size 64798"

    def test_are_not_megatrons(self, tree):
        launch = f"deepspeed --num_gpus 8 train.py --output_dir out --deepspeed ds.json {self.SHAPE}"
        tree({"run.sh": launch, "ds.json": STAGE_2, "train.py": "from transformers import Trainer\n"})
        assert plan().value("framework") == "deepspeed"
        assert "zero-stage-pipeline-conflict" not in findings()


class TestTheMicroBatchOfOldReleases:
    """--batch-size feeds the model; train_batch_size of the DeepSpeed config does not."""

    def test_decides_over_what_a_config_would_give(self, tree):
        tree({"run.sh": OLD_LAUNCH, "ds.json": STAGE_2})
        assert plan().value("batch.micro") is None
        assert not {"undersized-memory-oom", "batch-triple-mismatch"} & findings().keys()

    def test_a_micro_batch_in_the_config_stands(self, tree):
        config = STAGE_2.replace('"train_batch_size": 2048', '"train_micro_batch_size_per_gpu": 4')
        tree({"run.sh": OLD_LAUNCH, "ds.json": config})
        assert plan().value("batch.micro") == 4

    def test_without_the_flag_it_follows_from_the_config(self, tree):
        tree({"run.sh": OLD_LAUNCH.replace("--batch-size 4", ""), "ds.json": STAGE_2})
        assert plan().value("batch.micro") == 256


class TestNumbersThatNoRunHas:
    """A micro-batch of 256 sequences is a mistake of the run; of a million it is no number of the run."""

    @pytest.mark.parametrize(("micro", "severity"), [(256, "error"), (1_000_000, "note")])
    def test_a_need_a_hundred_times_above_any_gpu_is_a_note(self, tree, micro, severity):
        launch = LAUNCH.replace("--micro-batch-size 1 --global-batch-size 64", f"--micro-batch-size {micro}")
        tree({"run.sh": f"{launch} --vocab-size 128000"})
        assert severities("undersized-memory-oom") == {"undersized-memory-oom": severity}
