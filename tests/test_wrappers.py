"""Commands around a launch whose options and operands are not all known."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import options_of
from dtlint.runs import read_runs

LAUNCH = "torchrun --nproc_per_node 8 train.py"


def launched(folder: Path, script: str) -> list[list[str]]:
    file = folder / "launch.sh"
    file.write_text(f"{script}\n", encoding="utf-8")
    return [
        [word.shown for word in run.launch.argv]
        for run in read_runs([file], options_of({})).runs
        if run.launch is not None
    ]


class TestOperands:
    @pytest.mark.parametrize(
        "start",
        [
            "docker run $IMAGE",
            "docker run --gpus all $1",
            "docker run --gpus all $(cat image.txt)",
            "docker exec $CONTAINER",
            "podman run --rm $IMAGE",
            "singularity exec --nv $IMAGE",
            "srun apptainer exec -B $BIND $IMAGE",
            "enroot start $CONTAINER",
            "timeout $SECONDS_LEFT",
            "taskset $MASK",
        ],
    )
    def test_an_unknown_word_before_the_program_is_the_operand_that_has_to_be_there(
        self, tmp_path: Path, start: str
    ) -> None:
        assert launched(tmp_path, f"{start} {LAUNCH}") == [LAUNCH.split()]

    @pytest.mark.parametrize(
        "start",
        [
            "docker run $OPTIONS image",
            "docker run $OPTIONS deepspeed/deepspeed",
            "docker run $OPTIONS $IMAGE",
            'docker run "$@" $IMAGE',
            "timeout $OPTIONS 3600",
            "singularity exec $NVIDIA image.sif",
        ],
    )
    def test_unknown_words_before_an_operand_are_options(self, tmp_path: Path, start: str) -> None:
        assert launched(tmp_path, f"{start} {LAUNCH}") == [LAUNCH.split()]

    @pytest.mark.parametrize("python", ["python", "$PYTHON", "$VENV/bin/python", "nohup python"])
    def test_behind_it_an_interpreter_is_one(self, tmp_path: Path, python: str) -> None:
        (words,) = launched(tmp_path, f"singularity exec $IMAGE {python} -m torch.distributed.run train.py")
        assert words[1:] == ["-m", "torch.distributed.run", "train.py"]

    def test_a_script_in_an_unknown_image_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "train.sh").write_text(f"{LAUNCH}\n", encoding="utf-8")
        assert launched(tmp_path, "docker run --gpus all $IMAGE bash train.sh") == [LAUNCH.split()]

    def test_what_only_names_a_launcher_starts_none(self, tmp_path: Path) -> None:
        assert launched(tmp_path, "docker run $IMAGE pip install deepspeed torchrun") == []
