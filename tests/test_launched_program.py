"""What the started program is and reads decides what its files and its command line mean."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check, options_of
from dtlint.runs import read_runs
from dtlint.runs.model import Run
from dtlint.value import Unknown, Value

SECTION = """{"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
 "activation_checkpointing": {"partition_activations": true}}"""
OWN_LOOP = "engine, *_ = deepspeed.initialize(model=model)\nfor batch in data:\n    engine.backward(engine(batch))\n"
FRONT_PAGE = "TABLE = {'training_args': ['TrainingArguments']}\nfrom .args import TrainingArguments\n"
DEVICE_MAP = """import torch
from transformers import AutoModelForCausalLM

class Wrapper:
    def __init__(self, path):
        self.model = AutoModelForCausalLM.from_pretrained(path, device_map="auto")
"""


def rules(*paths: str) -> list[str]:
    return [each.rule for each in check([Path(path) for path in paths]).findings]


def run_of(path: str) -> Run:
    (run,) = read_runs([Path(path)], options_of()).runs
    return run


@pytest.mark.parametrize(
    ("imported", "trainer"),
    [
        (FRONT_PAGE, False),
        ("from transformers import TrainingArguments\nclass Mine(TrainingArguments):\n    extra: int = 0\n", True),
    ],
)
def test_a_run_of_the_trainer_is_one_whose_program_uses_its_arguments(tree, imported: str, trainer: bool) -> None:
    tree(
        {
            "run.sh": "deepspeed --num_gpus 8 main.py --deepspeed_config ds.json\n",
            "ds.json": SECTION,
            "main.py": f"import torch\nimport deepspeed\nimport library\n{OWN_LOOP}",
            "library/__init__.py": f"import torch\n{imported}",
            "library/args.py": "",
        }
    )
    assert (run_of("run.sh").plan.word("frontend") == "transformers") is trainer
    assert ("activation-checkpointing-inert" in rules("run.sh")) is trainer


@pytest.mark.parametrize(
    ("table", "conflict"),
    [
        ("MODELS = {'a': partial(Wrapper, path='a')}\ndef build(name):\n    return MODELS[name]()\n", False),
        ("def build(name):\n    return Wrapper(name)\n", True),
    ],
)
def test_a_model_that_only_a_table_holds_is_one_of_several(tree, table: str, conflict: bool) -> None:
    tree(
        {
            "run.sh": "torchrun --nproc_per_node 8 train.py\n",
            "train.py": "import torch\nimport torch.distributed\nfrom models import build\nmodel = build('a')\n"
            "model.loss().backward()\n",
            "models.py": f"import torch\nfrom functools import partial\nfrom wrapper import Wrapper\n{table}",
            "wrapper.py": DEVICE_MAP,
        }
    )
    assert ("device-map-conflict" in rules("run.sh")) is conflict


MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12"
    " --pipeline-model-parallel-size 2 --micro-batch-size 4 --bf16 "
)


@pytest.mark.parametrize(
    "flags",
    ["--seq-length 1024 --global-batch-size $BATCH", "--retro-project-dir data/retro", "--yaml-cfg run.yaml"],
)
def test_a_batch_that_something_else_sets_is_not_the_default(tree, flags: str) -> None:
    tree({"run.sh": f"{MEGATRON}{flags}\n"})
    plan = run_of("run.sh").plan
    assert isinstance(plan.get("batch.global"), Unknown)
    assert isinstance(plan.get("batch.accumulation"), Unknown)
    assert "microbatches-lt-stages" not in rules("run.sh")


def test_a_parser_of_another_program_brings_no_defaults(tree) -> None:
    """The entry script's arguments are the Trainer's; a module beside it has a parser that it does not call."""
    tree(
        {
            "run.sh": "torchrun --nproc_per_node 8 train.py --bf16 True --output_dir out --deepspeed ds.json\n",
            "ds.json": '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}',
            "train.py": "import torch\nimport library\nfrom transformers import HfArgumentParser, TrainingArguments\n"
            "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n",
            "library/__init__.py": "import torch\nimport argparse\ndef read():\n    parser = argparse.ArgumentParser()\n"
            "    parser.add_argument('--per-device-train-batch-size', type=int, default=64)\n",
        }
    )
    assert run_of("run.sh").plan.value("batch.micro") == 8


VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=800"
    " actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B actor_rollout_ref.rollout.n=1"
    " actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=200"
    " actor_rollout_ref.actor.strategy={strategy} trainer.n_gpus_per_node=1 trainer.nnodes=1\n"
)
ASSERTED = "assert self.mini % self.config.actor.ppo_micro_batch_size_per_gpu == 0\n"


@pytest.mark.parametrize(
    ("strategy", "worker", "fails"),
    [
        ("fsdp", None, True),
        ("fsdp", f"if self.config.actor.ppo_micro_batch_size_per_gpu is not None:\n    {ASSERTED}", True),
        ("fsdp", f"if self.config.actor.ppo_micro_batch_size is not None:\n    {ASSERTED}", False),
        ("megatron", "self.config.actor.ppo_mini_batch_size //= ranks\n", False),
    ],
)
def test_the_copy_of_verl_in_the_tree_decides_what_it_refuses(
    tree, strategy: str, worker: str | None, fails: bool
) -> None:
    copies = {} if worker is None else {f"verl/workers/{strategy}_workers.py": worker}
    tree({"recipe/run.sh": VERL.format(strategy=strategy), **copies})
    assert ("batch-not-divisible" in rules("recipe/run.sh")) is fails


def test_a_config_that_verl_ships_is_no_run(tree) -> None:
    tree({"verl/trainer/config/ppo_trainer.yaml": "actor_rollout_ref:\n  actor:\n    strategy: fsdp\n"})
    assert {run.role for run in read_runs([Path()], options_of()).runs} <= {"other"}


SAVING = """import torch
import pytorch_lightning as pl

