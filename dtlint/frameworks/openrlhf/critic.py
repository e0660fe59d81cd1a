"""How OpenRLHF's arguments write a setting of the critic."""

from dtlint.frameworks.openrlhf.arguments import spell_in

__all__ = ["spell_in"]
