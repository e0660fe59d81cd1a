"""What the loaders of a training loop say of its batches: how many samples each has, and whether a last one that is not
whole is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.code.loaders import LOADERS, trained_loaders
from dtlint.frameworks.code.samplers import is_for_evaluation
from dtlint.languages.python.calls import Call, argument, passed
from dtlint.languages.python.program import Program, given_argument
from dtlint.languages.python.reach import standing
from dtlint.value import Origin, Setting, Unknown, Value

_MICRO = "batch.micro"
_DROPS = "data.drop_last"


def batch_claims(program: Program) -> Iterator[Claim]:
    """What the loaders agree on that a program trains from; a size that is not known is left open."""
    found = _training(program)
    sizes = [_size(call) for call in found]
    if (size := _one(sizes)) is not None:
        yield Claim(_MICRO, size, "batch_size")
    drops = [_drops(call) for call in found]
    if any(not isinstance(each, Value) or each.value is not False for each in drops):
        yield Claim(_DROPS, _one(drops) or _differing(found[0]), "drop_last")


def _training(program: Program) -> list[Call]:
    """The loaders that loops turn over which go backward; where none is followed so far, all that are not for
    evaluation.
    """
    found = standing(program, LOADERS)
    trained = trained_loaders(program)
    sure = [call for call in found if id(call.place.node) in trained]
    return [call for call in sure or found if not is_for_evaluation(call)]


def _one(found: list[Setting]) -> Value | None:
    """The value that all have, None where they differ or one is not known."""
    first = found[0] if found else None
    same = all(isinstance(each, Value) and isinstance(first, Value) and each.value == first.value for each in found)
    return first if isinstance(first, Value) and same else None


def _differing(call: Call) -> Unknown:
    reason = "whether the loaders drop a last batch that is not whole is not known"
    return Unknown(reason, f"--set {_DROPS}=...", Origin("written", call.head))


def _size(call: Call) -> Setting:
    """The samples of a batch; a loader that is told none, or whose sampler makes batches, tells nothing here."""
    found = argument(call, "batch_size", 1)
    if call.open or not isinstance(found, Value) or type(found.value) is not int or found.value <= 0:
        return _differing(call)
    return found if stays(call.place.program, found) else _differing(call)


def stays(program: Program, value: Value) -> bool:
    """Whether a value may stand: one that something other than the command line may replace does not under a launch
    whose words are all known, as what replaces it is not seen.
    """
    _, launched = given_argument(program, "")
    return not (launched and value.origin.kind == "assumed")


def _drops(call: Call) -> Setting:
    """Whether a loader drops the rest; unknown where a sampler makes the batches, or more may be passed."""
    found = argument(call, "drop_last", 8)
    if found is not None:
        return found
    made = call.open or passed(call, "batch_sampler", 4)
    return _differing(call) if made else Value(False, Origin("default", call.head))
