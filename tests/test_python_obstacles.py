"""What stands against recomputation in programs on Transformers: `code.obstacles`, `checkpointing.reentrant`."""

from __future__ import annotations

import pytest

from dtlint.frameworks.pytorch import program as pytorch
from dtlint.frameworks.transformers import program as transformers_python
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Setting, Unknown, Value

HEAD = """
import os
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
"""
LOAD = 'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
ADAPT = "model = get_peft_model(model, LoraConfig(r=8))\n"
TRAIN = 'trainer = Trainer(model, TrainingArguments("out", gradient_checkpointing=True))\ntrainer.train()\n'


def found(text: str) -> list[tuple[str, int]]:
    program = link({"train.py": read_module(Source("train.py", text))})
    members = pytorch.read(program).collections.get("code.obstacles", ())
    return [(str(getattr(member.fields["kind"], "value", "?")), member.place.line) for member in members]


CACHES = {
    "when the model is loaded": 'model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=True)\n' + TRAIN,
    "ahead of the training": LOAD + "model.config.use_cache = True\n" + TRAIN,
}


@pytest.mark.parametrize("text", CACHES.values(), ids=CACHES)
def test_a_cache_that_is_asked_for(text: str) -> None:
    assert [kind for kind, _ in found(HEAD + text)] == ["cache"]


NO_CACHES = {
    "turned on behind the training": LOAD + TRAIN + "model.config.use_cache = True\n",
    "turned off later": (
        'model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=True)\nmodel.config.use_cache = False\n' + TRAIN
    ),
    "turned on under a condition": (
        LOAD + 'if os.environ["KEEP"] == "1":\n    model.config.use_cache = True\n' + TRAIN
    ),
    "by a value that is not known": 'model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=keep)\n' + TRAIN,
}


@pytest.mark.parametrize("text", NO_CACHES.values(), ids=NO_CACHES)
def test_a_cache_that_may_be_off_in_training(text: str) -> None:
    assert found(HEAD + text) == []


def test_adapters_ahead_of_the_switch() -> None:
    head = HEAD.replace(", prepare_model_for_kbit_training", "")
    assert found(head + LOAD + ADAPT + TRAIN) == [("adapters", 6)]
    assert found(head + LOAD + ADAPT + "model.gradient_checkpointing_enable()\n") == [("adapters", 6)]


OPEN_INPUTS = {
    "gradients are let in": LOAD + "model.enable_input_require_grads()\n" + ADAPT + TRAIN,
    "the switch comes first": LOAD + "model.gradient_checkpointing_enable()\n" + ADAPT + TRAIN,
    "the embeddings train": (
        LOAD + 'model = get_peft_model(model, LoraConfig(modules_to_save=["embed_tokens"]))\n' + TRAIN
    ),
    "another trainer does it": LOAD + ADAPT + "from trl import SFTTrainer\nSFTTrainer(model).train()\n",
    "adapters under a condition": LOAD + 'if os.environ["LORA"] == "1":\n    ' + ADAPT + TRAIN,
    "prompts instead of adapters": LOAD + "model = get_peft_model(model, PromptTuningConfig())\n" + TRAIN,
}


@pytest.mark.parametrize("text", OPEN_INPUTS.values(), ids=OPEN_INPUTS)
def test_adapters_whose_inputs_are_open(text: str) -> None:
    assert found(HEAD.replace(", prepare_model_for_kbit_training", "") + text) == []


def test_quantized_models_are_prepared() -> None:
    assert found(HEAD + LOAD + "model = prepare_model_for_kbit_training(model)\n" + ADAPT + TRAIN) == []


VARIANTS: dict[str, object] = {
    'TrainingArguments("out", gradient_checkpointing_kwargs={"use_reentrant": False})': False,
    'TrainingArguments("out", gradient_checkpointing_kwargs=dict(use_reentrant=True))': True,
    'TrainingArguments("out", activation_checkpointing_kwargs={"use_reentrant": False})': False,
    'TrainingArguments("out", gradient_checkpointing_kwargs=options)': "?",
    'TrainingArguments("out", gradient_checkpointing=True)': None,
    'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})': False,
    "model.gradient_checkpointing_enable({'use_reentrant': True})": True,
    "model.gradient_checkpointing_enable()": None,
}


@pytest.mark.parametrize(("call", "variant"), VARIANTS.items(), ids=list(VARIANTS))
def test_the_variant_of_recomputation(call: str, variant: object) -> None:
    program = link({"train.py": read_module(Source("train.py", HEAD + LOAD + call + "\n"))})
    claims = (*pytorch.read(program).claims, *transformers_python.read(program).claims)
    values = [claim.value for claim in claims if claim.setting == "checkpointing.reentrant"]
    assert [_plain(value) for value in values] == ([] if variant is None else [variant])


def _plain(value: Setting) -> object:
    assert isinstance(value, Value | Unknown)
    return value.value if isinstance(value, Value) else "?"
