"""A DeepSpeed config that a script builds in code, read as claims about the plan."""

from __future__ import annotations

import pytest
from python_texts import plain, program_of

from dtlint.frameworks import Reading
from dtlint.frameworks.deepspeed import program as deepspeed_python
from dtlint.value import Choice, Unknown, Value

IMPORTS = "import deepspeed\nfrom transformers import TrainingArguments\nfrom trl import SFTConfig\n"


def reading(text: str, **others: str) -> Reading:
    return deepspeed_python.read(program_of(IMPORTS, text, **others))


def claims(found: Reading) -> dict[str, object]:
    return {claim.setting: plain(claim.value, "reason") for claim in found.claims}


def test_dict_that_is_passed_to_initialize() -> None:
    found = reading(
        'config = {"train_batch_size": 32, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}\n'
        "engine, *_ = deepspeed.initialize(model=model, config=config)\n"
    )
    assert claims(found) == {"batch.global": 32, "precision.compute": "bf16", "sharding.stage": 2}
    assert (found.layer, found.framework, found.open) == ("deepspeed-python", "deepspeed", "")


def test_place_is_the_dict_even_in_another_file() -> None:
    found = reading(
        "from helper import CONFIG\ndeepspeed.initialize(config=CONFIG)\n", helper='CONFIG = {"train_batch_size": 8}\n'
    )
    assert found.place is not None
    assert (found.place.path, found.place.text) == ("helper.py", '{"train_batch_size": 8}')


@pytest.mark.parametrize(
    ("setting", "value", "spelled"),
    [
        ("overlap.gradients", True, '"overlap_comm": True in zero_optimization'),
        ("batch.micro", 2, '"train_micro_batch_size_per_gpu": 2'),
        ("parallel.pipeline", 2, None),
    ],
)
def test_spell_is_python(setting: str, value: bool | int, spelled: str | None) -> None:
    assert deepspeed_python.spell(setting, value) == spelled


def test_claim_points_at_the_literal() -> None:
    (claim,) = reading('deepspeed.initialize(config={"train_batch_size": 32})').claims
    assert isinstance(claim.value, Value)
    span = claim.value.origin.span
    assert span is not None
    assert (span.text, span.line) == ("32", 4)


def test_dict_of_a_helper_with_arguments_and_later_items() -> None:
    helper = """
def get_config(offload, stage=2):
    device = "cpu" if offload else "none"
    zero = {"stage": stage, "offload_optimizer": {"device": device}}
    return {"train_batch_size": GLOBAL, "zero_optimization": zero}

GLOBAL = 64
"""
    found = reading(
        "from helper import get_config\n"
        "config = get_config(offload=True, stage=3)\n"
        'config["train_micro_batch_size_per_gpu"] = 4\n'
        "deepspeed.initialize(model=model, config=config)\n",
        helper=helper,
    )
    assert claims(found) == {
        "batch.global": 64,
        "batch.micro": 4,
        "sharding.stage": 3,
        "sharding.offload_optimizer": "cpu",
    }


def test_item_that_depends_on_a_condition_is_a_choice() -> None:
    found = reading('stage = 3 if big() else 1\ndeepspeed.initialize(config={"zero_optimization": {"stage": stage}})')
    (claim,) = found.claims
    assert isinstance(claim.value, Choice)
    assert sorted(str(plain(option.value)) for option in claim.value.options) == ["1", "3"]


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed.initialize(config=load(path))",
    ],
)
def test_config_that_is_not_followed_leaves_the_reading_open(text: str) -> None:
    found = reading(text)
    assert found.claims == ()
    assert found.framework == "deepspeed"
    assert found.open == "the config is not written out in the files read"


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed.initialize(config={**base(), 'train_batch_size': 8})",
        "deepspeed.initialize(config={unknown(): {}, 'train_batch_size': 8})",
        'config = {"train_batch_size": 8}\nconfig.pop("x")\ndeepspeed.initialize(config=config)',
        'config = {**base()}\nconfig["train_batch_size"] = 8\ndeepspeed.initialize(config=config)',
    ],
)
def test_dict_with_keys_that_are_not_followed_is_open(text: str) -> None:
    found = reading(text)
    assert claims(found) == {"batch.global": 8}
    assert found.open == "some keys of the config are not followed"


