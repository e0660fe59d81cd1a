"""What a training loop of a program's own says of the plan: its precision, its accumulation, and the batches of its
loaders, where torch has no place to say so but the code.
"""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.languages.python.program import Program

LAYER = "own-loop"
MAX_PASSES = 100
"""Most backward passes of one file that are looked at; a training program has a handful."""


def read(program: Program) -> Reading:
    """The claims of a program that goes backward itself; none of one whose loop is a library's."""
    passes = [len(module.called.get("backward", ())) for module in program.modules.values()]
    if not any(passes) or max(passes) > MAX_PASSES:
        return Reading(LAYER)
    from dtlint.frameworks.code.own_accumulation import accumulation_claims
    from dtlint.frameworks.code.own_batches import batch_claims
    from dtlint.frameworks.code.own_precision import precision_claims

    claims = (*precision_claims(program), *accumulation_claims(program), *batch_claims(program))
    return Reading(LAYER, claims=claims)
