"""Keys of torchtitan's config that it does not know, as far as they are misspelt ones that it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import meant, texts
from dtlint.languages.json_tree import Node, entry, member
from dtlint.source import Span

_OWN_KEYS = (("job", "custom_config_module"), ("experimental", "custom_args_module"))
"""Keys that name a module with further keys."""


def misspelt_options(options: Iterable[tuple[str, Span]]) -> Iterator[Member]:
    """The same of a command line's options (`parallelism.tensor_parallel_degre`), each with its place."""
    from dtlint.catalog.torchtitan_keys import torchtitan_keys

    known = torchtitan_keys()
    for name, place in options:
        section, _, key = name.rpartition(".")
        names = known.get(section, frozenset())
        near = None if not names or key.removeprefix("no_") in names else _near(section, key, names)
        if near is not None:
            said = texts(place, key=name, section=section, effect="refused", suggestion=f"{section}.{near}", since="0")
            yield Member(place, said)


def misspelt(root: Node) -> Iterator[Member]:
    """Members of `config.unknown`: `key`, `section`, `suggestion`, `effect` (torchtitan refuses what it does not know).

    Forks have keys of their own, so that only what resembles a known key is taken for a mistake.
    """
    from dtlint.catalog.torchtitan_keys import torchtitan_keys

    if any(member(root, *path) is not None for path in _OWN_KEYS):
        return
    for section, names in torchtitan_keys().items():
        table = entry(root, section)
        for found in table.node.entries if table is not None else ():
            near = None if found.key in names else _near(section, found.key, names)
            if near is not None:
                yield Member(
                    found.place,
                    texts(found.place, key=found.key, section=section, effect="refused", suggestion=near, since="0"),
                )


def _near(section: str, key: str, names: frozenset[str]) -> str | None:
    """The key that another front end's name or a misspelt one stands for."""
    from dtlint.catalog.front_end_keys import front_end_keys

    alias = front_end_keys("torchtitan").stands_for.get(f"{section}.{key}", "")
    return alias.rpartition(".")[2] or meant(key, sorted(names))
