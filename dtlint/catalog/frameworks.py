"""What frameworks and front ends do when a setting is not written, by version; the keys that DeepSpeed's config has,
and which it refuses together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.record import NamedTuple
from dtlint.release import older, releases
from dtlint.value import Plain

DATA = Path(__file__).parent / "data"
DEFAULTS_FILES = (DATA / "frameworks.yaml",)
DEEPSPEED_FILES = (DATA / "deepspeed_keys.csv",)
SHIPPED_FILES = (DATA / "shipped_configs.csv",)
REFUSAL_FILES = (DATA / "deepspeed_refusals.yaml",)


class Default(NamedTuple):
    """What a tool takes for a setting that nothing writes.

    It holds where every setting in `when` has one of the values given there, from version `since` up to but without
    `until` of `package` ("" is open). `value` None: the tool has none and does without. `tool` is the name for people
    ("Megatron-LM").
    """

    value: Plain
    when: Mapping[str, tuple[Plain, ...]]
    since: str
    until: str
    tool: str
    source: str
    package: str


class DeepSpeedKey(NamedTuple):
    """One key of DeepSpeed's config file.

    `section` is the dotted path of the object that holds it ("" for the top level), `type` what it takes, `default` as
    JSON text, `auto` whether a front end fills "auto" ("yes") or DeepSpeed means something by it ("own"). `setting` is
    the plan's setting that it writes, if any. `first` and `last` are the releases that have it ("" is open), `instead`
    the name that replaces it. `reach` says where it works, if not everywhere ("stage 3", "nowhere"). `checked` is the
    first release that refuses what it does not know in a strict section, "" if every one does.
    """

    section: str
    name: str
    type: str
    default: str
    auto: str
    setting: str
    first: str
    last: str
    instead: str
    reach: str
    checked: str


class ShippedConfig(NamedTuple):
    """A DeepSpeed config that a tool brings along, by the name or the end of the path under which it is asked for; the
    cells as text, "" for what it leaves to "auto" or to DeepSpeed. `no_prefetch` is the key whose 0 turns prefetching
    off, `keeps_optimizer` is "yes" where it lets DeepSpeed offload an optimizer that is not its own.
    """

    path: str
    tool: str
    stage: str
    offload_optimizer: str
    offload_parameters: str
    overlap: str
    no_prefetch: str
    keeps_optimizer: str


def shipped_config(path: str) -> ShippedConfig | None:
    """The config that a tool ships under a name (`zero2`) or under a path that ends so."""
    found = _shipped_configs()
    ends = [path, *("/".join(path.split("/")[-length:]) for length in (2, 3) if "/" in path)]
    return next((found[end] for end in ends if end in found), None)


class Refusal(NamedTuple):
    """Keys of DeepSpeed's config that it refuses together.

    It holds where every key in `when` has one of the values given there, by their dotted paths, and every key in
    `below` a number below the one given; `key` is the one to change, `expected` what it takes beside the others.
    `since` is the release from which on DeepSpeed looks at it, "" for as long as it has had the keys.
    """

    key: str
    expected: str
    when: Mapping[str, tuple[Plain, ...]]
    below: Mapping[str, float]
    since: str = ""


def defaults(framework: str, setting: str) -> tuple[Default, ...]:
    """The defaults that a framework or front end has for a setting, of every version, in the order in which to try
    them (the newest first); () where it has none.
    """
    return _table(framework).get(setting, ())


def in_time(default: Default, version: str) -> bool:
    """Whether a default holds in a version, or in some of a range of versions; "" is any version."""
    ours = releases(version)
    if ours is None:
        return True
    since, until = releases(default.since), releases(default.until)
    return not (since is not None and older(ours, since)) and not (until is not None and older(ours, until) is False)


def package_of(framework: str) -> str:
    """The package whose releases are the versions of a framework or front end, as settings name it
    (`megatron_core`); "" where none is known.
    """
    return str(_file().get(framework, {}).get("package", ""))


def display_name(framework: str) -> str:
    """How the framework is called in sentences; the name itself where the catalog does not know it."""
    return _names().get(framework, framework)


@cache
def deepspeed_keys() -> tuple[DeepSpeedKey, ...]:
    """Every key that DeepSpeed's config has or had."""
    rows = cast("list[list[str]]", load("deepspeed-keys", DEEPSPEED_FILES))
    return tuple(DeepSpeedKey._make(row) for row in rows)


@cache
def _shipped_configs() -> dict[str, ShippedConfig]:
    rows = cast("list[list[str]]", load("shipped-configs", SHIPPED_FILES))
    return {row[0]: ShippedConfig._make(row) for row in rows}


@cache
def deepspeed_refusals() -> tuple[Refusal, ...]:
    """What DeepSpeed's config takes alone but not together."""
    rows = cast("list[Row]", load("deepspeed-refusals", REFUSAL_FILES))
    return tuple(_refusal(row) for row in rows)


def _refusal(row: Row) -> Refusal:
    when = {path: _several(values) for path, values in cast("Row", row["when"]).items()}
    below, since = cast("dict[str, float]", row.get("below", {})), str(row.get("since", ""))
    return Refusal(str(row["key"]), str(row["expected"]), when, below, since)


Row = dict[str, object]


@cache
def _file() -> dict[str, dict[str, object]]:
    table = load("framework-defaults", DEFAULTS_FILES)
    return cast("dict[str, dict[str, object]]", table)


@cache
def _names() -> dict[str, str]:
    return {framework: str(entry["tool"]) for framework, entry in _file().items()}


@cache
def _table(framework: str) -> dict[str, tuple[Default, ...]]:
    """The defaults of one framework, over those of the one that it is like."""
    entry = _file().get(framework)
    if entry is None:
        return {}
    return {**(_table(str(entry["like"])) if "like" in entry else {}), **_own(entry)}


def _own(entry: dict[str, object]) -> dict[str, tuple[Default, ...]]:
    settings = cast("dict[str, object]", entry["settings"])
    return {name: tuple(_default(row, entry) for row in _alternatives(rows)) for name, rows in settings.items()}


def _alternatives(rows: object) -> list[Row]:
    """A setting's entry is a bare value, one row, or a list of rows."""
    if isinstance(rows, list):
        return [row if isinstance(row, dict) else {"value": row} for row in rows]
    return [rows if isinstance(rows, dict) else {"value": rows}]


def _default(row: Row, entry: Row) -> Default:
    when = {setting: _several(value) for setting, value in cast("Row", row.get("when", {})).items()}
    since, until = str(row.get("since", "")), str(row.get("until", ""))
    source, package = str(row.get("source", entry["source"])), str(row.get("package", entry.get("package", "")))
    return Default(_plain(row["value"]), when, since, until, str(entry["tool"]), source, package)


def _several(value: object) -> tuple[Plain, ...]:
    return tuple(value) if isinstance(value, list) else (_plain(value),)


def _plain(value: object) -> Plain:
    return tuple(value) if isinstance(value, list) else cast("Plain", value)
