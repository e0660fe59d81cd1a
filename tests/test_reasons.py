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


def test_another_script_with_the_same_line_gives_the_reason_too(tree):
    reason = f"# needed: kernels race\n{SLOW}\n{LAUNCH}"
    tree({"run.sh": f"{SLOW}\n{LAUNCH}", "small.sh": reason})
    assert told() == [("note", True), ("note", True)]


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
