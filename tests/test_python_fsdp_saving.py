"""Where a program asks FSDP1 for the whole state of a model, and where that state is kept."""

from __future__ import annotations

import pytest

from dtlint.frameworks.code import trainer_states
from dtlint.frameworks.pytorch.fsdp_saving import full_states
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value, default

IMPORTS = "from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType\n"


def states(text: str) -> list[dict[str, object]]:
    members = full_states(link({"train": read_module(Source("train.py", IMPORTS + text))}))
    return [
        {name: value.value for name, value in member.fields.items() if isinstance(value, Value)} for member in members
    ]


@pytest.mark.parametrize(
    ("text", "offloads", "rank0_only"),
    [
        ("FullStateDictConfig()", False, False),
        ("FullStateDictConfig(offload_to_cpu=True, rank0_only=True)", True, True),
        ("FullStateDictConfig(True)", True, False),
        ("FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT)", False, False),
        ("with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):\n    model.state_dict()", False, False),
    ],
)
def test_a_full_state_stays_on_every_gpu_unless_it_is_said_otherwise(
    text: str, offloads: bool, rank0_only: bool
) -> None:
    assert states(text) == [{"offloads": offloads, "rank0_only": rank0_only}]


def test_a_config_that_is_passed_speaks_for_the_call() -> None:
    text = "c = FullStateDictConfig(True, True)\nFSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, c)"
    assert states(text) == [{"offloads": True, "rank0_only": True}]


@pytest.mark.parametrize("text", ["FSDP.set_state_dict_type(model, StateDictType.SHARDED_STATE_DICT)", "FSDP(model)"])
def test_nothing_is_listed_where_nothing_is_gathered(text: str) -> None:
    assert states(text) == []


CLASS = "class Manager:\n    def __init__(self, model):\n        FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT)\n"
WITH = "    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):\n        "


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CLASS + "    def send(self):\n        self.engine.update_weights(self.model.state_dict())\n", 0),
        (
            CLASS + "    def send(self):\n        state = self.model.state_dict()\n        sync_model_weights(state)\n",
            0,
        ),
        (CLASS + "    def keep(self):\n        return self.model.state_dict()\n", 1),
        (CLASS + "    def keep(self):\n        torch.save(self.model.state_dict())\n        load_weights()\n", 1),
        (f"def resume(model):\n{WITH}model.load_state_dict(torch.load(path))\n", 0),
        (f"def keep(model):\n{WITH}return model.state_dict()\n", 1),
        (f"def keep(model):\n{WITH}return model.state_dict()\ndef back(model):\n    model.load_state_dict(x)\n", 1),
    ],
)
def test_a_state_that_is_sent_or_loaded_is_not_saved(text: str, count: int) -> None:
    assert len(states(text)) == count


TRAINER = "import torch\nfrom transformers import Trainer\n"
MADE = "trainer = Trainer(model=model)\ntrainer.train()\n"


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (f"{TRAINER}{MADE}torch.save(trainer.model.state_dict(), 'x')\n", ["trainer"]),
        (f"{TRAINER}def save(t):\n    torch.save(t.model.state_dict(), 'x')\n{MADE}save(trainer)\n", ["trainer"]),
        (
            f"{TRAINER}class Mine(Trainer):\n    def save_model(self, folder):\n"
            "        torch.save(self.model.state_dict(), folder)\ntrainer = Mine(model=model)\ntrainer.train()\n",
            ["trainer"],
        ),
        ("model = FSDP(net)\ntorch.save(model.state_dict(), 'x')\n", ["own"]),
        ("model = FSDP(net)\ntorch.save(net.other.state_dict(), 'x')\n", []),
        (f"{TRAINER}torch.save(net.model.state_dict(), 'x')\n", []),
        (f"{TRAINER}{MADE}engine.update_weights(trainer.model.state_dict())\n", []),
        (
            f"{TRAINER}{MADE}with FSDP.state_dict_type(trainer.model, StateDictType.FULL_STATE_DICT, "
            "FullStateDictConfig(True, True)):\n    torch.save(trainer.model.state_dict(), 'x')\n",
            [],
        ),
    ],
)
def test_a_state_that_nothing_says_where_to_gather_stays_on_every_gpu(text: str, by: list[str]) -> None:
    found = trainer_states.read(link({"train": read_module(Source("train.py", IMPORTS + text))}))
    members = [member.fields for member in found.collections.get("code.full_states", ())]
    assert [each["by"].value for each in members if isinstance(each["by"], Value)] == by
    assert all(each[name] == default(False, "PyTorch") for each in members for name in ("offloads", "rank0_only"))
