"""Commands that start another command: env, nohup, timeout, containers, profilers, srun, mpirun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import NamedFile, Reading
from dtlint.frameworks.interpreter import LAUNCHERS, program_name, python_program
from dtlint.frameworks.options import Grammar, is_hidden, split_options
from dtlint.languages.shell.nested import SCRIPT_SUFFIXES, SHELLS
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple

MOST_LAYERS = 8
"""Wrappers around one command that are looked through."""


class Options(NamedTuple):
    """The options of a wrapper as lists of words: long ones with a value, long ones without, letters, and the long ones
    that may have a single dash. Of the letters those before a `|` have a value: `nu|vE`.
    """

    with_value: str = ""
    flags: str = ""
    short: str = ""
    dashed: str = ""

    @property
    def grammar(self) -> Grammar:
        """The grammar that the lists stand for."""
        long = {**dict.fromkeys(self.with_value.split(), 1), **dict.fromkeys(self.flags.split(), 0)}
        valued, _, plain = self.short.partition("|")
        long.update({f"letter {letter}": 1 for letter in valued})
        long.update({f"letter {letter}": 0 for letter in plain})
        return Grammar(long, {letter: f"letter {letter}" for letter in valued + plain}, frozenset(self.dashed.split()))


class Wrapper(NamedTuple):
    """A command that starts another one.

    `words` stand between its name and its options (`exec` of `singularity exec`), `operands` is how many words it takes
    before the program (the image of a container, the seconds of `timeout`).
    """

    words: tuple[str, ...] = ()
    options: Options = Options()
    operands: int = 0


_CONTAINER_EXEC = Options(
    "bind home pwd workdir env env-file overlay security hostname network network-args add-caps drop-caps cwd mount "
    "scratch fusemount app shell dns apply-cgroups",
    "nv rocm cleanenv contain containall writable writable-tmpfs no-home ipc pid net uts fakeroot userns no-privs "
    "keep-privs nvccl no-mount-hostfs unsquash compat no-init quiet",
    "BHWSoe|cCiwup",
)
_DOCKER = Options(
    "gpus name volume env env-file workdir network net user shm-size ipc ulimit mount runtime cpus memory publish "
    "hostname entrypoint device cap-add cap-drop security-opt add-host label log-driver pid userns restart platform "
    "memory-swap cpuset-cpus uts group-add tmpfs pull dns stop-signal cidfile volumes-from log-opt annotation "
    "detach-keys",
    "rm interactive tty detach privileged init read-only quiet publish-all",
    "vewuplhma|itdPq",
)
_PROFILER = Options(
    "output trace sample cpuctxsw capture-range capture-range-end cudabacktrace delay duration stats export "
    "gpu-metrics-device gpu-metrics-devices session-new backtrace cuda-memory-usage cuda-graph-trace nic-metrics "
    "force-overwrite kill python-sampling python-backtrace pytorch env-var wait stop-on-exit run-as osrt-threshold "
    "cuda-flush-interval show-output trace-fork-before-exec",
    "help",
    "otswdcefbxnyp|",
)

WRAPPERS: Mapping[str, tuple[Wrapper, ...]] = {
    "env": (Wrapper(options=Options("unset chdir split-string", "ignore-environment null debug", "uCS|i0v")),),
    "nohup": (Wrapper(),),
    "time": (Wrapper(options=Options("output format", "portability verbose append quiet", "of|pvaq")),),
    "exec": (Wrapper(options=Options(short="a|cl")),),
    "command": (Wrapper(options=Options(short="|p")),),
    "sudo": (
        Wrapper(
            options=Options(
                "user group host prompt chdir", "preserve-env non-interactive set-home login", "ughpCDRT|EnHiSkAsbP"
            )
        ),
    ),
    "nice": (Wrapper(options=Options("adjustment", short="n|")),),
    "ionice": (Wrapper(options=Options("class classdata", "ignore", "cn|t")),),
    "taskset": (Wrapper(options=Options(flags="cpu-list all-tasks", short="|ca"), operands=1),),
    "numactl": (
        Wrapper(
            options=Options(
                "membind cpunodebind physcpubind interleave preferred weighted-interleave balancing",
                "localalloc all hardware show",
                "mNCipw|laHs",
            )
        ),
    ),
    "timeout": (
        Wrapper(options=Options("signal kill-after", "foreground preserve-status verbose", "sk|vfp"), operands=1),
    ),
    "stdbuf": (Wrapper(options=Options("input output error", short="ioe|")),),
    "setsid": (Wrapper(options=Options(flags="ctty fork wait", short="|cfw")),),
    "unbuffer": (Wrapper(options=Options(short="|p")),),
    "xvfb-run": (
        Wrapper(
            options=Options(
                "server-args server-num auth-file error-file xauth-protocol wait",
                "auto-servernum auto-display",
                "snfepw|al",
            )
        ),
    ),
    "catchsegv": (Wrapper(),),
    "strace": (Wrapper(options=Options("output trace", "follow-forks", "oepsP|fcttqvxy")),),
    "gdb": (Wrapper(options=Options("ex", "args batch quiet", "x|q", "ex args batch")),),
    "nsys": (Wrapper(("profile",), _PROFILER),),
    "nvprof": (Wrapper(options=Options("output-profile profile-from-start", short="of|")),),
    "ncu": (
        Wrapper(options=Options("export set section metrics kernel-name launch-count launch-skip", short="okcsf|")),
    ),
    "py-spy": (Wrapper(("record",), Options("output format rate duration", "subprocesses native", "ofrd|sn")),),
    "singularity": (Wrapper(("exec",), _CONTAINER_EXEC, 1), Wrapper(("run",), _CONTAINER_EXEC, 1)),
    "docker": (Wrapper(("run",), _DOCKER, 1), Wrapper(("exec",), _DOCKER, 1)),
    "enroot": (Wrapper(("start",), Options("env mount conf rc", "root rw", "emcr|w"), 1),),
    "shifter": (Wrapper(options=Options("image volume module env workdir", "clearenv", "iVmew|E")),),
    "uv": (
        Wrapper(
            ("run",),
            Options(
                "with python project directory extra group env-file package index-url with-requirements with-editable",
                "no-sync frozen locked active isolated all-extras no-project no-dev module exact offline quiet",
                "p|qm",
            ),
        ),
    ),
    "poetry": (Wrapper(("run",)),),
    "pipenv": (Wrapper(("run",)),),
    "pdm": (Wrapper(("run",)),),
    "rye": (Wrapper(("run",)),),
    "hatch": (Wrapper(("run",)),),
    "pixi": (Wrapper(("run",), Options("environment manifest-path", "frozen locked", "e|")),),
    "conda": (
        Wrapper(("run",), Options("name prefix cwd", "no-capture-output live-stream verbose", "np|v")),
    ),
}  # fmt: skip
CONTAINERS = frozenset(("docker", "singularity"))
"""Wrappers whose operand is an image."""
_WITH_VARIABLES = frozenset(("docker", "singularity", "enroot", "shifter"))
"""Wrappers whose --env sets variables."""
MPI_LAUNCHERS = frozenset(("mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "orterun"))
_SAME = {
    "apptainer": "singularity",
    "podman": "docker",
    "nerdctl": "docker",
    "nvidia-docker": "docker",
    "mamba": "conda",
    "micromamba": "conda",
    "gtimeout": "timeout",
}

PROGRAMS = LAUNCHERS | MPI_LAUNCHERS | SHELLS | {*WRAPPERS, *_SAME, "srun", "sbatch"}
"""Programs that start another one, or a training."""


def unwrap(words: Sequence[Word]) -> tuple[Reading | None, tuple[Word, ...]]:
    """Take one wrapper off a command: what it claims (srun, mpirun, the variables of env) and the command inside.

    The words come back as they are if they start no other command in a way that is known.
    """
    if not words:
        return None, ()
    managed = _managed(words)
    if managed is not None:
        return managed, managed.rest
    name = program_name(words[0])
    for wrapper in WRAPPERS.get(_SAME.get(name, name), ()):
        inside = _inside(words[1:], wrapper)
        if inside is not None and _SAME.get(name, name) in CONTAINERS:
            return _container(words, wrapper), inside
        if inside is not None:
            return _assigned(inside)
    return _assigned(tuple(words))


def _container(words: Sequence[Word], wrapper: Wrapper) -> Reading:
    """The image that a command starts a container of, and the folders that this has of the host's."""
    from dtlint.frameworks.mounts import mounts

    behind = words[1 + len(wrapper.words) :]
    split, operands = split_options(behind, wrapper.options.grammar), _behind_options(behind, wrapper)
    return Reading("container", words[0].place, files=(NamedFile("image", operands[0]),), collections=mounts(split))


