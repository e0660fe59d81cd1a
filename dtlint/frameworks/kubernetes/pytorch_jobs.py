"""Kubeflow's PyTorchJob (training-operator v1) and SageMaker HyperPod's: a master and workers that torchrun joins."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Claim
from dtlint.frameworks.jobs import (
    Job,
    combined,
    count,
    everywhere,
    items,
    made,
    number,
    string,
    summed,
    text_of_setting,
    told_at_run,
)
from dtlint.frameworks.kubernetes.pods import Find, Group, Pod, gpus_of, jobs_of, reading_of, replicas
from dtlint.languages.json_tree import Node, member
from dtlint.languages.shell.text import Text, unknown
from dtlint.languages.traced import Piece
from dtlint.languages.yaml_text import text_of
from dtlint.value import Origin, Setting, Unknown, Value

LAYER = "pytorch-job"
PORT = "23456"
"""The port of the rendezvous where the manifest names none (training-operator v1.9.0, pytorchjob_types.go)."""


def read_job(root: Node, find: Find) -> list[Job]:
    """The jobs of the master and the workers; where both run the same words, one."""
    spec = member(root, "spec") or root
    specs = member(spec, "pytorchReplicaSpecs")
    groups = [_group(found.key, found.node, find) for found in (specs.entries if specs is not None else ())]
    named = {group.name: group for group in groups}
    ordered = [named[name] for name in ("Master", "Worker") if name in named] or groups
    return _jobs(root, ordered, _variables(root, ordered))


def read_hyperpod_job(root: Node, find: Find) -> list[Job]:
    """The jobs of SageMaker HyperPod's groups of pods."""
    groups = [_group(string(node, "name"), node, find) for node in items(root, "spec", "replicaSpecs")]
    return _jobs(root, groups, _pet(root, groups))


def _group(name: str, node: Node, find: Find) -> Group:
    return Group(name, Pod(member(node, "template") or node, find), replicas(member(node, "replicas"), node))


def _jobs(root: Node, groups: Sequence[Group], variables: dict[str, Text]) -> list[Job]:
    """Each group's commands, with the machines of all groups together."""
    jobs: list[Job] = []
    for group in groups:
        nodes = _nodes(root, groups)
        reading = reading_of(LAYER, root.span, group, nodes)
        collections = {**reading.collections, **everywhere(nodes, root.span)}
        claims = (*reading.claims, *_unequal(groups))
        jobs.extend(jobs_of(group.pod, reading._replace(claims=claims, collections=collections), variables))
    return jobs


def _unequal(groups: Sequence[Group]) -> tuple[Claim, ...]:
    """The GPUs of all pods, where those of one group have more than those of another; at the place of the most."""
    each = [gpus_of(group.pod) for group in groups]
    counts, pods = [number(gpus) if gpus else None for gpus in each], [number(group.pods) for group in groups]
    known = [
        (gpus, count, size) for gpus, count, size in zip(each, counts, pods, strict=True) if gpus and count and size
    ]
    if len(known) < len(groups) or len(set(counts)) < 2:
        return ()
    most = max(known, key=lambda told: told[1])[0]
    total = sum(count * size for _, count, size in known)
    return (Claim("launch.gpus_in_all", combined([most], total), "nvidia.com/gpu"),)


def _nodes(root: Node, groups: Sequence[Group]) -> Setting:
    """A pod each; of a job that is scaled by what it measures the number is open."""
    if items(root, "spec", "elasticPolicy", "metrics"):
        place = member(root, "spec", "elasticPolicy", "metrics") or root
        why = "the number of pods follows the metrics of the elastic policy"
        return Unknown(why, "--set cluster.nodes=N", Origin("written", place.span))
    return summed([group.pods for group in groups])


def _pet(root: Node, groups: Sequence[Group]) -> dict[str, Text]:
    """The variables from which torchrun takes what its command line does not say."""
    place = root.span
    return {
        "PET_NNODES": _node_range(root, groups),
        "PET_NPROC_PER_NODE": _processes(root),
        "PET_NODE_RANK": told_at_run("PET_NODE_RANK", place, "launch.node_rank"),
    }


