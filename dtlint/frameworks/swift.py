"""ms-swift's commands `swift sft` and `megatron sft`: they start torchrun by themselves, told by the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks import Claim, Member, Reading, torchrun
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.inherited import with_inherited
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.seen_devices import VISIBLE, seen
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Setting, Unknown, Value

_TASKS = ("pt", "sft", "rlhf")
_VARIABLES = ("NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR")
_COUNT = "NPROC_PER_NODE"
_ENGINE = "--deepspeed"
_OTHERWISE = ("SWIFT_SINGLE_DEVICE_MODE", "USE_FAST_INFERENCE", "USE_TORCHACC")
"""Variables under which a release does not spread the model over the GPUs that a process sees."""
_ELSEWHERE = ("--use_ray", "--use-ray")
"""Options under which Ray starts the workers."""


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is a training command of ms-swift."""
    return len(words) > 1 and program_name(words[0]) in ("swift", "megatron") and words[1].text in _TASKS


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """What the command starts; `rest` is the task (`sft`) with the arguments of the training program.

    NPROC_PER_NODE or NNODES make it start torchrun with these variables as options (swift/cli/main.py); without them it
    is one process.
    """
    refused = _spread(words, env)
    if env.keys() & {"NPROC_PER_NODE", "NNODES"}:
        options = {"PET_" + name: env[name] for name in _VARIABLES if name in env}
        reading = with_inherited(torchrun.read_launch(words[:1], options), env)
    else:
        reading = _one_process(words[0], refused)
    told = {"config.refused": (*reading.collections.get("config.refused", ()), refused)} if refused else {}
    collections = {**reading.collections, **told}
    return reading._replace(rest=tuple(words[1:]), frontend="ms-swift", collections=collections)


def _one_process(command: Word, refused: Member | None) -> Reading:
    """A command that starts one process; of one that is refused as such it is not known how many are meant."""
    count: Setting = setting_of(command, 1)
    if refused is not None:
        count = Unknown(f"ms-swift refuses {_ENGINE} in one process that sees several GPUs", "--set launch.processes=N")
    claims = (
        Claim("launch.launcher", setting_of(command, "python"), command.shown),
        Claim("launch.processes", count, command.shown),
    )
    return Reading("python", command.place, claims)


def _spread(words: Sequence[Word], env: Mapping[str, Word]) -> Member | None:
    """--deepspeed where the processes of a machine are fewer than the GPUs that they see, as a member of
    `config.refused`: ms-swift spreads the model of each over its share of them then, and takes no DeepSpeed there
    (ms-swift 2.6 to 4.0: train_args.py, _init_deepspeed; utils/env.py, is_mp).
    """
    engine, visible = _engine(words), seen(env.get(VISIBLE))
    processes = _processes(env)
    if engine is None or processes is None or not isinstance(visible, Value) or visible.origin.kind != "written":
        return None
    gpus = visible.value
    if not isinstance(gpus, int) or gpus <= processes or any(name in env for name in _OTHERWISE):
        return None
    several = "one process sees" if processes == 1 else f"{processes} processes see"
    fields = {"relation": "needs", "partner": f"{_COUNT}={gpus}", "since": ""}
    reason = f"{several} {gpus} GPUs, and ms-swift spreads the model over them, where it takes no DeepSpeed"
    related = ((env[VISIBLE].place, f"{gpus} GPUs"),)
    return Member(engine.place, texts(engine.place, key=_ENGINE, reason=reason, **fields), related)


def _engine(words: Sequence[Word]) -> Word | None:
    """The option that asks for DeepSpeed, unless Ray starts the workers or an unknown word may say so."""
    unknown = any(word.text is None and not (before.text or "").startswith("--") for before, word in pairwise(words))
    if unknown or any((word.text or "").startswith(_ELSEWHERE) for word in words):
        return None
    return next((word for word in words if (word.text or "").partition("=")[0] == _ENGINE), None)


def _processes(env: Mapping[str, Word]) -> int | None:
    """Processes of each machine: one where the environment does not say (torchrun's --nproc_per_node)."""
    if _COUNT not in env:
        return 1
    text = env[_COUNT].text or ""
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) < 5 else None
