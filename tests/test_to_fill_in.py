"""A value that a template leaves to its reader is no mistake: a note says what it takes."""

import pytest

from dtlint.api import check
from dtlint.blanks import is_blank

PROGRAM = """
import transformers
parser = transformers.HfArgumentParser(transformers.TrainingArguments)
(arguments,) = parser.parse_args_into_dataclasses()
transformers.Trainer(model, arguments).train()
"""


@pytest.mark.parametrize(
    ("steps", "severity"),
    [
        ("xxx", "note"),
        ("XXXX", "note"),
        ("TODO", "note"),
        ("your_max_steps", "note"),
        ("NUM_STEPS", "note"),
        ("nSteps", "note"),
        ("WORLD_SIZE", "note"),
        ("none", "error"),
        ("{your_steps}", "note"),
        ("{steps}", "note"),
        ("{first}:{last}", "note"),
        ("{8}", "error"),
        ("FULL_STEPS", "error"),
        ("1e6", "error"),
        ("many", "error"),
    ],
)
def test_a_number_to_fill_in_is_a_note(tree, steps, severity):
    launch = f"torchrun --nproc_per_node 8 train.py --output_dir out --max_steps {steps}\n"
    tree({"requirements.txt": "transformers==4.31.0\n", "train.py": PROGRAM, "run.sh": launch})
    found = [each for each in check(["run.sh"]).findings if each.rule == "setting-type"]
    assert [each.severity for each in found] == [severity]


def test_a_word_is_not_blank():
    assert not any(is_blank(text) for text in ("adam", "bf16", "BERT", "x", "8", "cosine", "your", "{x}", "{8}"))


@pytest.mark.parametrize(("port", "severity"), [("", "note"), ("x1", "error")])
@pytest.mark.parametrize(
    "launch",
    [
        "torchrun --nproc_per_node 8 --master-port=$port train.py",
        'accelerate launch --num_processes 8 --main_process_port "$port" train.py',
    ],
)
def test_a_variable_that_is_left_empty_is_to_be_filled_in(tree, launch, port, severity):
    tree({"run.sh": f"port={port}\n{launch}\n"})
    found = [each for each in check(["run.sh"]).findings if each.rule == "setting-type"]
    assert [each.severity for each in found] == [severity]


def test_a_number_that_is_refused_is_told_with_every_digit(tree):
    tree({"ds.json": '{"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 4777574.4}}'})
    (found,) = (each for each in check(["ds.json"]).findings if each.rule == "setting-type")
    assert "4777574.4" in found.message


@pytest.mark.parametrize(
    ("processes", "gpus", "severities"),
    [("nGPUs", "CUDA_VISIBLE_DEVICES", ["note", "note"]), ("many", "0", ["error", "error"])],
)
def test_names_of_variables_in_a_template_of_accelerate(tree, processes, gpus, severities):
    text = f"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: {processes}\n"
    tree({"ddp.yaml": f"{text}machine_rank: 0\ngpu_ids: '{gpus}'\nmixed_precision: bf16\n"})
    found = [each for each in check(["ddp.yaml"]).findings if each.rule == "setting-type"]
    assert [each.severity for each in found] == severities
