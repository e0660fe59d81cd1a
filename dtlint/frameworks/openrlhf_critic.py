"""How OpenRLHF's arguments write a setting of the critic."""

from dtlint.frameworks.openrlhf import spell_in

__all__ = ["spell_in"]
