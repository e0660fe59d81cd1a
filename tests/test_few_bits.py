"""Models that a program loads in few bits: their frozen weights, their adapters, and what peft's preparation does."""

from __future__ import annotations

from pathlib import Path

import pytest
from readings import settings_of_run

from dtlint.runs import Options, read_runs

LAUNCH = "torchrun --nproc_per_node 4 train.py --base_model meta-llama/Llama-2-13b-hf"
HEAD = """import os
import fire
import torch
import transformers
from transformers import BitsAndBytesConfig
from peft import LoraConfig, get_peft_model, prepare_model_for_int8_training, prepare_model_for_kbit_training


def train(base_model: str = "", batch: int = 64, micro: int = 2, rank: int = 8, layers=("q_proj", "v_proj"),
          bits: int = 8):
    steps = batch // micro
    world = int(os.environ.get("WORLD_SIZE", 1))
    ddp = world != 1
    SHARED
    model = transformers.AutoModelForCausalLM.from_pretrained(base_model, torch_dtype=torch.float16LOADED)
    PREPARED
    model = get_peft_model(model, LoraConfig(r=rank, target_modules=layersSAVED))
    arguments = transformers.TrainingArguments(
        output_dir="out", fp16=True, per_device_train_batch_size=micro, gradient_accumulation_steps=steps,
        ddp_find_unused_parameters=False if ddp else None)
    transformers.Trainer(model=model, args=arguments).train()


fire.Fire(train)
"""
PREPARED = "model = prepare_model_for_kbit_training(modelWORDS)"
SHARED = "if ddp:\n        steps = steps // world"


def settings(
    folder: Path, loaded: str = "", prepared: str = "", flags: str = "", shared: str = SHARED, saved: str = ""
) -> dict[str, object]:
    text = HEAD.replace("LOADED", loaded).replace("PREPARED", prepared or "pass").replace("SAVED", saved)
    return settings_of_run(folder, run__sh=f"{LAUNCH} {flags}\n", train__py=text.replace("SHARED", shared))


@pytest.mark.parametrize(
    ("loaded", "stored"),
    [
        (", load_in_8bit=True", "int8"),
        (", load_in_4bit=True", "nf4"),
        (", load_in_8bit=bits == 8", "int8"),
        (", quantization_config=BitsAndBytesConfig(load_in_4bit=True)", "nf4"),
        (", quantization_config=BitsAndBytesConfig(load_in_4bit=True) if ddp else None", None),
        (", quantization_config=read()", None),
        (", load_in_8bit=os.path.exists('few')", None),
        (", load_in_8bit=False", "fp16"),
    ],
)
def test_the_load_says_how_frozen_weights_are_stored(tmp_path: Path, loaded: str, stored: str | None) -> None:
    assert settings(tmp_path, loaded)["precision.frozen"] == stored


def test_of_several_loads_that_differ_none_is_known(tmp_path: Path) -> None:
    loaded = ', load_in_8bit=True)\n    whole = transformers.AutoModelForCausalLM.from_pretrained("gpt2"'
    assert settings(tmp_path, loaded)["precision.frozen"] is None


@pytest.mark.parametrize(
    ("loaded", "words", "recomputed"),
    [
        (", load_in_8bit=True", "", "full"),
        (", load_in_8bit=True", ", use_gradient_checkpointing=True", "full"),
        (", load_in_8bit=True", ", use_gradient_checkpointing=False", "none"),
        (", load_in_8bit=True", ", use_gradient_checkpointing=base.gradient_checkpointing", "none"),
        (", load_in_8bit=True", ", use_gradient_checkpointing=os.path.exists('on')", None),
        (", load_in_8bit=os.path.exists('few')", "", None),
        ("", "", "none"),
    ],
    ids=["unasked", "asked", "switched off", "the Trainer's switch", "unknown", "unknown bits", "whole weights"],
)
def test_peft_turns_recomputation_on(tmp_path: Path, loaded: str, words: str, recomputed: str | None) -> None:
    prepared = PREPARED.replace("WORDS", words)
    assert settings(tmp_path, loaded, prepared)["checkpointing.activations"] == recomputed


def test_so_does_the_older_function(tmp_path: Path) -> None:
    found = settings(tmp_path, ", load_in_8bit=True", "model = prepare_model_for_int8_training(model)")
    assert found["checkpointing.activations"] == "full"


def test_and_says_in_which_way(tmp_path: Path) -> None:
    words = ', gradient_checkpointing_kwargs={"use_reentrant": False}'
    found = settings(tmp_path, ", load_in_4bit=True", PREPARED.replace("WORDS", words))
    assert (found["checkpointing.activations"], found["checkpointing.reentrant"]) == ("full", False)


GATES = 40 * 3 * (5120 + 13824)
"""Inputs and outputs of the three matrices of the feed-forward layers of Llama-2-13B."""