class Saving(pl.Callback):
    def on_train_end(self, trainer, module):
        if trainer.global_rank == 0:
            trainer.save_checkpoint("last.ckpt")

trainer = pl.Trainer(callbacks=[Saving()])
trainer.fit(model)
"""


@pytest.mark.parametrize(
    ("pin", "devices", "severity"),
    [
        ("pytorch-lightning==2.1.0", 8, "error"),
        ("pytorch-lightning==1.9.5", 8, None),
        ("pytorch-lightning==2.0.9", 8, None),
        ("torch", 8, "note"),
        ("pytorch-lightning==2.1.0", 1, None),
    ],
)
def test_a_checkpoint_of_lightnings_trainer_has_a_barrier_since_2_1(
    tree, pin: str, devices: int, severity: str | None
) -> None:
    launch = f"torchrun --nproc_per_node {devices} train.py\n"
    tree({"requirements.txt": f"{pin}\n", "run.sh": launch, "train.py": SAVING})
    told = [each.severity for each in check([Path("run.sh")]).findings if each.rule == "collective-rank-guarded"]
    assert told == ([severity] if severity else [])


PIPELINE = """import argparse
import torch
import deepspeed
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

parser = argparse.ArgumentParser()
parser.add_argument("--pipe_parallel_size", type=int, default=1)
parser.add_argument("--deepspeed_config")
args = parser.parse_args()
{built}
engine, *_ = deepspeed.initialize(args, model=model, model_parameters=model.parameters())
engine.train_batch()
"""
TOPOLOGY = "grid = PipeModelDataParallelTopology(num_pp=args.pipe_parallel_size, num_mp=1, num_dp=4)\n"


def _program(built: str) -> str:
    text = PIPELINE.format(built=built)
    return text if "Pipe" in built else "\n".join(line for line in text.splitlines() if "Pipe" not in line)


@pytest.mark.parametrize(
    ("built", "stages", "replicas"),
    [
        (f"{TOPOLOGY}model = PipelineModule(layers, topology=grid)", 8, 4),
        ("model = PipelineModule(layers=layers, num_stages=args.pipe_parallel_size)", 8, 4),
        ("class Pipe(PipelineModule):\n    pass\nmodel = Pipe(layers)", None, None),
        ("from library import build\nmodel = build(args)", None, None),
    ],
)
def test_the_stages_of_a_pipeline_that_the_program_builds(
    tree, built: str, stages: int | None, replicas: int | None
) -> None:
    config = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1, "overlap_comm": false}}'
    launch = "deepspeed --num_nodes 4 --num_gpus 8 train.py --pipe_parallel_size 8 --deepspeed_config ds.json\n"
    tree({"run.sh": launch, "ds.json": config, "train.py": _program(built)})
    plan = run_of("run.sh").plan
    assert (plan.value("parallel.pipeline"), plan.value("parallel.data")) == (stages, replicas)
    assert "no-overlap" not in rules("run.sh")


@pytest.mark.parametrize(
    ("flags", "frozen", "tells"),
    [
        ("", "", True),
        ("--tune_mm_mlp_adapter True", "", False),
        ("--lora_r 8 --lora_enable True", "", False),
        ("", "model.requires_grad_(False)", False),
        ("", "model.vision_tower.requires_grad_(False)", True),
    ],
)
def test_gradients_of_a_part_of_the_model_are_not_counted(tree, flags: str, frozen: str, tells: bool) -> None:
    config = (
        '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},'
        ' "zero_optimization": {"stage": 2, "overlap_comm": false}}'
    )
    program = f"import torch\nimport deepspeed\nfrom transformers import Trainer\n{frozen}\nTrainer(model).train()\n"
    launch = f"deepspeed --num_nodes 4 --num_gpus 8 train.py --deepspeed ds.json --bf16 True --output_dir out {flags}\n"
    tree({"run.sh": launch, "ds.json": config, "train.py": program})
    told = [each.severity for each in check([Path("run.sh")]).findings if each.rule == "no-overlap"]
    assert ("warning" in told) is tells


@pytest.mark.parametrize("shell", ["/bin/bash", "bash"])
def test_the_words_behind_no_python_are_a_command(tree, shell: str) -> None:
    """`-c` is the shell's, also where an option before it lacks its value."""
    launch = "deepspeed --num_nodes 4 --num_gpus 8 --no_python --master_addr $(head -n 1 hosts | sed -n s/x//p)"
    command = "python train.py --deepspeed --deepspeed_config=ds.json"
    tree({"run.sh": f'CMD="{command}"\n{launch} {shell} -c "$CMD"\n', "train.py": "import deepspeed\n"})
    run = run_of("run.sh")
    assert run.plan.value("launch.processes") == 32
    assert "train.py" in run.files
    assert "unknown-setting" not in rules("run.sh")


