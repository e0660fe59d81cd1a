"""Trainers that spread the model over the GPUs of one process, where plain python starts them."""

from __future__ import annotations

import pytest

from dtlint.api import check

PROGRAM = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
from data import sets
from own import MyTrainer

args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, args, train_dataset=sets()).train()
"""
OWN = "from transformers import Trainer\n\n\nclass MyTrainer(Trainer):\n    pass\n"
SEES_TWO = "CUDA_VISIBLE_DEVICES=0,1 python"
FLAGS = "--output_dir out --bf16 --per_device_train_batch_size 2"
JOB = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n"


def messages(tree, command: str, program: str = PROGRAM) -> list[str]:  # type: ignore[no-untyped-def]
    tree({"run.sh": f"{command} train.py {FLAGS}\n", "train.py": program, "own.py": OWN})
    return [each.message for each in check(["run.sh"]).findings if each.rule == "data-parallel-class"]


@pytest.mark.parametrize(
    ("command", "gpus"),
    [(SEES_TWO, 2), (f"{JOB}python", 4), (f"{JOB}srun -n 1 python", 4)],
)
def test_one_process_that_sees_several_gpus_uses_data_parallel(tree, command: str, gpus: int) -> None:  # type: ignore[no-untyped-def]
    (message,) = messages(tree, command)
    assert f"nn.DataParallel, which drives {gpus} GPUs from one process" in message


@pytest.mark.parametrize("trainer", ["MyTrainer", "Trainer"])
def test_so_does_a_trainer_that_stands_on_it(tree, trainer: str) -> None:  # type: ignore[no-untyped-def]
    program = PROGRAM.replace("\nTrainer(", f"\n{trainer}(")
    assert len(messages(tree, SEES_TWO, program)) == 1


@pytest.mark.parametrize(
    "command",
    [
        "python",
        "CUDA_VISIBLE_DEVICES=0 python",
        f"{JOB}CUDA_VISIBLE_DEVICES=$1 python",
        "torchrun --nproc_per_node 2",
        "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --multi_gpu --num_processes 2",
    ],
)
def test_one_gpu_or_a_launcher_is_left_alone(tree, command: str) -> None:  # type: ignore[no-untyped-def]
    assert messages(tree, command) == []


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ('("gpt2")', '("gpt2", device_map="auto")'),
        ('("gpt2")', '("gpt2", load_in_8bit=True)'),
        ("import sets\n", "import sets\nimport os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"),
        ('AutoModelForCausalLM.from_pretrained("gpt2")', "build()"),
    ],
)
def test_a_program_that_places_the_model_itself_is_left_alone(tree, found: str, instead: str) -> None:  # type: ignore[no-untyped-def]
    assert messages(tree, SEES_TWO, PROGRAM.replace(found, instead)) == []
