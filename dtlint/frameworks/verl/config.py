"""verl's config, hydra keys in files or on its command line: the plan of the actor, and that of the critic beside it.

verl 0.7 (b178a3c) verl/trainer/config, verl/utils/config.py and verl/trainer/ppo/utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from dtlint.frameworks import NamedFile, Reading
from dtlint.frameworks.answers import length, ray_launch
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.dotted_keys import Keys, without_part
from dtlint.frameworks.hydra.command_line import overrides
from dtlint.frameworks.hydra.defaults import items
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import hidden, keys_of, model_named
from dtlint.frameworks.verl.refused import UNPADDING, refused, without_refused
from dtlint.frameworks.verl.workers import (
    ACTOR,
    CRITIC,
    Worker,
    claims_of_worker,
    engine_claims,
    framework_of,
    spell_for,
    unwritten_engine,
)
from dtlint.languages.json_tree import Document, Node
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Plain

LAYER = "verl"
CRITICS_LAYER = "verl-critic"

_SHIPPED = ("ppo_trainer", "ppo_megatron_trainer")


def recognise(document: Document) -> bool:
    """Whether a file is a config of verl: it has a section of the actor and of the trainer or the data."""
    keys = {entry.key for entry in document.root.entries} if document.root is not None else set()
    return "actor_rollout_ref" in keys and bool(keys & {"trainer", "data", "defaults", "algorithm"})


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is verl's trainer, or its arguments override verl's config."""
    main = bool(program) and (program[0].text or "").removesuffix(".py").endswith("main_ppo")
    return main or sum(word.shown.lstrip("+").startswith("actor_rollout_ref.") for word in program[1:]) >= 2


def read_program(program: Sequence[Word]) -> Reading:
    """The program, whose config its command line or its decorator names."""
    return Reading("program", program[0].place, files=(NamedFile("verl", program[0]),), frontend="verl")


def read_composed(document: Document | None, program: Sequence[Word], missing: Sequence[str]) -> Reading:
    """What hydra's config claims with the overrides of the command line; verl's own config stands behind it."""
    reading = read_config(() if document is None else (document,), program[1:])
    place, why = stretch(program[1:], program[0].place), reading.open
    lost = next((name for name in missing if not is_shipped(name)), "")
    found = {role: _launched(each, place, why, lost) for role, each in reading.roles.items()}
    if _is_own(program[0]):
        reading = reading._replace(claims=(*reading.claims, *unwritten_engine(reading.claims, reading.framework)))
    return _launched(reading, place, why, lost)._replace(roles=found)


def _is_own(program: Word) -> bool:
    """Whether the program is verl's own, whose config is the one that verl ships; a fork's recipe has another."""
    return (program.text or "").replace("/", ".").removesuffix(".py").endswith("verl.trainer.main_ppo")


def is_shipped(name: str) -> bool:
    """Whether a config is one that verl brings, which says what is the default."""
    return PurePosixPath(name).name.removesuffix(".yaml") in _SHIPPED


def _launched(reading: Reading, place: Span | None, why: str, lost: str) -> Reading:
    """A reading of a command line, to which further overrides are added."""
    found = reading._replace(place=place, open=why)
    return without_part(found, lost) if lost else found


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, and words that override them, claim about the actor's training, and in `roles` the critic's.

    Samples of one optimizer step are ppo_mini_batch_size prompts with rollout.n answers each.
    """
    roots = [document.root for document in documents]
    keys = resolved(keys_of(roots, words, given=overrides))
    place = next((document.root.span for document in documents if document.root is not None), None)
    framework = framework_of(keys, ACTOR) or ("megatron" if _names_megatron(roots, words) else "fsdp")
    actor, unread = _reading(keys, ACTOR, framework, place), hidden(roots, words)
    critic = {role: each._replace(open=unread) for role, each in _critic(keys, framework, place).items()}
    return actor._replace(roles=critic, open=unread)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`trainer.nnodes=2`)."""
    return spell_for(ACTOR, setting_name, value)


def _reading(keys: Keys, worker: Worker, framework: str, place: Span | None) -> Reading:
    named, files = model_named(keys, f"{worker.model}.path")
    members = refused(keys, worker, framework)
    own = without_refused(claims_of_worker(keys, worker, framework), members)
    lengths = length(keys, _unpadding(keys, worker, framework))
    claims = (*ray_launch(keys, "verl", place), *own, *engine_claims(keys, worker), *lengths, *named)
    layer, told = CRITICS_LAYER if worker is CRITIC else LAYER, {"config.refused": members} if members else {}
    return Reading(layer, place, claims, files, framework=framework, frontend="verl", collections=told)


def _unpadding(keys: Keys, worker: Worker, framework: str) -> Node | None:
    """The switch that takes the padding out; Megatron's workers pack every batch."""
    return keys.node(f"{worker.model}.{UNPADDING}") if framework == "fsdp" else None


def _critic(keys: Keys, framework: str, place: Span | None) -> Mapping[str, Reading]:
    """The critic's plan, where the estimate of advantages needs one (GAE, unless another is named) and a key of it is
    written.
    """
    estimator, asked = keys.known("algorithm.adv_estimator"), keys.known("critic.enable")
    needed = estimator in (None, "gae") if asked is None else asked is True
    if not needed or keys.node(f"{CRITIC.model}.path") is None:
        return {}
    return {"critic": _reading(keys, CRITIC, framework_of(keys, CRITIC) or framework, place)}


def _names_megatron(roots: Sequence[Node | None], words: Sequence[Word]) -> bool:
    """Whether the config that verl ships for Megatron is named, by the command line or a defaults list."""
    named = any("megatron" in word.shown for word in words if "config-name" in word.shown)
    return named or any(_SHIPPED[1] in item.options for root in roots for item in items(root))