def test_the_extras_of_a_project_ask_for_releases(tree) -> None:
    tree({"setup.py": 'extra_require = {"deepspeed": ["deepspeed>=0.10.0,<=0.14.4"]}\n', "conf/ds.json": SECTION})
    assert run_of("conf/ds.json").plan.value("version.deepspeed") == ">=0.10,<=0.14.4"


MISSPELT = (
    "torchrun --nproc_per_node 8 {program} --num-layers 12 --hidden-size 768 --num-attention-heads 12"
    " --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --bf16 {flag}\n"
)


@pytest.mark.parametrize(
    ("program", "flag", "installer", "severity"),
    [
        ("pretrain_gpt.py", "--use-mpi", "", "error"),
        ("src/Megatron-LM/pretrain_gpt.py", "--use-mpi", "", "note"),
        ("$MEGATRON/pretrain_gpt.py", "--use-mpi", "", "note"),
        ("pretrain_gpt.py", "--use-mpi", "git clone https://github.com/someone/Megatron-LM -b branch\n", "note"),
        ("pretrain_gpt.py", "--use-mpi", "git clone https://github.com/NVIDIA/Megatron-LM -b core_v0.9\n", "error"),
        ("src/Megatron-LM/pretrain_gpt.py", "--log_interval 5", "", "error"),
    ],
)
def test_a_flag_that_a_fork_may_add(tree, program: str, flag: str, installer: str, severity: str) -> None:
    tree({"run.sh": MISSPELT.format(program=program, flag=flag), "install.sh": installer})
    told = [each for each in check([Path("run.sh")]).findings if each.rule == "unknown-setting"]
    assert [each.severity for each in told] == [severity]
    assert ("use-mup" in str([remedy.text for each in told for remedy in each.remedies])) is (
        severity == "error" and flag == "--use-mpi"
    )