def unwrap_all(words: Sequence[Word]) -> tuple[list[Reading], tuple[Word, ...]]:
    """Take all wrappers off a command: what they claim, innermost first, and the command inside."""
    readings: list[Reading] = []
    inside = tuple(words)
    for _ in range(MOST_LAYERS):
        reading, rest = unwrap(inside)
        if len(rest) == len(inside):
            break
        found = (each for each in (reading, _passed_on(inside)) if each is not None)
        readings, inside = [*found, *readings], rest
    return readings, inside


def _passed_on(words: Sequence[Word]) -> Reading | None:
    """The variables that a command's options set for the command inside."""
    from dtlint.frameworks import passed_on

    name = program_name(words[0])
    if name == "srun":
        from dtlint.frameworks.slurm.grammar import GRAMMAR

        return passed_on.read("srun", words[1:], GRAMMAR)
    if name in MPI_LAUNCHERS:
        from dtlint.frameworks import mpirun

        return passed_on.read("mpirun", words[1:], mpirun.GRAMMAR)
    wrapper = _SAME.get(name, name)
    if wrapper not in _WITH_VARIABLES:
        return None
    after = 1 + len(WRAPPERS[wrapper][0].words)
    return passed_on.read(wrapper, words[after:], WRAPPERS[wrapper][0].options.grammar)


