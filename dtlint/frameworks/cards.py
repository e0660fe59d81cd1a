"""The GPU that a word names, as schedulers and orchestrators ask for one."""

from __future__ import annotations

from dtlint.catalog import gpu, instance
from dtlint.frameworks import Claim
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Unknown, Value

SEVERAL_SIZES = {"a100": "an A100 has 40 or 80 GB", "v100": "a V100 has 16 or 32 GB"}
"""Short names that clusters give to cards of more than one memory size."""


def is_family(name: object) -> bool:
    """Whether a name is one of cards of several sizes."""
    return isinstance(name, str) and name.lower() in SEVERAL_SIZES


def of_family(name: object, card: object) -> bool:
    """Whether a card is one of those of several sizes of which another is named."""
    families = [family for family in SEVERAL_SIZES if str(name).lower().startswith(family)]
    return any(str(card).lower().startswith(family) for family in families) and not is_family(card)


def named_card(word: Word, name: str) -> tuple[Claim, ...]:
    """The card that a word names whole, () where it names none. `name` is the option or key that holds the word."""
    found = gpu(word.text) if word.text else None
    return () if found is None else (Claim("cluster.gpu", setting_of(word, found.name), name),)


def card_claims(word: Word, name: str) -> tuple[Claim, ...]:
    """The card that a word names, and that its memory is not known where the name leaves that open."""
    claims = named_card(word, name)
    reason = SEVERAL_SIZES.get((word.text or "").lower(), "")
    if not claims or not reason or not isinstance(claims[0].value, Value):
        return claims
    unknown = Unknown(reason, "--set cluster.gpu_memory_gib=N", claims[0].value.origin)
    return (*claims, Claim("cluster.gpu_memory_gib", unknown, name))


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
