"""SkyPilot: the script that a task runs on each of its machines, and the machines that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.cards import instance_claims, named_card
from dtlint.frameworks.jobs import Job, count, everywhere, items, known_keys, text_of_setting, told_at_run
from dtlint.languages.json_tree import Document, Entry, Node, member
from dtlint.languages.shell.text import Text, unknown
from dtlint.languages.traced import Word, setting_of
from dtlint.languages.yaml_text import text_of
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value

LAYER = "skypilot"
KEYS = frozenset(
    (
        "name", "workdir", "num_nodes", "resources", "envs", "secrets", "volumes", "file_mounts", "setup", "run",
        "config", "experimental", "service", "inputs", "outputs", "pool", "api_version", "estimated", "event_callback",
        "file_mounts_mapping", "storage_mounts",
    )
)  # fmt: skip
"""The keys of a task (SkyPilot, sky/utils/schemas.py)."""

_TELLING = frozenset(("resources", "num_nodes", "setup", "envs", "file_mounts", "workdir"))
_COUNTED = re.compile(r"(?P<kind>[^:+\s]+(?:[ +][^:+\s]+)*)\s*(?::\s*(?P<count>[\d.]+))?\+?")


def recognise(document: Document) -> bool:
    """Whether a document is a task: its keys are SkyPilot's, and one of them says what is run."""
    keys = known_keys(document)
    return "run" in keys and bool(keys & _TELLING) and keys <= KEYS


def read_task(document: Document) -> list[Job]:
    """What the task runs, and its set-up before it: both on every machine."""
    root = document.root
    run = member(root, "run")
    if root is None or run is None or run.kind in ("object", "array", "null"):
        return []
    nodes = count(member(root, "num_nodes"), 1, root.span, "SkyPilot")
    machine = tuple(_machine(root))
    claims = (Claim("cluster.nodes", nodes, "num_nodes"), *machine)
    reading = Reading(LAYER, root.span, claims, _image(root), collections=everywhere(nodes, root.span))
    variables = {**_environment(root), **_told(root.span, nodes, machine)}
    setup = member(root, "setup")
    return [Job(text_of(run), reading, (), variables, before=text_of(setup) if setup is not None else ())]


def _environment(root: Node) -> dict[str, Text]:
    """The variables that the task sets; what has no value must be given when it is started."""
    found: dict[str, Text] = {}
    for section in ("envs", "secrets"):
        for name, node, place in _pairs(member(root, section)):
            text = text_of(node) if node is not None else ()
            how = f"--env {name}=..."
            found[name] = text or unknown(place, f"{name} is given when the task is started", how)
    return found


def _pairs(node: Node | None) -> Iterator[tuple[str, Node | None, Span]]:
    if node is None:
        return
    for found in node.entries:
        yield found.key, found.node, found.place


def _told(place: Span, nodes: Setting, machine: tuple[Claim, ...]) -> dict[str, Text]:
    """What SkyPilot sets on every machine (docs, Environment Variables)."""
    gpus = next((claim.value for claim in machine if claim.setting == "cluster.gpus_per_node"), None)
    counted = {} if gpus is None else {"SKYPILOT_NUM_GPUS_PER_NODE": text_of_setting(gpus, place)}
    return {
        "SKYPILOT_NUM_NODES": text_of_setting(nodes, place),
        "SKYPILOT_NODE_RANK": told_at_run("SKYPILOT_NODE_RANK", place, "launch.node_rank"),
        "SKYPILOT_NODE_IPS": told_at_run("SKYPILOT_NODE_IPS", place, "cluster.hosts"),
        **counted,
    }


def _machine(root: Node) -> Iterator[Claim]:
    """The cards of a machine; where several are allowed, what all of them have in common."""
    asked = [_asked(resources) for resources in _resources(root)]
    if not asked:
        return
    first, *others = asked
    for claim in first:
        if all(any(_same(claim, other) for other in each) for each in others):
            yield claim
        else:
            reason = "the task allows several kinds of machine"
            origin = claim.value.origin if isinstance(claim.value, (Value, Unknown)) else None
            yield Claim(claim.setting, Unknown(reason, f"--set {claim.setting}=...", origin), claim.name)


