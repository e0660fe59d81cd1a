"""Launch commands of a script: what wraps them, the launcher, the program, each read by its front end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.interpreter import LAUNCHERS, program_name, python_program
from dtlint.frameworks.options import CUT, integer
from dtlint.languages.traced import Command, Word
from dtlint.record import NamedTuple
from dtlint.runs.front_ends import module_of, reader_of_program
from dtlint.runs.model import Launch
from dtlint.runs.swallowed import without_second
from dtlint.source import Source
from dtlint.value import written

LAUNCHER_MODULES = frozenset(
    (
        "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "axolotl.cli.train",
        "deepspeed.launcher.runner",
    )
)  # fmt: skip
_WORDS_BEFORE_ACCELERATE = 8
MANAGERS = ("srun", "mpirun")
_WITH_CONFIGS = {
    "axolotl": "axolotl",
    "composer": "composer",
    "tune": "torchtune",
    "xtuner": "xtuner",
    "litgpt": "litgpt",
    "colossalai": "colossalai",
    "train_esm2": "bionemo",
}
"""Launchers that belong to a front end of their own, with its role."""
ReadFile = Callable[[str], Source | None]
_OF_NEMO = ("--recipe", "model.", "exp_manager.", "megatron_")
"""What overrides of NeMo's configs begin with, its examples that train Megatron models, and the option that names a
recipe of Megatron-Bridge's.
"""
_NODE_RANK = ("--node-rank", "--machine-rank")


class Found(NamedTuple):
    """A launch with everything that its words say. `program` is the script or module and its arguments."""

    launch: Launch
    readings: tuple[Reading, ...]
    program: tuple[Word, ...]

    @property
    def files(self) -> tuple[NamedFile, ...]:
        """The files that the words name."""
        return tuple(file for reading in self.readings for file in reading.files)


def find_launch(command: Command, read_file: ReadFile, allocated: bool = False) -> Found | None:
    """The launch that a command is, or None for a command that starts no training. `allocated`: a job of several
    machines runs it, so that a program that spans machines by itself is meant to be one.
    """
    from dtlint.frameworks.wrappers import unwrap_all

    outer = [reading for wrapper in command.wrapper for reading in unwrap_all(wrapper.argv)[0]]
    inner, words = unwrap_all(command.argv)
    readings = [*inner, *outer]
    words = _handed_on(words, any(reading.layer in MANAGERS for reading in readings))
    if not words:
        return _cut_off(command, readings)
    launcher = _launcher_reading(words, command.env, read_file)
    if launcher is not None and _starts_shell(launcher.rest):
        return None
    launcher = launcher or _around(command, read_file)
    if launcher is not None:
        launcher = without_second(launcher, lambda found: _launcher_reading(found, {}, read_file))
    program = launcher.rest if launcher is not None and launcher.rest else _program(words)
    arguments = _argument_readings(program)
    managed = any(reading.layer in MANAGERS for reading in readings)
    numbered = _is_rank(command.env) or (allocated and _spans_machines(program, read_file))
    alone = launcher is None and not _is_launch(words, program, arguments)
    if alone and not ((managed or numbered) and _is_script(program, read_file)):
        return None
    started = [launcher] if launcher is not None else [] if managed else [_plain_start(words, program, command.env)]
    started += [_module_reading(words)] if alone else []
    around = (_environment_reading(command, readings), _starters_reading(command), _template_reading(program))
    if launcher is None and managed:
        started.append(_address_reading(command, words))
    managers = [reading for reading in readings if reading.layer != "environment"]
    return Found(Launch(command.place, words, command.env), (*arguments, *started, *managers, *around), tuple(program))


def _cut_off(command: Command, readings: Sequence[Reading]) -> Found | None:
    """An srun or mpirun that a broken continuation ends before its program."""
    cut = any(reading.layer in MANAGERS and reading.open == CUT for reading in readings)
    return Found(Launch(command.place, command.argv, command.env), tuple(readings), ()) if cut else None


def _starts_shell(rest: Sequence[Word]) -> bool:
    """Whether a launcher starts a shell with a text (`--no_python bash -c "..."`), in which the launch stands."""
    return len(rest) > 2 and program_name(rest[0]) in ("bash", "sh") and (rest[1].text or "")[:1] == "-"


def _around(command: Command, read_file: ReadFile) -> Reading | None:
    """The launcher whose shell starts a command, without the words of that shell."""
    for wrapper in reversed(command.wrapper):
        reading = _launcher_reading(tuple(wrapper.argv), wrapper.env, read_file) if wrapper.argv else None
        if reading is not None and _starts_shell(reading.rest):
            return reading._replace(rest=())
    return None


def rendezvous_key(found: Found, command: Command) -> tuple[object, ...]:
    """What is equal for the commands of one run: every word but the node's own rank; and the line, unless ssh starts
    each on a machine of its own.
    """
    words = [word.shown for word in found.launch.argv]
    kept = tuple(word for index, word in enumerate(words) if not _names_rank(words, index))
    place = found.launch.place
    return place.source.path, 0 if machine_of(command) else place.line, kept


def machine_of(command: Command) -> str:
    """The words of the ssh around a command, without the text that it is handed; "" where they are not all known."""
    for wrapper in command.wrapper:
        if wrapper.argv and program_name(wrapper.argv[0]) == "ssh":
            words = [word.text for word in wrapper.argv[:-1]]
            return " ".join(word for word in words if word) if None not in words else ""
    return ""


def _names_rank(words: Sequence[str], index: int) -> bool:
    before = words[index - 1] if index else ""
    flag = words[index].partition("=")[0]
    return any(name.replace("_", "-") in _NODE_RANK for name in (flag, before))


def _handed_on(words: tuple[Word, ...], managed: bool) -> tuple[Word, ...]:
    """The words from the launcher on where a program is told to start it: `submit.py ... -- accelerate launch ...`, or
    under srun and mpirun `wrapper.sh torchrun ...`; else the words as they are.
    """
    if not words or program_name(words[0]) in LAUNCHERS:
        return words
    for number, word in enumerate(words[1:], 1):
        if word.text == "--":
            return _from_launcher(words, number + 1) or words
        if managed and program_name(word) in LAUNCHERS and not _program(words):
            return words[number:]
        managed = managed and not word.shown.startswith("-")
    return words


def _from_launcher(words: tuple[Word, ...], start: int) -> tuple[Word, ...]:
    found = next((words[at:] for at in range(start, len(words)) if program_name(words[at]) in LAUNCHERS), ())
    return found or (words[start:] if python_program(words[start:]) is not None else ())


def _launcher_reading(words: tuple[Word, ...], env: Mapping[str, Word], read_file: ReadFile) -> Reading | None:
    from dtlint.frameworks import torchrun

    if torchrun.recognise(words):
        return torchrun.read_launch(words, env)
    from dtlint.frameworks import swift
    from dtlint.frameworks.deepspeed import launcher as deepspeed_launcher

    if deepspeed_launcher.recognise(words):
        return deepspeed_launcher.read_launch(words, read_file, env)
    if swift.recognise(words):
        return swift.read_launch(words, env)
    from dtlint.frameworks.llama_factory import launcher as llama_factory

    if llama_factory.recognise(words):
        return llama_factory.read_launch(words, env)
    from dtlint.frameworks.torchtitan import launcher as torchtitan_launcher

    if torchtitan_launcher.recognise(words, env):
        return torchtitan_launcher.read_launch(words, env)
    name = program_name(words[0])
    module = _WITH_CONFIGS.get(name, "")
    if module and (own := module_of(module)).recognise_launch(words):
        found: Reading = own.read_launch(words, env)
        return found
    from dtlint.frameworks import trl

    if trl.recognise(words):
        return trl.read_launch_of_task(words)
    if not any("accelerate" in word.shown for word in words[:_WORDS_BEFORE_ACCELERATE]):
        return None
    from dtlint.frameworks.accelerate import launcher as accelerate_launcher

    if accelerate_launcher.recognise(words):
        return accelerate_launcher.read_launch(words)
    return None


def _argument_readings(program: Sequence[Word]) -> list[Reading]:
    from dtlint.frameworks import megatron, trained_part
    from dtlint.frameworks import program as programs

    if not program:
        return []
    arguments = tuple(program[1:])
    own = reader_of_program(program)
    if own is not None:
        return [own.read_program(program), programs.read(program)]
    if megatron.recognise(arguments):
        return [
            megatron.read_arguments(arguments, program[0].place),
            *trained_part.read(program),
            programs.read(program),
        ]
    if overridden := _with_overrides(program):
        return [overridden, programs.read(program)]
    from dtlint.frameworks.transformers import arguments as transformers

    of_trainer = transformers.recognise(program)
    speaking = [transformers.read_arguments(program)] if of_trainer else trained_part.read(program)
    return [*speaking, programs.read(program), *_argument_files(program)]


def _with_overrides(program: Sequence[Word]) -> Reading | None:
    """What a command line says that names a config and overrides it."""
    text = " ".join(word.shown for word in program)
    if "torchtitan" in text or "--job." in text:
        from dtlint.frameworks.torchtitan import config as torchtitan

        return torchtitan.read_arguments(program) if torchtitan.recognise(program) else None
    if not any(sign in text for sign in _OF_NEMO):
        return None
    from dtlint.frameworks.nemo import config as nemo

    return nemo.read_arguments(program) if nemo.recognise(program) else None


def _argument_files(program: Sequence[Word]) -> list[Reading]:
    """The file in which a program's arguments stand, where one is named."""
    if not any((word.text or "").endswith((".json", ".yaml", ".yml")) for word in program[1:]):
        return []
    from dtlint.frameworks.transformers.files import named_file

    return [Reading("program", program[0].place, files=named_file(program))]


