"""The program of a launch: its script, the config files that its arguments name, and the model that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.languages.traced import Word, setting_of

FILE_FLAGS = {
    "--deepspeed": "deepspeed",
    "--deepspeed_config": "deepspeed",
    "--ds_config": "deepspeed",
    "--ds_config_path": "deepspeed",
    "--deepspeed_config_file": "deepspeed",
}
"""Flags of training scripts that name a DeepSpeed config; dashes may stand for underscores."""

MODEL_FLAGS = frozenset(
    ("--model_name_or_path", "--model", "--model_name", "--model_id", "--base_model", "--pretrained_model_name_or_path")
)
"""Flags that name the model: a folder with its config.json, or a name that the catalog knows."""
CONFIG_FLAG = "--config_name"
"""The flag that names the model's config apart from its weights."""


def read(words: Sequence[Word]) -> Reading:
    """The script (first word; a module stands as its dotted name), the files and the model that flags name."""
    script = [NamedFile("script", words[0])] if words and words[0].text else []
    named = list(_valued(words[1:]))
    files = [NamedFile(FILE_FLAGS[flag], value) for flag, value in named if flag in FILE_FLAGS and _is_path(value)]
    models = [claim for flag, value in named if flag in MODEL_FLAGS and (claim := model_claim(flag, value)) is not None]
    files.extend(_model_file(named))
    return Reading("program", words[0].place if words else None, tuple(models), (*script, *files))


def _model_file(named: Sequence[tuple[str, Word]]) -> list[NamedFile]:
    """Where the model's shape may stand: the config that is named apart from the weights, else the model's folder."""
    values = [value for flag, value in named if flag == CONFIG_FLAG]
    values = values or [value for flag, value in named if flag in MODEL_FLAGS]
    return [NamedFile("model", values[-1])] if values and values[-1].text else []


def _is_path(value: Word) -> bool:
    """Whether a word can be a path: the bare names of configs that ms-swift brings along (`zero3`) are none."""
    return "." in value.shown or "/" in value.shown or "zero" not in value.shown


def model_claim(flag: str, value: Word) -> Claim | None:
    """The model that a word names, where the catalog knows it; unknown where the word is."""
    name = value.text
    if name is None:
        return Claim("model.name", setting_of(value), flag)
    from dtlint.catalog import model

    found = model(name)
    return Claim("model.name", setting_of(value, found.name), flag) if found is not None else None


def _valued(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Each flag with the word that follows it or stands behind its `=`."""
    for index, word in enumerate(words):
        head, separator, _ = word.shown.partition("=")
        flag = head.replace("-", "_").replace("__", "--", 1) if head.startswith("--") else ""
        if flag and separator:
            yield flag, word.part(len(head) + 1)
        elif flag and index + 1 < len(words) and not words[index + 1].shown.startswith("-"):
            yield flag, words[index + 1]
