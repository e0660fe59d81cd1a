"""The trees of shipped expressions: what the rules bring along is what the grammar reads."""

from __future__ import annotations

import json

import pytest

from dtlint.rulebook.grammar import parse
from dtlint.rulebook.load import shipped_trees
from dtlint.rulebook.trees import packed, tree_of, unpacked

TEXTS = (
    "parallel.pipeline > 1",
    "0 < batch.micro <= 8 and batch.micro not in [3, 5, ()]",
    "-limits.bubble * 2 if not given(batch.global) else none",
    "framework in ['Name', \"Call\"] or model.name == 'x'",
    "max(1, batch.global // parallel.data) % 2 == 0",
    "true",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_tree_comes_back_from_json_as_it_was(text: str) -> None:
    tree = parse(text)
    assert unpacked(json.loads(json.dumps(packed(tree)))) == tree


def test_the_shipped_trees_are_those_of_the_grammar() -> None:
    assert {text: tree_of(text) for text in shipped_trees()} == {text: parse(text) for text in shipped_trees()}
