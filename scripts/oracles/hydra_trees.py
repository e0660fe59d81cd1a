"""Folders of configs as hydra's users have them, put together at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

TREES = 240
CONFIGS = "conf"
WORDS = "words.txt"

GROUPS = {
    "model": ("llama", "gpt", "tiny"),
    "trainer": ("ddp", "fsdp"),
    "optim": ("adam", "sgd"),
    "model/attention": ("flash", "eager"),
    "experiment": ("long", "short"),
}
_KEYS = ("size", "layers", "rate", "name", "batch", "flag", "steps")
_SCALARS = (
    "1", "8", "1e-5", "3e4", "1.5", "true", "on", "no", "010", "0x10", "1_000", "null", "bf16", "'4'", '"yes"', "1:30",
    "[1, 2]", "[a, 'b']", "???", "-1", ".5", "6.0e-4", "~",
)  # fmt: skip
_REFERENCES = (
    "${base}", "${.size}", "${..batch}", "${model.size}", "${oc.env:NODES,4}", "${oc.select:nothing,7}",
    "${oc.select:base,7}", "x-${base}", "${base}_${model.size}", "${trainer}", "${oc.env:NODES,${base}}",
    "${oc.select:${key}.size,1}", "${model[size]}", "${list.1}", "${${key}.size}",
)  # fmt: skip
_VALUES = (
    "1", "1e-3", "yes", "True", "null", "010", "'8'", "[1,2]", "{size:3,name:x}", "a/b-c", "${base}", "0.5", "1_0", "",
)  # fmt: skip


def tree(random: Random) -> dict[str, str]:
    """A primary config, its groups, and the overrides of a command line."""
    files = {f"{CONFIGS}/config.yaml": _primary(random)}
    for group, names in GROUPS.items():
        for name in names:
            files[f"{CONFIGS}/{group}/{name}.yaml"] = _member(random, group)
    files[f"{CONFIGS}/base.yaml"] = _text([], _content(random, random.randint(0, 3)))
    files[WORDS] = " ".join(_words(random)) + "\n"
    return files


def _primary(random: Random) -> str:
    items = []
    if random.random() < 0.4:
        items.append("base")
    for group in ("model", "trainer", "optim"):
        if random.random() < 0.85:
            items.append(_item(random, group))
    if random.random() < 0.3:
        items.append("optional experiment: " + random.choice(("long", "short", "absent", "null")))
    if random.random() < 0.2:
        items.append("optim@second: " + random.choice(GROUPS["optim"]))
    if random.random() < 0.1:
        items.append("model/attention@model.extra: flash")
    if random.random() < 0.1:
        items.append("experiment: x_${trainer}")
    items = _with_itself(random, items)
    own = ["base: 3", "key: model", "list: [5, 6]", *_content(random, 4), *_section(random, "model")]
    return _text(items, own)


def _item(random: Random, group: str) -> str:
    name = random.choice(GROUPS[group])
    form = random.random()
    if form < 0.06:
        return f"{group}: [{', '.join(GROUPS[group][:2])}]"
    if form < 0.12:
        return f"{group}/{name}"
    if form < 0.18:
        return f"{group}@net.{group}: {name}"
    if form < 0.24:
        return f"{group}@_global_: {name}"
    return f"{group}: {name}"


def _member(random: Random, group: str) -> str:
    items: list[str] = []
    header = ""
    if group == "model" and random.random() < 0.4:
        items.append(
            random.choice(("attention: flash", "attention@heads: eager", "/optim@opt: adam", "attention: null"))
        )
    if group == "experiment":
        header = "# @package _global_\n" if random.random() < 0.8 else ""
        if random.random() < 0.6:
            items.append("override /model: " + random.choice(GROUPS["model"]))
        if random.random() < 0.3:
            items.append("override /trainer: fsdp")
    elif random.random() < 0.12:
        header = random.choice(("# @package _global_\n", "# @package other.place\n", "# a comment\n# @package lost\n"))
    items = _with_itself(random, items) if items and not items[0].startswith("override") else items
    section = _section(random, random.choice(("model", "inner"))) if random.random() < 0.5 else []
    return header + _text(items, [*_content(random, random.randint(1, 4)), *section])


def _with_itself(random: Random, items: list[str]) -> list[str]:
    if random.random() < 0.3:
        return items
    return ["_self_", *items] if random.random() < 0.4 else [*items, "_self_"]


def _content(random: Random, count: int) -> list[str]:
    return [f"{key}: {_value(random)}" for key in random.sample(_KEYS, count)]


def _section(random: Random, name: str) -> list[str]:
    return [f"{name}:", *(f"  {line}" for line in _content(random, random.randint(1, 3)))]


def _value(random: Random) -> str:
    return random.choice(_REFERENCES) if random.random() < 0.3 else random.choice(_SCALARS)


def _text(items: Sequence[str], content: Sequence[str]) -> str:
    listed = ["defaults:", *(f"  - {item}" for item in items)] if items else []
    return "\n".join([*listed, *content]) + "\n"


def _words(random: Random) -> Iterator[str]:
    choices = (
        "model=gpt", "trainer=fsdp", "+experiment=long", "~optim", "optim=sgd", "model/attention=eager",
        "optim@second=adam", "+model@teacher=tiny",
    )  # fmt: skip
    yield from random.sample(choices, random.choice((0, 0, 1, 1, 2)))
    for _ in range(random.choice((0, 1, 2))):
        key = random.choice(("base", "model.size", "++new.key", "++model.batch", "+added", "key"))
        yield f'"{key}={random.choice(_VALUES)}"' if random.random() < 0.9 else "~base"
