"""A program that a container has under another path is the one that lies in the folder which is mounted there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import options_of
from dtlint.runs import read_runs

TRAIN = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(net())\n"
LAUNCH = "torchrun --nproc_per_node 8 /work/train.py"


@pytest.mark.parametrize(
    "command",
    [
        f"docker run --gpus all -v $PWD:/work image {LAUNCH}",
        f'docker run --gpus all -v "$(pwd)":/work:rw -w /work image {LAUNCH}',
        f"docker run --volume=.:/work image {LAUNCH}",
        f"podman run --mount type=bind,source=$PWD,target=/work/ image {LAUNCH}",
        f"singularity exec --nv -B /data:/data,$PWD:/work image.sif {LAUNCH}",
        f"apptainer exec --bind $PWD:/work image.sif {LAUNCH}",
        "srun --container-image=image --container-mounts=/data:/data,$PWD:/work python /work/train.py",
        f'srun --container-image=image --container-mounts=$PWD:/work bash -c "{LAUNCH}"',
        "#!/bin/bash\n#SBATCH --nodes=2 --container-mounts=.:/work\nsrun python -u /work/train.py",
    ],
)
def test_the_folder_of_the_script_under_another_name(tree, command: str) -> None:
    tree({"run.sh": f"{command}\n", "train.py": TRAIN})
    (run,) = read_runs([Path("run.sh")], options_of()).runs
    assert [source.path for source in run.sources] == ["run.sh", "train.py"]
    assert run.assumptions == ()


@pytest.mark.parametrize(
    "command",
    [
        f"docker run -v $CODE:/work image {LAUNCH}",
        f"docker run -v /srv/code:/work image {LAUNCH}",
        f"docker run -v $PWD:/workspace image {LAUNCH}",
        f"docker run image {LAUNCH}",
    ],
)
def test_what_another_folder_holds_is_supposed(tree, command: str) -> None:
    tree({"run.sh": f"{command}\n", "train.py": TRAIN})
    (run,) = read_runs([Path("run.sh")], options_of()).runs
    assert run.assumptions == ("train.py was taken for /work/train.py, whose folder is not here",)


def test_a_folder_below_the_script(tree) -> None:
    files = {"src/train.py": TRAIN}
    tree({"run.sh": f"docker run -v $PWD/src:/work image {LAUNCH}\n", **files})
    (run,) = read_runs([Path("run.sh")], options_of()).runs
    assert [source.path for source in run.sources] == ["run.sh", "src/train.py"]
