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
        "partitions", "reshard", "demo", "demos", "gradio", "streamlit", "webui", "serving", "sample", "samples",
        "sampling", "extract", "encode", "retrieve", "visualize", "ptq", "quantize", "calibrate", "index", "indexer",
        "dump", "embed",
    )
)  # fmt: skip
"""Words in a program's name that say what else it does; `train` beside them wins (`train_eval.py`)."""

MEASURES = frozenset(("benchmark",))
"""Those that say that a program measures something, which is training where it goes backward and steps itself."""

STEPS = (".backward(", ".step(")
"""What a program has that makes steps of training itself."""

TRIES = frozenset(("benchmark", "test"))
"""Those that say that a program tries something out, which is training where a Trainer makes the steps and nothing is
judged by itself.
"""

FITS = r"[Tt]rainer\.(?:fit|train)\("
JUDGES = r"\.(?:test|evaluate|predict|validate)\("

FLAGS = frozenset(
    (
        "--skip-train", "--eval-only", "--eval_only", "--do_eval_only", "--out-seq-length", "--sample-input-file",
        "--sample-output-file", "--genfile", "--max-tokens-to-oom", "--inference-max-seq-length",
        "--inference-max-requests", "--prompt-file", "--sample-prompt-file", "--load_platform", "--save_platform",
        "--load-platform", "--save-platform", "--target-tensor-parallel-size", "--target-pipeline-parallel-size",
        "--target-tensor-model-parallel-size", "--target-pipeline-model-parallel-size",
    )
)  # fmt: skip
"""Flags of programs that load a model to run it, or to save it in another form."""

MODES = frozenset(("--mode", "--run-mode", "--run_mode", "--phase"))
"""Flags by which one program is told to train or to do something else, with a word of PROGRAMS for the latter."""

FOLDERS = frozenset(("convert", "converter", "conversion", "demo", "demos", "serve", "serving"))
"""Words in the name of the folder that a program lies in, where the program's own name says nothing."""

TASKS = frozenset(
    ("LAMBADA", "WIKITEXT103", "MSDP-PROMPT", "MSDP-EVAL-F1", "ICT-ZEROSHOT-NQ", "RETRIEVER-EVAL", "RET-EVAL-NQ")
)
"""Values of Megatron's --task that only evaluate (tasks/main.py)."""

TRAINS = r"train(?!ed)"
"""What a program's name holds that says by itself that it trains, whatever package does it."""

NO_TRAINER = r"(?<![a-z])(no|without)_?trainer"
"""What a program's name holds that says which class it does without, and not whether it trains."""

TRAINING = (
    r"\bbackward\b|\boptim\.|\boptimizer\b|Optimizer|Trainer|TrainingArguments|(?<!encoder)(?<!scaler)(?<!pca)\.fit\(|train\(|\.step\("
    r"|\.train_batch\(|LightningCLI\(|import \*"
)
"""What a Python program that trains has at least one of, be it in what it calls of another module: `train_batch` is the
step of DeepSpeed's pipeline engine, LightningCLI starts a Trainer, TrainingArguments are given to one. Encoders of
labels and scalers of data are fitted by programs that only run a model, too.
"""


CONFIGS = frozenset(("eval", "evaluate", "evaluation", "infer", "inference", "predict", "test", "tests", "unit_tests"))
"""Words in a config's path, relative to the root, that say that no training takes it."""


BASES = ("/verl/trainer/config/",)
"""Folders of a library whose configs are what runs are composed on, and no runs."""


def role_of_config(path: str) -> str:
    """The same for a config that no launch names, by its own name and the folders that it lies in."""
    if is_below_tests(path) or any(base in f"/{path}" for base in BASES):
        return "other"
    *folders, name = PurePosixPath(path.lower()).parts or ("",)
    words = PurePosixPath(name).stem.replace("-", "_").split("_")
    return "train" if "train" in name or CONFIGS.isdisjoint((*folders, *words)) else "other"


TESTS = frozenset(
    ("test", "tests", "unit_tests", "functional_tests", "unittests", "test_fixtures", "testdata", "test_data")
)
"""Folders whose programs, scripts and configs try code out; what they build is not trained."""


def is_below_tests(path: str) -> bool:
    """Whether a file, its path relative to the root, lies in a folder of tests."""
    return not TESTS.isdisjoint(PurePosixPath(path.lower()).parts[:-1])


def role_of_lone_program(path: str) -> str:
    """The same for a program that no launch names, by its name and the folders below the root that it lies in."""
    return "other" if is_below_tests(path) else role_of_program(path)


def role_of_program(path: str, text: str = "") -> str:
    """ "train", or "other" for a program whose name or text says that it does something else."""
    name = re.sub(NO_TRAINER, "", PurePosixPath(path).name.removesuffix(".py").lower())
    if re.search(TRAINS, name):
        return "train"
    if text and not re.search(TRAINING, text):
        return "other"
    if "train" in name:
        return "train"
    folder, others = _words(PurePosixPath(path).parent.name), PROGRAMS.intersection(_words(name))
    measured = others <= MEASURES and all(call in text for call in STEPS)
    tried = others <= TRIES and re.search(FITS, text) is not None and re.search(JUDGES, text) is None
    return "train" if (not others or measured or tried) and FOLDERS.isdisjoint(folder) else "other"


def _words(name: str) -> list[str]:
    return re.split(r"[-_.]", name.lower())


def role_of(program: Sequence[Word], text: str = "") -> str:
    """The same by a program's arguments too."""
    if not program:
        return "train"
    if role_of_program(program[0].shown, text) == "other":
        return "other"
    words = [part for word in program[1:] for part in (word.text or "").split("=", 1)]
    if _only_evaluates(program[1:], text):
        return "other"
    told = any(flag in FLAGS for flag in words) or any(_is_told(*pair) for pair in pairwise(words))
    return "other" if told else "train"


TRAIN_SWITCH = "__do_train"
OTHER_SWITCHES = frozenset(("__do_eval", "__do_predict", "__do_test"))
"""Switches of programs that do what they are told to, one beside the other (Transformers' Trainer, and programs made
after its examples), with underscores alone.
"""
_SWITCHED = re.compile(r"\bdo_train\b")
_UNASKED = re.compile(r"\bdo_train\b(?:[^=]{0,20}= ?True\b|.{0,120}?\bdefault ?= ?True\b)", re.DOTALL)


def _only_evaluates(arguments: Sequence[Word], text: str) -> bool:
    """Whether a program with a switch for training, off unasked, is told to evaluate or predict and not to train."""
    if any(word.many for word in arguments) or not _SWITCHED.search(text) or _UNASKED.search(text):
        return False
    words = [word.shown.partition("=")[0].replace("-", "_") for word in arguments]
    return TRAIN_SWITCH not in words and not OTHER_SWITCHES.isdisjoint(words)


def _is_told(flag: str, value: str) -> bool:
    """Whether an argument tells a program that does several things to do another than training."""
    return (flag == "--task" and value in TASKS) or (flag in MODES and value.lower() in PROGRAMS)