def _managed(words: Sequence[Word]) -> Reading | None:
    """What a command of a scheduler or of MPI says; None for any other command."""
    name = program_name(words[0])
    if name == "srun":
        from dtlint.frameworks.slurm import read_srun

        return read_srun(words)
    if name in MPI_LAUNCHERS:
        from dtlint.frameworks.mpirun import read_launch

        return read_launch(words)
    return None


def _inside(words: Sequence[Word], wrapper: Wrapper) -> tuple[Word, ...] | None:
    """The command within a wrapper's arguments, None if the arguments are not of this wrapper's form."""
    if tuple(word.text for word in words[: len(wrapper.words)]) != wrapper.words:
        return None
    return _behind_options(words[len(wrapper.words) :], wrapper)[wrapper.operands :] or None


def _behind_options(words: Sequence[Word], wrapper: Wrapper) -> tuple[Word, ...]:
    """The operands of a wrapper and the command behind them.

    An unknown word that may be several stands for options, but for the last one where the program follows at once:
    without an operand the wrapper would fail, so that the word is one (`docker run $IMAGE torchrun train.py`).
    """
    rest = split_options(words, wrapper.options.grammar).rest
    before = len(words) - len(rest)
    if wrapper.operands != 1 or not before or not is_hidden(words[before - 1]):
        return rest
    if before > 1 and is_hidden(words[before - 2]) and python_program(words[before - 1 :]) is not None:
        return tuple(words[before - 2 :])
    return tuple(words[before - 1 :]) if _starts_program(rest) else rest


def _starts_program(words: Sequence[Word]) -> bool:
    """Whether words begin with a program, rather than with an image or a number.

    A name with a folder in front is an image where a program follows it (`deepspeed/deepspeed deepspeed train.py`).
    """
    folder = words[0].shown.rpartition("/")[0]
    is_image = folder and folder[0] not in "/.?" and _is_program(words[1:])
    return _is_program(words) and not is_image


def _is_program(words: Sequence[Word]) -> bool:
    """Whether words start a script, a training, or another program, as far as their names tell."""
    if not words:
        return False
    if words[0].shown.endswith((*SCRIPT_SUFFIXES, ".py")) or program_name(words[0]) in PROGRAMS:
        return True
    return python_program(words) is not None


def _assigned(words: tuple[Word, ...]) -> tuple[Reading | None, tuple[Word, ...]]:
    """Variables set before a command (`env NAME=VALUE command`)."""
    from dtlint.frameworks import environment

    env: dict[str, Word] = {}
    for word in words:
        name, equals, _ = word.shown.partition("=")
        if not equals or not name.isidentifier():
            break
        env[name] = word.part(len(name) + 1)
    return (environment.read(env) if env else None), words[len(env) :]