def _program(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The script and its arguments of `python [-u] train.py ...` or `./train.py ...`; () where the words start no
    Python program.
    """
    found = python_program(words)
    itself = words if words and program_name(words[0]).endswith(".py") else ()
    return found.words if found is not None else itself


def _module_reading(words: tuple[Word, ...]) -> Reading:
    """The file of a program that Python starts as a module (`python -m ours.train`)."""
    found = python_program(words)
    named = (NamedFile("module", found.words[0]),) if found is not None and found.kind == "module" else ()
    return Reading("program", files=tuple(each for each in named if each.path.text))


def _is_launch(words: Sequence[Word], program: Sequence[Word], arguments: Sequence[Reading]) -> bool:
    if program_name(words[0]) in LAUNCHERS and len(words) > 1:
        return True
    if program and (program[0].text or "") in LAUNCHER_MODULES:
        return True
    return any(reading.framework or reading.frontend or _names_config(reading) for reading in arguments)


def _is_script(program: Sequence[Word], read_file: ReadFile) -> bool:
    """Whether a program is a file of Python, or a module whose file is here (`python -m ours.train`)."""
    name = (program[0].text or "") if program else ""
    if name.endswith(".py"):
        return True
    return re.fullmatch(r"[A-Za-z_]\w*(?:\.\w+)*", name) is not None and any(
        read_file(f"{folder}{name.replace('.', '/')}.py") is not None for folder in ("", "src/")
    )


def _spans_machines(program: Sequence[Word], read_file: ReadFile) -> bool:
    """Whether a program has a Trainer of Lightning that is told of several machines."""
    path = program[0].text if program else None
    source = read_file(path) if path is not None and path.endswith(".py") else None
    return source is not None and "lightning" in source.text and "num_nodes" in source.text


def _is_rank(env: Mapping[str, Word]) -> bool:
    """Whether a program finds its rank among all in its environment, and where they meet."""
    return env.keys() >= {"RANK", "WORLD_SIZE", "MASTER_ADDR"}


def _names_config(reading: Reading) -> bool:
    return any(file.role in ("deepspeed", "nemo") for file in reading.files)


def _plain_start(words: Sequence[Word], program: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """A program that no launcher starts: how many processes it becomes is its own affair, or that of a script that
    numbers the ranks itself and says how many there are (RANK, WORLD_SIZE).
    """
    if not program or (program[0].text or "") in LAUNCHER_MODULES:
        return Reading("program")
    launcher = Claim("launch.launcher", written("python", words[0].place))
    if not env.keys() >= {"RANK", "WORLD_SIZE"}:
        return Reading("python", words[0].place, (launcher,))
    ranks = Claim("launch.processes", integer(env["WORLD_SIZE"]), "WORLD_SIZE")
    return Reading("python", words[0].place, (launcher, ranks))


def _environment_reading(command: Command, readings: Sequence[Reading]) -> Reading:
    """The variables that the processes see; those that `env` sets before the launcher count most."""
    from dtlint.frameworks import environment

    wrapped = [reading for reading in readings if reading.layer == "environment"]
    sourced = next((each.sourced for each in (*command.wrapper, command) if each.sourced), "")
    return environment.complete([environment.read(command.env), *reversed(wrapped)], command.place, sourced)


def _address_reading(command: Command, inside: Sequence[Word]) -> Reading:
    """Where tasks meet which a scheduler starts as they are."""
    from dtlint.frameworks import environment
    from dtlint.languages.shell.handed import handed

    return environment.address(handed(command.argv[: len(command.argv) - len(inside)], command.env))


def _template_reading(program: Sequence[Word]) -> Reading:
    from dtlint.frameworks import templates

    return templates.read(program)


def _starters_reading(command: Command) -> Reading:
    from dtlint.frameworks import starters

    return starters.read(command)
