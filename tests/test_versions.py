"""The releases of the frameworks come from the files around a run's script, the nearest first."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest
from readings import claims

from dtlint.config import Config
from dtlint.frameworks.requirements import kind_of_requirements, read_requirements
from dtlint.plan import Plan
from dtlint.rulebook.check import check
from dtlint.rulebook.load import built_in
from dtlint.runs import Options, read_runs
from dtlint.source import Source
from dtlint.value import Unknown, Value, given

LAUNCH = "deepspeed --num_gpus 8 run_clm.py --model_name_or_path gpt2 --do_train --fp16 --deepspeed ds.json"
CONFIG = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'


def asked(name: str, text: str) -> dict[str, object]:
    return claims(read_requirements(Source(name, text), kind_of_requirements(name)))


def plan(folder: Path, files: dict[str, str], start: str = "run.sh", **settings: str) -> Plan:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in {"run.sh": f"{LAUNCH}\n", "ds.json": CONFIG, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    options = Options({name.replace("__", "."): given(value) for name, value in settings.items()})
    return read_runs([folder / start], options).runs[0].plan


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("requirements.txt", "lines"),
            ("requirements-train.txt", "lines"),
            ("train_requirements.txt", "lines"),
            ("constraints.txt", "lines"),
            ("poetry.lock", "lock"),
            ("uv.lock", "lock"),
            ("Pipfile.lock", "pipfile-lock"),
            ("pyproject.toml", "project"),
            ("setup.py", "project"),
            ("environment.yml", "conda"),
            ("conda_env.yaml", "conda"),
            ("Dockerfile", "docker"),
            ("Dockerfile.cu121", "docker"),
            ("train.Dockerfile", "docker"),
            ("setup.cfg", "lines"),
            ("README.txt", ""),
            ("yarn.lock", ""),
            ("accelerate.yaml", ""),
        ],
    )
    def test_kinds(self, name: str, kind: str) -> None:
        assert kind_of_requirements(name) == kind

    def test_requirements(self) -> None:
        text = (
            "# torch==1.0\n"
            "torch==2.1.0+cu118  # comment\n"
            "transformers[torch]>=4.36,<4.40 ; python_version > '3.8'\n"
            "Deep-Speed==1.0\ndeepspeed == 0.9.5\n"
            "accelerate\n"
            "torchvision==0.16\n"
            "trl @ git+https://github.com/huggingface/trl\n"
            "megatron_core~=0.12.1\n"
        )
        assert asked("requirements.txt", text) == {
            "version.torch": "2.1.0",
            "version.transformers": ">=4.36,<4.40",
            "version.deepspeed": "0.9.5",
            "version.megatron_core": ">=0.12.1,<0.13",
        }

    def test_the_place_is_the_version(self) -> None:
        (claim,) = read_requirements(Source("requirements.txt", "tqdm\ndeepspeed==0.9.5\n"), "lines").claims
        assert isinstance(claim.value, Value) and claim.value.origin.span is not None
        assert (claim.value.origin.span.line, claim.value.origin.span.text) == (2, "==0.9.5")

    @pytest.mark.parametrize("name", ["poetry.lock", "uv.lock"])
    def test_locks(self, name: str) -> None:
        text = '[[package]]\nname = "torch"\nversion = "2.5.1"\n\n[[package]]\nname = "torchao"\nversion = "0.1"\n'
        assert asked(name, text) == {"version.torch": "2.5.1"}

    def test_pipfile_lock(self) -> None:
        text = '{"default": {"deepspeed": {"hashes": ["sha256:0"], "index": "pypi", "version": "==0.14.4"}}}'
        assert asked("Pipfile.lock", text) == {"version.deepspeed": "0.14.4"}

    def test_project(self) -> None:
        text = (
            '[build-system]\nrequires = ["setuptools", "torch==2.0"]\n\n'
            '[project]\ndependencies = ["transformers>=4.46", "deepspeed[autotuning]==0.16.4"]\n'
        )
        assert asked("pyproject.toml", text) == {"version.transformers": ">=4.46", "version.deepspeed": "0.16.4"}

    def test_what_only_the_build_needs_is_left_out(self) -> None:
        text = '[build-system]\nrequires = ["torch==2.0"]\nbackend-path = ["."]\nbuild-backend = "b"\n[project]\nname = "x"\n'
        assert asked("pyproject.toml", text) == {}

    def test_poetry(self) -> None:
        text = (
            '[tool.poetry.dependencies]\ntorch = "^2.1"\ndeepspeed = {version = "0.12.6", optional = true}\n'
            'accelerate = "*"\n'
        )
        assert asked("pyproject.toml", text) == {"version.torch": ">=2.1,<3.0", "version.deepspeed": "0.12.6"}

    def test_setup(self) -> None:
        assert asked("setup.py", "setup(install_requires=['deepspeed>=0.9.3', 'torch'])") == {
            "version.deepspeed": ">=0.9.3"
        }

    def test_conda(self) -> None:
        text = (
            "name: train\ndependencies:\n  - python=3.10\n  - pytorch=2.1.0=py3.10_cuda12.1_0\n"
            "  - conda-forge::accelerate=0.25\n  - pip:\n      - deepspeed==0.12.4\n"
        )
        assert asked("environment.yml", text) == {
            "version.torch": ">=2.1,<2.1.1",
            "version.accelerate": ">=0.25,<0.26",
            "version.deepspeed": "0.12.4",
        }

    def test_dockerfile(self) -> None:
        text = (
            "FROM pytorch/pytorch:2.1.0-cuda12.1-cudnn8-devel AS base\n"
            "RUN apt-get install -y git && \\\n    pip install --no-cache-dir deepspeed==0.9.5 'transformers>=4.31,<5' \\\n"
            "    accelerate==0.21.0\n"
            "ENV X=trl==0.1\n"
        )
        assert asked("Dockerfile", text) == {
            "version.torch": "2.1.0",
            "version.deepspeed": "0.9.5",
            "version.transformers": ">=4.31,<5.0",
            "version.accelerate": "0.21.0",
        }

    @pytest.mark.parametrize(
        ("image", "torch"),
        [
            ("nvcr.io/nvidia/pytorch:24.01-py3", "2.2"),
            ("pytorch/pytorch:2.4.1-cuda12.4-cudnn9-runtime", "2.4.1"),
            ("nvcr.io/nvidia/pytorch:19.01-py3", None),
            ("pytorch/pytorch:latest", None),
            ("pytorch/pytorch", None),
            ("${BASE}:24.01-py3", None),
        ],
    )
    def test_images(self, image: str, torch: str | None) -> None:
        assert asked("Dockerfile", f"FROM {image}\n").get("version.torch") == torch

    @pytest.mark.parametrize(
        ("image", "release"),
        [
            ("deepspeed/deepspeed:v031_torch17_cuda11", "0.3.1"),
            ("deepspeed/deepspeed:v072_torch112_cu117", "0.7.2"),
            ("deepspeed/deepspeed:v0310_torch17", None),
            ("deepspeed/deepspeed:latest_torch111", None),
        ],
    )
    def test_images_of_deepspeed(self, image: str, release: str | None) -> None:
        assert asked("Dockerfile", f"FROM {image}\n").get("version.deepspeed") == release

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("requirements.txt", "deepspeed @ git+https://github.com/microsoft/DeepSpeed.git@v0.9.2\n"),
            ("requirements.txt", "git+https://github.com/deepspeedai/DeepSpeed@v0.9.2\n"),
            ("setup.py", "install_requires=['deepspeed @ git+https://github.com/microsoft/DeepSpeed@v0.9.2']"),
            ("Dockerfile", "FROM x\nRUN pip install git+https://github.com/microsoft/DeepSpeed.git@v0.9.2\n"),
            ("environment.yml", "- pip:\n  - git+https://github.com/microsoft/DeepSpeed.git@v0.9.2\n"),
            ("setup.cfg", "[options]\ninstall_requires =\n    deepspeed==0.9.2\n"),
        ],
    )
    def test_a_tag_of_the_repository_and_other_forms(self, name: str, text: str) -> None:
        assert asked(name, text) == {"version.deepspeed": "0.9.2"}


NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["!DS_BUILD_OPS=1 pip install deepspeed==0.3.7\\n"]}]}'


class TestElsewhere:
    """Where no file around the script asks for a package, what the tree speaks of elsewhere is a range."""

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("README.md", "    pip install deepspeed==0.6.5 transformers\n"),
            ("README.rst", "Tested with DeepSpeed == 0.6.5.\n"),
            ("docs/INSTALL.md", "`pip install deepspeed==0.6.5`\n"),
            ("environments/environment-gpu.yaml", "dependencies:\n  - pip:\n    - deepspeed==0.6.5\n"),
            ("setup/pip-requirements.txt", "deepspeed==0.6.5\n"),
            ("install_deps.sh", "pip install \\\n  deepspeed==0.6.5\n"),
            ("gcp/Dockerfile", "FROM x\nRUN pip install deepspeed==0.6.5\n"),
            ("docker/notes.md", "pip install deepspeed==0.9.5\n"),
        ],
    )
    def test_places(self, tmp_path: Path, name: str, text: str) -> None:
        known = None if name == "docker/notes.md" else "0.6.5"
        assert plan(tmp_path, {name: text}).value("version.deepspeed") == known

    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("thanks to transformers <3 (for the checkpoints)\n", None),
            ("- transformers <3\n", None),
            ("pip install 'transformers<3'\n", "<3.0"),
            ("needs transformers <3.1\n", "<3.1"),
            ("needs transformers >=2, <3\n", ">=2.0,<3.0"),
            ("needs transformers <4\n", "<4.0"),
        ],
    )
    def test_a_heart_is_no_bound(self, tmp_path: Path, text: str, known: str | None) -> None:
        assert plan(tmp_path, {"README.md": text}).value("version.transformers") == known

    def test_several_are_a_range(self, tmp_path: Path) -> None:
        files = {"examples/finetune.ipynb": NOTEBOOK, "README.md": "pip install deepspeed==0.7.4\n"}
        assert plan(tmp_path, files).value("version.deepspeed") == ">=0.3.7,<=0.7.4"

    def test_an_open_end_stays_open(self, tmp_path: Path) -> None:
        files = {"README.md": "DeepSpeed >= 0.9\n", "a/requirements.txt": "deepspeed==0.7.4\n"}
        assert plan(tmp_path, files).value("version.deepspeed") == ">=0.7.4"

    def test_what_a_file_around_the_script_asks_for_counts_alone(self, tmp_path: Path) -> None:
        files = {"README.md": "pip install deepspeed==0.6.5\n", "requirements.txt": "deepspeed==0.14.0\n"}
        assert plan(tmp_path, files).value("version.deepspeed") == "0.14.0"

    def test_what_a_notebook_prints_is_no_pin(self, tmp_path: Path) -> None:
        text = '{"cells": [{"outputs": [{"text": ["Requirement already satisfied: torch>=1.2 in /usr\\n"]}]}]}'
        assert plan(tmp_path, {"a.ipynb": text}).value("version.torch") is None


class TestRun:
    def test_framework_version_is_that_of_its_package(self, tmp_path: Path) -> None:
        found = plan(tmp_path, {"requirements.txt": "deepspeed==0.15.4\ntorch==2.4.0\n"})
        assert found.value("framework.version") == "0.15.4"
        assert found.value("version.torch") == "2.4.0"

    def test_without_a_file_it_is_unknown(self, tmp_path: Path) -> None:
        assert isinstance(plan(tmp_path, {}).get("framework.version"), Unknown)

    def test_the_user_overrides_files(self, tmp_path: Path) -> None:
        files = {"requirements.txt": "deepspeed==0.15.4\n"}
        assert plan(tmp_path, files, framework__version="0.19.6").value("framework.version") == "0.19.6"

    def test_the_nearest_folder_decides(self, tmp_path: Path) -> None:
        files = {
            "requirements.txt": "deepspeed==0.9.5\ntorch==2.0.1\n",
            "jobs/run.sh": f"{LAUNCH}\n",
            "jobs/requirements.txt": "deepspeed==0.14.0\n",
        }
        found = plan(tmp_path, files, "jobs/run.sh")
        assert (found.value("version.deepspeed"), found.value("version.torch")) == ("0.14.0", "2.0.1")

    def test_a_nearer_readme_counts_before_what_a_folder_further_up_asks_for(self, tmp_path: Path) -> None:
        files = {
            "requirements.txt": "deepspeed==0.9.5\ntorch==2.1.1\n",
            "README.md": "pip install torch==2.4.0\n",
            "parts/README.md": "conda install pytorch==1.12.1 -c pytorch\n",
            "parts/jobs/run.sh": f"{LAUNCH}\n",
        }
        found = plan(tmp_path, files, "parts/jobs/run.sh")
        assert (found.value("version.deepspeed"), found.value("version.torch")) == ("0.9.5", "1.12.1")
        files["parts/jobs/requirements.txt"] = "torch==1.10.0\n"
        assert plan(tmp_path, files, "parts/jobs/run.sh").value("version.torch") == "1.10.0"

    def test_the_program_may_lie_deeper_than_the_script(self, tmp_path: Path) -> None:
        program = "import deepspeed\nimport torch\nmodel, optimizer, _, _ = deepspeed.initialize(model=net)\n"
        files = {
            "run.sh": "deepspeed --num_gpus 8 src/gpt/train.py --deepspeed_config ds.json\n",
            "src/gpt/train.py": program,
            "src/gpt/requirements.txt": "deepspeed==0.14.0\n",
            "requirements.txt": "deepspeed==0.9.5\n",
        }
        assert plan(tmp_path, files).value("version.deepspeed") == "0.14.0"

    def test_a_lock_narrows_a_range_beside_it(self, tmp_path: Path) -> None:
        files = {
            "pyproject.toml": '[project]\ndependencies = ["deepspeed>=0.9,<0.17"]\n',
            "uv.lock": '[[package]]\nname = "deepspeed"\nversion = "0.16.4"\n',
        }
        found = plan(tmp_path, files).get("version.deepspeed")
        assert isinstance(found, Value) and found.origin.span is not None
        assert (found.value, found.origin.span.source.path.rpartition("/")[2]) == ("0.16.4", "uv.lock")

    def test_a_folder_of_requirements(self, tmp_path: Path) -> None:
        found = plan(tmp_path, {"requirements/train.txt": "deepspeed==0.16.4\n", "docker/Dockerfile.gpu": "FROM x\n"})
        assert found.value("framework.version") == "0.16.4"

    def test_files_that_disagree_leave_it_unknown(self, tmp_path: Path) -> None:
        files = {"requirements.txt": "deepspeed==0.9.5\n", "Dockerfile": "FROM x\nRUN pip install deepspeed==0.14.0\n"}
        found = plan(tmp_path, files).get("framework.version")
        assert isinstance(found, Unknown)
        assert "0.9.5" in found.reason and "0.14" in found.reason and "Dockerfile" in found.reason

    @pytest.mark.parametrize(
        "script",
        [
            f"srun --container-image=nvcr.io/nvidia/pytorch:24.07-py3 {LAUNCH}\n",
            f"#SBATCH --container-image nvcr.io#nvidia/pytorch:24.07-py3\n{LAUNCH}\n",
            f"docker run --gpus all nvcr.io/nvidia/pytorch:24.07-py3 {LAUNCH}\n",
            f"singularity exec --nv docker://nvcr.io/nvidia/pytorch:24.07-py3 {LAUNCH}\n",
            f"pip install torch==2.4 tqdm\n{LAUNCH}\n",
            f"python -m pip install 'torch==2.4.0'\n{LAUNCH}\n",
        ],
    )
    def test_what_the_launch_says_counts_before_files(self, tmp_path: Path, script: str) -> None:
        found = plan(tmp_path, {"run.sh": script, "requirements.txt": "torch==2.0.1\n"})
        assert found.value("version.torch") in ("2.4", "2.4.0")

    def test_a_tree_of_megatron_states_its_own(self, tmp_path: Path) -> None:
        files = {
            "megatron/core/package_info.py": "MAJOR = 0\nMINOR = 12\nPATCH = 0\nPRE_RELEASE = 'rc0'\n",
            "run.sh": "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 "
            "--num-attention-heads 12 --micro-batch-size 1 --seq-length 1024\n",
        }
        assert plan(tmp_path, files).value("framework.version") == "0.12.0"

    def test_nothing_outside_the_root_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "requirements.txt").write_text("deepspeed==0.9.5\n")
        (tmp_path / "tree").mkdir()
        assert plan(tmp_path / "tree", {}).value("version.deepspeed") is None

    def test_versions_of_one_package_do_not_date_the_defaults_of_another(self, tmp_path: Path) -> None:
        """That the Trainer computes in fp32 unasked holds before Transformers 5, whatever PyTorch's version is."""
        script = "torchrun --nproc_per_node 8 run_clm.py --model_name_or_path gpt2 --do_train --output_dir out\n"
        tools = {}
        for version in ("4.46.0", "5.2.0"):
            files = {"run.sh": script, "requirements.txt": f"torch==2.4.0\ntransformers=={version}\n"}
            found = plan(tmp_path, files)
            precision = found.get("precision.compute")
            assert isinstance(precision, Value)
            assert found.value("framework.version") == "2.4.0"
            tools[version] = precision.origin.note
        assert tools == {"4.46.0": "Hugging Face Trainer", "5.2.0": "PyTorch DDP"}


