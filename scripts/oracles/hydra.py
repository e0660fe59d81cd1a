"""Asks hydra and OmegaConf what a folder of configs and a command line come to: every value of the composed config.

Needs hydra-core. The trees are made up from a fixed seed: defaults lists of every form, packages, headers, overrides,
references and the spellings of numbers on which YAML's loaders differ.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from oracles import Answer, Question
from oracles.hydra_trees import CONFIGS, TREES, WORDS, tree

PACKAGES = ("hydra-core", "omegaconf")
EXPLAINED: Mapping[str, str] = {}
ANSWERS = Path(__file__).parents[2] / "tests" / "data" / "composed"
"""Apart from the verdicts on launches: here a whole config is the answer."""


def questions() -> list[Question]:
    """Trees of configs, each with a command line."""
    random = Random(7)
    return [Question(f"tree-{number:03}", "composed", tree(random), {}) for number in range(TREES)]


def ask(question: Question) -> Answer:
    """Every leaf of the composed config by its dotted path; what a reference does not lead to is left out."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder:
        for name, text in question.files.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        words = shlex.split(question.files[WORDS])
        GlobalHydra.instance().clear()
        os.environ.pop("NODES", None)
        with initialize_config_dir(str(Path(folder, CONFIGS)), version_base="1.3"):
            try:
                config = compose("config", overrides=words)
            except Exception as error:  # noqa: BLE001 - whatever it refuses with is its answer
                return Answer(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", {})
            return Answer(None, dict(_leaves(config, "")))


def _leaves(config: Any, above: str) -> Iterator[tuple[str, Any]]:
    from omegaconf import DictConfig, ListConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    for key in config:
        path = f"{above}{key}"
        if OmegaConf.is_missing(config, key):
            yield path, "???"
            continue
        try:
            value = config[key]
            if isinstance(value, DictConfig):
                yield from _leaves(value, f"{path}.")
            else:
                yield path, OmegaConf.to_container(value, resolve=True) if isinstance(value, ListConfig) else value
        except OmegaConfBaseException:
            continue
