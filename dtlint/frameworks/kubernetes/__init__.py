"""Kubernetes: what the manifests of training jobs start, on which machines, and with which environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtlint.frameworks.jobs import Job, string
from dtlint.frameworks.kubernetes.pods import Find
from dtlint.languages.json_tree import Document, Node

KINDS = (
    "PyTorchJob", "HyperPodPyTorchJob", "MPIJob", "TrainJob", "JobSet", "RayJob", "Job", "Pod", "StatefulSet",
)  # fmt: skip
"""Manifests that start training processes; Job is Kubernetes' own, or Volcano's."""


def recognise(document: Document) -> bool:
    """Whether a document is a manifest of a kind that starts training."""
    return bool(string(document.root, "apiVersion")) and string(document.root, "kind") in KINDS


def read_manifests(documents: Sequence[Document], find: Find) -> list[Job]:
    """The jobs of the documents of one file; `find` looks for further manifests in other files."""
    roots = [document.root for document in documents if document.root is not None]
    known = {(string(root, "kind"), string(root, "metadata", "name")): root for root in roots}

    def look_up(kind: str, name: str) -> Node | None:
        return known.get((kind, name)) or find(kind, name)

    wanted = [document.root for document in documents if recognise(document)]
    return [job for root in wanted if root is not None for job in _read(root, look_up)]


def _read(root: Node, find: Find) -> list[Job]:
    reader = _readers()[string(root, "kind")]
    return reader(root, find)


def _readers() -> Mapping[str, Callable[[Node, Find], list[Job]]]:
    from dtlint.frameworks.kubernetes import job_sets, mpi, pytorch_jobs, ray_jobs, train_jobs

    return {
        "PyTorchJob": pytorch_jobs.read_job,
        "HyperPodPyTorchJob": pytorch_jobs.read_hyperpod_job,
        "MPIJob": mpi.read_job,
        "TrainJob": train_jobs.read_job,
        "JobSet": job_sets.read_job_set,
        "RayJob": ray_jobs.read_job,
        "Job": job_sets.read_plain,
        "Pod": job_sets.read_pod,
        "StatefulSet": job_sets.read_stateful_set,
    }
