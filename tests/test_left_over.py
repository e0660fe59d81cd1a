"""Launches left over from the repository that this one is a copy of: nothing is wasted where no program starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.rulebook import earned

PARSER = """def add(parser):
    parser.add_argument('--num-layers', type=int)
    parser.add_argument('--tensor-model-parallel-size', type=int)
    parser.add_argument('--pipeline-model-parallel-size', type=int)
    parser.add_argument('--micro-batch-size', type=int)
"""
ARGUMENTS = """  --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \\
  --pipeline-model-parallel-size 4 --micro-batch-size 4 --global-batch-size 64 --train-iters 500000 --bf16
"""


@pytest.fixture(autouse=True)
def _every_rule_has_earned_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earned, "has_earned", lambda rule: True)


COPY = {"megatron/arguments.py": PARSER}
GONE = f"torchrun --nproc_per_node 8 pretrain_gpt.py \\\n{ARGUMENTS}"
OTHER = "torchrun --nproc_per_node 8 train.py --bf16 True --output_dir out --per_device_train_batch_size 1\n"
REST = {"other.sh": OTHER, "train.py": "import transformers\n"}


def found(*paths: str) -> dict[str, str]:
    return {each.rule: each.severity for each in check([Path(path) for path in paths]).findings}


def test_what_a_launch_of_a_program_that_is_not_here_would_waste_is_not_told(tree) -> None:
    tree({**COPY, **REST, "examples/gpt.sh": GONE})
    assert "pipeline-bubble" not in found(".")
    assert any("the program is not in this repository" in remark for remark in check([Path()]).remarks)


def test_its_errors_are_notes(tree) -> None:
    tree({**COPY, **REST, "examples/gpt.sh": GONE.replace("--num-layers 24", "--num-layers 22")})
    assert found(".")["layers-not-divisible"] == "note"
    assert found("examples/gpt.sh")["layers-not-divisible"] == "error"


def test_a_launch_that_the_user_names_is_judged_in_full(tree) -> None:
    tree({**COPY, **REST, "examples/gpt.sh": GONE})
    assert found("examples/gpt.sh")["pipeline-bubble"] == "warning"


@pytest.mark.parametrize(
    "files",
    [
        {"examples/gpt.sh": GONE},
        {**COPY, "examples/gpt.sh": GONE, "pretrain_gpt.py": "from megatron import arguments\n"},
        {**COPY, "examples/gpt.sh": GONE, "tools/pretrain_gpt.py": "from megatron import arguments\n"},
        {**COPY, "examples/gpt.sh": GONE.replace("pretrain_gpt", "$MEGATRON/pretrain_gpt")},
        {**COPY, "examples/gpt.sh": GONE.replace("pretrain_gpt", "/opt/megatron/pretrain_gpt")},
        {**COPY, "examples/gpt.sh": GONE.replace("pretrain_gpt", "path_to_megatron/pretrain_gpt")},
    ],
    ids=["no copy", "at the root", "in a folder", "behind a variable", "on a machine", "to be filled in"],
)
def test_a_program_that_may_lie_elsewhere_wastes(tree, files: dict[str, str]) -> None:
    tree({**files, **REST})
    assert found(".")["pipeline-bubble"] == "warning"


PACKAGE = {
    **COPY,
    "megatron/__init__.py": "from megatron.globals import get_args\n",
    "megatron/globals.py": "def get_args():\n    pass\n",
    "megatron/kernels/__init__.py": "",
    "megatron/kernels/fused.cpp": "int main() {}\n",
}
LACKING = [
    "from pretrain_bert import provider\n",
    "from megatron.schedules import step\n",
    "import megatron.model.heads.classes\nfrom megatron.schedules import step\n",
    "from megatron import get_retro_args\n",
    "from megatron.globals import get_retro_args\n",
]
WHOLE = [
    "from megatron import get_args, globals\n",
    "import flash_attn.ops\nimport megatron.globals\n",
    "try:\n    from megatron.schedules import step\nexcept ImportError:\n    step = None\n",
    "def late():\n    from megatron.schedules import step\n",
    "from megatron.kernels import fused\nimport megatron.kernels.fused\n",
    "from .schedules import step\n",
]


def with_imports(text: str) -> dict[str, str]:
    return {**PACKAGE, **REST, "examples/gpt.sh": GONE, "pretrain_gpt.py": f"{text}from megatron import arguments\n"}


@pytest.mark.parametrize("text", LACKING)
def test_a_program_that_imports_what_did_not_come_along_starts_no_more(tree, text: str) -> None:
    tree(with_imports(text))
    assert "pipeline-bubble" not in found(".")
    assert found("examples/gpt.sh")["pipeline-bubble"] == "warning"


def test_the_module_is_named(tree) -> None:
    files = with_imports(LACKING[1])
    tree({**files, "examples/gpt.sh": GONE.replace("--num-layers 24", "--num-layers 22")})
    (told,) = [each for each in check([Path()]).findings if each.rule == "layers-not-divisible"]
    assert told.severity == "note"
    assert "megatron.schedules, which its program imports, is not in this repository" in told.message


@pytest.mark.parametrize("text", WHOLE)
def test_a_program_whose_modules_are_here_wastes(tree, text: str) -> None:
    tree(with_imports(text))
    assert found(".")["pipeline-bubble"] == "warning"


PROFILE = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\nsrun deepspeed --num_gpus 4 fit.py\n"
FIT = """import deepspeed
from net import batches, net

engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config="ds.json")
for batch in batches:
    engine.backward(engine(batch))
    engine.step()
"""
BESIDE = {"timing/profile.sh": PROFILE, "timing/fit.py": FIT}


def judged(tree, files: dict[str, str], path: str = ".") -> dict[str, tuple[str, str]]:
    tree(files)
    told = [each for each in check([Path(path)]).findings if each.rule == "hostfile-slot-mismatch"]
    return {each.span.path: (each.severity, each.message) for each in told}


def test_a_copied_script_whose_program_stayed_in_the_other_folder_is_a_note(tree) -> None:
    told = judged(tree, {**BESIDE, "lengths/profile.sh": PROFILE, "lengths/gather.py": "import csv\n"})
    severity, message = told["lengths/profile.sh"]
    assert severity == "note"
    assert "fit.py is not beside this copy of timing/profile.sh" in message
    assert told["timing/profile.sh"][0] == "error"


@pytest.mark.parametrize(
    "files",
    [
        {**BESIDE, "lengths/profile.sh": PROFILE, "lengths/fit.py": FIT},
        {**BESIDE, "lengths/profile.sh": PROFILE, "fit.py": FIT},
        {**BESIDE, "lengths/profile.sh": PROFILE.replace("srun", "cd ../timing\nsrun")},
        {"timing/fit.py": FIT, "lengths/profile.sh": PROFILE},
        {"lengths/profile.sh": PROFILE},
    ],
    ids=["beside it", "at the root", "cd", "no other script", "nowhere"],
)
def test_a_copied_script_that_may_find_its_program_is_judged_in_full(tree, files: dict[str, str]) -> None:
    assert judged(tree, files)["lengths/profile.sh"][0] == "error"


def test_a_copied_script_that_the_user_names_is_judged_in_full(tree) -> None:
    told = judged(tree, {**BESIDE, "lengths/profile.sh": PROFILE}, "lengths/profile.sh")
    assert told["lengths/profile.sh"][0] == "error"


STRICT = """import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
{imports}
torch.autograd.set_detect_anomaly(True)
dist.init_process_group("nccl")
model = DistributedDataParallel(make())
for batch in batches():
    model(batch).sum().backward()
"""
LIBRARY = {
    "lib/__init__.py": "",
    "lib/nets.py": "def make():\n    return None\n",
    "lib/data.py": "def batches():\n    return []\n",
}
TWO = "from lib.data import batches\nfrom lib.nets import make"


def strict(imports: str, **files: str) -> dict[str, str]:
    return {**LIBRARY, **REST, "tools/strict.py": STRICT.format(imports=imports), **files}


@pytest.mark.parametrize("launched", [False, True])
def test_a_program_that_imports_a_name_which_is_gone_runs_no_step(tree, launched: bool) -> None:
    tree(strict(f"{TWO}, Wide"))
    if launched:
        tree({"strict.sh": "torchrun --nproc_per_node 8 tools/strict.py\n"})
    assert found(".").get("debug-left-on", "") == ("" if launched else "note")
    assert found("tools/strict.py")["debug-left-on"] == "warning"


def test_the_note_says_which_name_is_gone(tree) -> None:
    tree(strict(f"{TWO}, Wide"))
    (message,) = [each.message for each in check([Path()]).findings if each.rule == "debug-left-on"]
    assert "it imports Wide from lib.nets, which has no such name" in message


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        (TWO, {}),
        (f"{TWO}, Wide", {"lib/nets.py": "from other import *\ndef make():\n    pass\n"}),
        (f"{TWO}, Wide", {"lib/nets.py": "def make():\n    pass\ndef __getattr__(name):\n    pass\n"}),
        (f"{TWO}, Wide", {"lib/nets.py": "def make():\n    pass\nexec(open('more.py').read())\n"}),
        (f"{TWO}, Wide", {"lib/nets.py": "from lib.wide import Wide\ndef make():\n    pass\n"}),
        (f"{TWO}, _kernels", {}),
        (f"{TWO}\ntry:\n    from lib.nets import Wide\nexcept ImportError:\n    pass", {}),
        ("from lib import batches, make", {}),
        ("from lib.data import batches, Wide\nfrom nets import make", {"tools/lib/data.py": "Wide = batches = list\n"}),
    ],
    ids=["all here", "star", "getattr", "exec", "imported", "built", "tried", "another package", "nearer"],
)
def test_a_program_whose_names_may_all_be_there_wastes(tree, imports: str, files: dict[str, str]) -> None:
    tree(strict(imports, **files))
    assert found(".")["debug-left-on"] == "warning"
