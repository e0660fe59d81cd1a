"""No text makes a regular expression of the package backtrack: its time grows with the length, not with its square."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from pattern_attacks import Use, attacks, uses

from dtlint.frameworks import requirements, torchrun_values
from dtlint.languages import json_tokens
from dtlint.languages.shell import meanings
from dtlint.languages.shell.patterns import affordable, compiled, glob_pattern, posix_pattern
from dtlint.languages.shell.state import World
from dtlint.runs.called_elsewhere import building, calling, setting
from dtlint.source import Source

LENGTH = 16_000
SECONDS = 0.15
"""Processor time for a text of LENGTH: what is linear takes 80 milliseconds at most, what is quadratic 200 and more; both
take longer on a busy machine.
"""

FOUND, ASSEMBLED = uses()
OF_DATA = {
    "dtlint.frameworks.deepspeed.types: form": (),
    "dtlint.frameworks.stage_cuts: pattern": (r"\(([^()]{1,200})\)\*(\d{1,4})", r"([A-Za-z|])\*(\d{1,4})"),
    "dtlint.frameworks.requirements: f'(?m)^{part} = (\\\\d+)'": (r"(?m)^MAJOR = (\d+)",),
    "dtlint.frameworks.requirements: pattern": tuple(pattern for pattern, _ in requirements._NAMES),
    "dtlint.frameworks.torchrun_values: pattern": tuple(pattern for pattern, _ in torchrun_values._PATTERNS.values()),
    "dtlint.languages.json_tokens: _QUOTED[text[start]]": tuple(json_tokens._QUOTED.values()),
    "dtlint.languages.shell.meanings: pattern": tuple(pattern for pattern, _ in meanings.OUTPUTS),
    "dtlint.languages.shell.patterns: pattern": (),
    "dtlint.languages.shell.sed: re.escape('\\\\' + delimiter)": (r"\\/",),
    "dtlint.runs.called_elsewhere: pattern": (calling("keep"), building("Trainer"), setting("step")),
    "dtlint.languages.shell.substitutions: '\\\\\\\\[`$\\\\\\\\\"]' if quoted else '\\\\\\\\[`$\\\\\\\\]'": (
        r'\\[`$\\"]',
    ),
}
"""The patterns that a run takes from tables, by where; () where they come from the package's own data about types, or
from a script, whose patterns have a bound of their own (below).
"""
FULL = ("dtlint.frameworks.requirements: pattern", "dtlint.frameworks.torchrun_values: pattern")
BOUNDED = {
    "dtlint.languages.shell.meanings: pattern": meanings.MAX_COMMANDS,
    "dtlint.frameworks.requirements: pattern": 255,
}
"""How long the texts are at most that the patterns of a table see: commands that ask the cluster, names of files."""


class Slow(BaseException):
    """A match that takes longer than it may."""


@pytest.mark.parametrize("use", FOUND, ids=[f"{place} {use.method}" for use, place in FOUND.items()])
def test_a_pattern_takes_linear_time(use: Use) -> None:
    assert slow_text(use, LENGTH) == ""


def test_what_is_assembled_is_looked_at() -> None:
    assert OF_DATA.keys() == ASSEMBLED


@pytest.mark.parametrize("place", OF_DATA)
def test_a_pattern_of_a_table_takes_linear_time(place: str) -> None:
    method = "fullmatch" if place in FULL else "finditer"
    for pattern in OF_DATA[place]:
        assert slow_text(Use(pattern, 0, method), BOUNDED.get(place, LENGTH)) == ""


def test_the_patterns_of_requirement_files_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(requirements, "_names", lambda: "torch|deepspeed")
    compile_ = re.compile
    monkeypatch.setattr(re, "compile", lambda pattern, flags=0: seen.append(pattern) or compile_(pattern, flags))
    for kind in requirements._READERS:
        requirements.read_requirements(Source("r", "[build-system]\nRUN pip install a\n"), kind)
    monkeypatch.undo()
    assert len(seen) > 5
    for pattern in seen:
        assert slow_text(Use(pattern, re.IGNORECASE, "finditer"), LENGTH) == ""


@pytest.mark.parametrize("pattern", [r"(?:[-_]\w+)*$", r"(a+)+$", r"\s*x?\s*$", r"(?:a|a)*b", r"\w+=", r"\[[^\]]*\]"])
def test_a_pattern_that_backtracks_is_found(pattern: str) -> None:
    assert slow_text(Use(pattern, 0, "finditer"), 2 * LENGTH) != ""


class TestPatternsOfScripts:
    """What `sed`, `grep`, `case` and `${x//y/}` of a script ask for is bounded before it is matched."""

    @pytest.mark.parametrize("expression", [
        "((a+)b?)*c", "(a?){30}a{30}", "a?" * 40 + "a" * 40, "(a|a)" * 40 + "b", "(a|aa)+$", "((a|b)*c)*", "(.*a){12}",
        r"(a*)*\1b", "a*" * 12 + "b", "(((a*)))*b",
    ])  # fmt: skip
    def test_one_that_backtracks_without_end_is_not_followed(self, expression: str) -> None:
        assert not affordable(world(), posix_pattern(expression, "E"), 40)

    def test_one_that_is_dear_on_a_long_text_is_not_followed(self) -> None:
        assert affordable(world(), "a*b", 1_000)
        assert not affordable(world(), "a*b", 100_000)
        assert affordable(world(), "abc|def", 1_000_000)

    @pytest.mark.parametrize("expression", ["s/\\(.*\\)=\\(.*\\)", "foo|bar|baz", "^[0-9]+$", "(ab)+c?", "[^/]*$"])
    def test_what_scripts_write_is_followed(self, expression: str) -> None:
        assert affordable(world(), posix_pattern(expression, "E"), 30)
        assert affordable(world(), glob_pattern("*.{json,yaml}"), 200)

    def test_a_script_has_a_budget(self) -> None:
        way = world()
        assert [affordable(way, "a*b", 2_000) for _ in range(40)].count(True) == way_budget() // 2001**2
        assert compiled(way, "a*b") is None

    def test_a_long_pattern_is_not_compiled(self) -> None:
        assert compiled(world(), "a" * 10_000) is None


def way_budget() -> int:
    return world().match_steps


def world() -> World:
    from dtlint.languages.shell.state import Given

    return World(Given({}, {}, lambda path: None, {}), Source("a.sh", ""), frozenset(), (), 1)


def slow_text(use: Use, length: int) -> str:
    """A text that takes too long, shortened, "" if none does; looked at thrice, since other programs share the machine."""
    method = getattr(re.compile(use.pattern, use.flags), use.method)
    signal.signal(signal.SIGPROF, _slow)
    texts = attacks(use.pattern, use.flags, length)
    slow = (text for text in texts if all(_time(method, use, text) > SECONDS for _ in range(3)))
    return next(slow, "")[:40]


def _time(method: object, use: Use, text: str) -> float:
    start = time.process_time()
    with suppress(Slow), _limited():
        result = method(text)  # type: ignore[operator]
        for _ in result if use.method == "finditer" else ():
            pass
    return time.process_time() - start


@contextmanager
def _limited() -> Iterator[None]:
    """At most a fifth of a second of processor time, then Slow, be it on the way out."""
    signal.setitimer(signal.ITIMER_PROF, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _slow(number: int, frame: object) -> None:
    raise Slow
