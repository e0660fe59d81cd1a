"""What the #PBS lines of a script allocate, and launches that PBS starts on the first machine alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.runs import Options, read_runs
from dtlint.value import Value

LAUNCH = "torchrun --nnodes {} --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint $HEAD:29500 train.py\n"
SCATTERED = "#PBS -l select=2:ncpus=32:ngpus=4\n#PBS -l place=scatter\n"
SLURM = "#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n"
RANK = "torchrun --nnodes 2 --nproc_per_node 4 --node_rank {} --master_addr $HEAD train.py"


def script(folder: Path, lines: str, *commands: str) -> Path:
    path = folder / "job.sh"
    path.write_text("#!/bin/bash\n" + lines + "\n".join(commands) + "\n", encoding="utf-8")
    return path


def messages(path: Path) -> list[str]:
    return [each.message for each in check([path]).findings if each.rule == "srun-missing"]


@pytest.mark.parametrize(
    ("lines", "nodes", "gpus", "exclusive"),
    [
        (SCATTERED, 2, 4, None),
        ("#PBS -l select=2:ncpus=32:ngpus=4 -l place=scatter:excl\n", 2, 4, True),
        ("#PBS -lselect=3:ngpus=8:mem=1gb -lplace=vscatter:exclhost,walltime=1:00:00\n", 3, 8, True),
        ("#PBS -l nodes=4:ppn=8:gpus=2,walltime=10:00:00\n", 4, 2, None),
        ("#PBS -l nodes=n01:ppn=8:gpus=2+n02:ppn=8:gpus=2\n", 2, 2, None),
        ("#PBS -l select=1:ngpus=8\n", 1, 8, None),
        ("#PBS -l select=1:ngpus=4+2:ngpus=4\n#PBS -l place=scatter\n", 3, 4, None),
        ("#PBS -l select=1:ngpus=4+1:ngpus=2\n#PBS -l place=scatter\n", 2, None, None),
        ("#PBS -l select=1:ncpus=32:ngpus=4+3:ncpus=16\n#PBS -l place=scatter\n", 1, 4, None),
        ("#PBS -l nodes=1:ppn=16:gpus=1+1:ppn=8\n", 1, 1, None),
        ("#PBS -l nodes=4:ppn=2\n", None, None, None),
        ("#PBS -l select=ncpus=8:ngpus=2\n", 1, 2, None),
        ("#PBS -l select=2:ngpus=4\n", None, None, None),
        ("#PBS -l select=2:ngpus=4\n#PBS -l place=pack\n", None, None, None),
        ("#PBS -l select=$N:ngpus=4\n#PBS -l place=scatter\n", None, 4, None),
        ("#PBS -l walltime=1:00:00\n#PBS -N train\n", None, None, None),
        ("##PBS -l select=2:ngpus=4\n##PBS -l place=scatter\n", None, None, None),
        ("cd work\n#PBS -l nodes=2:gpus=4\n", None, None, None),
    ],
)
def test_what_the_lines_ask_for(
    tmp_path: Path, lines: str, nodes: int | None, gpus: int | None, exclusive: bool | None
) -> None:
    (run,) = read_runs([script(tmp_path, lines, "torchrun --nproc_per_node 2 train.py")], Options()).runs
    names = ("cluster.nodes", "cluster.gpus_per_node", "cluster.exclusive")
    found = [run.plan.get(name) for name in names]
    written = [each.value if isinstance(each, Value) and each.origin.kind == "written" else None for each in found]
    assert written == [nodes, gpus, exclusive]


@pytest.mark.parametrize(
    "count",
    [
        "$(sort -u $PBS_NODEFILE | wc -l)",
        '$(cat "$PBS_NODEFILE" | uniq | wc -l)',
        "$(uniq $PBS_NODEFILE | wc -l)",
        "$N",
    ],
)
def test_machines_that_the_node_file_lists(tmp_path: Path, count: str) -> None:
    lists = 'HOSTS=($(sort -u "$PBS_NODEFILE"))\nN=${#HOSTS[@]}'
    (run,) = read_runs([script(tmp_path, SCATTERED, lists, LAUNCH.format(count))], Options()).runs
    assert (run.plan.value("launch.nodes"), run.plan.value("launch.processes")) == (2, 8)


WAITS = "2 nodes are allocated and the script runs on the first: the launcher waits there for 1 that nobody starts"
CHUNKS = (
    "2 chunks are allocated and PBS runs the script on the machine of the first: "
    "the launcher waits there for 1 that nobody starts"
)


@pytest.mark.parametrize(
    ("lines", "commands", "found"),
    [
        (SCATTERED, LAUNCH.format(2), [WAITS]),
        (SCATTERED, RANK.format(0), [WAITS]),
        (SCATTERED, "torchrun --nproc_per_node 4 train.py", ["2 nodes are allocated and nothing starts on 1 of them"]),
        ("#PBS -l select=2:ngpus=4\n", LAUNCH.format(2), [CHUNKS]),
        ("#PBS -l select=2:ngpus=4\n", "torchrun --nproc_per_node 4 train.py", []),
        ("#PBS -l select=1:ngpus=4\n", "torchrun --nproc_per_node 4 train.py", []),
        (SCATTERED, "mpiexec -n 2 --ppn 1 " + LAUNCH.format(2), []),
        (SCATTERED, "pbsdsh -- " + LAUNCH.format(2), []),
        (SCATTERED, f'for n in $(sort -u $PBS_NODEFILE); do ssh $n "{LAUNCH.format(2).strip()}" & done', []),
    ],
)
def test_pbs_runs_a_script_on_its_first_machine(tmp_path: Path, lines: str, commands: str, found: list[str]) -> None:
    assert messages(script(tmp_path, lines, commands)) == found


@pytest.mark.parametrize(
    "other",
    [
        f'ssh $OTHER "{RANK.format(1)}" &',
        f"srun -N 1 -n 1 -w $OTHER {RANK.format(1)} &",
        "for n in $REST; do ssh $n bash $PWD/worker.sh $HEAD & done",
        'pdsh -w $REST "cd $PWD; nohup ./worker $HEAD > log 2>&1 &"',
        "ssh $OTHER ./start_worker_and_return",
        f"ssh -f $OTHER {RANK.format(1)}",
    ],
)
def test_a_launch_whose_other_agents_the_script_starts_elsewhere_waits_for_these(tmp_path: Path, other: str) -> None:
    assert messages(script(tmp_path, SLURM, other, RANK.format(0))) == []


def test_a_launch_in_the_background_may_await_what_follows(tmp_path: Path) -> None:
    assert messages(script(tmp_path, SLURM, RANK.format(0) + " &", f"ssh $OTHER {RANK.format(1)}")) == []


@pytest.mark.parametrize(
    "other",
    [
        "HEAD=$(srun -N 1 -n 1 -w $FIRST hostname --ip-address)",
        "srun mkdir -p /tmp/data",
        "ssh $OTHER nvidia-smi -L",
        "srun python prepare.py",
        "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint $HEAD:29400 first.py",
        "export $(grep -v '^#' .env | xargs)",
    ],
)
def test_what_has_ended_before_or_only_looks_is_no_agent(tmp_path: Path, other: str) -> None:
    assert messages(script(tmp_path, SLURM, other, LAUNCH.format(2))) == [WAITS]
