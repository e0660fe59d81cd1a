"""LLaMA-Factory's command `llamafactory-cli train`: it starts torchrun by itself, told by the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading, torchrun
from dtlint.frameworks.environment import ENVIRONMENT
from dtlint.frameworks.inherited import with_inherited
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.seen_devices import one_for_each
from dtlint.languages.traced import Word, setting_of
from dtlint.value import written

_VARIABLES = ("NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
_NAMES = ("llamafactory-cli", "lmf")


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is LLaMA-Factory's training command."""
    return len(words) > 1 and program_name(words[0]) in _NAMES and words[1].text == "train"


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """What the command starts: one process for each GPU that it sees, as many on each node as NPROC_PER_NODE says
    (src/llamafactory/launcher.py of 0.9.5); `rest` is the command with the arguments of the training program. RANK,
    by which releases up to 0.9.0 number the nodes, is among the variables.
    """
    options = {"PET_" + name: env[name] for name in _VARIABLES if name in env}
    reading = with_inherited(torchrun.read_launch(words[:1], options), env)
    claims = tuple(claim for claim in reading.claims if "NPROC_PER_NODE" in env or not _is_count(claim))
    if "NPROC_PER_NODE" not in env:
        claims += (Claim("launch.processes_per_node", one_for_each(env), words[0].shown),)
    return reading._replace(
        claims=(*claims, Claim("launch.launcher", setting_of(words[0], "torchrun"))),
        rest=(words[0], *words[2:]),
        frontend="llama-factory",
        collections={**reading.collections, **_older_rank(env)},
    )


def _older_rank(env: Mapping[str, Word]) -> Mapping[str, tuple[Member, ...]]:
    word = env.get("RANK")
    if word is None:
        return {}
    fields = {"name": written("RANK", word.place), "value": setting_of(word)}
    return {ENVIRONMENT: (Member(word.place, fields),)}


def _is_count(claim: Claim) -> bool:
    return claim.setting in ("launch.processes_per_node", "launch.launcher")
