"""What unknown variables and outputs stand for: settings of the cluster, and places."""

from __future__ import annotations

import re

from dtlint.languages.traced import CURRENT_FOLDER

VARIABLES = {
    "SLURM_NNODES": "cluster.nodes",
    "SLURM_JOB_NUM_NODES": "cluster.nodes",
    "SLURM_GPUS_ON_NODE": "cluster.gpus_per_node",
    "SLURM_GPUS_PER_NODE": "cluster.gpus_per_node",
    "SLURM_NTASKS": "launch.processes",
    "SLURM_NPROCS": "launch.processes",
    "SLURM_NTASKS_PER_NODE": "launch.tasks_per_node",
    "SLURM_TASKS_PER_NODE": "launch.tasks_per_node",
    "SLURM_NODEID": "launch.node_rank",
    "SLURM_PROCID": "launch.node_rank",
    "SLURMD_NODENAME": "cluster.this_host",
    "SKYPILOT_NUM_NODES": "cluster.nodes",
    "SKYPILOT_NUM_GPUS_PER_NODE": "cluster.gpus_per_node",
    "SKYPILOT_NODE_RANK": "launch.node_rank",
    "SKYPILOT_NODE_IPS": "cluster.hosts",
    "HOSTNAME": "cluster.this_host",
    "PWD": CURRENT_FOLDER,
    "OLDPWD": "folder.before",
    "HOME": "folder.home",
}
"""Variables that the machine sets, by what they stand for."""

MACHINE = frozenset(
    (
        "RANDOM",
        "SECONDS",
        "EPOCHSECONDS",
        "USER",
        "LOGNAME",
        "UID",
        "SHELL",
        "HOSTTYPE",
        "BASHPID",
        "PPID",
        "LINENO",
        "PATH",
    )
)
"""Variables that the machine sets and that stand for no setting."""

SCHEDULERS = ("SLURM_", "PBS_", "LSB_", "OMPI_", "PMI_", "SKYPILOT_")
"""How the variables begin that a scheduler sets for a job, even where a script sets them for use without one."""

OUTPUTS = (
    (
        r"nvidia-smi[^|]*(?:\| *grep[^|]*)?\| *wc +-l|nvidia-smi[^|]*\| *grep +-c\b|rocm-smi.*\| *wc +-l",
        "cluster.gpus_per_node",
    ),
    (r"nvidia-smi +--query-gpu=count[^|]*\| *head", "cluster.gpus_per_node"),
    (r"torch\.cuda\.device_count\(\)", "cluster.gpus_per_node"),
    (r"scontrol +show +host(?:names?)?\b.*\| *wc +-l", "cluster.nodes"),
    (
        r"scontrol +show +host(?:names?)?\b.*\| *(?:head +-n? *1|sed +-n +['\"]?1p|awk +'NR==1)",
        "cluster.first_host",
    ),
    (r"scontrol +show +host(?:names?)?\b", "cluster.hosts"),
    (r"SKYPILOT_NODE_IPS\b.*\| *(?:head +-n? *1|sed +-n +['\"]?1p|awk +'NR==1)", "cluster.first_host"),
    (r"SKYPILOT_NODE_IPS\b.*\| *wc +-l", "cluster.nodes"),
    (r"\b(?:sort +-u|uniq)\b[^|]*\bPBS_NODEFILE\b[^|]*\| *wc +-l", "cluster.nodes"),
    (r"\bPBS_NODEFILE\b.*\| *(?:sort +-u|uniq) *\| *wc +-l", "cluster.nodes"),
    (
        r"\bPBS_NODEFILE\b.*\| *(?:head +-n? *1|sed +-n +['\"]?1p)|\bhead +-n? *1 .*\bPBS_NODEFILE\b",
        "cluster.first_host",
    ),
    (r"^(?:sort +-u|uniq)\b[^|]*\bPBS_NODEFILE\b[^|]*$", "cluster.hosts"),
    (r"\bPBS_NODEFILE\b[^|]*\|(?: *sort *\|)? *(?:sort +-u|uniq)$", "cluster.hosts"),
    (r"\bwc +-l\b[^|]*host|cat +\S*host\S* *\| *wc +-l", "cluster.nodes"),
    (r"^ *nproc *$", "cluster.cpus_per_node"),
    (r"^ *hostname\b", "cluster.this_host"),
)
"""Outputs of commands that ask the cluster, by what they stand for; the first that fits counts."""

MAX_COMMANDS = 1_000
"""Characters of the commands beyond which they do more than ask the cluster."""


def meaning_of_output(commands: str) -> str:
    """The setting that the output of `commands` stands for, "" if none."""
    if len(commands) > MAX_COMMANDS:
        return ""
    text = " ".join(commands.replace("\\\n", " ").split())
    return next((means for pattern, means in OUTPUTS if re.search(pattern, text)), "")
