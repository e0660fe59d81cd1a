"""Copies of frameworks in the tree that do not refuse what their releases refuse: samples longer than the positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

CONFIG = """pipe_parallel_size: 1
model_parallel_size: 2
num_layers: 12
hidden_size: 768
num_attention_heads: 12
seq_length: 16384
max_position_embeddings: 8192
pos_emb: rotary
train_micro_batch_size_per_gpu: 1
"""
FIELDS = """from dataclasses import dataclass
from typing import Optional


@dataclass
class ModelArguments:
    num_layers: int = None
    seq_length: int = None
    max_position_embeddings: int = None
    pipe_parallel_size: int = 0
    model_parallel_size: int = 1
"""
STOCK = """    def check(self):
        if self.seq_length is not None:
            if not (self.max_position_embeddings >= self.seq_length):
                raise ValueError("too long")
"""
PUT_ASIDE = """    def check(self):
        # if not (self.max_position_embeddings >= self.seq_length):
        #     raise ValueError("too long")
        return True
"""
MENDED = """    def check(self):
        if self.max_position_embeddings < self.seq_length:
            self.max_position_embeddings = self.seq_length
"""
SOME = """    def check(self):
        if self.pos_emb == "learned":
            assert self.max_position_embeddings >= self.seq_length
"""


def told(folder: Path, **files: str) -> str | None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py").replace("_yml", ".yml").replace("_sh", ".sh")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {each.rule: each.severity for each in check([folder]).findings}.get("seq-not-divisible")


@pytest.mark.parametrize(("checks", "severity"), [(STOCK, "error"), (PUT_ASIDE, None), (MENDED, None), (SOME, None)])
def test_a_config_beside_the_classes_that_declare_its_keys(tmp_path: Path, checks: str, severity: str | None) -> None:
    assert told(tmp_path, conf__long_yml=CONFIG, lib__arguments_py=FIELDS + checks) == severity


def test_a_check_in_another_file_of_the_copy(tmp_path: Path) -> None:
    other = "def validate(args):\n    assert args.max_position_embeddings >= args.seq_length\n"
    assert told(tmp_path, conf__long_yml=CONFIG, lib__fields_py=FIELDS, lib__checks_py=other) == "error"


def test_a_config_alone_is_one_for_the_releases(tmp_path: Path) -> None:
    assert told(tmp_path, conf__long_yml=CONFIG) == "error"
    other = "class Config:\n    def __init__(self, seq_length, max_position_embeddings):\n        self.n = seq_length\n"
    assert told(tmp_path, lib__model_py=other) == "error"


PARSER = """def add_args(parser):
    parser.add_argument("--num-layers", type=int)
    parser.add_argument("--tensor-model-parallel-size", type=int, default=1)
    parser.add_argument("--pipeline-model-parallel-size", type=int, default=1)
    parser.add_argument("--micro-batch-size", type=int)
    parser.add_argument("--seq-length", type=int)
    parser.add_argument("--max-position-embeddings", type=int)


def validate_args(args):
"""
LAUNCH = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 "
    "--seq-length 4096 --max-position-embeddings 2048 --micro-batch-size 1 --bf16\n"
)


@pytest.mark.parametrize(
    ("checks", "severity"),
    [
        (
            "    if args.seq_length is not None:\n        assert args.max_position_embeddings >= args.seq_length\n",
            "error",
        ),
        ("    ensure_valid(args.max_position_embeddings >= args.seq_length, 'too long')\n", "error"),
        ("    # assert args.max_position_embeddings >= args.seq_length\n    return args\n", None),
    ],
)
def test_a_copy_of_megatrons_parser(tmp_path: Path, checks: str, severity: str | None) -> None:
    files = {"megatron__training__arguments_py": PARSER + checks, "run_sh": LAUNCH}
    assert told(tmp_path, **files) == severity
