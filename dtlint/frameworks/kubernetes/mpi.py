"""Kubeflow's MPIJob: a launcher whose mpirun, or deepspeed, starts processes on the workers by a host file."""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.frameworks.jobs import Job, count, made, number, string, text_of_setting
from dtlint.frameworks.kubernetes.pods import (
    Find,
    Pod,
    adapters_of,
    gpus_of,
    jobs_of,
    machine_claims,
    nodes_claim,
    replicas,
)
from dtlint.languages.json_tree import Node, member
from dtlint.languages.shell.text import Text
from dtlint.source import Span
from dtlint.value import Setting

LAYER = "mpi-job"
HOSTS = "/etc/mpi/hostfile"
"""Where the operator puts the host file (mpi-operator, mpi_job_controller.go)."""

MOST_HOSTS = 10_000


def read_job(root: Node, find: Find) -> list[Job]:
    """What the launcher runs, on the workers' machines; a launcher may be one of them."""
    specs = member(root, "spec", "mpiReplicaSpecs")
    workers, launcher = member(specs, "Worker"), member(specs, "Launcher")
    if launcher is None:
        return []
    spec = member(root, "spec") or root
    slots = count(member(spec, "slotsPerWorker"), 1, spec.span, "MPIJob")
    nodes = replicas(member(workers, "replicas"), workers or launcher)
    pod = Pod(member(workers or launcher, "template") or launcher, find)
    claims = (*nodes_claim(nodes, "replicas"), *machine_claims(pod, gpus_of(pod)))
    name = string(root, "metadata", "name") or "job"
    own = Pod(member(launcher, "template") or launcher, find)
    reading = Reading(LAYER, root.span, claims, collections=adapters_of(pod))
    return launched(own, reading, host_list(name, nodes, slots, root.span), slots, root)


def launched(pod: Pod, reading: Reading, hosts: Text, slots: Setting, root: Node) -> list[Job]:
    """What a launcher's containers run, with the host file that mpirun finds by its environment."""
    place = root.span
    variables: dict[str, Text] = {
        "OMPI_MCA_orte_default_hostfile": made(HOSTS, place),
        "OMPI_MCA_orte_set_default_slots": text_of_setting(slots, place),
    }
    jobs = jobs_of(pod, reading, variables, hosts)
    return [job._replace(files={**job.files, HOSTS: hosts}) if hosts else job for job in jobs]


def host_list(name: str, nodes: Setting, slots: Setting, place: Span) -> Text:
    """The host file, at the place of the number of slots; () where the numbers are not known."""
    machines, each = number(nodes), number(slots)
    if not machines or not each or machines > MOST_HOSTS:
        return ()
    lines = "".join(f"{name}-worker-{index} slots={each}\n" for index in range(machines))
    return (text_of_setting(slots, place)[0]._replace(text=lines),)
