"""The options of sbatch and srun, and how many values each takes (Slurm 26.11, their man pages)."""

from __future__ import annotations

from dtlint.frameworks.options import Grammar

_WITH_VALUE = (
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container "
    "container-id core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot "
    "dependency distribution epilog error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus "
    "gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint input job-name jobid licenses "
    "mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network nodefile "
    "nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output "
    "partition power prefer priority profile prolog qos relative reservation signal slurmd-debug sockets-per-node "
    "switches task-epilog task-prolog thread-spec threads threads-per-core time time-min tmp tres-bind tres-per-task "
    "treewidth uid wait wait-for-switch wckey wrap argv bcast-exclude context environment ignore-signals mem-update "
    "ntasks-per-tres resources runtime segment wait-all-nodes accel-bind container-image container-mounts "
    "container-name container-workdir container-env"
)
_FLAGS = (
    "async bcast bell compress consolidate-segments contiguous debugger-test disable-status exact exclusive external "
    "get-user-env hold ignore-pbs immediate interactive external-launcher kill-command kill-on-bad-exit "
    "kill-on-invalid-dep label nice no-allocate no-bell no-kill no-requeue no-shell oom-kill-step send-libs "
    "spread-segments usage wait-for-children x11 oversubscribe overcommit overlap multi-prog parsable preserve-env "
    "propagate pty quit-on-interrupt quiet reboot requeue resv-ports share spread-job stepmgr test-only unbuffered "
    "use-min-nodes verbose version whole X help container-mount-home no-container-mount-home container-writable "
    "container-remap-root no-container-remap-root no-container-entrypoint container-entrypoint container-save"
)
_OTHER_NAMES = {
    "tasks-per-node": "ntasks-per-node",
    "cpu_bind": "cpu-bind",
    "mem_bind": "mem-bind",
    "cluster": "clusters",
    "pack-group": "het-group",
    "workdir": "chdir",
}
"""Older names that Slurm takes or took beside those of its man pages: src/common/slurm_opt.c of 26.11, and the option
tables of srun and sbatch up to 18.08 (mem_bind, workdir).
"""

GRAMMAR = Grammar(
    long={**dict.fromkeys(_WITH_VALUE.split(), 1), **dict.fromkeys(_FLAGS.split(), 0)},
    short={
        "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
        "D": "chdir", "d": "dependency", "e": "error", "E": "preserve-env", "G": "gpus", "H": "hold", "I": "immediate",
        "i": "input", "J": "job-name", "K": "kill-on-bad-exit", "k": "no-kill", "L": "licenses", "l": "label",
        "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output",
        "p": "partition", "Q": "quiet", "q": "qos", "r": "relative", "S": "core-spec", "s": "oversubscribe",
        "T": "threads", "t": "time", "u": "unbuffered", "V": "version", "v": "verbose", "W": "wait", "w": "nodelist",
        "x": "exclude", "Z": "no-allocate", "h": "help", "F": "nodefile",
    },
    spelled={**{name: name for name in (*_WITH_VALUE.split(), *_FLAGS.split())}, **_OTHER_NAMES},
)  # fmt: skip
"""The options of srun."""

OF_SBATCH = GRAMMAR._replace(long={**GRAMMAR.long, "wait": 0})
"""The options of sbatch and of #SBATCH lines: with --wait it stays until the job ends; srun's --wait takes the seconds
after which it ends the tasks that are left (the man pages of both).
"""