@pytest.mark.parametrize(("own", "told"), [("--nproc_per_node", False), ("--learning_rate", True)])
def test_a_flag_of_the_launchers_name_behind_the_program_may_be_its_own(tree, own, told):
    program = f"""
    import argparse
    import torch.distributed as dist
    parser = argparse.ArgumentParser()
    parser.add_argument("{own}")
    arguments = parser.parse_args()
    dist.init_process_group("nccl")
    """
    tree({"train.py": dedent(program), "run.sh": "torchrun train.py --nproc_per_node 8\n"})
    assert ("lost-arguments" in {each.rule for each in check(["."]).findings}) is told


TOLD = """
import argparse, deepspeed
from net import Net, data
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=16)
p.add_argument("--out", type=str)
p.add_argument("--quiet", action="store_true")
args = p.parse_args()
config = {"train_micro_batch_size_per_gpu": args.batch, "gradient_accumulation_steps": 2}
engine, *_ = deepspeed.initialize(model=Net(), config=config)
"""


@pytest.mark.parametrize(
    ("words", "origin"),
    [("--quiet --out $1", "written"), ("--out $1 --quiet", "written"), ("--quiet $1", "assumed"), ("$1", "assumed")],
)
def test_a_value_that_is_not_known_hides_no_other_arguments(tree, words: str, origin: str) -> None:
    tree({"run.sh": f"deepspeed --num_gpus 8 train.py {words}\n", "train.py": TOLD})
    found = run_of("run.sh").plan.get("batch.micro")
    assert isinstance(found, Value) and (found.value, found.origin.kind) == (16, origin)


SAMPLED = """
import argparse, deepspeed
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler
from net import Net, data
p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
p.add_argument("--epochs", type=int, default=1)
args = p.parse_args()
engine, *_ = deepspeed.initialize(model=Net(), config={"train_micro_batch_size_per_gpu": 4})
if args.local_rank == -1:
    sampler = RandomSampler(data)
else:
    sampler = DistributedSampler(data)
loader = DataLoader(data, sampler=sampler, batch_size=4)
for epoch in range(args.epochs):
    for batch in loader:
        engine.backward(engine(batch))
        engine.step()
"""


def test_the_launcher_hands_each_process_its_rank(tree) -> None:
    """`--local_rank` is no argument that the command leaves out: its default is not what the processes have."""
    tree({"run.sh": "deepspeed --num_gpus 8 train.py --epochs 4\n", "train.py": SAMPLED})
    assert "sampler-set-epoch-missing" in rules("run.sh")


SEVERAL_EPOCHS = """import torch.distributed as dist
import yaml
import sys
from torch.nn.parallel import DistributedDataParallel
from parts.data import loader_of
from net import Net

with open(sys.argv[1]) as file:
    config = yaml.safe_load(file)
dist.init_process_group("nccl")
loader = loader_of(config["data"])
model = DistributedDataParallel(Net().cuda())
for epoch in range(config["epochs"]):
    for x, y in loader:
        model(x, y).backward()
"""
DEALT = """from torch.utils.data import DataLoader, DistributedSampler
from net import read

def loader_of(config):
    data = read(config["path"])
    sampler = DistributedSampler(data, shuffle=config["shuffle"])
    return DataLoader(data, 8, sampler=sampler)
"""


@pytest.mark.parametrize("asked", [".", "run.sh"])
@pytest.mark.parametrize(
    ("config", "found"),
    [
        ("epochs: 8\ndata: {path: x, shuffle: true}\n", ["sampler-set-epoch-missing"]),
        ("epochs: 8\ndata: {path: x, shuffle: false}\n", []),
        ("epochs: 1\ndata: {path: x, shuffle: true}\n", []),
    ],
)
def test_a_module_that_says_nothing_of_the_plan_is_told_of(tree, asked: str, config: str, found: list[str]) -> None:
    files = {"run.sh": "torchrun --standalone --nproc_per_node 8 train.py small.yaml\n", "small.yaml": config}
    tree({**files, "train.py": SEVERAL_EPOCHS, "parts/__init__.py": "", "parts/data.py": DEALT})
    told = check([Path(asked)]).findings
    assert [each.rule for each in told if each.span.path == "parts/data.py"] == found
    ignored = DEALT.replace('["shuffle"])', '["shuffle"])  # dtlint: ignore[sampler-set-epoch-missing] a test')
    tree({"parts/data.py": ignored})
    assert not [each for each in check([Path(asked)]).findings if each.rule == "sampler-set-epoch-missing"]