class TestRules:
    def test_clipping_that_nobody_asked_for_is_no_error_where_it_is_left_out(self, tmp_path: Path) -> None:
        plan(tmp_path, {"requirements.txt": "deepspeed==0.15.4\n"})
        rules = [rule for rule in built_in() if rule.name == "clipping-left-out"]
        report = check(read_runs([tmp_path], Options()), rules, Config())
        assert [finding.severity for finding in report.findings] == ["note"]

    @pytest.mark.parametrize(
        ("pin", "severities"),
        [
            ("deepspeed==0.15.4", ["error"]),
            ("deepspeed>=0.9,<0.12", ["error"]),
            ("deepspeed>=0.9", ["note"]),
            ("tqdm", ["note"]),
            ("deepspeed==0.19.6", []),
            ("deepspeed>=0.19.3", []),
        ],
    )
    def test_a_rule_fires_where_all_versions_agree(self, tmp_path: Path, pin: str, severities: list[str]) -> None:
        """Clipping of the Trainer does not reach DeepSpeed before 0.19.3 without its own key."""
        plan(tmp_path, {"requirements.txt": f"{pin}\n", "run.sh": f"{LAUNCH} --max_grad_norm 1.0\n"})
        rules = [rule for rule in built_in() if rule.name == "clipping-left-out"]
        report = check(read_runs([tmp_path], Options()), rules, Config())
        assert [finding.severity for finding in report.findings] == severities


