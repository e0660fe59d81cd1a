"""What the `deepspeed` command refuses or ignores in its own words, its host file and its environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts, unknown_flag
from dtlint.frameworks.deepspeed.options import GRAMMAR, VISIBLE, defect, gpus_option, whole_option
from dtlint.frameworks.hostfile import Hostfile
from dtlint.frameworks.options import Option, Split, literal_place
from dtlint.languages.traced import UNKNOWN_CHARACTER, Word
from dtlint.record import NamedTuple
from dtlint.source import Span

_FLAG_NAMES = tuple("--" + name.replace("-", "_") for name in GRAMMAR.long)
_LAUNCHERS = ("pdsh", "slurm")
_MPI = ("openmpi", "mpich", "impi", "mvapich")
_LIMITS = ("include", "exclude", "num-nodes", "num-gpus", "num-accelerators")
"""Options that multinode_runner.py refuses under MPI."""


def unknown_options(split: Split) -> Iterator[Member]:
    """Options that the launcher does not have; it wants `_` where others take `-`."""
    for option in split.unknown:
        yield unknown_flag(option, _FLAG_NAMES, "deepspeed")
    for option in split.options:
        if "-" in option.spelled.lstrip("-"):
            yield unknown_flag(option, _FLAG_NAMES, "deepspeed")


def bad_lines(hosts: Hostfile | None, split: Split) -> tuple[Member, ...]:
    """Lines of the host file that the launcher does not read."""
    defects, option = hosts.defects if hosts is not None else (), split.last("hostfile")
    related = ((option.place, "the launch reads it"),) if option is not None else ()
    return tuple(defect(each.place, _line(each.place), each.expected, "hostfile", related) for each in defects)


def _line(place: Span) -> str:
    """A line as people read it, `?` for what only the running script knows."""
    return place.text.replace(UNKNOWN_CHARACTER, "?")


def refused(split: Split) -> Iterator[Member]:
    """What the launcher stops at: counts beside filters, a launcher that it does not have, MPI with filters or counts,
    --no_ssh without a rank, an option without its value.
    """
    yield from _contradictions(split)
    yield from _without_value(split)
    launcher, own = split.last("launcher"), split.last("no-ssh")
    name = (launcher.value.text or "").lower() if launcher is not None and launcher.value is not None else ""
    if launcher is not None and name and name not in (*_LAUNCHERS, *_MPI):
        yield defect(launcher.place, f"--launcher {name}", ", ".join((*_LAUNCHERS, *_MPI)))
    limits = (option for option in split.options if option.name in _LIMITS)
    limit = next(limits, None) if name in _MPI else None
    if launcher is not None and limit is not None:
        related = ((launcher.place, f"{name} takes the whole host file"),)
        yield defect(limit.place, limit.spelled, f"--launcher pdsh, or no {limit.spelled}", related=related)
    if own is not None and split.last("node-rank") is None and not split.open:
        yield defect(own.place, "--no_ssh", "--node_rank beside it, another on every node,")


class Taken(NamedTuple):
    """What the launcher takes by an option, whatever the environment shows: the GPUs, in words, and whether they may be
    others than the user means.
    """

    option: Option
    gpus: tuple[str, ...]
    said: str
    matters: str


def ignored_devices(split: Split, hosts: Hostfile | None, env: Mapping[str, Word]) -> Iterator[Member]:
    """CUDA_VISIBLE_DEVICES beside --num_gpus, which makes the launcher drop it and take the first GPUs, or beside
    --include, which names other ones.
    """
    visible, taken = env.get(VISIBLE), _by_include(split) or _by_number(split)
    if hosts is not None or visible is None or taken is None or not visible.text:
        return
    listed = tuple(part.strip() for part in visible.text.split(","))
    meant = listed[: len(taken.gpus)] if taken.matters == "yes" else listed
    if all(part.isdecimal() for part in listed) and meant != taken.gpus:
        option, place = taken.option.spelled, literal_place(visible)
        reason = f"{option} makes deepspeed drop {VISIBLE}={visible.text} and take {taken.said}"
        place_of_counts = " in place of counts" if taken.matters == "yes" else ""
        cure = f"--include localhost:{','.join(meant)}{place_of_counts}, or no {VISIBLE}"
        fields = texts(place, key=VISIBLE, section="deepspeed", reason=reason, matters=taken.matters, cure=cure)
        yield Member(place, fields, ((taken.option.place, "counts from GPU 0 on"),))


def _by_number(split: Split) -> Taken | None:
    gpus = gpus_option(split)
    count = whole_option(gpus)
    if gpus is None or not isinstance(count, int) or count < 1:
        return None
    said = "GPU 0" if count == 1 else f"GPUs 0 to {count - 1}"
    return Taken(gpus, tuple(map(str, range(count))), said, "yes")


def _by_include(split: Split) -> Taken | None:
    option = split.last("include")
    text = option.value.text if option is not None and option.value is not None else None
    if option is None or not text:
        return None
    return Taken(option, tuple(text.partition(":")[2].split(",")), text, "no")


def _without_value(split: Split) -> Iterator[Member]:
    for option in split.options:
        if option.instead is not None:
            related = ((option.instead.place, "stands in the place of the value"),)
            yield defect(option.place, option.spelled, "a value", related=related)


def _contradictions(split: Split) -> Iterator[Member]:
    """Counts and filters exclude each other; several machines need a host file."""
    counts = [option for option in split.options if option.name in ("num-nodes", "num-gpus", "num-accelerators")]
    filters = [option for option in split.options if option.name in ("include", "exclude")]
    for option in counts[:1]:
        if filters and _is_count(option):
            expected = f"either {option.spelled} or {filters[0].spelled}"
            yield defect(option.place, option.spelled, expected, related=((filters[0].place, "the other one"),))


def _is_count(option: Option) -> bool:
    count = whole_option(option)
    return isinstance(count, int) and count >= 0
