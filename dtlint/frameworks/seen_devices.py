"""How many processes a launcher starts that counts the GPUs it sees."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.languages.traced import Word, setting_of
from dtlint.value import Setting, Unknown

VISIBLE = "CUDA_VISIBLE_DEVICES"


def one_for_each(env: Mapping[str, Word]) -> Setting:
    """One process for each GPU that CUDA_VISIBLE_DEVICES shows, else for each that the node has."""
    return seen(env.get(VISIBLE)) or Unknown(
        "one process for each GPU of the node", "--set cluster.gpus_per_node=N", None, "cluster.gpus_per_node"
    )


def seen(visible: Word | None) -> Setting | None:
    """The number of GPUs that the variable shows, None where it is not set or shows none."""
    if visible is None:
        return None
    shown = {part.strip() for part in (visible.text or "").split(",") if part.strip()}
    return setting_of(visible, len(shown)) if visible.text is None or shown else None
