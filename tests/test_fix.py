"""Remedies written into files: the text that results, what is left alone, and that the setting reads as wanted."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshot import holds

from dtlint.api import check_set, options_of
from dtlint.config import Config
from dtlint.fix import Fixed, Texts, applied, diff, differing, fix, write
from dtlint.plan import Plan, term
from dtlint.plan.vocabulary import fit
from dtlint.rulebook.check import Report
from dtlint.rulebook.cures import edits
from dtlint.rulebook.fixable import candidates
from dtlint.runs import read_runs
from dtlint.source import Edit, Source
from dtlint.value import Plain
from dtlint.value import given as stated

FIXTURES = Path(__file__).parents[1] / "fixtures"

MEGATRON = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
TP=8
srun torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \\
  --tensor-model-parallel-size $TP --sequence-parallel \\
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu \\
  --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer \\
  --overlap-grad-reduce
"""
DEEPSPEED = """\
{
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 16,
    "bf16": {"enabled": true},
    "zero_optimization": {
        "stage": 2
    }
}
"""
TRAINER = """\
torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-2-7b-hf \\
    --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --bf16 True --deepspeed ds.json
"""
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
mixed_precision: 'bf16'  # as the paper has it
num_machines: 1
num_processes: 8
"""
ARGUMENTS = """\
from transformers import Trainer, TrainingArguments

args = TrainingArguments(
    "out",
    per_device_train_batch_size=1,
    gradient_accumulation_steps=16,
    bf16=True,
    ddp_find_unused_parameters=True,
)
Trainer(args=args).train()
"""
COMPOSER = """\
model:
    name: mpt_causal_lm
    d_model: 2048
device_train_microbatch_size:
global_train_batch_size: 256
fsdp_config:
    sharding_strategy: FULL_SHARD  # all of it
"""
NEOX = """\
{
   "num_layers": 24,
   "model_parallel_size": 2,
   "train_micro_batch_size_per_gpu": 4,
}
"""
VERL = """\
python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.nnodes=2 trainer.n_gpus_per_node=8
"""
START = "torchrun --nproc_per_node 8 train.py\n"
DDP = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

torch.distributed.init_process_group("nccl")
model = DDP(net.cuda(), find_unused_parameters=True)
"""
NEMO = """\
trainer:
  devices: 8
  num_nodes: 2
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4  # one node
  activations_checkpoint_granularity: null

exp_manager:
  name: gpt
"""
NANOTRON = """\
parallelism:
  dp: 2
  pp: 1
  tp: 4
  tp_mode: ALL_REDUCE
tokens:
  micro_batch_size: 2
"""
TITAN = """\
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 8
mixed_precision_param = "bfloat16"  # the usual one

[parallelism]
tensor_parallel_degree = 2

[activation_checkpoint]
mode = "none"
"""


class Project:
    """Files in a folder, and the check of them."""

    def __init__(self, folder: Path, files: Mapping[str, str], settings: Mapping[str, Plain] | None = None) -> None:
        self.folder = folder
        self.options = options_of({name: stated(fit(term(name), value)) for name, value in (settings or {}).items()})
        for name, text in files.items():
            (folder / name).write_bytes(text.encode())

    def check(self, texts: Texts) -> Report:
        return check_set(read_runs([self.folder], self.options._replace(texts=texts)), Config())

    def plan(self, texts: Texts) -> Plan:
        return read_runs([self.folder], self.options._replace(texts=texts)).runs[0].plan

    def fixed(self, unsafe: bool = False) -> Fixed:
        return fix(self.check, unsafe)

    def written(self, name: str, value: Plain) -> str:
        """The only changed file's text after a setting is written."""
        texts = applied(edits(self.plan({}), {name: value}), {})
        assert texts is not None
        (text,) = texts.values()
        return text


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Project]:
    return lambda files, settings=None: Project(tmp_path, files, settings)


