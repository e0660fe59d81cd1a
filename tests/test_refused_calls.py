"""Calls that Python refuses by the parameters of a framework's function: told where they stand, and what lies behind
them is a note.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

WRAPPED = """\
import functools
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

from net import Block, Net, batches


def main():
    dist.init_process_group("nccl")
    policy = POLICY
    model = FSDP(Net(), auto_wrap_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in batches():
        model(batch).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


main()
"""
CLASS = """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy


class Trainer:
    def __init__(self, model):
        self.model = model
        self.wrap()

    def wrap(self):
        policy = POLICY
        self.model = FSDP(self.model, auto_wrap_policy=policy)

    def train(self, batches, optimizer):
        for batch in batches:
            self.model(batch).sum().backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()


STARTS
"""
ENGINE = """\
import torch
import deepspeed

from net import Net, batches, config


def main(args):
    model = Net()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), GIVEN)
    for batch in batches():
        loss = engine(batch).sum()
        if torch.isnan(loss):
            continue
        engine.backward(loss)
        engine.step()


STARTS
"""
HANDED = "functools.partial(size_based_auto_wrap_policy, min_num_params=1000)"
CALLED = "size_based_auto_wrap_policy(min_num_params=1000)"


def severities(folder: Path, program: str) -> dict[str, str]:
    (folder / "train.py").write_text(program)
    return {each.rule: each.severity for each in check([folder / "train.py"]).findings}


@pytest.mark.parametrize(
    "policy",
    [
        CALLED,
        "size_based_auto_wrap_policy(Net(), min_num_params=1000)",
        "transformer_auto_wrap_policy(Net(), transformer_layer_cls={Block})",
        "transformer_auto_wrap_policy(module=Net(), recurse=True, transformer_layer_cls={Block})",
        "transformer_auto_wrap_policy({Block})",
    ],
)
def test_a_policy_that_is_called_ends_the_program(tmp_path: Path, policy: str) -> None:
    told = severities(tmp_path, WRAPPED.replace("POLICY", policy))
    assert (told["missing-setting"], told["fsdp1-clip-grad"]) == ("error", "note")


@pytest.mark.parametrize(
    "policy",
    [
        HANDED,
        "size_based_auto_wrap_policy",
        "lambda module, recurse, nonwrapped_numel: size_based_auto_wrap_policy(module, recurse, nonwrapped_numel)",
        "lambda module, recurse, unwrapped_params: "
        "size_based_auto_wrap_policy(module, recurse, unwrapped_params=unwrapped_params)",
        "lambda *args, **more: size_based_auto_wrap_policy(*args, **more)",
        "lambda module, **more: size_based_auto_wrap_policy(module, **more)",
    ],
)
def test_a_policy_that_is_handed_over_is_called_by_fsdp(tmp_path: Path, policy: str) -> None:
    told = severities(tmp_path, WRAPPED.replace("POLICY", policy))
    assert "missing-setting" not in told
    assert told["fsdp1-clip-grad"] == "error"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    policy = POLICY", "    policy = None\n    if batches.big:\n        policy = CALLED"),
        ("    model = FSDP", "    if batches.big:\n        model = FSDP"),
    ],
)
def test_what_another_way_leads_to_is_told(tmp_path: Path, before: str, after: str) -> None:
    program = WRAPPED.replace(before, after).replace("CALLED", CALLED).replace("POLICY", HANDED)
    assert severities(tmp_path, program)["fsdp1-clip-grad"] == "error"


@pytest.mark.parametrize(
    "caught",
    [
        "None\n    try:\n        policy = CALLED\n    except TypeError:\n        policy = HANDED",
        "HANDED\n    with contextlib.suppress(TypeError):\n        policy = CALLED",
    ],
)
def test_an_error_that_is_caught_ends_nothing(tmp_path: Path, caught: str) -> None:
    program = "import contextlib\n" + WRAPPED.replace(
        "POLICY", caught.replace("CALLED", CALLED).replace("HANDED", HANDED)
    )
    told = severities(tmp_path, program)
    assert "missing-setting" not in told
    assert told["fsdp1-clip-grad"] == "error"


@pytest.mark.parametrize(
    ("starts", "policy", "severity"),
    [
        ("trainer = Trainer(net)\ntrainer.train(batches, optimizer)", CALLED, "note"),
        ("", CALLED, "note"),
        (
            "trainer = Trainer(net)\ntrainer.train(batches, optimizer)",
            f"__import__('functools').{HANDED[10:]}",
            "error",
        ),
    ],
)
def test_a_method_is_not_come_to_where_the_object_cannot_be_made(
    tmp_path: Path, starts: str, policy: str, severity: str
) -> None:
    program = CLASS.replace("STARTS", starts).replace("POLICY", policy)
    assert severities(tmp_path, program)["fsdp1-clip-grad"] == severity


@pytest.mark.parametrize("given", ["lr=1e-4", "config=config, stage=3", "**{'config': config, 'learning_rate': 1}"])
@pytest.mark.parametrize("starts", ["main(None)", "if load().engine:\n    main(None)"])
def test_a_keyword_that_the_engine_does_not_take(tmp_path: Path, given: str, starts: str) -> None:
    told = severities(tmp_path, ENGINE.replace("GIVEN", given).replace("STARTS", starts))
    assert (told["unknown-setting"], told["rank-divergent-control-flow"]) == ("error", "note")


@pytest.mark.parametrize(
    "given",
    [
        "config=config",
        "config_params=config, dist_init_required=True",
        "mesh_param=(2, 4), distributed_port=1",
        "**config",
    ],
)
def test_keywords_of_some_release(tmp_path: Path, given: str) -> None:
    told = severities(tmp_path, ENGINE.replace("GIVEN", given).replace("STARTS", "main(None)"))
    assert "unknown-setting" not in told
    assert told["rank-divergent-control-flow"] == "error"


def test_an_engine_of_the_tree_takes_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "deepspeed").mkdir()
    (tmp_path / "deepspeed" / "__init__.py").write_text("def initialize(**given):\n    return given\n")
    told = severities(tmp_path, ENGINE.replace("GIVEN", "lr=1e-4").replace("STARTS", "main(None)"))
    assert "unknown-setting" not in told


@pytest.mark.parametrize(
    ("given", "said"),
    [("lr=1e-4", "optimizer.params.lr"), ("ds_config=config", "write config"), ("stage=3", "leave it out")],
)
def test_what_to_write_instead(tmp_path: Path, given: str, said: str) -> None:
    (tmp_path / "train.py").write_text(ENGINE.replace("GIVEN", given).replace("STARTS", "main(None)"))
    found = next(each for each in check([tmp_path / "train.py"]).findings if each.rule == "unknown-setting")
    assert said in " ".join(each.text for each in found.remedies)


def test_how_the_policy_is_handed_over(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRAPPED.replace("POLICY", CALLED))
    found = next(each for each in check([tmp_path / "train.py"]).findings if each.rule == "missing-setting")
    assert [each.text for each in found.remedies] == [f"hand it over: {HANDED}"]
