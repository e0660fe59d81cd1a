"""Pods that Kubernetes itself starts together: JobSet, indexed Jobs, StatefulSets, lone Pods, and Volcano's Jobs."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks.jobs import (
    Job,
    combined,
    everywhere,
    items,
    made,
    number,
    string,
    summed,
    text_of_setting,
    told_at_run,
)
from dtlint.frameworks.kubernetes.pods import (
    Find,
    Group,
    Pod,
    gpus_of,
    jobs_of,
    reading_of,
    replicas,
)
from dtlint.languages.json_tree import Node, member
from dtlint.languages.shell.text import Text
from dtlint.source import Span
from dtlint.value import Setting, Unknown

_OTHERS = "these pods ask for no GPU, and which of the others train is not known"


def read_job_set(root: Node, find: Find) -> list[Job]:
    """The jobs of a JobSet's replicated jobs."""
    groups = groups_of(items(root, "spec", "replicatedJobs"), find)
    return _all_jobs("job-set", root.span, groups, _indexed(root.span), numbered=True)


def groups_of(nodes: Sequence[Node], find: Find) -> list[Group]:
    """The replicated jobs of a JobSet: as many pods as its replicas times what each runs side by side."""
    return [_replicated(node, find) for node in nodes]


def _replicated(node: Node, find: Find) -> Group:
    inner = member(node, "template", "spec") or node
    outer, side = replicas(member(node, "replicas"), node), replicas(member(inner, "parallelism"), inner)
    total = combined([outer, side], (number(outer) or 0) * (number(side) or 0))
    if number(outer) == 1 or number(side) == 1:
        total = side if number(outer) == 1 else outer
    return Group(string(node, "name"), Pod(member(inner, "template") or inner, find), total)


def read_plain(root: Node, find: Find) -> list[Job]:
    """The jobs of Kubernetes' own Job, or of Volcano's."""
    if string(root, "apiVersion").startswith("batch.volcano.sh"):
        return _read_volcano(root, find)
    spec = member(root, "spec") or root
    pods = replicas(member(spec, "parallelism"), spec)
    group = Group("", Pod(member(spec, "template") or spec, find), pods)
    indexed = string(spec, "completionMode") == "Indexed"
    return _all_jobs("kubernetes-job", root.span, [group], _indexed(root.span) if indexed else {}, indexed)


def read_pod(root: Node, find: Find) -> list[Job]:
    """The jobs of a Pod by itself."""
    return _all_jobs("pod", root.span, [Group("", Pod(root, find), replicas(None, root))], {})


def read_stateful_set(root: Node, find: Find) -> list[Job]:
    """The jobs of the numbered pods of a StatefulSet."""
    spec = member(root, "spec") or root
    group = Group("", Pod(member(spec, "template") or spec, find), replicas(member(spec, "replicas"), spec))
    return _all_jobs("stateful-set", root.span, [group], {})


def _read_volcano(root: Node, find: Find) -> list[Job]:
    """The jobs of Volcano's tasks; its plug-in for PyTorch gives each pod its rank."""
    groups = [
        Group(
            string(node, "name"), Pod(member(node, "template") or node, find), replicas(member(node, "replicas"), node)
        )
        for node in items(root, "spec", "tasks")
    ]
    place = root.span
    variables = {"VC_TASK_INDEX": told_at_run("VC_TASK_INDEX", place)}
    plugin = member(root, "spec", "plugins", "pytorch")
    if plugin is None:
        return _all_jobs("volcano-job", place, groups, variables)
    variables.update(_of_plugin(root, plugin, groups))
    return _all_jobs("volcano-job", place, groups, variables, numbered=True)


def _of_plugin(root: Node, plugin: Node, groups: Sequence[Group]) -> dict[str, Text]:
    """What Volcano's plug-in for PyTorch sets (pkg/controllers/job/plugins/distributed-framework/pytorch)."""
    place = root.span
    told = dict(str(item.value).lstrip("-").partition("=")[::2] for item in plugin.items if item.kind == "string")
    job, master = string(root, "metadata", "name") or "job", told.get("master", "master")
    return {
        "MASTER_ADDR": made(f"{job}-{master}-0.{job}", place),
        "MASTER_PORT": made(told.get("port", "23456"), place),
        "WORLD_SIZE": text_of_setting(summed([group.pods for group in groups]), place),
        "RANK": told_at_run("RANK", place, "launch.node_rank"),
    }


def _indexed(place: Span) -> dict[str, Text]:
    return {"JOB_COMPLETION_INDEX": told_at_run("JOB_COMPLETION_INDEX", place, "launch.node_rank")}


def _all_jobs(
    layer: str, place: Span, groups: Sequence[Group], variables: dict[str, Text], numbered: bool = False
) -> list[Job]:
    """Each group's commands, with the machines that take part beside them. `numbered`: the pods are parts of one run,
    each with its number, and no mere copies.
    """
    jobs: list[Job] = []
    for group in groups:
        nodes = nodes_of(group, groups)
        reading = reading_of(layer, place, group, nodes)
        reading = (
            reading._replace(collections={**reading.collections, **everywhere(nodes, place)}) if numbered else reading
        )
        jobs.extend(jobs_of(group.pod, reading, variables))
    return jobs


def nodes_of(group: Group, groups: Sequence[Group]) -> Setting:
    """The pods that train together: those of all groups that ask for as many GPUs, or run the same container where none
    asks for any.
    """
    mine = gpus_of(group.pod)
    others = [each for each in groups if each is not group and gpus_of(each.pod) is not None]
    if mine is None and len(groups) > 1:
        alike = not others and all(each.pod.containers == group.pod.containers for each in groups)
        return summed([each.pods for each in groups]) if alike else Unknown(_OTHERS, "--set cluster.nodes=N")
    if mine is None or not others:
        return group.pods
    if any(number(gpus_of(each.pod) or mine) != number(mine) for each in others):
        return Unknown("the groups of pods ask for different numbers of GPUs", "--set cluster.nodes=N")
    return summed([each.pods for each in (*others, group)])
