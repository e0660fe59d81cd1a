"""What front ends share that train on answers which the model itself gives: batches, lengths, and workers under Ray."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.deepspeed.values import whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.keys import product
from dtlint.frameworks.lengths import at_most
from dtlint.languages.json_tree import Node
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value, default

_COUNTS = ("trainer.nnodes", "trainer.n_gpus_per_node")
_PROMPT, _RESPONSE = "data.max_prompt_length", "data.max_response_length"


def ray_launch(keys: Keys, tool: str, place: Span | None) -> Iterator[Claim]:
    """Ray starts the workers, one for each GPU, whatever starts Ray; what is not written is one node."""
    nodes, each = (None if (node := keys.node(path)) is None else whole_number(node) for path in _COUNTS)
    yield Claim("launch.launcher", Value("ray", Origin("default", place, (), tool)), "trainer")
    if nodes is None:
        yield Claim("launch.nodes", default(1, tool), "trainer.nnodes")
    yield Claim("launch.processes", product(each or _EACH, nodes, "nodes"), _COUNTS[1])


_EACH = Unknown("one worker for each GPU", "--set launch.processes_per_node=N")


def ray_workers(nodes: Setting | None, each: Setting | None, tool: str, place: Span | None) -> Iterator[Claim]:
    """A group of workers that Ray starts, of so many on each of some nodes; what is not written is the tool's own."""
    yield Claim("launch.launcher", Value("ray", Origin("default", place, (), tool)), "")
    yield Claim("launch.nodes", nodes or default(1, tool), "num_nodes")
    if each is not None:
        yield Claim("launch.processes_per_node", each, "num_gpus_per_node")
    yield Claim("launch.processes", product(each or _EACH, nodes, "nodes"), "num_gpus_per_node")


def answered(keys: Keys, path: str, answers: str, setting_name: str) -> Iterator[Claim]:
    """A number of prompts, each with as many answers as another key says: that many samples."""
    prompts, count = keys.node(path), keys.node(answers)
    if prompts is not None:
        times = None if count is None else whole_number(count)
        yield Claim(setting_name, product(whole_number(prompts), times, "answers to each prompt"), path)


def per_prompt(keys: Keys, answers: str, tool: str) -> Iterator[Claim]:
    """The answers to each prompt, one where none is written."""
    count = keys.node(answers)
    yield Claim("batch.answers", default(1, tool) if count is None else whole_number(count), answers)


def length(keys: Keys, unpadding: Node | None) -> Iterator[Claim]:
    """The longest prompt and answer together bound a sample; where the switch that takes the padding out is off, each
    sample is padded to both.
    """
    whole = _prompt_and_answer(keys)
    if whole is not None:
        found = whole if unpadding is not None and is_off(unpadding) else at_most(whole)
        yield Claim("data.sequence_length", found, _PROMPT)


def _prompt_and_answer(keys: Keys) -> Value | None:
    """The tokens of the longest prompt and of the longest answer, where both are told."""
    nodes = [keys.node(path) for path in (_PROMPT, _RESPONSE)]
    parts = [whole_number(node) for node in nodes if node is not None]
    values = [part.value for part in parts if isinstance(part, Value) and isinstance(part.value, int)]
    if len(values) < 2 or not isinstance(parts[0], Value):
        return None
    return Value(sum(values), parts[0].origin)


def is_off(switch: Node) -> bool:
    """Whether a switch is written as off."""
    return switch.kind not in ("object", "bare", "unknown") and str(switch.value).lower() == "false"


def shard_group(keys: Keys, path: str) -> Iterator[Claim]:
    """A shard group smaller than the world; 0 and -1 stand for all ranks."""
    node = keys.node(path)
    size = None if node is None else whole_number(node)
    if size is not None and not (isinstance(size, Value) and isinstance(size.value, int) and size.value < 1):
        yield Claim("sharding.group", size, path)
