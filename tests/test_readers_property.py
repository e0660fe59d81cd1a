"""Readers never raise, whatever text they are given, and every place that they name lies inside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.frameworks.hostfile import read_hostfile
from dtlint.frameworks.requirements import _READERS, read_requirements
from dtlint.languages.toml import read_toml
from dtlint.languages.yaml import read_yaml
from dtlint.release import releases
from dtlint.rulebook.ignores import _of
from dtlint.source import Source, Span
from dtlint.value import Value

SIGNS = st.sampled_from([
    "torch", "deepspeed", "==", ">=", "2.4", ",", "[", "]", "\n", " ", "\t", "name = ", '"', "'", "slots=", "8", "#", "-", ":", "FROM ",
    "host-1 slots=8\n", "torch==2.4\n", "a = 1\n", "a: 1\n", "# dtlint: ignore[DT301] x\n", "RUN pip install ", "\\", "[project]", "\r\n", "\ue000", "\0", "\u2028", "dtlint: ignore[", "{", "}", "{{", "${", ".", "a",
])  # fmt: skip
TEXTS = st.lists(SIGNS | st.characters(exclude_categories=("Cs",)), max_size=25).map("".join)


def _hostfile(source: Source) -> Iterator[Span]:
    found = read_hostfile(source)
    yield from (span for host in found.hosts for span in (host.place, host.digits))
    yield from (defect.place for defect in found.defects)


def _requirements(source: Source) -> Iterator[Span]:
    for kind in _READERS:
        claims = read_requirements(source, kind).claims
        yield from (
            claim.value.origin.span for claim in claims if isinstance(claim.value, Value) and claim.value.origin.span
        )


def _toml(source: Source) -> Iterator[Span]:
    document = read_toml(source)
    yield from (problem.span for problem in document.problems)
    yield from (entry.place for entry in (document.root.entries if document.root is not None else ()))


def _yaml(source: Source) -> Iterator[Span]:
    yield from (problem.span for problem in read_yaml(source).problems)


def _ignores(source: Source) -> Iterator[Span]:
    yield from (ignore.span for ignore in _of(source))


@pytest.mark.parametrize("read", [_hostfile, _requirements, _toml, _yaml, _ignores])
@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_a_reader_names_places_inside_of_the_text(read: Callable[[Source], Iterator[Span]], text: str) -> None:
    for span in read(Source("a", text)):
        assert 0 <= span.start <= span.end <= len(text)


@given(st.text(alphabet="0123456789.,<>=~!^*v ab", max_size=20))
@settings(max_examples=100, deadline=None)
def test_a_release_is_read_or_not(text: str) -> None:
    found = releases(text)
    assert found is None or found.high is None or found.low <= found.high