def test_section_that_is_changed_later_hides_what_was_written() -> None:
    found = reading(
        'config = {"zero_optimization": {"stage": 2}}\n'
        'config["zero_optimization"]["stage"] = 3\n'
        "deepspeed.initialize(config=config)\n"
    )
    assert found.claims == ()
    assert found.open


def test_unknown_value_is_unknown() -> None:
    (claim,) = reading('deepspeed.initialize(config={"train_batch_size": int(os.environ["B"])})').claims
    assert isinstance(claim.value, Unknown)


@pytest.mark.parametrize(
    ("call", "frontend"),
    [
        ('deepspeed.initialize(config="ds.json")', ""),
        ('TrainingArguments(output_dir="x", deepspeed="ds.json")', "transformers"),
        ('SFTConfig(output_dir="x", deepspeed="ds.json")', "trl"),
    ],
)
def test_config_that_is_a_file(call: str, frontend: str) -> None:
    found = reading(call)
    assert [(file.role, file.path.text) for file in found.files] == [("deepspeed", "ds.json")]
    assert (found.framework, found.frontend) == ("deepspeed", frontend)


def test_trainer_fills_auto_of_a_dict() -> None:
    found = reading('TrainingArguments(deepspeed={"train_micro_batch_size_per_gpu": "auto"})')
    assert claims(found) == {"batch.micro": "?auto"}
    assert found.frontend == "transformers"


def test_stage_that_the_command_may_change_decides_nothing() -> None:
    found = reading(
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--stage", type=int, default=2)\n'
        "args = parser.parse_args()\n"
        'zero = {"stage": args.stage, "offload_param": {"device": "cpu"}}\n'
        'deepspeed.initialize(config={"zero_optimization": zero})\n'
    )
    assert claims(found) == {"sharding.stage": 2, "sharding.offload_parameters": "cpu"}
    assert "config.inert" not in found.collections


BUILDER = (
    "def build(offload, stage=2):\n"
    '    device = "cpu" if offload else "none"\n'
    '    zero = {"stage": stage, "offload_param": {"device": device}, "stage3_max_live_parameters": 1e9}\n'
    '    return {"train_batch_size": 8, "zero_optimization": zero}\n'
)
"""A function that builds a config for whoever asks."""


@pytest.mark.parametrize(
    ("arguments", "stage"),
    [("offload=False, stage=2", 2), ("offload=choose(), stage=0", 0), ("offload=True, stage=3", 3)],
)
def test_a_config_that_a_function_builds_serves_several_stages(arguments: str, stage: int) -> None:
    call = f"from helper import build\ndeepspeed.initialize(config=build({arguments}))\n"
    found = reading(call, helper=BUILDER)
    assert claims(found)["sharding.stage"] == stage
    assert "config.inert" not in found.collections


def test_callers_that_pass_several_stages_leave_it_unknown() -> None:
    calls = "def first():\n    return build(True, 3)\ndef second():\n    return build(True, 0)\n"
    call = "from helper import build\n" + calls
    found = reading(
        f"{call}def start(config):\n    deepspeed.initialize(config=config)\nstart(first())\nstart(second())\n",
        helper=BUILDER,
    )
    assert str(claims(found).get("sharding.stage", "?")).startswith("?")
    assert "config.inert" not in found.collections


def test_a_dict_with_its_own_stage_has_what_is_inert() -> None:
    found = reading(
        "def build(stage=3):\n"
        '    return {"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}\n'
        "deepspeed.initialize(config=build())\n"
    )
    (member,) = found.collections["config.inert"]
    assert plain(member.fields["key"]) == "offload_param"


def test_a_device_that_is_not_known_asks_for_nothing() -> None:
    zero = '{"stage": 2, "offload_param": {"device": choose(), "pin_memory": True}}'
    found = reading(f'deepspeed.initialize(config={{"zero_optimization": {zero}}})\n')
    assert "config.inert" not in found.collections


def test_unknown_key_in_code_is_listed() -> None:
    found = reading('deepspeed.initialize(config={"zero_optimization": {"overlap_com": True}})')
    (member,) = found.collections["config.unknown"]
    assert plain(member.fields["suggestion"]) == "overlap_comm"


