"""Asks GPT-NeoX's argument class what it makes of config files and a number of GPUs: batches, degrees, refusals.

Needs torch and deepspeed, and a checkout of GPT-NeoX that GPT_NEOX names. Its tokenizers, which are built only when it
trains, are left out.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from oracles import VALID, Answer, Plain, Question
from oracles.commands import first_line

PACKAGES = ("torch", "deepspeed")
CHECKOUTS = {"gpt-neox": "GPT_NEOX"}
EXPLAINED: Mapping[str, str] = {}

FILE = "config.yml"
EACH = 30
"""Configs of each kind."""
_DERIVED = {
    "train_batch_size": "batch.global",
    "train_micro_batch_size_per_gpu": "batch.micro",
    "gradient_accumulation_steps": "batch.accumulation",
    "model_parallel_size": "parallel.tensor",
    "num_layers": "model.layers",
    "seq_length": "data.sequence_length",
}

Keys = dict[str, Plain]


def questions() -> list[Question]:
    """Configs as its users write them, and the same with a mistake in batch, degrees or heads."""
    random = Random(3)
    kinds = {VALID: _valid, "batch-not-divisible": _batch, "world-size-mismatch": _degrees, "heads-mismatch": _heads}
    return [
        _question(f"{kind}-{number:03}", kind, make(random)) for kind, make in kinds.items() for number in range(EACH)
    ]


def ask(question: Question) -> Answer:
    """What NeoXArgs says to the file."""
    arguments = _arguments()
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        path = Path(folder, FILE)
        path.write_text(question.files[FILE], encoding="utf-8")
        try:
            found = arguments.from_ymls([str(path)])
        except (ValueError, AssertionError, KeyError, TypeError) as error:
            return Answer(first_line(error), {})
    derived = {name: getattr(found, key) for key, name in _DERIVED.items()}
    return Answer(None, {**derived, "parallel.pipeline": max(1, found.pipe_parallel_size)})


def _arguments() -> Any:
    """Its class, with stand-ins for what it imports and does not use here."""
    sys.path.insert(0, os.environ["GPT_NEOX"])
    import packaging.version

    tokenizers, resources = types.ModuleType("megatron.tokenizer"), types.ModuleType("pkg_resources")
    vars(tokenizers)["build_tokenizer"] = lambda arguments: None
    vars(resources)["packaging"] = packaging
    sys.modules |= {each.__name__: each for each in (tokenizers, resources)}
    from megatron.neox_arguments import NeoXArgs

    return NeoXArgs


def _question(name: str, kind: str, keys: Keys) -> Question:
    return Question(name, kind, {FILE: "".join(_lines(keys))}, {})


def _lines(keys: Keys) -> Iterator[str]:
    yield "{\n"
    for key, value in keys.items():
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        yield f'  "{key}": {text},\n'
    yield '  "optimizer": {"type": "Adam", "params": {"lr": 0.0001}},\n'
    yield '  "zero_optimization": {"stage": 1},\n}\n'


def _valid(random: Random) -> Keys:
    """A config whose batches and degrees make up the GPUs; one or two of the three batches are left to be derived."""
    tensor, pipeline, data = random.choice((1, 2, 4)), random.choice((0, 1, 2, 4)), random.choice((1, 2, 4, 8))
    micro, steps = random.choice((1, 2, 4)), random.choice((1, 2, 8))
    batches = {
        "train_batch_size": micro * steps * data,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
    }
    written = random.choice(((0, 1), (1, 2), (0, 2), (0, 1, 2), (1,), (0,)))
    keys: Keys = {
        "pipe_parallel_size": pipeline,
        "model_parallel_size": tensor,
        "global_num_gpus": tensor * max(1, pipeline) * data,
        "num_layers": 24,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "seq_length": 2048,
        "max_position_embeddings": 2048,
        "train_iters": 1000,
        "precision": random.choice(("fp16", "bfloat16")),
    }
    keys.update({name: value for index, (name, value) in enumerate(batches.items()) if index in written})
    return keys


def _batch(random: Random) -> Keys:
    """A batch that its parts do not make up."""
    keys = _valid(random)
    data = int(keys["global_num_gpus"] or 1) // (
        int(keys["model_parallel_size"] or 1) * max(1, int(keys["pipe_parallel_size"] or 0))
    )
    keys["train_micro_batch_size_per_gpu"] = 4
    keys["train_batch_size"] = random.choice((4 * data + 2, 8 * data + 3, 3))
    keys.pop("gradient_accumulation_steps", None)
    return keys


def _degrees(random: Random) -> Keys:
    """Degrees that do not divide the GPUs."""
    keys = _valid(random)
    keys["model_parallel_size"], keys["pipe_parallel_size"] = random.choice(((4, 4), (8, 2), (2, 8), (8, 8)))
    keys["global_num_gpus"] = random.choice((8, 12, 20, 24, 40))
    keys.pop("train_batch_size", None)
    keys["train_micro_batch_size_per_gpu"] = 4
    return keys


def _heads(random: Random) -> Keys:
    """Heads that do not divide the width, or a length that the positions do not cover."""
    keys = _valid(random)
    if random.random() < 0.5:
        return {**keys, "num_attention_heads": random.choice((12, 20, 24, 48))}
    return {**keys, "seq_length": 4096}
