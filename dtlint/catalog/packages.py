"""Packages whose releases the plan knows: the names that files give them, and the images that bring them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from dtlint.compiled import load
from dtlint.release import older, releases

PACKAGE_FILES = (Path(__file__).parent / "data" / "packages.yaml",)


def package(name: str) -> str:
    """What settings call the package of that name on PyPI or in conda (`megatron_core`); "" for any other."""
    return _table()["names"].get(re.sub(r"[-_.]+", "-", name).lower(), "")


def package_names() -> tuple[str, ...]:
    """The names of all packages that the plan knows."""
    return tuple(_table()["names"])


def in_doubt(name: str, since: str) -> bool:
    """Whether a run without any pin of a package may have a release before `since`."""
    oldest, limit = releases(_table()["oldest"].get(name, "0")), releases(since)
    return oldest is None or limit is None or older(oldest, limit) is not False


def image_release(image: str) -> tuple[str, str] | None:
    """The package and the release of it that a container image brings (`pytorch/pytorch:2.1.0-cuda12.1`), None where
    its name and tag do not tell.
    """
    path, _, tag = re.sub(r"^(docker|dockerd|oras)://", "", image).replace("#", "/").rpartition(":")
    repository = path.removeprefix("docker.io/")
    packed = re.match(r"v(\d)(\d)(\d)(?=_)", tag) if repository in _table()["packed"] else None
    if packed is not None:
        return _table()["packed"][repository], ".".join(packed.groups())
    release = re.match(r"v?(\d+\.\d+(?:\.\d+)?)(?=-|$)", tag)
    if release is None:
        return None
    if repository == "nvcr.io/nvidia/pytorch":
        found = _table()["nvidia"].get(release[1])
        return ("torch", found) if found is not None else None
    brought = _table()["tagged"].get(repository)
    return (brought, release[1]) if brought is not None else None


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    return cast("Mapping[str, Mapping[str, str]]", load("packages", PACKAGE_FILES))
