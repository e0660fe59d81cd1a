"""Keys of Megatron-Core's config that cut the layers into stages which are not all equal, in whichever front end."""

import pytest

from dtlint.api import check
from dtlint.frameworks.stage_cuts import with_ends, with_extras

VERL = """python3 -m verl.trainer.main_ppo --config-path=config --config-name='ppo_megatron_trainer.yaml' \\
  actor_rollout_ref.model.path=deepseek-ai/DeepSeek-V3 data.train_batch_size=128 \\
  actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=16 \\
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 \\
  {more} trainer.nnodes=16 trainer.n_gpus_per_node=8
"""
CONFIG = "+actor_rollout_ref.actor.megatron.override_transformer_config."
NEMO = """
exp_manager: {{}}
trainer: {{devices: 8, num_nodes: 1, precision: bf16}}
model:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 4
  num_layers: 46
  hidden_size: 4096
  num_attention_heads: 32
  encoder_seq_length: 4096
  micro_batch_size: 1
  global_batch_size: 64
  {more}
"""
RULE = "layers-not-divisible"


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        ("", True),
        (f"{CONFIG}num_layers_in_first_pipeline_stage=3 {CONFIG}num_layers_in_last_pipeline_stage=2", False),
        (f"{CONFIG}account_for_embedding_in_pipeline_split=True", False),
        (f"{CONFIG}account_for_embedding_in_pipeline_split=False", True),
        (f"{CONFIG}pipeline_model_parallel_layout='Et*3|(t*4|)*14t*2L'", False),
        (f"{CONFIG}num_layers_in_first_pipeline_stage=null", True),
    ],
)
def test_verl_hands_them_on(tree, more, fires):
    """DeepSeek-V3 has 61 layers: 3 + 14 x 4 + 2."""
    tree({"run.sh": VERL.format(more=more)})
    assert (RULE in found()) is fires


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ("num_layers_in_first_pipeline_stage: 10", (10, 12, 12, 12)),
        ("first_pipeline_num_layers: 11\n  last_pipeline_num_layers: 11", (11, 12, 12, 11)),
        ("account_for_embedding_in_pipeline_split: true\n  account_for_loss_in_pipeline_split: true", (11, 12, 12, 11)),
        ("pipeline_model_parallel_layout: Et*10|(t*12|)*2,t*12L", (10, 12, 12, 12)),
        ("pipeline_model_parallel_layout: Et*5|(t*6|)*7,t*0L", None),
        ("num_layers_in_first_pipeline_stage: ${oc.env:FIRST}", None),
        ("account_for_loss_in_pipeline_split: false", None),
    ],
)
def test_nemo_has_the_layers_too(tree, more, layers):
    tree({"conf.yaml": NEMO.format(more=more)})
    (run,) = check(["conf.yaml"]).runs
    value = run.plan.stated("parallel.stage_layers")
    assert (value.value if value else None) == layers
    assert (RULE in found("conf.yaml")) is ("loss_in_pipeline_split: false" in more)


MEGATRON = """torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 8 {more} \\
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --swiglu --num-attention-heads 32 --seq-length 4096 \\
  --max-position-embeddings 4096 --vocab-size 128256 --untie-embeddings-and-output-weights \\
  --micro-batch-size 1 --global-batch-size 128 --bf16 --use-distributed-optimizer
"""


@pytest.mark.parametrize(("more", "fires"), [("", True), ("--pipeline-model-parallel-layout $LAYOUT", False)])
def test_stages_of_sizes_that_are_not_known_may_be_even(tree, more, fires):
    tree({"run.sh": MEGATRON.format(more=more)})
    assert ("stage-imbalance" in found()) is fires


@pytest.mark.parametrize(
    ("layers", "size", "rules"),
    [
        (40, 2, {RULE}),  # 5 layers a stage are two whole chunks, and one is left over
        (56, 2, {RULE}),  # 7 layers a stage: three chunks
        (40, 3, {"stage-split-mismatch"}),  # one chunk would be whole, had it 5 layers
        (64, 3, {"stage-split-mismatch"}),  # and two of the 8, had they 4
        (64, 2, set()),
        (60, 2, {RULE}),  # 60 layers on 8 stages
    ],
)
def test_chunks_that_do_not_come_out_whole_are_told_once(tree, layers, size, rules):
    text = MEGATRON.format(more=f"--num-layers-per-virtual-pipeline-stage {size}")
    tree({"run.sh": text.replace("--num-layers 32", f"--num-layers {layers}")})
    assert found() & {RULE, "stage-split-mismatch"} == rules


def test_the_config_of_a_program(tree):
    start = "parallel_state.initialize_model_parallel(pipeline_model_parallel_size=4)\n"
    config = "TransformerConfig(num_layers=46, hidden_size=4096, num_attention_heads=32{more})\n"
    text = "from megatron.core import parallel_state, TransformerConfig\n" + start + config
    for more, fires in (("", True), (", num_layers_in_first_pipeline_stage=10", False)):
        tree({"train.py": text.format(more=more), "run.sh": "torchrun --nproc_per_node 8 train.py\n"})
        assert (RULE in found()) is fires


def test_sizes_by_hand():
    assert with_ends(61, 16, 3, 2) == (3, *[4] * 14, 2)
    assert with_ends(61, 16, 3, None) == ()
    assert with_extras(46, 4, embedding=True, loss=True) == (11, 12, 12, 11)


def found(path: str = "run.sh") -> set[str]:
    return {finding.rule for finding in check([path]).findings}