def _variables(root: Node, groups: Sequence[Group]) -> dict[str, Text]:
    """What the operator sets (training-operator v1.9.0, pkg/controller.v1/pytorch/envvar.go)."""
    place = root.span
    found = {**_pet(root, groups), "PYTHONUNBUFFERED": made("1", place)}
    if member(root, "spec", "elasticPolicy") is not None:
        found.update(_elastic(root))
    if not any(group.name == "Master" for group in groups):
        told = {name: text for name, text in found.items() if name != "PET_NODE_RANK"}
        return {**told, **_without_master(root)}
    address = made(f"{string(root, 'metadata', 'name') or 'job'}-master-0", place)
    rank = told_at_run("RANK", place, "launch.node_rank")
    world = text_of_setting(_world(root, groups), place)
    port = _port(groups) or made(PORT, place)
    return {
        **found,
        "MASTER_ADDR": address, "MASTER_PORT": port, "PET_MASTER_ADDR": address, "PET_MASTER_PORT": port,
        "WORLD_SIZE": world, "RANK": rank,
    }  # fmt: skip


def _without_master(root: Node) -> dict[str, Text]:
    """The processes of a pod of an elastic job without a master: up to 1.7 the operator sets them from the elastic
    policy alone, from 1.8 on from nprocPerNode (kubeflow/training-operator issue 1947, pull request 1948).
    """
    given, policy = member(root, "spec", "nprocPerNode"), member(root, "spec", "elasticPolicy")
    if policy is None or given is None or given.kind == "null":
        return {}
    elastic = member(policy, "nProcPerNode")
    if elastic is not None and str(elastic.value) == str(given.value):
        return {}
    reason = "training operators up to 1.7 do not hand nprocPerNode to an elastic job without a master"
    return {"PET_NPROC_PER_NODE": unknown(given.span, reason, "--set launch.processes_per_node=N")}


def _port(groups: Sequence[Group]) -> Text | None:
    """The port of the master's container that is named for it."""
    for group in groups:
        for container in group.pod.containers if group.name == "Master" else ():
            for port in items(container, "ports"):
                found = member(port, "containerPort")
                if string(port, "name") == "pytorchjob-port" and found is not None:
                    return text_of(found)
    return None


def _processes(root: Node) -> Text:
    """nprocPerNode, or that of the elastic policy; `auto` where neither is written."""
    spec = member(root, "spec")
    node = member(spec, "nprocPerNode") or member(spec, "elasticPolicy", "nProcPerNode")
    return text_of(node) if node is not None and node.kind != "null" else made("auto", root.span)


def _world(root: Node, groups: Sequence[Group]) -> Setting:
    """Replicas times nprocPerNode, which counts as 1 where it is no number."""
    nodes = _nodes(root, groups)
    node = member(root, "spec", "nprocPerNode")
    each = count(node, 1, root.span, "PyTorchJob")
    if isinstance(each, Value) and each.value == 1:
        return nodes
    if node is not None and node.kind == "string" and not str(node.value).isdecimal():
        return nodes
    return combined([each, nodes], (number(nodes) or 0) * (number(each) or 0))


def _node_range(root: Node, groups: Sequence[Group]) -> Text:
    """The number of pods; `MIN:MAX` of an elastic job, which are the workers where they are not written."""
    policy = member(root, "spec", "elasticPolicy")
    nodes = summed([group.pods for group in groups])
    if policy is None:
        return text_of_setting(nodes, root.span)
    ends = [text_of(node) if (node := member(policy, name)) is not None else text_of_setting(nodes, policy.span)
            for name in ("minReplicas", "maxReplicas")]  # fmt: skip
    between = Piece(":", policy.span._replace(end=policy.span.start))
    return (*ends[0], between, *ends[1])


def _elastic(root: Node) -> dict[str, Text]:
    """How the pods of an elastic job meet: at the first worker, by c10d where nothing else is written."""
    policy = member(root, "spec", "elasticPolicy") or root
    backend, standalone = member(policy, "rdzvBackend"), member(policy, "standalone")
    name = string(root, "metadata", "name") or "job"
    host, port = string(policy, "rdzvHost") or f"{name}-worker-0", member(policy, "rdzvPort")
    endpoint = f"{host}:{port.value if port is not None else PORT}"
    found = {
        "PET_RDZV_BACKEND": text_of(backend) if backend is not None else made("c10d", policy.span),
        "PET_RDZV_ENDPOINT": made(endpoint, policy.span),
    }
    if standalone is not None and standalone.value is True:
        found["PET_STANDALONE"] = made("1", standalone.span)
    restarts = member(policy, "maxRestarts")
    return {**found, "PET_MAX_RESTARTS": text_of(restarts)} if restarts is not None else found