class TestSinceARelease:
    """A key that DeepSpeed's releases from 0.7.0 on refuse in zero_optimization, and a value that those from 0.19.3 on
    do.
    """

    CONFIG = (
        '{"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": true, "min_loss_scale": 0}, "gradient_clipping": 1.0,'
        ' "zero_optimization": {"stage": 2, "overlap_com": true}}'
    )

    @pytest.mark.parametrize(
        ("pin", "unknown", "value"),
        [
            ("", "error", "note"),
            ("deepspeed==0.6.5", "note", ""),
            ("deepspeed>=0.6", "note", "note"),
            ("deepspeed==0.18.0", "error", ""),
            ("deepspeed==0.19.4", "error", "error"),
        ],
    )
    @pytest.mark.parametrize("name", ["requirements.txt", "README.md", "env/environment.yml"])
    def test_severity(self, tmp_path: Path, name: str, pin: str, unknown: str, value: str) -> None:
        text = f"dependencies:\n- pip:\n  - {pin}\n" if name.endswith(".yml") else f"{pin}\n"
        plan(
            tmp_path, {name: text, "ds.json": self.CONFIG, "run.sh": "deepspeed train.py --deepspeed_config ds.json\n"}
        )
        rules = [rule for rule in built_in() if rule.name in ("unknown-setting", "setting-type")]
        report = check(read_runs([tmp_path], Options()), rules, Config())
        found = {finding.rule: finding.severity for finding in report.findings}
        assert (found.get("unknown-setting", ""), found.get("setting-type", "")) == (unknown, value)


@pytest.mark.parametrize(
    "name", ["requirements.txt", "pyproject.toml", "Dockerfile", "environment.yml", "Pipfile.lock"]
)
@pytest.mark.parametrize("text", ["\n" * 200_000, "RUN pip " * 50_000, "torch==1,<" * 40_000, '"torch": {' * 40_000])
def test_hostile_text_is_read_in_time(name: str, text: str) -> None:
    started = perf_counter()
    asked(name, text)
    assert perf_counter() - started < 5
