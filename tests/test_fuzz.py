"""The fuzzer finds nothing in a short run, and what it found once stays mended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from fuzz import fuzz, seeds_of
from fuzz_readers import READERS, TURNS

FOUND = {
    "a JSON text given up at a comma": ("json", "[" + "1 " * 200),
    "a JSON text given up at a key": ("json", "{" + "'a'1 " * 200),
    "digits without end in TOML": ("toml", "a = " + "9" * 5000),
    "digits without end in dtlint.toml": ("dtlint.toml", "fail-over = " + "9" * 5000),
    "a dotted key without end": ("toml", "a." * 1000 + "b = 1"),
    "dotted keys without end": ("toml", "a." * 75_000),
    "a dotted key without end in dtlint.toml": ("dtlint.toml", "a . 'b'." * 20_000),
    "an array that grows by one, line after line": ("shell", "a+=(b)\n" * 30_000 + "torchrun a.py"),
    "elements that are set, line after line": ("shell", "".join(f"a[{n}]=1\n" for n in range(10_000))),
    "braces without end": ("shell", "torchrun " + "{1..9}" * 20_000),
    "many words of braces": ("shell", "torchrun " + "{1..999} " * 2_000),
    "a value where a cluster has to be": ("dtlint.toml", 'rule-folders = ["ours"]\n[clusters]\ngpu = "H100"\n'),
    "a baseline nested deeply": ("baseline", "[" * 100_000),
    "a table for an expression": ("house-rule", "id: DT999\nname: a\nwhen: {a: 1}\n~: 1\n"),
    "accelerators without end": ("manifest", f"resources:\n  accelerators: A100:{'9' * 400}\nrun: torchrun a.py\n"),
    "an argument's number without end": ("shell", "torchrun ${" + "9" * 5000 + "} $\u00b2 ${\u00b2}"),
    "substitutions never closed, line after line": ("shell", ('torchrun --a"' + '$("' * 5 + " 1 \\\n") * 20),
    "a superscript for an index": ("shell", "declare -A a=([\u00b2]=1); a+=(x); torchrun ${a[@]} ${a[-\u00b2]}"),
    "the sign of unknown text, written": ("shell", "torchrun $((\ue000)) ${a[\ue000]} $((\ue000+$x))\na=1\ue000; echo $((a+$y))"),
    "an escape without digits in a notebook": ("notebook", r'{"cells": [{"cell_type": "code", "source": "a \u b \uZZ"}]}'),
    "a config that ends where a fix inserts": ("fix-json", '{"train_micro_batch_size_per_gpu": 1,\n "zero_optimization": {'),
}  # fmt: skip


@pytest.mark.parametrize(("reader", "text"), FOUND.values(), ids=FOUND)
def test_what_was_found_is_mended(reader: str, text: str) -> None:
    READERS[reader][1](text)


def test_a_short_run_finds_nothing() -> None:
    light = {name: reader for name, reader in READERS.items() if name not in TURNS}
    outcome = fuzz(light, seeds_of([Path(__file__).parents[1] / "fixtures"]), 1, 1)
    assert outcome.met == {}
    assert outcome.inputs.keys() == light.keys()
