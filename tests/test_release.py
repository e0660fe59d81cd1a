"""Releases of a package are compared number by number, one by one or as ranges."""

from __future__ import annotations

import pytest

from dtlint.release import both, older, releases, shown, spelled


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("0.9.5", "0.9.5"),
        ("==0.9.5", "0.9.5"),
        ("== 2.1.0+cu118", "2.1"),
        ("v0.19.3rc1", "0.19.3"),
        (">=0.9,<0.12", ">=0.9,<0.12"),
        ("<0.12, >= 0.9.0", ">=0.9,<0.12"),
        (">=0.9, !=0.9.1", ">=0.9"),
        ("<=0.12.1", "<=0.12.1"),
        ("~=2.1", ">=2.1,<3.0"),
        ("~=2.1.3", ">=2.1.3,<2.2"),
        ("==2.1.*", ">=2.1,<2.2"),
        ("=2.1", ">=2.1,<2.2"),
        ("=2.1.2", ">=2.1.2,<2.1.3"),
        ("^1.2.3", ">=1.2.3,<2.0"),
        ("^0.9.5", ">=0.9.5,<0.10"),
        ("~1.2.3", ">=1.2.3,<1.3"),
    ],
)
def test_meaning(text: str, meaning: str) -> None:
    found = releases(text)
    assert found is not None
    assert shown(found) == meaning


@pytest.mark.parametrize("text", ["", "latest", "main", ">=0.12,<0.9", "git+https://x/y", "*", ">="])
def test_what_is_no_version(text: str) -> None:
    assert releases(text) is None


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("0.9", "0.10", True),
        ("0.10", "0.9", False),
        ("0.9", "0.9.0", False),
        (">=0.9,<0.12", "0.19.3", True),
        (">=0.9,<0.12", "0.12", True),
        (">=0.9,<=0.12", "0.12", None),
        (">=0.9,<0.12", "0.9", False),
        (">=0.9", "0.19.3", None),
        ("0.8", ">=0.9", True),
        ("0.12", ">=0.9,<0.12", False),
        ("0.10", ">=0.9,<0.12", None),
    ],
)
def test_older(one: str, other: str, verdict: bool | None) -> None:
    first, second = releases(one), releases(other)
    assert first is not None and second is not None
    assert older(first, second) is verdict


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [(">=0.9", "<0.12", ">=0.9,<0.12"), ("0.10", ">=0.9,<0.12", "0.10"), ("0.8", ">=0.9", None), ("<1", ">=1", None)],
)
def test_both(one: str, other: str, common: str | None) -> None:
    first, second = releases(one), releases(other)
    assert first is not None and second is not None
    found = both(first, second)
    assert (shown(found) if found is not None else None) == common


@pytest.mark.parametrize(
    ("text", "spelling"),
    [("==2.1.0+cu118", "2.1.0"), ("v0.19.3rc1", "0.19.3"), ("~=2.1.0", ">=2.1,<2.2"), ("latest", None)],
)
def test_one_release_is_spelled_as_written(text: str, spelling: str | None) -> None:
    assert spelled(text) == spelling
