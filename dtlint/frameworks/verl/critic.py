"""verl's critic: how a user writes a setting of its plan."""

from __future__ import annotations

from dtlint.frameworks.verl.workers import CRITIC, spell_for
from dtlint.value import Plain


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`critic.ppo_micro_batch_size_per_gpu=4`)."""
    return spell_for(CRITIC, setting_name, value)
