"""Keys of a config file that its front end does not have, as far as they are misspelt ones that it does, or the names
that other front ends have for them. Plugins and forks add keys of their own, which resemble none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import meant, texts
from dtlint.languages.json_tree import Document, Entry


def strange_keys(
    documents: Sequence[Document], front_end: str, effect: str, name: Callable[[str], str] = str
) -> Iterator[Member]:
    """Members of `config.unknown` for the keys of files that are read together; `effect` is what the front end does
    with them (refused, or ignored), `name` how it reads a key.

    Where the key that is meant is written too, the strange one is told without a suggestion.
    """
    from dtlint.catalog.front_end_keys import front_end_keys

    keys = front_end_keys(front_end)
    written = [each for document in documents if document.root is not None for each in document.root.entries]
    present = {name(each.key) for each in written}
    for each in written:
        spelled = name(each.key)
        if spelled in keys.known:
            continue
        near = keys.stands_for.get(spelled) or meant(spelled, sorted(keys.known))
        if near is not None:
            yield _member(each, front_end, effect, near, near in present)


def _member(found: Entry, front_end: str, effect: str, near: str, doubled: bool) -> Member:
    words = {"suggestion": "" if doubled else near, "belongs": near if doubled else ""}
    return Member(found.place, texts(found.place, key=found.key, section=front_end, effect=effect, since="0", **words))