class TestWriting:
    """One setting at a time, in each language."""

    @pytest.mark.parametrize(
        ("files", "setting", "value", "before", "after"),
        [
            pytest.param({"run.sh": MEGATRON}, "parallel.tensor", 4, "TP=8", "TP=4", id="a variable's literal"),
            pytest.param(
                {"run.sh": MEGATRON},
                "batch.micro",
                2,
                "--micro-batch-size 1",
                "--micro-batch-size 2",
                id="a flag's value",
            ),
            pytest.param(
                {"run.sh": MEGATRON},
                "overlap.parameters",
                True,
                "--overlap-grad-reduce",
                "--overlap-grad-reduce --overlap-param-gather",
                id="a new flag",
            ),
            pytest.param(
                {"run.sh": MEGATRON},
                "checkpointing.activations",
                "selective",
                "--overlap-grad-reduce",
                "--overlap-grad-reduce --recompute-granularity selective",
                id="a new flag with a value",
            ),
            pytest.param(
                {"run.sh": MEGATRON},
                "overlap.gradients",
                False,
                " \\\n  --overlap-grad-reduce\n",
                "\n",
                id="a last flag out",
            ),
            pytest.param(
                {"run.sh": MEGATRON}, "parallel.sequence", False, " --sequence-parallel \\\n", " \\\n", id="a flag out"
            ),
            pytest.param(
                {"ds.json": DEEPSPEED, "run.sh": TRAINER},
                "sharding.stage",
                1,
                '"stage": 2',
                '"stage": 1',
                id="JSON value",
            ),
            pytest.param(
                {"ds.json": DEEPSPEED, "run.sh": TRAINER},
                "overlap.gradients",
                True,
                '        "stage": 2',
                '        "overlap_comm": true,\n        "stage": 2',
                id="new JSON key",
            ),
            pytest.param(
                {"ds.json": DEEPSPEED.replace("\n", "\r\n"), "run.sh": TRAINER},
                "overlap.gradients",
                True,
                '        "stage": 2',
                '        "overlap_comm": true,\r\n        "stage": 2',
                id="new JSON key between CRLF lines",
            ),
            pytest.param(
                {"acc.yaml": ACCELERATE}, "launch.processes", 4, "num_processes: 8", "num_processes: 4", id="YAML value"
            ),
            pytest.param(
                {"acc.yaml": ACCELERATE},
                "precision.compute",
                "fp16",
                "mixed_precision: 'bf16'  # as",
                "mixed_precision: 'fp16'  # as",
                id="quoted YAML value",
            ),
            pytest.param(
                {"acc.yaml": ACCELERATE},
                "sharding.prefetch",
                "backward_pre",
                "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
                "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n",
                id="new YAML key",
            ),
            pytest.param(
                {"conf.toml": TITAN},
                "parallel.tensor",
                4,
                "tensor_parallel_degree = 2",
                "tensor_parallel_degree = 4",
                id="TOML value",
            ),
            pytest.param(
                {"conf.toml": TITAN}, "checkpointing.activations", "full", '"none"', '"full"', id="quoted TOML value"
            ),
            pytest.param(
                {"conf.toml": TITAN},
                "precision.compute",
                "fp32",
                '"bfloat16"  # the',
                '"float32"  # the',
                id="TOML value that goes by another word",
            ),
            pytest.param(
                {"conf.toml": TITAN},
                "parallel.context",
                2,
                "tensor_parallel_degree = 2\n",
                "tensor_parallel_degree = 2\ncontext_parallel_degree = 2\n",
                id="new TOML key",
            ),
            pytest.param(
                {"gpt.yaml": NEMO},
                "parallel.sequence",
                True,
                "  tensor_model_parallel_size: 4  # one node\n",
                "  tensor_model_parallel_size: 4  # one node\n  sequence_parallel: true\n",
                id="new YAML key of a section",
            ),
            pytest.param(
                {"gpt.yaml": NEMO},
                "parallel.tensor",
                8,
                "size: 4  # one",
                "size: 8  # one",
                id="YAML value of a section",
            ),
            pytest.param(
                {"config.yaml": NANOTRON},
                "parallel.sequence",
                True,
                "tp_mode: ALL_REDUCE",
                "tp_mode: REDUCE_SCATTER",
                id="YAML word that stands for a switch",
            ),
            pytest.param(
                {"config.yaml": NANOTRON},
                "batch.accumulation",
                4,
                "  micro_batch_size: 2\n",
                "  micro_batch_size: 2\n  batch_accumulation_per_replica: 4\n",
                id="new YAML key at the end",
            ),
            pytest.param(
                {"mpt.yaml": COMPOSER},
                "checkpointing.activations",
                "full",
                "    sharding_strategy: FULL_SHARD  # all of it\n",
                "    sharding_strategy: FULL_SHARD  # all of it\n    activation_checkpointing: true\n",
                id="new YAML key of a section, set in as the file has it",
            ),
            pytest.param(
                {"mpt.yaml": COMPOSER},
                "optimizer.clip",
                1,
                "    sharding_strategy: FULL_SHARD  # all of it\n",
                "    sharding_strategy: FULL_SHARD  # all of it\n"
                "algorithms:\n    gradient_clipping:\n        clipping_threshold: 1\n",
                id="new YAML key with its sections",
            ),
            pytest.param(
                {"mpt.yaml": COMPOSER},
                "batch.micro",
                4,
                "device_train_microbatch_size:\n",
                "device_train_microbatch_size: 4\n",
                id="YAML key with nothing",
            ),
            pytest.param(
                {"20B.yml": NEOX},
                "parallel.pipeline",
                2,
                '   "train_micro_batch_size_per_gpu": 4,\n',
                '   "train_micro_batch_size_per_gpu": 4,\n   "pipe_parallel_size": 2,\n',
                id="new key in braces",
            ),
            pytest.param(
                {"run.sh": "python ./deepy.py train.py 20B.yml\n", "20B.yml": NEOX},
                "parallel.pipeline",
                2,
                '   "train_micro_batch_size_per_gpu": 4,\n',
                '   "train_micro_batch_size_per_gpu": 4,\n   "pipe_parallel_size": 2,\n',
                id="a command line that takes no keys",
            ),
            pytest.param(
                {"run.sh": VERL},
                "precision.compute",
                "bf16",
                "trainer.n_gpus_per_node=8\n",
                "trainer.n_gpus_per_node=8 ++actor_rollout_ref.actor.fsdp_config.dtype=bf16\n",
                id="new override of hydra",
            ),
            pytest.param(
                {"run.sh": "python train.py --config-name=gpt exp_manager.name=x\n", "gpt.yaml": NEMO},
                "parallel.sequence",
                True,
                "exp_manager.name=x\n",
                "exp_manager.name=x ++model.sequence_parallel=true\n",
                id="new override of hydra over a file",
            ),
            pytest.param(
                {"run.sh": START, "train.py": DDP},
                "communication.find_unused",
                False,
                "find_unused_parameters=True",
                "find_unused_parameters=False",
                id="Python value",
            ),
            pytest.param(
                {"run.sh": START, "train.py": ARGUMENTS},
                "checkpointing.activations",
                "full",
                "    ddp_find_unused_parameters=True,\n)",
                "    ddp_find_unused_parameters=True, gradient_checkpointing=True,\n)",
                id="new Python keyword after a comma",
            ),
            pytest.param(
                {"run.sh": START, "train.py": ARGUMENTS.replace("True,\n)", "True\n)")},
                "checkpointing.activations",
                "full",
                "    ddp_find_unused_parameters=True\n)",
                "    ddp_find_unused_parameters=True, gradient_checkpointing=True\n)",
                id="new Python keyword",
            ),
        ],
    )
    def test_only_the_setting_changes(
        self,
        project: Callable[..., Project],
        files: dict[str, str],
        setting: str,
        value: Plain,
        before: str,
        after: str,
    ) -> None:
        made = project(files)
        text = next(text for text in files.values() if before in text)
        assert text.count(before) == 1
        assert made.written(setting, value) == text.replace(before, after)
        texts = applied(edits(made.plan({}), {setting: value}), {})
        assert made.plan(texts or {}).value(setting) == value

    @pytest.mark.parametrize(
        ("files", "setting", "value"),
        [
            ({"run.sh": MEGATRON.replace("TP=8", "TP=$((4 * 2))")}, "parallel.tensor", 4),
            ({"run.sh": MEGATRON.replace("TP=8", "TP=8; export PP=$TP")}, "batch.micro", None),
            ({"run.sh": MEGATRON.replace("--micro-batch-size 1", "--micro-batch-size $TP")}, "batch.micro", 2),
        ],
        ids=["computed", "no value", "two settings from one literal"],
    )
    def test_what_no_edit_can_say_has_none(
        self, project: Callable[..., Project], files: dict[str, str], setting: str, value: Plain
    ) -> None:
        assert edits(project(files).plan({}), {setting: value}) == ()


