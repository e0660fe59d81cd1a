"""Kubeflow Trainer's TrainJob (v2): a runtime's template, with what the job puts over it."""

from __future__ import annotations

from collections.abc import Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.jobs import Job, count, everywhere, items, made, number, string, text_of_setting, told_at_run
from dtlint.frameworks.kubernetes.job_sets import groups_of
from dtlint.frameworks.kubernetes.mpi import host_list, launched
from dtlint.frameworks.kubernetes.pods import (
    Find,
    Group,
    Pod,
    adapters_of,
    gpus_asked,
    gpus_of,
    jobs_of,
    machine_claims,
    nodes_claim,
)
from dtlint.languages.json_tree import Entry, Node, member
from dtlint.languages.shell.text import Text
from dtlint.languages.yaml_text import text_of
from dtlint.value import Origin, Setting, Unknown

LAYER = "train-job"
PORT = "29400"
"""The port of the rendezvous (trainer, pkg/constants/constants.go)."""

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_OWN = ("image", "command", "args")


def read_job(root: Node, find: Find) -> list[Job]:
    """What the job's trainer runs, on the machines of the job or its runtime."""
    runtime = _runtime(root, find)
    trainer = member(root, "spec", "trainer") or Node("object", None, root.span)
    groups = groups_of(items(runtime, "spec", "template", "spec", "replicatedJobs"), find)
    group = _training_group(groups)
    pod = _overridden(group.pod if group is not None else None, root, trainer, find)
    nodes = _nodes(root, trainer, runtime)
    gpus = _gpus(trainer, pod)
    claims: tuple[Claim, ...] = (*nodes_claim(nodes, "numNodes"), *machine_claims(pod, gpus))
    policy = member(runtime, "spec", "mlPolicy")
    reading = Reading(LAYER, root.span, claims, collections=adapters_of(pod))
    if member(policy, "mpi") is not None:
        slots = _slots(trainer, policy, gpus)
        hosts = host_list(string(root, "metadata", "name") or "job", nodes, slots, root.span)
        return launched(pod, reading, hosts, slots, root)
    with_torch = runtime is None or member(policy, "torch") is not None
    reading = reading._replace(collections={**reading.collections, **everywhere(nodes, root.span)})
    return jobs_of(pod, reading, _torch(root, trainer, policy, nodes, gpus) if with_torch else {})


def _runtime(root: Node, find: Find) -> Node | None:
    """The runtime that the job names, where it is among the files."""
    reference = member(root, "spec", "runtimeRef")
    kind = string(reference, "kind") or "ClusterTrainingRuntime"
    return find(kind, string(reference, "name"))


def _training_group(groups: Sequence[Group]) -> Group | None:
    """The pods of the runtime that train: those called `node`, else the only ones."""
    return next((group for group in groups if group.name == "node"), groups[0] if len(groups) == 1 else None)


def _overridden(pod: Pod | None, root: Node, trainer: Node, find: Find) -> Pod:
    """The pod of the runtime with the words, the environment and the GPUs of the job, and the labels that it asks a
    node for.
    """
    base = next((each for each in pod.containers if string(each, "name") == "node"), None) if pod is not None else None
    own = {found.key: found for found in trainer.entries if found.key in _OWN}
    env = (*items(base, "env"), *items(trainer, "env"))
    kept = [found for found in (base.entries if base is not None else ()) if found.key not in (*own, "env")]
    listed = Entry("env", trainer.span, Node("array", None, trainer.span, items=env))
    container = Node("object", None, trainer.span, (*kept, *own.values(), listed))
    containers = Entry("containers", trainer.span, Node("array", None, trainer.span, items=(container,)))
    rest = [found for found in (pod.spec.entries if pod is not None else ()) if found.key != "containers"]
    return Pod(Node("object", None, root.span, (*rest, *_patched(root), containers)), find)


def _patched(root: Node) -> list[Entry]:
    """What the job asks of its nodes, under whatever name its release has for that."""
    found: list[Entry] = []
    for name in ("podTemplateOverrides", "podSpecOverrides", "runtimePatches"):
        for override in items(root, "spec", name):
            spec = member(override, "spec") or override
            found.extend(each for each in spec.entries if each.key in ("nodeSelector", "affinity", "volumes"))
    return found


def _nodes(root: Node, trainer: Node, runtime: Node | None) -> Setting:
    """numNodes of the job, else of the runtime; of a runtime that is not here it is not known."""
    own = member(trainer, "numNodes")
    if own is not None:
        return count(own, 1, trainer.span, "TrainJob")
    if runtime is None:
        name = string(root, "spec", "runtimeRef", "name") or "the runtime"
        why = f"numNodes is not written, and {name} is not among the files"
        return Unknown(why, "--set cluster.nodes=N", Origin("written", trainer.span))
    return count(member(runtime, "spec", "mlPolicy", "numNodes"), 1, root.span, "TrainJob")


def _gpus(trainer: Node, pod: Pod) -> Setting | None:
    """The GPUs of a node: of the job, else of the runtime's container."""
    own = member(trainer, "resourcesPerNode")
    if own is None:
        return gpus_of(pod)
    return gpus_asked(Node("object", None, own.span, (Entry("resources", own.span, own),)))


def _slots(trainer: Node, policy: Node | None, gpus: Setting | None) -> Setting:
    """Processes of a node under MPI: numProcPerNode of the job, else of the runtime; its 1 means one for each GPU."""
    own = member(trainer, "numProcPerNode")
    if own is not None:
        return count(own, 1, trainer.span, "TrainJob")
    found = count(member(policy, "mpi", "numProcPerNode"), 1, trainer.span, "TrainJob")
    return gpus if number(found) == 1 and gpus is not None and number(gpus) else found


def _torch(root: Node, trainer: Node, policy: Node | None, nodes: Setting, gpus: Setting | None) -> dict[str, Text]:
    """What the trainer sets for torchrun (pkg/runtime/framework/plugins/torch/torch.go)."""
    place, name = root.span, string(root, "metadata", "name") or "job"
    return {
        "PET_NNODES": text_of_setting(nodes, place),
        "PET_NPROC_PER_NODE": _processes(trainer, policy, gpus),
        "PET_NODE_RANK": told_at_run("PET_NODE_RANK", place, "launch.node_rank"),
        "PET_MASTER_ADDR": made(f"{name}-node-0-0.{name}", place),
        "PET_MASTER_PORT": made(PORT, place),
    }


def _processes(trainer: Node, policy: Node | None, gpus: Setting | None) -> Text:
    """numProcPerNode, `auto` where none is written; without GPUs the trainer counts CPUs, which tell no GPU."""
    own = member(trainer, "numProcPerNode")
    if own is not None and own.kind in ("number", "string", "bare"):
        return text_of(own)
    return made("auto" if gpus is not None else "cpu", trainer.span)
