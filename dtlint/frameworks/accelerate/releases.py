"""From which release on Accelerate refuses a value, where not from the first."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.catalog.packages import in_doubt

NO_BEGINNINGS = "0.18.0"
"""The first release whose `accelerate launch` takes no beginning of an option's name for it (commands/launch.py:
allow_abbrev=False, which 0.17.0 does not say).
"""


def refused_since(release: str, earlier: str) -> Mapping[str, str]:
    """The fields of a member of `config.invalid` that say so: the release, what earlier ones do, and whether a run
    without any pin may have an earlier one.
    """
    doubt = "yes" if in_doubt("accelerate", release) else "no"
    return {"from_accelerate": release, "earlier": earlier, "doubt": doubt}
