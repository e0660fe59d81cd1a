"""How finetrainers' arguments split the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

HEAD = "#!/bin/bash\nPTD='--parallel_backend ptd --pp_degree 1 --cp_degree 1 --tp_degree 1'\n"
START = "torchrun --standalone --nnodes=1 --nproc_per_node={processes} train.py {arguments} --batch_size 1\n"


@pytest.mark.parametrize(
    ("processes", "arguments", "told"),
    [
        (4, "$PTD --dp_degree 4 --dp_shards 2", {"world-size-mismatch"}),
        (2, "$PTD --dp_degree 1 --dp_shards 4", {"world-size-mismatch"}),
        (8, "$PTD --dp_degree 4", {"world-size-mismatch"}),
        (8, "--parallel_backend=ptd --dp-shards=4 --cp-degree=4", {"world-size-mismatch"}),
        (8, "$PTD --dp_degree 4 --dp_shards 2", set()),
        (4, "$PTD --dp_degree 4 --dp_shards 1", set()),
        (8, "--parallel_backend ptd --dp_shards 4 --cp_degree 2", set()),
        (4, "$PTD --dp_degree $REPLICAS --dp_shards 2", set()),
        (4, "--parallel_backend ptd --dp_degree 2 $MORE", set()),
        (4, "--parallel_backend accelerate --dp_degree 2", set()),
    ],
)
def test_degrees_that_do_not_make_up_the_processes(
    tmp_path: Path, processes: int, arguments: str, told: set[str]
) -> None:
    (tmp_path / "run.sh").write_text(HEAD + START.format(processes=processes, arguments=arguments))
    found = check([tmp_path / "run.sh"]).findings
    assert {each.rule for each in found if each.severity != "note"} == told


def test_shards_are_fsdp_and_replicas_alone_are_ddp(tmp_path: Path) -> None:
    plans = []
    for degrees in ("--dp_degree 2 --dp_shards 4", "--dp_degree 8 --dp_shards 1"):
        (tmp_path / "run.sh").write_text(HEAD + START.format(processes=8, arguments=f"$PTD {degrees}"))
        plans.append(check([tmp_path / "run.sh"]).runs[0].plan)
    names = ("framework", "parallel.data", "sharding.stage", "sharding.group")
    assert [tuple(plan.value(name) for name in names) for plan in plans] == [("fsdp", 8, 3, 4), ("ddp", 8, 0, 8)]
