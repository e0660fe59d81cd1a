"""finetrainers' arguments (`train.py --parallel_backend ptd --dp_degree 2 --dp_shards 4 ...`): how its PyTorch backend
splits the ranks.

a-r-r-o-w/finetrainers 04d7006 finetrainers/parallel/ptd.py: the degrees multiply to the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.keys import Meaning, claims_of, flag_words, hidden, keys_of, product, spelled
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.value import Plain, Setting, Unknown, default

LAYER = "finetrainers"

_TOOL = "finetrainers"
_BACKEND = "parallel_backend"
_DEGREES = {
    "pp_degree": Meaning("parallel.pipeline"),
    "cp_degree": Meaning("parallel.context"),
    "tp_degree": Meaning("parallel.tensor"),
}
_REPLICAS, _SHARDS = "dp_degree", "dp_shards"
_TABLE = {
    **_DEGREES,
    "batch_size": Meaning("batch.micro"),
    "gradient_accumulation_steps": Meaning("batch.accumulation"),
    "max_grad_norm": Meaning("optimizer.clip", number),
    "train_steps": Meaning("run.steps"),
}


def recognise(document: Document) -> bool:
    """finetrainers' files list data sets."""
    return False


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is told of this backend, and of shards by their name there."""
    keys = _keys(program[1:])
    return keys.known(_BACKEND) == "ptd" and (keys.node(_SHARDS) is not None or keys.node(_REPLICAS) is not None)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """Never asked: no program names a file that says how ranks are split."""
    return Reading(LAYER)


def read_program(program: Sequence[Word]) -> Reading:
    """What the arguments claim; a degree that none names is 1."""
    words = program[1:]
    keys, opened = _keys(words), hidden((), words)
    replicas, shards = _degree(keys, _REPLICAS, opened), _degree(keys, _SHARDS, opened)
    sharded = known(shards) != 1
    claims = (
        *claims_of(keys, _TABLE),
        *(() if opened else _unasked(keys)),
        Claim("parallel.data", product(shards, replicas, _REPLICAS), _SHARDS),
        *(_sharding(shards, replicas) if sharded else ()),
    )
    place = stretch(words, program[0].place)
    return Reading(LAYER, place, claims, framework="fsdp" if sharded else "ddp", open=opened)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as an option (`--tp_degree 2`)."""
    found = spelled(_TABLE, setting_name, value)
    return None if found is None else f"--{found[0]} {found[1]}"


def _keys(words: Sequence[Word]) -> Keys:
    return keys_of((), flag_words(words))


def _degree(keys: Keys, name: str, opened: str) -> Setting:
    node = keys.node(name)
    if node is not None:
        return whole_number(node)
    return Unknown(opened, "--arg VALUE") if opened else default(1, _TOOL)


def _unasked(keys: Keys) -> Iterator[Claim]:
    """The degrees that no option names."""
    for name, meaning in _DEGREES.items():
        if keys.node(name) is None:
            yield Claim(meaning.setting, default(1, _TOOL), name)


def _sharding(shards: Setting, replicas: Setting) -> Iterator[Claim]:
    """Each block of the transformer is a unit, whose weights the ranks of one group share out (apply_fsdp2)."""
    yield Claim("sharding.instances", replicas, _REPLICAS)
    yield Claim("sharding.group", shards, _SHARDS)
    yield Claim("sharding.units", default("wrapped", _TOOL), _SHARDS)
    yield Claim("precision.compute", Unknown("finetrainers' dtypes decide", "--set precision.compute=..."), "")