class TestFix:
    def test_fixes_until_nothing_is_left(self, project: Callable[..., Project]) -> None:
        text = MEGATRON.replace(" --use-distributed-optimizer", "").replace(
            "overlap-grad-reduce", "overlap-param-gather"
        )
        fixed = project({"run.sh": text}).fixed()
        assert "overlap-flag-dependency" in [finding.rule for finding in project({}).check({}).findings]
        assert "overlap-flag-dependency" not in [finding.rule for finding in fixed.report.findings]
        assert list(candidates(fixed.report.findings, unsafe=False)) == []
        flags = next(iter(fixed.texts.values())).rpartition("--overlap-param-gather")[2].split()
        assert flags == ["--use-distributed-optimizer", "--overlap-grad-reduce"]

    def test_what_changes_the_training_is_left_alone(self, project: Callable[..., Project]) -> None:
        more = project(
            {"acc.yaml": ACCELERATE.replace("num_machines: 1", "num_machines: 4")}, {"cluster.gpus_per_node": 8}
        )
        assert more.fixed().fixes == ()
        assert "num_processes: 32" in next(iter(more.fixed(unsafe=True).texts.values()))

    def test_a_remedy_that_does_not_read_as_meant_is_not_taken(self, project: Callable[..., Project]) -> None:
        made = project({"run.sh": MEGATRON.replace("overlap-grad-reduce", "overlap-param-gather")})
        report = made.check({})
        assert any(remedy.edits for finding in report.findings for remedy in finding.remedies)
        assert fix(lambda texts: report, False).fixes == ()

    def test_a_file_that_is_not_utf_8_is_left_alone(self, tmp_path: Path) -> None:
        made = Project(tmp_path, {})
        text = MEGATRON.replace("overlap-grad-reduce", "overlap-param-gather").replace("TP=8", "TP=8 # gr\xf6\xdfe")
        (tmp_path / "run.sh").write_bytes(text.encode("latin-1"))
        assert made.fixed().fixes == ()


