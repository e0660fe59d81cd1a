"""The GPUs that Slurm lets each task see: what binds tasks to GPUs by name, and what binds them by the way."""

from __future__ import annotations

import re

from dtlint.frameworks import Member
from dtlint.frameworks.options import Option, Split, integer, text_of
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Setting, Unknown, written

_BY_NAME = ("gpu-bind", "tres-bind")
_BY_THE_WAY = ("gpus-per-task", "tres-per-task", "ntasks-per-gpu")
"""Options that bind where nothing binds by name: per_task:N, per_task:N, single:N (srun's manual page)."""
_GPU = r"(?:gres[/:])?gpu[:=]"
_UNBOUND = 0


def bindings(split: Split) -> tuple[Member, ...]:
    """The option that binds tasks to GPUs: `gpus_per_task` (that each sees, 0 for all of the node), `option` as
    written, and `by` (name, way).
    """
    shared = split.last("gres-flags")
    if shared is not None and shared.value is not None and "allow-task-sharing" in shared.value.shown:
        return (_member(shared, setting_of(shared.value, _UNBOUND), "name"),)
    for name in (*_BY_NAME, *_BY_THE_WAY):
        option = split.last(name)
        seen = _seen(option) if option is not None else None
        if option is not None and seen is not None:
            return (_member(option, seen, "name" if name in _BY_NAME else "way"),)
    return ()


def _member(option: Option, seen: Setting, by: str) -> Member:
    shown = f"--{option.name}={option.value.shown}" if option.value is not None else option.spelled
    place = option.place
    return Member(place, {"gpus_per_task": seen, "option": written(shown, place), "by": written(by, place)})


def _seen(option: Option) -> Setting | None:
    """The GPUs that each task sees, None where the option speaks of other things than GPUs."""
    word = option.value
    if word is None:
        return None
    if option.name == "ntasks-per-gpu":
        return setting_of(word, 1)
    if option.name == "gpus-per-task":
        return integer(word.part(word.shown.rfind(":") + 1))
    if option.name == "tres-per-task":
        found = re.search(_GPU + r"(?:[a-z][\w-]*:)?(\d+)", word.shown)
        return integer(word.part(*found.span(1))) if found else None
    return _bound(word, option.name == "tres-bind")


def _bound(word: Word, of_any: bool) -> Setting | None:
    """What `single:1`, `per_task:2`, `map_gpu:0,1`, `none` leave to each task."""
    start = re.match(_GPU, word.shown)
    if of_any and start is None and word.text is not None:
        return None
    kind, _, count = re.sub(rf"^(?:{_GPU})?(?:v(?:erbose)?,)?", "", word.shown).partition(":")
    if kind in ("single", "map_gpu", "map"):
        return setting_of(word, 1)
    if kind == "none":
        return setting_of(word, _UNBOUND)
    if kind == "per_task" and count.isdecimal():
        return setting_of(word, int(count))
    found = text_of(word)
    return found if isinstance(found, Unknown) else Unknown(f"{word.shown} leaves open how many GPUs a task sees")
