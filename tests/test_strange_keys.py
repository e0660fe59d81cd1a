"""Keys that a front end does not have: misspelt, or called by another front end's name."""

import pytest

from dtlint.catalog.front_end_keys import front_end_keys
from dtlint.catalog.torchtitan_keys import torchtitan_keys
from dtlint.frameworks.strange_keys import strange_keys
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source


def found(text: str, front_end: str) -> list[tuple[object, ...]]:
    members = strange_keys([read_yaml(Source("c.yaml", text))], front_end, "ignored", lambda key: key.replace("-", "_"))
    return [tuple(member.fields[name].value for name in ("key", "suggestion", "belongs")) for member in members]


@pytest.mark.parametrize(
    ("text", "front_end", "expected"),
    [
        ("lora_rank: 16\n", "axolotl", [("lora_rank", "lora_r", "")]),
        ("gradient_acumulation_steps: 2\n", "axolotl", [("gradient_acumulation_steps", "gradient_accumulation_steps", "")]),
        ("max_seq_length: 4096\nsequence_len: 2048\n", "axolotl", [("max_seq_length", "", "sequence_len")]),
        ("lora_r: 16\nour_plugin_of_our_own: 1\n", "axolotl", []),
        ("checkpoint-activation: true\n", "gpt-neox", [("checkpoint-activation", "checkpoint_activations", "")]),
        ("checkpoint-activations: true\n", "gpt-neox", []),
        ("evo_style_layers: true\n", "gpt-neox", []),
    ],
)  # fmt: skip
def test_a_key_that_resembles_one_or_has_another_front_ends_name(text, front_end, expected):
    assert found(text, front_end) == expected


@pytest.mark.parametrize("front_end", ["axolotl", "gpt-neox", "torchtitan"])
def test_other_names_lead_to_keys_that_exist(front_end):
    keys = front_end_keys(front_end)
    known = keys.known or {f"{section}.{name}" for section, names in torchtitan_keys().items() for name in names}
    assert keys.stands_for
    assert set(keys.stands_for.values()) <= set(known)
    assert not keys.stands_for.keys() & set(known)
