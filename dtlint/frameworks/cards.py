"""The GPU that a word names, as schedulers and orchestrators ask for one."""

from __future__ import annotations

from dtlint.catalog import gpu, instance
from dtlint.frameworks import Claim
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Unknown, Value

SEVERAL_SIZES = {"a100": "an A100 has 40 or 80 GB", "v100": "a V100 has 16 or 32 GB"}
"""Short names that clusters give to cards of more than one memory size."""


def card_claims(word: Word, name: str) -> tuple[Claim, ...]:
    """What a word says that names a GPU, () where it names none: the card, and that its memory is not known where the
    name leaves that open. `name` is the option or key that holds the word.
    """
    found = gpu(word.text) if word.text else None
    if found is None:
        return ()
    value = setting_of(word, found.name)
    reason = SEVERAL_SIZES.get((word.text or "").lower(), "")
    if not reason or not isinstance(value, Value):
        return (Claim("cluster.gpu", value, name),)
    unknown = Unknown(reason, "--set cluster.gpu_memory_gib=N", value.origin)
    return (Claim("cluster.gpu", value, name), Claim("cluster.gpu_memory_gib", unknown, name))


def instance_claims(word: Word, name: str) -> tuple[Claim, ...]:
    """What the name of a cloud's machine says, () where the catalog has none of that name: its GPUs, how many it has,
    and its network.
    """
    found = instance(word.text) if word.text else None
    if found is None:
        return ()
    claims = [
        Claim("cluster.gpus_per_node", setting_of(word, found.gpus), name),
        Claim("cluster.gpu", setting_of(word, found.gpu), name),
    ]
    if found.network_gbit_per_s is not None:
        claims.append(Claim("cluster.internode_gbit_per_s", setting_of(word, found.network_gbit_per_s), name))
    return tuple(claims)
