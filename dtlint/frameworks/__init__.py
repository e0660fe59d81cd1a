"""What framework and launcher readers return: claims about the plan, exactly as far as they are written.

A reader knows one front end. It knows no rule, no other reader, and no default that another module decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.languages.traced import Word
from dtlint.languages.unused import Unused
from dtlint.record import NamedTuple
from dtlint.source import Edit, Span
from dtlint.value import Setting

AUTO = "auto"
"""Reason of the Unknown that stands for a literal "auto", to be filled by the front end in charge."""


class Claim(NamedTuple):
    """One setting as one front end writes it. `name` is how the front end spells it
    (`--tensor-model-parallel-size`).
    """

    setting: str
    value: Setting
    name: str = ""


class NamedFile(NamedTuple):
    """A file that a launch or config names: its role ("deepspeed", "accelerate", "script", "arguments", "hostfile",
    "torchtitan", "torchtitan-module", "nemo", "config" for one whose content tells whose it is)
    and its path as written.
    """

    role: str
    path: Word


class Member(NamedTuple):
    """One entry of a collection that rules look at one by one (`code.collectives`, `config.unknown`).

    `fields` are what expressions can read (`call.operation`), `place` is where a finding about it points, `related`
    other places with labels. `edits` are changes of the code that a rule may propose, by name. `uncalled` is what
    the place waits for in vain, as far as the program goes: its class or method that nothing there names, an attribute
    that nothing there changes.
    """

    place: Span
    fields: Mapping[str, Setting]
    related: tuple[tuple[Span, str], ...] = ()
    edits: Mapping[str, tuple[Edit, ...]] = {}
    uncalled: tuple[Unused, ...] = ()


GROUPING = "trainer.groups"
"""The collection of calls that build a trainer which refuses batches that do not hold whole groups of answers."""

STEP_LOOPS = "code.step_loops"
"""The collection of loops that bound the steps of a program: it says how long it trains, and nothing of ranks."""


class Reading(NamedTuple):
    """What one reader found in one place.

    `layer` is its key in the precedence table ("torchrun", "sbatch", "srun", "megatron-arguments", "deepspeed-json",
    "fsdp-python" ...).
    `place` is the list, section or call in which a missing setting would be written. `open` says why settings may be
    hidden from us (an unknown word in the list), "" if the list is complete; `unread` names a file that holds settings
    and could not be read; `supposed` is a sentence on how it was come by, where that is only likely. `rest` are the
    words of the program that a launcher starts. `role` is "other" where the text says that nothing is trained, or not
    by this plan. `framework` and `frontend` are claimed here when the text decides them.
    `declares` are the flags that the program's own parser takes, `refuses` those that it would not take if they were
    added. `types` are the names of their types ("flag" for one that takes no value, "" where it is not known).
    `foreign` are the flags given that no release of the framework has and that are no misspelling of one that it has.
    `roles` are readings that take the place of this one in further plans of the same launch, by the role of each (the
    critic beside the actor).
    """

    layer: str
    place: Span | None = None
    claims: tuple[Claim, ...] = ()
    files: tuple[NamedFile, ...] = ()
    rest: tuple[Word, ...] = ()
    framework: str = ""
    frontend: str = ""
    open: str = ""
    unread: str = ""
    supposed: str = ""
    role: str = ""
    collections: Mapping[str, tuple[Member, ...]] = {}
    declares: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    foreign: tuple[str, ...] = ()
    types: Mapping[str, str] = {}
    roles: Mapping[str, Reading] = {}
