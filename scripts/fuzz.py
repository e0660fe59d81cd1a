"""Reads and checks mutated texts: fails on a crash, on a hang, on a report that is no JSON. See SECURITY.md."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from fuzz_readers import LONGER, READERS, SEEDS, TURNS, Reader
from mutations import mutated

CPU_SECONDS = 2.0
"""Processor time that one input may take."""

TURN = 100
"""Inputs of a reader's turn, where fuzz_readers.py names no other number."""

LONGEST_SEED = 3_000
"""Characters of an unmutated text: a window of a longer one, so that many can be tried."""

Seeds = Mapping[str, Sequence[str]]


class Hang(BaseException):
    """An input that took longer than it may; no handler of errors may take it for one."""


class Kind(NamedTuple):
    """What went wrong where: inputs with the same kind have the same cause."""

    reader: str
    what: str
    place: str


class Outcome(NamedTuple):
    """How many inputs each reader took, and the shortest input of each kind with how often it was met."""

    inputs: Counter[str]
    met: Counter[Kind]
    shortest: dict[Kind, str]


def main(words: Sequence[str]) -> int:
    """Run the rounds; 1 if anything went wrong."""
    options = _options(words)
    readers = {name: READERS[name] for name in (options.readers.split(",") if options.readers else READERS)}
    outcome = fuzz(readers, seeds_of([Path("fixtures"), *map(Path, options.folders)]), options.seed, options.rounds)
    _keep(outcome, Path(options.keep) if options.keep else None)
    print(json.dumps({"seed": options.seed, "inputs": outcome.inputs.total(), **outcome.inputs}))
    for kind, count in outcome.met.most_common():
        print(f"{count} x {kind.reader}: {kind.what} in {kind.place}")
    return int(bool(outcome.met))


def fuzz(readers: Mapping[str, tuple[str, Reader]], seeds: Seeds, seed: int, rounds: int) -> Outcome:
    """Give each reader its turn of mutated texts, `rounds` times: the same texts for the same seed on every machine."""
    signal.signal(signal.SIGPROF, _hang)
    random = Random(seed)
    outcome = Outcome(Counter(), Counter(), {})
    for name in (name for _ in range(rounds) for name in readers):
        language, reader = readers[name]
        for _ in range(TURNS.get(name, TURN)):
            _try(name, reader, _input(random, seeds, language), outcome)
    return outcome


def seeds_of(folders: Sequence[Path]) -> Seeds:
    """Unmutated texts by the suffix of their language: the examples of all rules, and the files of the folders."""
    from dtlint.rulebook.load import built_in, rules_folder

    seeds: dict[str, list[str]] = {}
    for rule in built_in():
        for name, text in (item for example in rule.examples for item in example.files.items()):
            seeds.setdefault(_language(Path(name)), []).append(text)
    for file in sorted(file for folder in folders for file in folder.rglob("*") if file.is_file()):
        seeds.setdefault(_language(file), []).append(file.read_text(encoding="utf-8", errors="replace"))
    seeds["rule"] = [file.read_text(encoding="utf-8") for file in sorted(rules_folder().glob("*/*.yaml"))]
    seeds["any"] = [text for texts in seeds.values() for text in texts]
    return {**SEEDS, **seeds, "ipynb": [_notebook(text) for text in seeds["py"]]}


def _input(random: Random, seeds: Seeds, language: str) -> str:
    text = _window(random.choice(seeds[language]), random)
    other = _window(random.choice(seeds[language if random.random() < 0.7 else "any"]), random)
    return mutated(text, other, random)


def _window(text: str, random: Random) -> str:
    """At most LONGEST_SEED characters, from the beginning of a line."""
    if len(text) <= LONGEST_SEED:
        return text
    start = text.find("\n", random.randrange(len(text) - LONGEST_SEED)) + 1 if random.random() < 0.5 else 0
    return text[start : start + LONGEST_SEED]


def _try(name: str, reader: Reader, text: str, outcome: Outcome) -> None:
    outcome.inputs[name] += 1
    try:
        with _limited(LONGER.get(name, CPU_SECONDS)):
            reader(text)
    except Hang as error:
        _note(outcome, Kind(name, "hang", _place(error)), text)
    except Exception as error:  # noqa: BLE001 - the very thing that is looked for
        _note(outcome, Kind(name, f"{type(error).__name__}: {str(error)[:80]}", _place(error)), text)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Hang in whatever takes more processor time than that."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def _place(error: BaseException) -> str:
    """The innermost function of dtlint."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "dtlint" in Path(frame.filename).parts]
    return f"{'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].name}" if frames else "?"


def _note(outcome: Outcome, kind: Kind, text: str) -> None:
    outcome.met[kind] += 1
    if kind not in outcome.shortest or len(text) < len(outcome.shortest[kind]):
        outcome.shortest[kind] = text


def _keep(outcome: Outcome, folder: Path | None) -> None:
    """Write the shortest input of each kind into a folder."""
    for number, (kind, text) in enumerate(outcome.shortest.items() if folder else ()):
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        head = json.dumps(kind._asdict())
        (folder / f"{os.getpid()}-{number}").write_bytes(f"{head}\n{text}".encode("utf-8", "surrogatepass"))


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", help="more folders with files to mutate")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default 1)")
    parser.add_argument(
        "--rounds", type=int, default=10, help="turns of each reader, some two seconds a round (default 10)"
    )
    parser.add_argument("--readers", default="", help=f"some of {','.join(READERS)}")
    parser.add_argument("--keep", default="", help="folder for the shortest input of each kind")
    return parser.parse_args(words)


def _language(file: Path) -> str:
    suffix = file.suffix.lower().lstrip(".")
    named = {"yml": "yaml", "hjson": "json", "slurm": "sh", "sbatch": "sh", "slrm": "sh", "bash": "sh"}
    return named.get(suffix, suffix)


def _notebook(code: str) -> str:
    cells = [{"cell_type": "code", "source": part.splitlines(keepends=True)} for part in code.split("\n\n")]
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}, indent=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
