"""The options of the `deepspeed` command, and what is said of one that it refuses."""

from __future__ import annotations

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.options import Grammar, Option, Split, integer
from dtlint.source import Span
from dtlint.value import Unknown, Value

# Options of deepspeed/launcher/runner.py in DeepSpeed 0.19.6, with `-` for `_`, and the number of values of each.
_WITH_VALUE = (
    "hostfile include exclude num-nodes min-elastic-nodes max-elastic-nodes num-gpus num-accelerators master-port "
    "master-addr node-rank launcher launcher-args enable-each-rank-log autotuning bind-core-list ssh-port "
    "venv-script log-level"
)
_FLAGS = (
    "module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid elastic-training bind-cores-to-rank quiet "
    "help"
)
GRAMMAR = Grammar(
    long={**dict.fromkeys(_WITH_VALUE.split(), 1), **dict.fromkeys(_FLAGS.split(), 0)},
    short={"H": "hostfile", "i": "include", "e": "exclude", "q": "quiet", "h": "help"},
    argparse=True,
)

VISIBLE = "CUDA_VISIBLE_DEVICES"


def gpus_option(split: Split) -> Option | None:
    """The later of the two names of one option."""
    named = [option for option in split.options if option.name in ("num-gpus", "num-accelerators")]
    return named[-1] if named else None


def whole_option(option: Option | None) -> int | Unknown | None:
    """An option's whole number, None if it is not given."""
    if option is None:
        return None
    value = integer(option.value)
    if isinstance(value, Value) and isinstance(value.value, int):
        return value.value
    return value if isinstance(value, Unknown) else Unknown("not a whole number")


def defect(
    place: Span, key: str, expected: str, section: str = "deepspeed", related: tuple[tuple[Span, str], ...] = ()
) -> Member:
    """What the launcher stops at, and what it expects there."""
    return Member(place, texts(place, key=key, section=section, expected=expected, effect="refused"), related)