@pytest.mark.parametrize("text", ["", "TrainingArguments(output_dir='x')", "other.initialize(config={})"])
def test_program_without_deepspeed(text: str) -> None:
    found = reading(text)
    assert (found.claims, found.framework, found.frontend) == ((), "", "")


def test_initialize_without_a_config_names_the_framework() -> None:
    found = reading("deepspeed.initialize(args=args, model=model)")
    assert (found.framework, found.claims) == ("deepspeed", ())


ENGINES = """
def config_of(steps):
    return {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": steps}
"""


@pytest.mark.parametrize(
    "step", ["optimizer=optimizer", "model_parameters=model.parameters()", "training_data=data", "lr_scheduler=plan"]
)
def test_an_engine_that_takes_no_step_says_nothing_of_the_training(step: str) -> None:
    trained = f"actor, *_ = deepspeed.initialize(model=model, config=config_of(16), {step})\n"
    judged = "reward, *_ = deepspeed.initialize(model=other, config=config_of(1))\n"
    assert claims(reading(ENGINES + trained + judged))["batch.accumulation"] == 16
    assert claims(reading(ENGINES + judged + trained))["batch.accumulation"] == 16
    assert claims(reading(ENGINES + judged))["batch.accumulation"] == 1


def test_what_several_engines_disagree_on_is_unknown() -> None:
    engine = "deepspeed.initialize(model=model, optimizer=optimizer, config=config_of({}))\n"
    found = claims(reading(ENGINES + engine.format(16) + engine.format(2)))
    assert found["batch.micro"] == 4
    assert found["batch.accumulation"] == (
        "?the program starts several engines, whose gradient_accumulation_steps differ"
    )
    assert claims(reading(ENGINES + engine.format(2) + engine.format(2)))["batch.accumulation"] == 2


PLUGIN = "from accelerate.utils import DeepSpeedPlugin\n"


def test_a_config_for_accelerates_plugin() -> None:
    config = '{"zero_optimization": {"stage": 2, "overlap_comm": False}, "gradient_accumulation_steps": 4}'
    found = reading(f"{PLUGIN}DeepSpeedPlugin(hf_ds_config={config}, zero_stage=3)")
    assert claims(found) == {"sharding.stage": 2, "overlap.gradients": False, "batch.accumulation": 4}
    assert (found.framework, found.frontend) == ("deepspeed", "accelerate")
    (file,) = reading(f"{PLUGIN}DeepSpeedPlugin('ds.json')").files
    assert (file.role, file.path.text) == ("deepspeed", "ds.json")


def test_fields_of_accelerates_plugin() -> None:
    text = "DeepSpeedPlugin(zero_stage=3, gradient_clipping=1.0, offload_param_device='cpu', zero3_init_flag=None)"
    assert claims(reading(PLUGIN + text)) == {
        "sharding.stage": 3,
        "optimizer.clip": 1.0,
        "sharding.offload_parameters": "cpu",
    }


def test_of_several_plugins_none_is_known_to_be_in_use() -> None:
    assert reading(f"{PLUGIN}DeepSpeedPlugin(zero_stage=2)\nDeepSpeedPlugin(zero_stage=3)\n").claims == ()


def test_a_plugin_that_an_argument_asks_for_is_not_known_to_be_in_use() -> None:
    text = (
        "def plugin(args):\n    if not args.deepspeed:\n        return None\n    return DeepSpeedPlugin(zero_stage=2)\n"
    )
    assert reading(f"{PLUGIN}{text}plugin(parse())\n").claims == ()


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("config = json.load(open('ds.json'))\n", ["ds.json"]),
        ("with open('ds.json') as file:\n    config = json.load(file)\n", ["ds.json"]),
        ("with open('ds.json') as file:\n    config = yaml.safe_load(file)\n", []),
        ("config = json.load(open(args.config))\n", []),
        ("config = json.load(open('ds.json'))\nconfig['train_batch_size'] = 8\n", []),
        ("config = json.load(open('ds.json'))\nprepare(config)\n", []),
    ],
)
def test_config_that_is_loaded_from_a_file(text: str, files: list[str]) -> None:
    found = reading(f"import json, yaml\n{text}deepspeed.initialize(config=config)\n")
    assert [file.path.text for file in found.files] == files
