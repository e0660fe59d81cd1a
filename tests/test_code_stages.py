"""What a condition on the ZeRO stage says of the calls behind it: below stage 3 Accelerate gathers no weights."""

import pytest

from dtlint.api import check

PROGRAM = """from accelerate import Accelerator
from transformers.integrations import is_deepspeed_zero3_enabled
from net import Net, args

accelerator = Accelerator()
model = accelerator.prepare(Net())
for batch in range(8):
    accelerator.backward(model(batch))


def write():
    model.save_pretrained("out", state_dict=accelerator.get_state_dict(model))


{test}
    model.save_pretrained("out", state_dict=accelerator.get_state_dict(model))
else:
    if accelerator.is_main_process:
        {call}
"""
HERE = 'model.save_pretrained("out", state_dict=accelerator.get_state_dict(model))'
CONFIGS = {
    "deepspeed": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n",
    "fsdp": "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\nnum_processes: 8\n",
}


@pytest.mark.parametrize("call", [HERE, "write()"])
@pytest.mark.parametrize(
    ("test", "deepspeed", "fsdp"),
    [
        ("if accelerator.state.deepspeed_plugin.zero_stage == 3:", False, True),
        ("if not args.zero_stage < 3:", False, True),
        ("if is_deepspeed_zero3_enabled():", False, True),
        ("if args.zero_stage >= 3 or args.zero3:", False, True),
        ("if args.zero_stage == 2:", True, True),
        ("if args.every:", True, True),
    ],
)
def test_the_else_of_stage_3(tree, test, call, deepspeed, fsdp):
    """Under FSDP get_state_dict gathers whatever the stage of DeepSpeed is."""
    for name, expected in (("deepspeed", deepspeed), ("fsdp", fsdp)):
        tree(
            {
                "train.py": PROGRAM.format(test=test, call=call),
                "conf.yaml": CONFIGS[name],
                "run.sh": "accelerate launch --config_file conf.yaml train.py\n",
            }
        )
        rules = {finding.rule for finding in check(["run.sh"]).findings}
        assert ("collective-rank-guarded" in rules) is expected


@pytest.mark.parametrize(("config", "told"), [("fsdp", True), ("deepspeed", True), ("plain", False)])
def test_a_model_that_accelerate_saves_is_gathered_by_all_ranks_where_it_is_sharded(tree, config, told):
    """accelerator.py, save_model: it calls get_state_dict, which gathers what FSDP and ZeRO-3 share out."""
    tree(
        {
            "train.py": PROGRAM.partition("def write")[0]
            + "if accelerator.is_main_process:\n    accelerator.save_model(model, 'out')\n",
            "conf.yaml": {**CONFIGS, "plain": "distributed_type: MULTI_GPU\nnum_processes: 8\n"}[config],
            "run.sh": "accelerate launch --config_file conf.yaml train.py\n",
        }
    )
    assert ("collective-rank-guarded" in {finding.rule for finding in check(["run.sh"]).findings}) is told
