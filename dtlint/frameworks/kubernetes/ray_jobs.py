"""RayJob: the command that a Ray cluster's head runs, on the machines of all its groups."""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.frameworks.jobs import Job, items
from dtlint.frameworks.kubernetes.job_sets import nodes_of
from dtlint.frameworks.kubernetes.pods import (
    Find,
    Group,
    Pod,
    adapters_of,
    environment_of,
    files_of,
    gpus_of,
    machine_claims,
    nodes_claim,
    replicas,
)
from dtlint.languages.json_tree import Node, member
from dtlint.languages.yaml_text import text_of
from dtlint.value import Value

LAYER = "ray-job"


def read_job(root: Node, find: Find) -> list[Job]:
    """The entry point, on the groups of pods that have GPUs."""
    entrypoint = member(root, "spec", "entrypoint")
    cluster = member(root, "spec", "rayClusterSpec")
    if entrypoint is None or cluster is None:
        return []
    head = Pod(member(cluster, "headGroupSpec", "template") or cluster, find)
    one = replicas(None, root)
    groups = [Group("head", head, one), *(_workers(node, find) for node in items(cluster, "workerGroupSpecs"))]
    with_gpus = [group for group in groups if _has_gpus(group)]
    reading = Reading(LAYER, root.span)
    if with_gpus:
        group = with_gpus[-1]
        nodes = nodes_of(group, with_gpus)
        claims = (*nodes_claim(nodes, "replicas"), *machine_claims(group.pod, gpus_of(group.pod)))
        reading = reading._replace(claims=claims, collections=adapters_of(group.pod))
    container = next(iter(head.containers), None)
    variables = environment_of(container, head, {}) if container is not None else {}
    files = files_of(container, head) if container is not None else {}
    return [Job(text_of(entrypoint), reading, (), variables, files)]


def _workers(node: Node, find: Find) -> Group:
    pods = replicas(member(node, "replicas"), node)
    return Group("workers", Pod(member(node, "template") or node, find), pods)


def _has_gpus(group: Group) -> bool:
    gpus = gpus_of(group.pod)
    return gpus is not None and not (isinstance(gpus, Value) and gpus.value == 0)
