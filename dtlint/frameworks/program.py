"""The program of a launch: its script, the config files that its arguments name, and the model that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Unknown, assumed

FILE_FLAGS = {
    "--deepspeed": "deepspeed",
    "--deepspeed_config": "deepspeed",
    "--ds_config": "deepspeed",
    "--ds_config_path": "deepspeed",
    "--deepspeed_config_file": "deepspeed",
}
"""Flags of training scripts that name a DeepSpeed config; dashes may stand for underscores."""

MODEL_FLAGS = frozenset(
    (
        "--model_name_or_path", "--model", "--model_name", "--model_id", "--model_id_or_path", "--model_path",
        "--base_model", "--base_model_name_or_path", "--pretrained_model", "--pretrained_model_path",
        "--pretrained_model_name_or_path", "--actor_model_name_or_path", "--pretrain",
    )
)  # fmt: skip
"""Flags that name the model: a folder with its config.json, or a name that the catalog knows."""
TOKENIZER_FLAGS = frozenset(("--tokenizer", "--tokenizer_name", "--tokenizer_name_or_path", "--tokenizer_path"))
"""Flags that name a tokenizer, which is called as its model is."""
_SHAPES = r"layer|hidden|n_embd|d_model|config|model_type|model_size|pretrain"
"""What flags contain that tell the model, or its shape, in another way."""
CONFIG_FLAG = "--config_name"
"""The flag that names the model's config apart from its weights."""

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A function by its module and name, as entry points have it (`recipes.llama:pretrain_config`)."""


def read(words: Sequence[Word]) -> Reading:
    """The script (first word; a module stands as its dotted name), the files and the model that flags name."""
    script = [NamedFile("script", words[0])] if words and words[0].text else []
    named = list(_valued(words[1:]))
    files = [NamedFile(FILE_FLAGS[flag], value) for flag, value in named if flag in FILE_FLAGS]
    models = [claim for flag, value in named if flag in MODEL_FLAGS and (claim := model_claim(flag, value)) is not None]
    models.extend(_tokenizers_model(named))
    files.extend(NamedFile("config", value) for flag, value in named if _is_config(flag, value))
    files.extend(NamedFile("recipe", value) for _, value in named if FUNCTION.fullmatch(value.text or ""))
    files.extend(_model_file(named))
    return Reading("program", words[0].place if words else None, tuple(models), (*script, *files))


def _is_config(flag: str, value: Word) -> bool:
    """Whether a flag names a YAML config, whose content tells whose it is."""
    return flag == "--config_file" and value.shown.endswith((".yaml", ".yml"))


def _model_file(named: Sequence[tuple[str, Word]]) -> list[NamedFile]:
    """Where the model's shape may stand: the config that is named apart from the weights, else the model's folder."""
    values = [value for flag, value in named if flag == CONFIG_FLAG]
    values = values or [value for flag, value in named if flag in MODEL_FLAGS]
    return [NamedFile("model", values[-1])] if values and values[-1].text else []


def model_claim(flag: str, value: Word) -> Claim | None:
    """The model that a word names, where the catalog knows it; unknown where the word is, or where it names a family
    and a size only.
    """
    name = value.text
    if name is None:
        return Claim("model.name", setting_of(value), flag)
    from dtlint.catalog import model

    found = model(name)
    if found is not None:
        return Claim("model.name", setting_of(value, found.name), flag)
    return _of_size(flag, value, name)


def _of_size(flag: str, value: Word, name: str) -> Claim | None:
    """A family and a size without the version that decides on the shape (`llama-70b`)."""
    from dtlint.catalog import models_of_size

    models = [found.name for found in models_of_size(name)]
    if not models:
        return None
    reason = f"{PurePosixPath(name).name} may be {' or '.join(models)}"
    return Claim("model.name", Unknown(reason, f"--set model.name={models[0]}", Origin("written", value.place)), flag)


def _tokenizers_model(named: Sequence[tuple[str, Word]]) -> Iterator[Claim]:
    """The model whose tokenizer is named, where nothing else tells the model: assumed, for a tokenizer is often
    borrowed.
    """
    if any(flag in MODEL_FLAGS or flag == CONFIG_FLAG or re.search(_SHAPES, flag) for flag, _ in named):
        return
    for flag, value in named:
        if flag in TOKENIZER_FLAGS and value.text is not None:
            from dtlint.catalog import model

            found = model(value.text)
            if found is not None:
                why = f"the tokenizer is that of {found.name}"
                yield Claim("model.name", assumed(found.name, why, "--set model.name=..."), flag)


def _valued(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Each flag with the word that follows it or stands behind its `=`."""
    for index, word in enumerate(words):
        head, separator, _ = word.shown.partition("=")
        flag = head.replace("-", "_").replace("__", "--", 1) if head.startswith("--") else ""
        if flag and separator:
            yield flag, word.part(len(head) + 1)
        elif flag and index + 1 < len(words) and not words[index + 1].shown.startswith("-"):
            yield flag, words[index + 1]
