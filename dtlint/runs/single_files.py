"""What a file that is named says by itself, and what one that is not here leaves."""

from __future__ import annotations

from dtlint.frameworks import NamedFile, Reading
from dtlint.languages.traced import Word, file_key
from dtlint.runs.candidates import Candidate
from dtlint.runs.configs import document_of
from dtlint.runs.front_ends import reader_of
from dtlint.runs.launches import Found
from dtlint.source import Source


def overridden(reading: Reading, source: Source, candidate: Candidate) -> Reading:
    """A file of arguments with what the command puts over it, as far as the front end takes it from there."""
    own = reader_of(document_of(source))
    if own is not None:
        return own.read_config((document_of(source),), candidate.found.program[1:])
    from dtlint.frameworks.transformers.files import overrides_of, read_file

    words = overrides_of(candidate.found.program) if reading.frontend == "llama-factory" else ()
    return read_file(document_of(source), words) if words else reading


def unread(named: NamedFile, candidate: Candidate) -> tuple[Source, Reading]:
    """What a DeepSpeed config leaves that cannot be read."""
    why = candidate.world.unread.get(file_key(named.path.pieces, candidate.moved), "")
    return candidate.script, without_file(named.path, why)


def without_file(path: Word, why: str = "") -> Reading:
    """What the tool ships that a DeepSpeed config without a file belongs to, else a run whose settings are hidden."""
    from dtlint.frameworks.deepspeed.shipped import read_shipped

    reason = f"{path.shown}: {why}" if why else f"the DeepSpeed config {path.shown} was not found"
    hidden = Reading("deepspeed-json", framework="deepspeed", unread=reason)
    return hidden if why else read_shipped(path) or hidden


def hidden(named: NamedFile, candidate: Candidate) -> tuple[Source, Reading]:
    """What a file with further settings that cannot be read leaves: settings may be hidden in it."""
    return candidate.script, Reading("program", open=f"{named.path.shown} was not found")


def fsdp_config(source: Source) -> Reading:
    """What the file of --fsdp_config says."""
    from dtlint.frameworks.transformers.fsdp import read_config
    from dtlint.languages.json import read_json

    return read_config(read_json(source))


def hosts_of(source: Source, found: Found) -> Reading:
    """The host file of an mpirun, or one that GPT-NeoX's config names; other launchers read theirs themselves."""
    launch = next((reading for reading in found.readings if reading.layer in ("mpirun", "gpt-neox")), None)
    if launch is None:
        return Reading("hostfile")
    if launch.layer == "gpt-neox":
        from dtlint.frameworks.deepspeed.launcher import read_hosts

        return read_hosts(source)
    from dtlint.frameworks.mpirun import read_hostfile

    return read_hostfile(source, launch.claims)
