"""Which releases of the frameworks a run has: lock and requirement files, Dockerfiles, images, `pip install`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from dtlint.catalog.packages import image_release, package, package_names
from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.interpreter import program_name
from dtlint.languages.traced import Word, literal_word, setting_of
from dtlint.record import NamedTuple
from dtlint.release import spelled
from dtlint.source import Source

LAYER = "requirements"
_MOST_PINS = 1000
_NUMBER = r"""[ \t]*v?\d[^\s;#"',\]\\]*"""
_SPECIFIER = rf"(?P<version>(?:===?|~=|>=|<=|>|<|!=){_NUMBER}(?:[ \t]*,[ \t]*(?:~=|>=|<=|>|<|!=){_NUMBER})*)"
_EXTRAS = r"(?:\[[^\[\]\n]*\])?[ \t]*"


class Pin(NamedTuple):
    """What one place asks of a package: the word with the releases (`>=0.9,<0.12`), and the package's name."""

    name: str
    version: Word


def kind_of_requirements(name: str, folder: str = "") -> str:
    """What kind of file a name stands for ("lines", "lock", "pipfile-lock", "project", "conda", "docker", "package"),
    "" if it is none that asks for packages; in a folder `requirements` every text is.
    """
    lowered = name.lower()
    if folder == "requirements" and lowered.endswith((".txt", ".in")):
        return "lines"
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, lowered)), "")


def kind_of_mention(name: str, folder: str = "") -> str:
    """The same for a file that may speak of releases without being what a run is installed from: a README ("prose"), a
    notebook or a script that installs ("installs") too.
    """
    lowered = name.lower()
    found = (kind for pattern, kind in _MENTIONS if re.fullmatch(pattern, lowered))
    return kind_of_requirements(name, folder) or next(found, "")


_MENTIONS = (
    (r"(readme|install|setup|getting[-_]?started|quick[-_]?start)[\w.-]*\.(md|rst|txt)|readme", "prose"),
    (r".*\.ipynb|.*(install|setup|env|prepare|requirements)[\w.-]*\.sh", "installs"),
)

_NAMES = (
    (r"(.*[-_.])?(requirements|constraints)([-_.].*)?\.(txt|in)", "lines"),
    (r"(poetry|uv|pdm)\.lock", "lock"),
    (r"pipfile\.lock", "pipfile-lock"),
    (r"(pyproject\.toml|setup\.py|pipfile)", "project"),
    (r"setup\.cfg", "lines"),
    (r"(.*[-_.])?(environment|conda|env)([-_.].*)?\.ya?ml", "conda"),
    (r"(.*\.)?dockerfile([-_.].*)?", "docker"),
    (r"package_info\.py", "package"),
)


def read_requirements(source: Source, kind: str) -> Reading:
    """What a file asks for, as claims of `version.*`; of a package that it names twice the last counts."""
    pins = {pin.name: pin for _, pin in zip(range(_MOST_PINS), _READERS[kind](source), strict=False)}
    return Reading(LAYER, claims=tuple(claim for pin in pins.values() if (claim := _claim(pin)) is not None))


def read_all(source: Source, kind: str) -> Iterator[Claim]:
    """Each place at which a file speaks of a release, as a claim."""
    found = (_claim(pin) for _, pin in zip(range(_MOST_PINS), _READERS[kind](source), strict=False))
    return (claim for claim in found if claim is not None)


def read_image(image: Word) -> Reading:
    """What a container image brings."""
    pin = _of_image(image)
    claim = _claim(pin) if pin is not None else None
    return Reading(LAYER, claims=(claim,) if claim is not None else ())


def read_install(words: Sequence[Word]) -> Reading:
    """What `pip install` asks for; nothing for any other command."""
    if not _is_install(words):
        return Reading(LAYER)
    pins = {pin.name: pin for word in words[2:] if (pin := _of_word(word)) is not None}
    return Reading(LAYER, claims=tuple(claim for pin in pins.values() if (claim := _claim(pin)) is not None))


def _is_install(words: Sequence[Word]) -> bool:
    if not words or not any(word.text == "install" for word in words[1:4]):
        return False
    return program_name(words[0]) in ("pip", "pip3", "uv") or any(word.text == "pip" for word in words[1:3])


def _of_word(word: Word) -> Pin | None:
    match = re.fullmatch(rf"(?P<name>[\w.-]+){_EXTRAS}{_SPECIFIER}", word.text or "")
    return Pin(package(match["name"]), word.part(match.start("version"))) if match and package(match["name"]) else None


def _claim(pin: Pin) -> Claim | None:
    """The releases in one spelling; None where they are written in a way that is not known."""
    found = spelled(pin.version.text or "")
    return Claim(f"version.{pin.name}", setting_of(pin.version, found), pin.name) if found is not None else None


# One reader for each kind of file


def _lines(source: Source) -> Iterator[Pin]:
    yield from _found(source, rf"(?m)^[ \t]*(?P<name>{_names()}){_EXTRAS}{_SPECIFIER}")
    yield from _of_repository(source)


def _lock(source: Source) -> Iterator[Pin]:
    yield from _found(source, rf'(?m)^name = "(?P<name>{_names()})"\r?\nversion = "(?P<version>[^"\n]+)"')


def _pipfile_lock(source: Source) -> Iterator[Pin]:
    yield from _found(source, rf'"(?P<name>{_names()})": *\{{[^{{}}]*?"version": *"(?P<version>==[^"\n]+)"')


