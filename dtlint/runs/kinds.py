"""What kind of file a path holds, by its name and, where the name does not tell, by its first bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from dtlint.account import content, is_file
from dtlint.frameworks.nemo.spelling import NEMO_MARKS
from dtlint.runs.front_ends import MARKS
from dtlint.runs.tree import MOST_SEARCHED, SHELL_SUFFIXES, Tree
from dtlint.source import MAX_BYTES

MANIFESTS = (
    b"PyTorchJob",
    b"MPIJob",
    b"TrainJob",
    b"RayJob",
    b"kind: Job",
    b"nvidia.com/gpu",
    b"accelerators:",
    b"SKYPILOT_",
)
"""What stands in the manifests of orchestrators that start training."""

MARKERS: dict[str, tuple[bytes, ...]] = {
    "shell": (
        b"torchrun",
        b"torch.distributed",
        b"deepspeed",
        b"srun",
        b"mpirun",
        b"accelerate",
        b"python",
        b"#SBATCH",
        b"megatron",
        b"swift",
        b"llamafactory",
        b"trl ",
        b"colossalai",
        b"run_train.sh",
    ),
    "toml": (b"_parallel_", b"[parallelism]"),
    "yaml": (
        b"distributed_type",
        b"per_device_train_batch_size",
        b"_model_parallel_size",
        b"exp_manager:",
        b"parallelism:",
        *MANIFESTS,
        *(mark.encode() for marks in MARKS.values() for mark in marks.file),
    ),
    "json": (
        b"zero_optimization",
        b"train_micro_batch_size_per_gpu",
        b"train_batch_size",
        b'"fp16"',
        b'"bf16"',
        b"transformer_layer_cls_to_wrap",
    ),
    "python": (
        b"torch.distributed",
        b"torch.nn.parallel",
        b"deepspeed",
        b"init_device_mesh",
        b"FullyShardedDataParallel",
        b"fully_shard",
        b"Trainer.Config",
        b"initialize_model_parallel",
        b"pytorch_lightning",
        b"import lightning",
        b"from lightning",
        b"lightning_fabric",
        b"colossalai.booster",
        *(mark.encode() for mark in NEMO_MARKS),
    ),
}
MARKERS["notebook"] = MARKERS["python"]
"""A file found in a folder is read only if it holds one of its kind's words; a file that the user names is always
read.
"""

STARTS = (b"subprocess", b"os.system", b"os.popen", b"os.exec")
LAUNCHERS = (
    b"torchrun", b"torch.distributed.launch", b"torch.distributed.run", b"deepspeed", b"accelerate", b"horovodrun",
    b"mpirun", b"mpiexec", b"srun", b"sbatch", b"llamafactory-cli", b"xtuner", b"colossalai",
)  # fmt: skip
"""A Python file may start a launch only if it holds one of either: a way to start a command, and a launcher."""

HEAD = 256
"""Bytes at the start of a file that tell its kind where its name does not."""

TOML_START = re.compile(r"(?:\s|#[^\n]*\n)*\[[A-Za-z_][\w.]*\][ \t]*(?:#[^\n]*)?\r?\n")
"""How a TOML file of sections begins."""
_IMPORT = r"(?m)^(?:import torch|from torch|import deepspeed|from [\w.]+ import )"


def kind_of(file: Path) -> str:
    """ "shell", "json", "yaml", "toml", "python", "notebook", or "" for a file that no reader takes."""
    suffix = file.suffix.lower()
    if suffix in SHELL_SUFFIXES:
        return "shell"
    if suffix in (".json", ".hjson"):
        return "json"
    if suffix in (".yaml", ".yml"):
        return "yaml"
    if suffix == ".toml":
        return "toml"
    if suffix in (".py", ".ipynb"):
        return "python" if suffix == ".py" else "notebook"
    return _by_content(file) if suffix in ("", ".txt", ".template", ".tmpl") else ""


def relevant(file: Path, kind: str) -> bool:
    """Whether a file found in a folder can matter: a bytes test for the words of its kind."""
    return holds_words(bytes_of(file, MAX_BYTES), kind)


def may_start(data: bytes) -> bool:
    """Whether a Python file may start a launch."""
    return any(word in data for word in STARTS) and any(word in data for word in LAUNCHERS)


def kind_in_folder(file: Path) -> str:
    """The kind of a file found in a folder, "" where it cannot matter; "starter" of a Python file that may start a
    launch and holds nothing else of interest.
    """
    kind = kind_of(file)
    return kind_that_matters(bytes_of(file, MAX_BYTES), kind) if kind else ""


def kind_that_matters(data: bytes, kind: str) -> str:
    """The same for a file of a kind by its bytes."""
    if holds_words(data, kind):
        return kind
    return "starter" if kind == "python" and may_start(data) else ""


def bytes_of(file: Path, most: int) -> bytes:
    """The bytes of a file, nothing of one that has more than `most` or cannot be read."""
    try:
        return content(file, most)[1] if is_file(file) else b""
    except OSError:
        return b""


def holds_words(data: bytes, kind: str) -> bool:
    """Whether a text holds one of the words of its kind."""
    return any(marker in data for marker in MARKERS[kind])


def searched(tree: Tree) -> tuple[Sequence[tuple[Path, str]], bool]:
    """The scripts and YAML files of the tree with their kinds, as many as are searched for names; whether there are
    more.
    """
    if tree.scripts is None:
        known = ((file, kind_of(file)) for file in tree.listing.files)
        wanted = ((file, kind) for file, kind in known if kind in ("shell", "yaml"))
        tree.scripts = tuple(islice(wanted, MOST_SEARCHED + 1))
    return tree.scripts[:MOST_SEARCHED], len(tree.scripts) > MOST_SEARCHED


def may_be_manifest(text: str) -> bool:
    """A quick test that most configs do not pass: whether it may be a manifest of an orchestrator."""
    return ("apiVersion" in text and "kind" in text) or ("run:" in text and ("resources:" in text or "setup:" in text))


def _by_content(file: Path) -> str:
    try:
        head = content(file, MAX_BYTES, HEAD)[1] if is_file(file) else b""
    except OSError:
        return ""
    first = head.split(b"\n", 1)[0]
    if first.startswith(b"#!"):
        return "python" if b"python" in first else "shell" if b"sh" in first else ""
    return "json" if head.lstrip()[:1] == b"{" else ""


def is_script(file: Path) -> bool:
    """Whether a file whose name does not tell is a script of a shell: by its first line, or by a word of a launch."""
    data = bytes_of(file, MAX_BYTES)
    first = data.split(b"\n", 1)[0]
    return (first.startswith(b"#!") and b"sh" in first) or holds_words(data, "shell")


def kind_of_text(text: str) -> str:
    """The kind of text that has no name: JSON by its brace, YAML by a key of its own, TOML by its first section,
    Python by its imports, else a script.
    """
    start = text.lstrip()
    if start.startswith("{"):
        return "json"
    if re.search(r"(?m)^(?:distributed_type|trainer|parallelism|apiVersion|resources|num_nodes):", start):
        return "yaml"
    if TOML_START.match(start):
        return "toml"
    lines = start.splitlines()
    first = lines[0] if lines else ""
    is_python = "python" in first if first.startswith("#!") else re.search(_IMPORT, start) is not None
    return "python" if is_python else "shell"


def python_near(folders: Sequence[Path], tree: Tree) -> Iterator[Path]:
    """The Python files in folders and in those above them, up to the root: what starts a program stands beside it."""
    near = dict.fromkeys(above for folder in folders for above in (folder, *folder.parents))
    for folder in (each for each in near if each.is_relative_to(tree.root)):
        yield from (file for file in tree.beside(folder) if file.suffix == ".py")