def _same(claim: Claim, other: Claim) -> bool:
    return claim.setting == other.setting and getattr(claim.value, "value", None) == getattr(other.value, "value", None)


def _resources(root: Node) -> list[Node]:
    """The machines that the task allows, each as a mapping of its own: `any_of`, `ordered`, or the one written."""
    resources = member(root, "resources")
    if resources is None:
        return []
    choices = items(resources, "any_of") or items(resources, "ordered")
    if not choices:
        return [resources]
    return [Node("object", None, each.span, (*resources.entries, *each.entries)) for each in choices]


def _asked(resources: Node) -> list[Claim]:
    """The card and how many of it, by the accelerators or else by the machine's name."""
    node = member(resources, "accelerators")
    kinds = _accelerators(node) if node is not None else []
    if len(kinds) == 1:
        return _counted(*kinds[0])
    if kinds:
        return _common(kinds)
    named = member(resources, "instance_type")
    return list(instance_claims(Word(text_of(named), named.span), "instance_type")) if named is not None else []


def _accelerators(node: Node) -> list[tuple[Word, Setting]]:
    """The cards that may be taken: `H100:8`, `{H100: 8}`, or a list or set of such."""
    if node.kind == "array":
        return [found for item in node.items for found in _accelerators(item)]
    if node.kind == "object":
        return [_entry(found) for found in node.entries]
    word = Word(text_of(node), node.span)
    if word.text is None:
        return [(word, setting_of(word))]
    found = _COUNTED.fullmatch(word.text)
    if found is None:
        return [(word, Unknown(f"{word.text} is no accelerator", "", Origin("written", node.span)))]
    kind = word.part(*found.span("kind"))
    if found["count"] is None:
        return [(kind, setting_of(word, 1))]
    return [(kind, _whole(word.part(*found.span("count"))))]


def _entry(found: Entry) -> tuple[Word, Setting]:
    key = Word(text_of(Node("string", found.key, found.place)), found.place)
    number = Word(text_of(found.node), found.node.span)
    return _accelerators(Node("string", found.key, found.place))[0] if not number.pieces else (key, _whole(number))


def _whole(word: Word) -> Setting:
    """A number of cards; part of one is one."""
    text = word.text or ""
    if word.text is None:
        return setting_of(word)
    return (
        setting_of(word, max(1, int(float(text)))) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else setting_of(word)
    )


def _counted(kind: Word, number: Setting) -> list[Claim]:
    """The card, whose name in SkyPilot's catalog tells its memory: A100 has 40 GB, A100-80GB the other."""
    return [Claim("cluster.gpus_per_node", number, "accelerators"), *named_card(kind, "accelerators")]


def _common(kinds: list[tuple[Word, Setting]]) -> list[Claim]:
    """What several cards, of which SkyPilot takes one, have in common."""
    numbers = {getattr(number, "value", None) for _, number in kinds}
    word, number = kinds[0]
    reason = "the task allows several kinds of card"
    origin = Origin("written", word.place)
    if len(numbers) > 1:
        number = Unknown(reason, "--set cluster.gpus_per_node=N", origin)
    names = {claim.value.value for kind, _ in kinds for claim in named_card(kind, "") if isinstance(claim.value, Value)}
    gpu = named_card(word, "accelerators") if len(names) == 1 else ()
    open_gpu = Claim("cluster.gpu", Unknown(reason, "--set cluster.gpu=...", origin), "accelerators")
    return [Claim("cluster.gpus_per_node", number, "accelerators"), *(gpu or (open_gpu,))]


def _image(root: Node) -> tuple[NamedFile, ...]:
    node = member(root, "resources", "image_id")
    text = text_of(node) if node is not None else ()
    return (NamedFile("image", Word(text, node.span)),) if node is not None and text else ()
