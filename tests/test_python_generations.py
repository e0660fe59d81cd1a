"""Texts that models inside a LightningModule, or of a Fabric, generate while DeepSpeed shards their weights."""

from __future__ import annotations

import pytest
from python_texts import program_of

from dtlint.frameworks import code
from dtlint.value import Value


def found(text: str) -> list[str]:
    """The calls that may leave the ranks on their own, and how."""
    members = code.collections(program_of(HANDED, text)).get("code.zero_generations", ())
    return [str(value.value) for item in members for value in item.fields.values() if isinstance(value, Value)]


HANDED = """
import torch
import lightning.pytorch as pl
import transformers
from transformers import AutoModelForCausalLM, T5ForConditionalGeneration
from peft import get_peft_model
from net import Net, adapter
"""
MODULE = """
class Summary(pl.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.model = {model}
        {more}

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def validation_step(self, batch, index):
        ids = {call}

pl.Trainer(devices=4, strategy="deepspeed_stage_3").fit(Summary("gpt2"))
"""
CAPTIONER = """
class Captioner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = AutoModelForCausalLM.from_pretrained("gpt2")

    def caption(self, x):
        return self.decoder.generate(x, max_new_tokens=30)
"""
OWN_GENERATE = """
class Own(T5ForConditionalGeneration):
    def generate(self, x, **options):
        return super().generate(x, synced_gpus=gathers(), **options)
"""
FABRIC = """
from lightning.fabric import Fabric
fabric = Fabric(devices=4, strategy="deepspeed_stage_3")
model, optimizer = fabric.setup(AutoModelForCausalLM.from_pretrained("gpt2"), optimizer)
model.generate(x, max_new_tokens=9)
"""


def module(model: str, call: str, more: str = "pass") -> str:
    return MODULE.format(model=model, call=call, more=more)


AUTO, BY_MODEL = "AutoModelForCausalLM.from_pretrained(name)", "self.model.generate(batch['ids'], max_new_tokens=9)"
IN_MODULES = {
    "of a model by its name": (module(AUTO, BY_MODEL), ["self.model.generate", "absent"]),
    "of a package": (
        module("transformers.AutoModelForSeq2SeqLM.from_config(name)", BY_MODEL),
        ["self.model.generate", "absent"],
    ),
    "with adapters": (module(f"get_peft_model({AUTO}, adapter)", BY_MODEL), ["self.model.generate", "absent"]),
    "under a name": (module(AUTO, "0; model = self.model; model.generate(batch['ids'])"), ["model.generate", "absent"]),
    "of a class of one's own": (
        "class Own(T5ForConditionalGeneration):\n    pass\n" + module("Own.from_pretrained(name)", BY_MODEL),
        ["self.model.generate", "absent"],
    ),
    "of a module inside": (
        CAPTIONER + module("Captioner()", "self.model.caption(batch['ids'])"),
        ["self.decoder.generate", "absent"],
    ),
    "of a module that nothing holds": (
        CAPTIONER + module(AUTO, "Captioner().caption(batch['ids'])"),
        [],
    ),
    "of a class with its own generate": (OWN_GENERATE + module("Own.from_pretrained(name)", BY_MODEL), []),
    "of a model from elsewhere": (module("Net()", BY_MODEL), []),
    "together": (module(AUTO, "self.model.generate(batch['ids'], synced_gpus=True)"), []),
    "of one length": (module(AUTO, "self.model.generate(batch['ids'], min_length=9, max_length=9)"), []),
    "with options out of sight": (module(AUTO, "self.model.generate(batch['ids'], **self.hparams.options)"), []),
    "by a Fabric": (FABRIC, ["model.generate", "absent"]),
    "by a Fabric that told Transformers": (
        "from transformers.integrations import HfDeepSpeedConfig\n" + FABRIC,
        ["model.generate", "told"],
    ),
}


@pytest.mark.parametrize(("text", "names"), IN_MODULES.values(), ids=IN_MODULES)
def test_generation_in_what_lightning_hands_to_deepspeed(text: str, names: list[str]) -> None:
    assert found(text) == names


def test_a_module_of_another_library_is_not_handed_to_deepspeed_by_lightning() -> None:
    text = module(AUTO, BY_MODEL).replace("pl.LightningModule", "torch.nn.Module")
    assert found(text) == []