@pytest.mark.parametrize(
    ("flags", "saved", "rank", "trained"),
    [
        ("--rank 16 --layers '[gate_proj, up_proj, down_proj]'", "", 16, 16 * GATES),
        ("--rank 16 --layers gate_proj,up_proj,down_proj", "", 16, 16 * GATES),
        ("", "", 8, 8 * 40 * 2 * (5120 + 5120)),
        ("--layers all-linear", "", 8, 8 * (GATES + 40 * 4 * (5120 + 5120))),
        ("--layers '.*proj$'", "", 8, 8 * (GATES + 40 * 4 * (5120 + 5120))),
        ("", ', modules_to_save=["lm_head"]', 8, None),
    ],
    ids=["as a list", "as words", "defaults of the program", "every layer", "a pattern", "layers that train whole"],
)
def test_adapters_as_the_command_line_makes_them(
    tmp_path: Path, flags: str, saved: str, rank: int, trained: int | None
) -> None:
    found = settings(tmp_path, flags=flags, saved=saved)
    assert (found["model.lora_rank"], found["model.trainable_parameters"]) == (rank, trained)


def test_adapters_under_a_condition_may_be_trained(tmp_path: Path) -> None:
    text = HEAD.replace("model = get_peft_model", "if os.path.exists('few'): model = get_peft_model")
    for name, word in {"LOADED": "", "PREPARED": "pass", "SAVED": "", "SHARED": "pass"}.items():
        text = text.replace(name, word)
    assert settings_of_run(tmp_path, run__sh=LAUNCH, train__py=text)["model.lora_rank"] is None


OWN_LOOP = """import torch
from peft import LoraConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM
from data import batches

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-13b-hf", load_in_8bit=True)
model = DistributedDataParallel(get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj"])))
optimizer = torch.optim.AdamW(model.parameters())
for batch in batches:
    model(**batch).loss.backward()
    optimizer.step()
"""


def test_a_loop_of_its_own_trains_adapters_too(tmp_path: Path) -> None:
    run = "torchrun --nproc_per_node 4 train.py\n"
    found = settings_of_run(tmp_path, run__sh=run, train__py=OWN_LOOP)
    names = ("precision.frozen", "model.lora_rank", "model.trainable_parameters")
    assert [found[name] for name in names] == ["int8", 16, 16 * 40 * (5120 + 5120)]


def test_a_program_that_only_asks_a_model_of_few_bits_is_no_run(tmp_path: Path) -> None:
    text = OWN_LOOP[: OWN_LOOP.index("model = Dist")] + "print(model.generate(batches))\n"
    (tmp_path / "ask.py").write_text(text)
    assert read_runs([tmp_path / "ask.py"], Options()).runs == ()


@pytest.mark.parametrize(
    ("shared", "accumulated"),
    [
        (SHARED, 8),
        ("if ddp:\n        steps //= world", 8),
        ("steps = max(steps // world, 1)", 8),
        ("if world > 1:\n        steps = steps // world", 8),
        ("if not ddp:\n        steps = steps // world", None),
        ("if os.path.exists('few'):\n        steps = steps // world", None),
        ("if world > 2:\n        steps = steps // world", None),
        ("pass", 32),
    ],
)
def test_a_batch_is_shared_out_among_the_ranks(tmp_path: Path, shared: str, accumulated: int | None) -> None:
    assert settings(tmp_path, shared=shared)["batch.accumulation"] == accumulated


def test_what_several_ranks_do_holds_for_them(tmp_path: Path) -> None:
    assert settings(tmp_path)["communication.find_unused"] is False


@pytest.mark.parametrize(
    ("flag", "trained"),
    [
        ("--lora_target q_proj,v_proj", 16 * 40 * 2 * (5120 + 5120)),
        ("--lora_target_modules q_proj v_proj", 16 * 40 * 2 * (5120 + 5120)),
        ("--lora_target all", 16 * (GATES + 40 * 4 * (5120 + 5120))),
    ],
)
def test_flags_name_the_layers_too(tmp_path: Path, flag: str, trained: int) -> None:
    words = "--model_name_or_path meta-llama/Llama-2-13b-hf --bf16 --output_dir out --lora_rank 16"
    run = f"torchrun --nproc_per_node 4 train.py {words} {flag}\n"
    found = settings_of_run(tmp_path, run__sh=run)
    assert (found["model.lora_rank"], found["model.trainable_parameters"]) == (16, trained)


@pytest.mark.parametrize(
    ("keys", "targets"),
    [
        ("lora_target_modules: [q_proj, v_proj]", ["q_proj", "v_proj"]),
        ("lora_target_modules: [q_proj, v_proj]\nlora_target_linear: true", ["all-linear"]),
        ("lora_target_linear: false", None),
    ],
)
def test_so_do_keys_of_axolotl(tmp_path: Path, keys: str, targets: list[str] | None) -> None:
    config = (
        f"base_model: x/y\ndatasets: []\nmicro_batch_size: 1\nsequence_len: 2048\nadapter: lora\nlora_r: 8\n{keys}\n"
    )
    found = settings_of_run(tmp_path, run__sh="accelerate launch -m axolotl.cli.train a.yaml\n", a__yaml=config)
    assert found.get("model.lora_targets") == targets