class TestFiles:
    def test_mode_and_byte_order_mark_are_kept(self, tmp_path: Path) -> None:
        file = tmp_path / "run.sh"
        file.write_bytes(b"\xef\xbb\xbfold\r\n")
        file.chmod(0o750)
        write({file: "new\r\n"})
        assert file.read_bytes() == b"\xef\xbb\xbfnew\r\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o750
        assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]

    def test_a_patch_says_what_would_change(self, tmp_path: Path) -> None:
        file = tmp_path / "ds.json"
        file.write_text('{\n"stage": 3}')
        assert diff({file: '{\n"stage": 2}'}, lambda path: path.name) == (
            '--- a/ds.json\n+++ b/ds.json\n@@ -1,2 +1,2 @@\n {\n-"stage": 3}\n\\ No newline at end of file\n'
            '+"stage": 2}\n\\ No newline at end of file\n'
        )

    def test_edits_that_overlap_are_not_applied(self, tmp_path: Path) -> None:
        source = Source("a", "abcdef", tmp_path / "a")
        assert applied([Edit(source.span(0, 3), "x"), Edit(source.span(2, 4), "y")], {}) is None

    def test_insertions_at_one_place_keep_their_order(self, tmp_path: Path) -> None:
        source = Source("a", "ab", tmp_path / "a")
        edited = applied([Edit(source.span(1, 1), "1"), Edit(source.span(1, 1), "2")], {})
        assert edited == {(tmp_path / "a").resolve(): "a12b"}


