"""Whether a launch trains: programs that evaluate, generate, serve or convert have no plan that rules could judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from dtlint.languages.traced import Word

PROGRAMS = frozenset(
    (
        "eval", "evaluate", "evaluation", "infer", "inference", "generate", "generation", "generator", "convert",
        "converter", "export", "preprocess", "tokenize", "serve", "server", "predict", "merge", "zeroshot", "prompt",
        "test", "benchmark", "checkpoint", "download", "validation", "validate", "verify", "sanity", "smoke",
    )
)  # fmt: skip
"""Words in a program's name that say what else it does; `train` beside them wins (`train_eval.py`)."""

FLAGS = frozenset(
    (
        "--skip-train", "--eval-only", "--eval_only", "--do_eval_only", "--out-seq-length", "--sample-input-file",
        "--sample-output-file", "--genfile", "--max-tokens-to-oom", "--inference-max-seq-length",
        "--inference-max-requests", "--prompt-file", "--sample-prompt-file",
    )
)  # fmt: skip
"""Flags of programs that load a model to run it."""

TASKS = frozenset(
    ("LAMBADA", "WIKITEXT103", "MSDP-PROMPT", "MSDP-EVAL-F1", "ICT-ZEROSHOT-NQ", "RETRIEVER-EVAL", "RET-EVAL-NQ")
)
"""Values of Megatron's --task that only evaluate (tasks/main.py)."""

TRAINS = r"train(?!ed)"
"""What a program's name holds that says by itself that it trains, whatever package does it."""

NO_TRAINER = r"(?<![a-z])(no|without)_?trainer"
"""What a program's name holds that says which class it does without, and not whether it trains."""

TRAINING = r"\bbackward\b|\boptim\.|\boptimizer\b|Optimizer|Trainer|\.fit\(|train\(|\.step\(|import \*"
"""What a Python program that trains has at least one of, be it in what it calls of another module."""


CONFIGS = frozenset(("eval", "evaluate", "evaluation", "infer", "inference", "predict", "test", "tests", "unit_tests"))
"""Words in a config's path, relative to the root, that say that no training takes it."""


BASES = ("/verl/trainer/config/",)
"""Folders of a library whose configs are what runs are composed on, and no runs."""


def role_of_config(path: str) -> str:
    """The same for a config that no launch names, by its own name and the folders that it lies in."""
    if any(base in f"/{path}" for base in BASES):
        return "other"
    *folders, name = PurePosixPath(path.lower()).parts or ("",)
    words = PurePosixPath(name).stem.replace("-", "_").split("_")
    return "train" if "train" in name or CONFIGS.isdisjoint((*folders, *words)) else "other"


TESTS = frozenset(("test", "tests", "unit_tests"))
"""Folders whose programs try code out; what they build is not trained."""


def role_of_lone_program(path: str) -> str:
    """The same for a program that no launch names, by its name and the folders below the root that it lies in."""
    return role_of_program(path) if TESTS.isdisjoint(PurePosixPath(path.lower()).parts[:-1]) else "other"


def role_of_program(path: str, text: str = "") -> str:
    """ "train", or "other" for a program whose name or text says that it does something else."""
    name = re.sub(NO_TRAINER, "", PurePosixPath(path).name.removesuffix(".py").lower())
    if re.search(TRAINS, name):
        return "train"
    if text and not re.search(TRAINING, text):
        return "other"
    words = name.replace("-", "_").replace(".", "_").split("_")
    return "train" if "train" in name or PROGRAMS.isdisjoint(words) else "other"


def role_of(program: Sequence[Word], text: str = "") -> str:
    """The same by a program's arguments too."""
    if not program:
        return "train"
    if role_of_program(program[0].shown, text) == "other":
        return "other"
    words = [word.text for word in program[1:]]
    only_evaluates = any(flag in FLAGS for flag in words) or any(
        flag == "--task" and value in TASKS for flag, value in pairwise(words)
    )
    return "other" if only_evaluates else "train"
