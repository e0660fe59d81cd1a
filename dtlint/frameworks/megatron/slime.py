"""What the flags that slime adds to Megatron's claim: Ray's workers for the actor, and batches of the model's answers.

THUDM/slime 624b824 slime/utils/arguments.py, slime/backends/megatron_utils/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.keys import product
from dtlint.frameworks.megatron.given import Given
from dtlint.frameworks.options import integer, literal_place
from dtlint.value import Origin, Setting, Unknown, Value, default

_OWN = ("actor-num-gpus-per-node", "rollout-num-gpus-per-engine", "num-rollout")
"""Flags of which each of its command lines has one."""
_TOOL = "slime"
_NODES, _GPUS = 1, 8
_DYNAMIC = "use-dynamic-batch-size"


def is_slime(given: Given) -> bool:
    """Whether a command line starts slime's training."""
    return any(name in given.flags for name in _OWN)


def slime_claims(given: Given) -> Iterator[Claim]:
    """Claims of slime's own flags; none for other command lines."""
    if not is_slime(given):
        return
    yield from _launch(given)
    yield from _batch(given)
    yield Claim("sharding.stage", default(1, _TOOL))


def _launch(given: Given) -> Iterator[Claim]:
    """Ray starts a worker for each GPU of the actor."""
    nodes = _number(given, "actor-num-nodes", _NODES)
    each = _number(given, "actor-num-gpus-per-node", _GPUS)
    own = next(given.flags[name] for name in _OWN if name in given.flags)
    yield Claim("launch.launcher", Value("ray", Origin("default", literal_place(own.flag), (), _TOOL)))
    yield Claim("launch.nodes", nodes, "--actor-num-nodes")
    yield Claim("launch.processes_per_node", each, "--actor-num-gpus-per-node")
    yield Claim("launch.processes", product(each, nodes, "nodes"), "--actor-num-gpus-per-node")


def _number(given: Given, name: str, unasked: int) -> Setting:
    word = given.word(name)
    return default(unasked, _TOOL) if word is None else integer(word)


def _batch(given: Given) -> Iterator[Claim]:
    """A step takes the answers of a roll-out, or a share of them; packed up to a number of tokens no micro-batch has a
    size.
    """
    prompts = given.word("rollout-batch-size")
    answers = (
        None if prompts is None else product(integer(prompts), _number(given, "n-samples-per-prompt", 1), "answers")
    )
    steps = given.number("num-steps-per-rollout")
    if answers is not None and isinstance(answers, Value) and isinstance(answers.value, int) and steps:
        yield Claim("batch.global", answers._replace(value=answers.value // steps), "--rollout-batch-size")
    if given.has(_DYNAMIC):
        place = Origin("written", literal_place(given.flags[_DYNAMIC].flag))
        for name in ("batch.micro", "batch.accumulation"):
            reason = f"--{_DYNAMIC} packs samples up to a number of tokens"
            yield Claim(name, Unknown(reason, f"--set {name}=N", place), f"--{_DYNAMIC}")
    elif given.word("micro-batch-size") is None:
        yield Claim("batch.micro", default(1, _TOOL), "--micro-batch-size")