WRITABLE: tuple[tuple[Mapping[str, str], Mapping[str, st.SearchStrategy[Plain]]], ...] = (
    (
        {"run.sh": MEGATRON},
        {
            "parallel.tensor": st.sampled_from([1, 2, 4, 16]),
            "batch.micro": st.integers(2, 64),
            "batch.global": st.integers(128, 10_000),
            "overlap.parameters": st.just(True),
            "data.sequence_length": st.integers(1, 100_000).filter(lambda length: length != 4096),
        },
    ),
    (
        {"ds.json": DEEPSPEED, "run.sh": TRAINER.replace(" --gradient_accumulation_steps 16", "")},
        {
            "sharding.stage": st.sampled_from([0, 1, 3]),
            "batch.accumulation": st.integers(17, 999),
            "overlap.gradients": st.booleans(),
            "communication.bucket_bytes": st.integers(1, 10**9).map(lambda elements: elements * 2),
        },
    ),
    (
        {"acc.yaml": ACCELERATE},
        {
            "launch.processes": st.sampled_from([1, 2, 4, 16, 64]),
            "sharding.prefetch": st.sampled_from(["backward_pre", "backward_post"]),
        },
    ),
    (
        {"run.sh": START, "train.py": ARGUMENTS},
        {
            "batch.micro": st.integers(2, 64),
            "batch.accumulation": st.integers(17, 64),
            "checkpointing.activations": st.just("full"),
            "communication.find_unused": st.just(False),
        },
    ),
)


@pytest.mark.parametrize(("files", "values"), WRITABLE, ids=["shell", "JSON", "YAML", "Python"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_a_written_setting_has_its_value_and_no_other_another(
    tmp_path: Path, files: Mapping[str, str], values: Mapping[str, st.SearchStrategy[Plain]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(values)))
    value = data.draw(values[name])
    made = Project(tmp_path, files)
    before = made.plan({})
    texts = applied(edits(before, {name: value}), {})
    assert texts
    after = made.plan(texts)
    assert after.value(name) == value
    assert differing(before, after, {name: value}) == []


@pytest.mark.parametrize("story", sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
def test_the_war_stories(story: str, tmp_path: Path) -> None:
    files = {path.name: path.read_text() for path in (FIXTURES / story).iterdir() if path.is_file()}
    made = Project(tmp_path, files)
    fixed = made.fixed()
    holds(f"fix-{story}.diff", diff(fixed.texts, lambda path: path.name))
    holds(f"fix-unsafe-{story}.diff", diff(made.fixed(unsafe=True).texts, lambda path: path.name))
    write(fixed.texts)
    left = made.check({})
    assert not fixed.fixes or [finding for finding in left.findings if finding.severity != "note"] == []
    assert {finding.rule for finding in left.findings} == {finding.rule for finding in fixed.report.findings}
    assert made.fixed().fixes == ()


def test_what_needs_more_than_its_settings_say_is_not_written(project: Callable[..., Project]) -> None:
    offloading = DEEPSPEED.replace('"stage": 2', '"stage": 3, "offload_optimizer": {"device": "cpu"}')
    made = project({"ds.json": offloading, "run.sh": TRAINER.replace("7b", "70b")}, {"cluster.host_memory_gb": 256})
    (found,) = [finding for finding in made.check({}).findings if finding.rule == "cpu-memory-oom"]
    (remedy,) = [each for each in found.remedies if each.set.get("sharding.offload_optimizer") == "nvme"]
    assert "nvme_path" in remedy.text and remedy.edits == ()
