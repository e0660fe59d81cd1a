"""What verl's trainer refuses before any worker starts: Ulysses over padded batches.

verl 0.2 to 0.5 verl/trainer/ppo/ray_trainer.py (_validate_config), 0.6 and 0.7 verl/workers/config/actor.py and
critic.py. FSDP2 is looked at since 0.5 only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dtlint.frameworks import Claim, Member
from dtlint.frameworks.answers import is_off
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import known, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.verl.workers import Worker
from dtlint.value import Origin, Unknown

UNPADDING = "use_remove_padding"
"""The switch of a worker's model that takes the padding out of its batches."""

_DEGREE = "ulysses_sequence_parallel_size"


def refused(keys: Keys, worker: Worker, framework: str) -> tuple[Member, ...]:
    """Members of `config.refused`: the switch that is off beside a degree above one."""
    switch, degree = keys.node(f"{worker.model}.{UNPADDING}"), keys.node(f"{worker.own}.{_DEGREE}")
    strategy = keys.known(f"{worker.own}.strategy")
    if framework != "fsdp" or strategy not in (None, "fsdp") or switch is None or degree is None:
        return ()
    size = known(whole_number(degree))
    if not is_off(switch) or not isinstance(size, int) or size < 2:
        return ()
    partner, reason = f"{_DEGREE}: {size}", "Ulysses cuts sequences over the ranks only once their padding is removed"
    words = texts(switch.span, key=f"{UNPADDING}: false", relation="excludes", partner=partner, reason=reason, since="")
    return (Member(switch.span, words, ((degree.span, partner),)),)


def without_refused(claims: Iterable[Claim], members: tuple[Member, ...]) -> Iterator[Claim]:
    """The claims with the degree as unknown where it is refused: nothing is split that does not start."""
    for claim in claims:
        if members and claim.setting == "parallel.ulysses":
            origin = Origin("written", members[0].related[0][0])
            reason = f"verl refuses it while {UNPADDING} is off"
            claim = claim._replace(value=Unknown(reason, "--set parallel.ulysses=N", origin))
        yield claim
