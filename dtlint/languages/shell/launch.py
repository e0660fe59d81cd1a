"""Commands that a script starts: reported, and looked into where they start shells of their own."""

from __future__ import annotations

from dtlint.languages.shell.call import Call
from dtlint.languages.shell.files import unknown_file
from dtlint.languages.shell.handed import handed
from dtlint.languages.shell.nested import SHELLS, Run, program_name, run_in_new_shell
from dtlint.languages.shell.rewrites import forget_written
from dtlint.languages.shell.state import Array, Shell, Verdict
from dtlint.languages.shell.text import Text, joined, literal, sole_unknown
from dtlint.languages.traced import Command, Word

WRAPPERS_WRITTEN = """
srun mpirun mpiexec horovodrun nohup timeout sudo env singularity apptainer docker podman nvidia-docker enroot
numactl taskset stdbuf setsid nice ionice xargs time chroot script su runuser screen tmux unbuffer ray jsrun aprun
deepspeed pdsh clush parallel kubectl uv poetry conda xvfb-run nsys ncu dlprof flux bsub qsub sbatch salloc
"""
WRAPPERS = frozenset(WRAPPERS_WRITTEN.split())
REMOTE = {"ssh": "bcDEeFIiJLlmOopQRSWw", "pdsh": "wxtufRloS", "clush": "wxgtufl", "dsh": "wm"}
"""Programs that run a command line elsewhere, with their options that take a value."""

READS_SCRIPT = frozenset(("sbatch", "salloc", "qsub", "bsub", *SHELLS))


def start(call: Call, run: Run) -> None:
    """Report a command that is started, then what the shells start that it starts."""
    shell = call.shell
    place, folder = call.place, shell.folder or shell.elsewhere
    environment, sourced = _environment(call), shell.sourced
    words, pauses = tuple(call.words), shell.world.pauses
    command = Command(words, environment, place, shell.wrapper, shell.background, folder, sourced, pauses)
    shell.world.commands.append(command)
    if shell.out is not None:
        shell.emit(unknown_file(call.place, _shown_name(call)))
    forget_written(call)
    shell.status = Verdict(None, assumed="success")
    name = program_name(call.words[0])
    if name in REMOTE:
        _look_into_remote(shell, call.words, name, command, run)
    if name in WRAPPERS or name in SHELLS or name in REMOTE:
        _look_into_shells(shell, call.words, command, run)


def _shown_name(call: Call) -> str:
    return " ".join(word.shown for word in call.words[:3])[:60]


def _environment(call: Call) -> dict[str, Word]:
    """What the script exports, and what stands before the command."""
    shell = call.shell
    environment: dict[str, Word] = {}
    for name in sorted(shell.exported):
        value = shell.variables.get(name)
        if value is not None and not isinstance(value, Array):
            environment[name] = Word(value, value[0].span if value else call.place)
    for name, text in call.environment.items():
        environment[name] = Word(text, text[0].span if text else call.place)
    return environment


def _look_into_shells(shell: Shell, words: list[Word], command: Command, run: Run) -> None:
    """Find `bash -c TEXT` among the words, or a shell that reads its script from a heredoc."""
    for number, word in enumerate(words):
        name = program_name(word)
        if name not in SHELLS and not (number == 0 and name in READS_SCRIPT):
            continue
        text = _script_text(words[number + 1 :])
        if text is not None:
            place, script = text
            started = command._replace(env=handed(words[:number], command.env))
            run_in_new_shell(shell, script.pieces, started, run, tuple(words[number + place + 3 :]))
            return
        if _reads_input(shell, words[number + 1 :], name):
            _run_input(shell, command._replace(env=handed(words[:number], command.env)), run)
            return
    _look_into_wrap(shell, words, command, run)


def _script_text(words: list[Word]) -> tuple[int, Word] | None:
    """The word behind `-c` and the place of that option; None if a script file or another word comes first."""
    for number, word in enumerate(words[:-1]):
        text = word.text
        if text is None or text[:1] not in ("-", "+"):
            if number and words[number - 1].text in ("-o", "-O"):
                continue
            return None
        if not text.startswith("--") and "c" in text[1:] and text[0] == "-":
            return number, words[number + 1]
    return None


def _reads_input(shell: Shell, words: list[Word], name: str) -> bool:
    if shell.stdin is None or sole_unknown(shell.stdin) is not None:
        return False
    plain = [word for word in words if not (word.text or "?").startswith("-")]
    return not plain or name not in SHELLS or any(word.text == "-s" for word in words)


def _run_input(shell: Shell, command: Command, run: Run) -> None:
    assert shell.stdin is not None
    run_in_new_shell(shell, shell.stdin, command, run)


def _look_into_wrap(shell: Shell, words: list[Word], command: Command, run: Run) -> None:
    """`sbatch --wrap TEXT`."""
    for number, word in enumerate(words):
        if word.text == "--wrap" and number + 1 < len(words):
            run_in_new_shell(shell, words[number + 1].pieces, command, run)
        elif word.shown.startswith("--wrap="):
            run_in_new_shell(shell, word.part(len("--wrap=")).pieces, command, run)


def _look_into_remote(shell: Shell, words: list[Word], name: str, command: Command, run: Run) -> None:
    """`ssh HOST COMMAND...`: the words behind the host are one command line; without them the input is the script."""
    rest = _behind_options(words[1:], REMOTE[name])
    if name == "ssh":
        rest = _behind_options(rest[1:], REMOTE[name]) if rest else rest
    if rest:
        text: Text = joined([word.pieces for word in rest], literal(" ", command.place))
        run_in_new_shell(shell, text, command, run)
    elif name == "ssh" and _reads_input(shell, [], name):
        _run_input(shell, command, run)


def _behind_options(words: list[Word], with_value: str) -> list[Word]:
    number = 0
    while number < len(words):
        text = words[number].text
        if text is None or len(text) < 2 or text[0] != "-":
            break
        number += 2 if len(text) == 2 and text[1] in with_value else 1
    return words[number:]