def _project(source: Source) -> Iterator[Pin]:
    """Requirements in quotes, and Poetry's keys; what only the build needs is left out."""
    build = _build_section(source.text)
    for pin in [*_found(source, _quoted()), *_found(source, _keyed()), *_of_repository(source)]:
        if pin.version.place.start not in build:
            yield pin


def _build_section(text: str) -> range:
    head = re.search(r"(?m)^\[build-system\]", text)
    if head is None:
        return range(0)
    following = re.compile(r"(?m)^\[").search(text, head.end())
    return range(head.end(), following.start() if following is not None else len(text))


def _quoted() -> str:
    return rf"""["'](?P<name>{_names()}){_EXTRAS}{_SPECIFIER}"""


def _keyed() -> str:
    return rf"""(?m)^(?P<name>{_names()}) = (?:\{{[^}}\n]*version = )?["'](?P<version>[\^~=<>!]*\d[^"'\n]*)["']"""


def _conda(source: Source) -> Iterator[Pin]:
    single = r"(?:::)?(?P<version>=\s*\d[\w.*+]*)(?==|\s|['\"]|$)"
    start = rf"""(?m)^[ \t]*-[ \t]*["']?(?:[\w-]+::)?(?P<name>{_names()}){_EXTRAS}"""
    yield from _found(source, start + single)
    yield from _found(source, start + _SPECIFIER)
    yield from _of_repository(source)


def _docker(source: Source) -> Iterator[Pin]:
    for match in re.finditer(r"(?mi)^FROM\s+(?:--\S+\s+)?(\S+)", source.text):
        pin = _of_image(literal_word(match[1], source.span(match.start(1), match.end(1))))
        if pin is not None:
            yield pin
    for line in re.finditer(r"(?mi)^RUN\b(?:[^\n]*\\\r?\n)*[^\n]*", source.text):
        if "install" in line[0] and re.search(r"\b(pip3?|uv|conda|mamba)\b", line[0]):
            yield from _found(source, rf"""(?<=[\s"'])(?P<name>{_names()}){_EXTRAS}{_SPECIFIER}""", line.span())
            yield from _of_repository(source, line.span())


def _prose(source: Source) -> Iterator[Pin]:
    """What a README says anywhere (`PyTorch >= 1.10`, `pip install deepspeed==0.6.5`), its hearts left out."""
    found = _found(source, rf"(?<![\w./-])(?P<name>{_names()}){_EXTRAS}{_SPECIFIER}")
    yield from (pin for pin in found if not _is_heart(pin.version))
    yield from _of_repository(source)


def _is_heart(version: Word) -> bool:
    """Whether `<3` stands alone behind a blank (`thanks to transformers <3`), as bounds of releases hardly do."""
    place = version.place
    return version.text == "<3" and place.source.text[place.start - 1 : place.start].isspace()


_INSTALLING = r"(?mi)^[^\n#]*\b(?:pip3?|uv|conda|mamba)\b[^\n]{0,80}?\b(?:install|add)\b(?:[^\n]*\\\r?\n)*[^\n]*"
"""A command that installs, with the lines that it goes on in."""


def _installs(source: Source) -> Iterator[Pin]:
    """What a command installs (`!pip install deepspeed==0.3.7`)."""
    for line in re.finditer(_INSTALLING, source.text):
        yield from _found(source, rf"""(?<=[\s"'])(?P<name>{_names()}){_EXTRAS}{_SPECIFIER}""", line.span())
        yield from _of_repository(source, line.span())


def _of_repository(source: Source, within: tuple[int, int] | None = None) -> Iterator[Pin]:
    """A release by its tag in the package's repository (`git+https://github.com/microsoft/DeepSpeed@v0.9.2`)."""
    yield from _found(
        source, rf"github\.com/[\w.-]+/(?P<name>{_names()})(?:\.git)?@v?(?P<version>\d+(?:\.\d+)+)", within
    )


def _package(source: Source) -> Iterator[Pin]:
    """megatron/core/package_info.py: the release that the tree itself is."""
    numbers = [re.search(rf"(?m)^{part} = (\d+)", source.text) for part in ("MAJOR", "MINOR", "PATCH")]
    major, minor, patch = numbers
    if major is None or minor is None or patch is None:
        return
    version = f"{major[1]}.{minor[1]}.{patch[1]}"
    yield Pin("megatron_core", literal_word(version, source.span(minor.start(), minor.end())))


_READERS: dict[str, Callable[[Source], Iterator[Pin]]] = {
    "lines": _lines,
    "lock": _lock,
    "pipfile-lock": _pipfile_lock,
    "project": _project,
    "conda": _conda,
    "docker": _docker,
    "prose": _prose,
    "installs": _installs,
    "package": _package,
}


def _found(source: Source, pattern: str, within: tuple[int, int] | None = None) -> Iterator[Pin]:
    """Every match, its `version` group as a word where it stands."""
    start, end = within or (0, len(source.text))
    for match in re.compile(pattern, re.IGNORECASE).finditer(source.text, start, end):
        place = source.span(match.start("version"), match.end("version"))
        yield Pin(package(match["name"]), literal_word(match["version"], place))


def _names() -> str:
    """The packages' names as a pattern, `-` for `-`, `_` and `.`."""
    return "|".join(re.escape(name).replace(r"\-", "[-_.]") for name in package_names())


def _of_image(image: Word) -> Pin | None:
    found = image_release(image.text or "")
    return Pin(found[0], Word(literal_word(found[1], image.place).pieces, image.place)) if found is not None else None
