"""What whoever starts a script may tell a launcher that asks the environment where its nodes meet."""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.options import whole
from dtlint.languages.traced import Word

INHERITED = "launch.inherited"


def with_inherited(reading: Reading, env: Mapping[str, Word], address: str = "MASTER_ADDR") -> Reading:
    """The launch, with the collection `launch.inherited` if the script tells neither the address nor this node's
    number, which differs from node to node: what tells the one from outside may tell the other.
    """
    rank, nodes = env.get("NODE_RANK"), env.get("NNODES")
    numbered = rank is not None and whole(rank.text or "") is not None
    if nodes is None or address in env or numbered:
        return reading
    members = (Member(nodes.place, {}),)
    return reading._replace(collections={**reading.collections, INHERITED: members})
