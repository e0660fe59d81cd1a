"""Reads dtlint.toml, or [tool.dtlint] in pyproject.toml, into a Config."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

from dtlint.config import Config, ConfigError, share, top_of
from dtlint.config_schema import Fault, Toml, faults, line_of, suggestion
from dtlint.plan import Misfit
from dtlint.plan.vocabulary import fit, term
from dtlint.source import Unreadable, read_source
from dtlint.value import Plain, Value, given

EXPECTATION = "plan-departs"
"""The rule about [expect]."""


def read_config(file: Path, path: str, cluster: str = "") -> Config:
    """The config in `file`, called `path` in messages; ConfigError for what is not whole, with its line.

    `cluster` names the table that counts for every file, whatever the file itself says.
    """
    try:
        text = read_source(file, path).text
    except Unreadable as error:
        raise ConfigError(path, 1, error.reason) from None
    return parse_config(text, path, file.resolve().parent, cluster)


def parse_config(text: str, path: str, folder: Path, cluster: str = "") -> Config:
    """The config in a text that stands, or stood, in `folder` under the name that `path` ends with."""
    prefix = ("tool", "dtlint") if path.endswith("pyproject.toml") else ()
    table = _table(text, path, prefix)
    if cluster:
        table = {**table, "cluster": cluster, "clusters": _without_paths(table)}
    fault = next(_all_faults(table, folder), None)
    if fault is not None:
        raise ConfigError(path, line_of(text, (*prefix, *fault.keys)), fault.message)
    return _config(table, path, folder)


def _without_paths(table: dict[str, Toml]) -> dict[str, Toml]:
    """The clusters, none of them chosen by the path of a file."""
    return {
        name: {key: value for key, value in cast("dict[str, Toml]", entry).items() if key != "paths"}
        for name, entry in _tables(table, "clusters").items()
    }


def _table(text: str, path: str, prefix: tuple[str, ...]) -> dict[str, Toml]:
    from dtlint.deep_keys import deep_key

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if (deep := deep_key(text)) is not None:
        raise ConfigError(path, text.count("\n", 0, deep) + 1, "not TOML that is read: a key is nested too deeply")
    try:
        table = cast("dict[str, Toml]", tomllib.loads(text))
    except ValueError as error:
        raise ConfigError(path, _line_in(str(error)), f"not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(path, 1, "not TOML: nested too deeply") from None
    for key in prefix:
        inner = table.get(key, {})
        table = inner if isinstance(inner, dict) else {}
    return table


def _line_in(message: str) -> int:
    words = message.replace(",", " ").replace(")", " ").split()
    return next((int(after) for word, after in pairwise(words) if word == "line" and after.isdecimal()), 1)


def _all_faults(table: dict[str, Toml], folder: Path) -> Iterator[Fault]:
    """What is wrong, that of the form first: what comes later takes the form for granted."""
    yield from faults(table)
    yield from _cluster_faults(table)
    yield from _misfits(table)
    yield from _share_faults(table)
    yield from _strayed(table, folder)


def _share_faults(table: dict[str, Toml]) -> Iterator[Fault]:
    try:
        share(str(table.get("fail-over", 0)))
    except ValueError as error:
        yield Fault(("fail-over",), str(error))


def _strayed(table: dict[str, Toml], folder: Path) -> Iterator[Fault]:
    """Folders of rules that lie outside of the work tree: a change of the file may come from a stranger."""
    top = top_of(folder.resolve())
    for name in _words(table, "rule-folders"):
        if "\0" in name or not (folder / name).resolve().is_relative_to(top):
            yield Fault(("rule-folders",), f"{name} lies outside of the repository; to use it, give it to --rules")


def _cluster_faults(table: dict[str, Toml]) -> Iterator[Fault]:
    name, clusters = table.get("cluster"), _tables(table, "clusters")
    if isinstance(name, str) and name not in clusters:
        yield Fault(("cluster",), f"no [clusters.{name}] table{suggestion(name, clusters)}")


def _misfits(table: dict[str, Toml]) -> Iterator[Fault]:
    """Values that the vocabulary refuses, in [settings], [expect] and in every [clusters] table."""
    for cluster, machines in _tables(table, "clusters").items():
        for key, value in _machines(machines).items():
            yield from _misfit(("clusters", cluster, key), f"cluster.{key}", value)
    for part in ("settings", "expect"):
        for name, value in _flat(_tables(table, part)):
            yield from _misfit((part, *_keys(_tables(table, part), name)), name, value)


def _misfit(keys: tuple[str, ...], name: str, value: Toml) -> Iterator[Fault]:
    try:
        fit(term(name), _plain(value))
    except Misfit as error:
        yield Fault(keys, str(error))


def _keys(table: dict[str, Toml], name: str) -> tuple[str, ...]:
    return (name,) if name in table else tuple(name.split("."))


def _config(table: dict[str, Toml], path: str, folder: Path) -> Config:
    cluster, ignores = _chosen_cluster(table), _tables(table, "per-file-ignores")
    over = table.get("fail-over")
    return Config(
        path,
        folder,
        _cluster(cluster, path),
        {name: given(_plain(value), path) for name, value in _flat(_tables(table, "settings"))},
        tuple(folder / name for name in _words(table, "rule-folders")),
        _words(table, "select"),
        _words(table, "ignore"),
        str(table.get("fail-on", "error")),
        None if over is None else share(str(over)),
        dict(_limits(table)),
        _severities(table),
        tuple((pattern, _words(ignores, pattern)) for pattern in ignores),
        {name: given(_plain(value), path) for name, value in _flat(_tables(table, "expect"))},
        tuple(_by_path(table, path)),
        _words(table, "run"),
    )


def _severities(table: dict[str, Toml]) -> dict[str, str]:
    """The severities that the team states; what it expects of plans is an error unless it says otherwise."""
    stated = {rule: str(entry["severity"]) for rule, entry in _rules(table).items() if "severity" in entry}
    return {**({EXPECTATION: "error"} if "expect" in table else {}), **stated}


def _by_path(table: dict[str, Toml], path: str) -> Iterator[tuple[str, dict[str, Value]]]:
    """The clusters whose table says which files run on them, by pattern."""
    for entry in _tables(table, "clusters").values():
        for pattern in _words(cast("dict[str, Toml]", entry), "paths"):
            yield pattern, _cluster(entry, path)


def _cluster(entry: Toml, path: str) -> dict[str, Value]:
    return {f"cluster.{key}": given(_plain(value), path) for key, value in _machines(entry).items()}


def _machines(entry: Toml) -> dict[str, Toml]:
    """The keys of a cluster that are about its machines."""
    return {key: value for key, value in cast("dict[str, Toml]", entry).items() if key != "paths"}


def _chosen_cluster(table: dict[str, Toml]) -> dict[str, Toml]:
    """The cluster that the file names, or the only one that is for all files."""
    clusters = _tables(table, "clusters")
    everywhere = [name for name, entry in clusters.items() if "paths" not in cast("dict[str, Toml]", entry)]
    name = table.get("cluster", everywhere[0] if len(everywhere) == 1 else None)
    return cast("dict[str, Toml]", clusters.get(str(name), {}))


def _limits(table: dict[str, Toml]) -> Iterator[tuple[str, float]]:
    for rule, entry in _rules(table).items():
        for limit, value in cast("dict[str, float]", entry.get("limits", {})).items():
            yield f"{rule}.{limit}", value
    for name, number in _flat(_tables(table, "limits")):
        yield name, cast("float", number)


def _rules(table: dict[str, Toml]) -> dict[str, dict[str, Toml]]:
    return cast("dict[str, dict[str, Toml]]", _tables(table, "rules"))


def _tables(table: dict[str, Toml], key: str) -> dict[str, Toml]:
    found = table.get(key, {})
    return found if isinstance(found, dict) else {}


def _words(table: dict[str, Toml], key: str) -> tuple[str, ...]:
    return tuple(cast("list[str]", table.get(key, [])))


def _flat(table: dict[str, Toml], prefix: str = "") -> Iterator[tuple[str, Toml]]:
    """The values of nested tables under their dotted names: `model.layers = 32` may be written quoted or not."""
    for key, value in table.items():
        if isinstance(value, dict) and not _takes_table(prefix + key):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _takes_table(name: str) -> bool:
    try:
        return term(name).type == "map"
    except Misfit:
        return False


def _plain(value: Toml) -> Plain:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return cast("Plain", value)
