"""Something slow with its reason written beside it is a note that says so; an error stays an error."""

import pytest

from dtlint.api import check

SAID = "a comment gives a reason"
LAUNCH = "torchrun --nnodes 1 --nproc_per_node 8 train.py\n"
SLOW = "export CUDA_LAUNCH_BLOCKING=1"


def told(*paths):
    findings = check(list(paths) or ["."]).findings
    return [(each.severity, SAID in each.message) for each in findings if each.rule == "debug-left-on"]


@pytest.mark.parametrize(
    "lines",
    [
        f"{SLOW}  # the kernels race otherwise",
        f"# do not remove or the training will hang\n{SLOW}",
        f"# we met errors without these on 20 nodes\nexport NCCL_PROTO=Simple\n{SLOW}",
        f"# 避免多卡训练时卡死\n{SLOW}",
        f"{SLOW}  # an RTX 4090 takes it",
        f"{SLOW}  # for readable error messages",
        f"# to see where a kernel fails\n{SLOW}",
        f"{SLOW}  # the stack trace is wrong without",
        f"# so that a timeout ends the run\n{SLOW}",
        f"# a workaround:\n# the driver of our machines loses kernels\n{SLOW}",
    ],
)
def test_a_reason_beside_what_is_slow_makes_a_note(tree, lines):
    tree({"run.sh": f"{lines}\n{LAUNCH}"})
    assert told("run.sh") == [("note", True)]


@pytest.mark.parametrize(
    "lines",
    [
        SLOW,
        f"{SLOW}  # see the kernels in order",
        f"{SLOW}  # errors and messages of the launch",
        f"# the launch hangs without a port\n\n{SLOW}",
        f"# needed by the data\ncd data\n{SLOW}",
        f"# Unless required by law, this\n# is given\n# as it is\n# without\n# any warranty\n{SLOW}",
        f"#SBATCH --comment needed\n{SLOW}",
        f"echo because; {SLOW}",
    ],
)
def test_without_a_reason_at_the_place_it_is_a_warning(tree, lines):
    tree({"run.sh": f"{lines}\n{LAUNCH}"})
    assert told("run.sh") == [("warning", False)]


@pytest.mark.parametrize(
    ("comment", "severity"),
    [
        ("it was hanging on the old A6000 boxes", "warning"),
        ("hangs on RTX 4090 cards", "warning"),
        ("hangs on 4090s: a workaround for the 4090", "warning"),
        ("hangs on A6000 and H100", "note"),
        ("hangs on h100-80gb nodes", "note"),
        ("hangs on all 8 GPUs since torch 2.4", "note"),
    ],
)
def test_a_reason_that_names_other_cards_is_none_for_these(tree, comment, severity):
    tree({"run.sh": f"#SBATCH --gres=gpu:h100:8\n{SLOW}  # {comment}\n{LAUNCH}"})
    assert told("run.sh") == [(severity, severity == "note")]


def test_another_script_with_the_same_line_gives_the_reason_too(tree):
    reason = f"# needed: kernels race\n{SLOW}\n{LAUNCH}"
    tree({"run.sh": f"{SLOW}\n{LAUNCH}", "small.sh": reason})
    assert told() == [("note", True), ("note", True)]


def test_a_comment_does_not_make_a_dead_setting_work(tree):
    flags = (
        "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024"
    )
    batch = "--micro-batch-size 4 --global-batch-size 64 --bf16"
    dead = "# needed, it does not fit otherwise\nargs+=(--recompute-method uniform --recompute-num-layers 1)"
    tree({"run.sh": f"args=({flags} {batch})\n{dead}\ntorchrun --nproc_per_node 8 pretrain_gpt.py ${{args[@]}}\n"})
    found = [each for each in check(["run.sh"]).findings if each.rule == "inert-setting"]
    assert {(each.severity, SAID in each.message) for each in found} == {("warning", False)}


def test_what_is_not_written_has_no_reason(tree):
    tree({"run.sh": f"# needed on our cluster\n{LAUNCH}", "train.py": "import torch\n"})
    assert not any(SAID in each.message for each in check(["."]).findings)


def test_an_error_stays_one(tree):
    tree({"run.sh": "torchrun --nproc_per_node 8 --nnodes nine train.py  # needed\n"})
    assert {each.severity for each in check(["run.sh"]).findings} == {"error"}


def loop(lines):
    text = "import torch\nimport torch.distributed as dist\nfrom net import batches, model, optimizer\n"
    return f"{text}for x in batches:\n    model(x).backward()\n    optimizer.step()\n{lines}"


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ("    # avoid memory leaks\n    del x\n    gc.collect()\n    torch.cuda.empty_cache()\n", "note"),
        ("    # the next batch\n    del x\n    torch.cuda.empty_cache()\n", "warning"),
        ("    # avoid memory leaks\n    x = 1\n    torch.cuda.empty_cache()\n", "warning"),
    ],
)
def test_lines_that_give_memory_back_share_a_reason(tree, lines, severity):
    tree({"train.py": loop(lines)})
    assert [each.severity for each in check(["."]).findings if each.rule == "sync-every-step"] == [severity]


def overlap(tree, remark):
    config = f'{{\n{remark}\n "zero_optimization": {{"stage": 2,\n  "overlap_comm": false}}, "train_micro_batch_size_per_gpu": 1}}\n'
    tree({"ds.json": config, "run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n"})
    findings = [each for each in check(["."]).findings if each.rule == "no-overlap"]
    return [(each.severity, SAID in each.message) for each in findings]


@pytest.mark.parametrize(
    "remark",
    [
        '"_comment": "overlap_comm is off: peak memory, required for the experts",',
        '"//": "the first job died because of overlap_comm",',
        '"_memory": "overlap_comm:false needs less of it, otherwise we run out",',
    ],
)
def test_a_key_that_stands_for_a_comment_gives_a_reason_too(tree, remark):
    assert overlap(tree, remark) == [("note", True)]


@pytest.mark.parametrize(
    "remark",
    ["", '"_comment": "copied from the tutorial",', '"_comment": "fp16 is off because of the embeddings",'],
)
def test_a_key_about_something_else_gives_none(tree, remark):
    assert overlap(tree, remark) == [("warning", False)]


@pytest.mark.parametrize(
    ("comment", "severity"),
    [
        ("stop instead of hanging when a card runs out of memory", "warning"),
        ("for the timeout", "warning"),
        ("a workaround for a hang in the driver of our machines", "note"),
    ],
)
def test_what_torchrun_does_anyway_is_no_reason(tree, comment, severity):
    tree({"run.sh": f"# {comment}\nexport NCCL_BLOCKING_WAIT=1\n{LAUNCH}"})
    assert told("run.sh") == [(severity, severity == "note")]
