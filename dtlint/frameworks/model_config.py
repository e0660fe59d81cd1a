"""The config.json of a Hugging Face model: the shape that its numbers tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dtlint.catalog import LatentAttention
from dtlint.catalog.model_configs import Keys, ModelType, config_keys, model_type
from dtlint.frameworks import Claim, Reading
from dtlint.languages.json_tree import Document, Node, member, setting
from dtlint.record import NamedTuple
from dtlint.source import Problem
from dtlint.value import Plain, Unknown, default, derived

LAYER = "model-config"
FILE = "config.json"
_COUNTED = ("model.layers", "model.hidden", "model.parameters")
"""Settings that are unknown where the file does not tell the shape."""
_LARGEST = 10**9


class _Config(NamedTuple):
    """The objects in which to look for a key, the innermost first, with the path of each, and what its type means."""

    parts: tuple[tuple[str, Node], ...]
    type: ModelType

    def node(self, *names: str) -> tuple[str, Node] | None:
        """The first of these keys that holds something, with its path."""
        for path, part in self.parts:
            for name in names:
                found = member(part, name)
                if found is not None and found.kind != "null":
                    return path + name, found
        return None

    def integer(self, *names: str) -> int | None:
        """The number of the first of these keys, None where it has none."""
        found = self.node(*names)
        return _whole(found[1]) if found is not None else _number(self._unwritten(names))

    def claim(self, name: str, *names: str) -> Claim | None:
        """The number of the first of these keys as a claim; what the class takes where none is written."""
        found = self.node(*names)
        if found is not None and _whole(found[1]) is not None:
            return Claim(name, setting(found[1]), found[0])
        if found is not None and found[1].kind in ("bare", "unknown"):
            return Claim(name, setting(found[1]), found[0])
        value = self._unwritten(names)
        return Claim(name, default(value, "Transformers"), names[0]) if value is not None else None

    def flag(self, name: str) -> bool | None:
        """A key that is true or false, as written or as the class takes it."""
        found = self.node(name)
        value = found[1].value if found is not None else self._unwritten((name,))
        return value if isinstance(value, bool) else None

    def _unwritten(self, names: tuple[str, ...]) -> Plain:
        return next((self.type.unwritten[name] for name in names if name in self.type.unwritten), None)


def broken(document: Document) -> tuple[Problem, ...]:
    """What Transformers, which takes strict JSON only, stops at."""
    return tuple(problem for problem in document.problems if problem.fatal or problem.loader == "json")


def read_config(document: Document) -> Reading:
    """The shape that a config.json tells: of a model of several senses its language part.

    Unknown, with the reason, for a broken file, for a model whose layers are not all alike, and for an
    encoder with a decoder, whose shape is not one stack.
    """
    root, place = document.root, document.source.path
    if root is None or root.kind != "object" or broken(document):
        return _untold(f"{place} cannot be read as JSON")
    keys = config_keys()
    config = _config(root, keys)
    if config.type.apart:
        return _untold(f"{place} is of a model with {config.type.apart}")
    if config.flag("is_encoder_decoder"):
        return _untold(f"{place} is of a model with an encoder and a decoder")
    claims = [claim for name in keys.settings if (claim := config.claim(f"model.{name}", *keys.settings[name]))]
    stated = {claim.setting: claim for claim in claims}
    return Reading(LAYER, claims=tuple({**stated, **{claim.setting: claim for claim in _special(config)}}.values()))


def _untold(reason: str) -> Reading:
    unknown = Unknown(reason, "--set model.parameters=N")
    return Reading(LAYER, claims=tuple(Claim(name, unknown, FILE) for name in _COUNTED))


def _config(root: Node, keys: Keys) -> _Config:
    nested = ((f"{name}.", member(root, name)) for name in keys.language)
    parts = [(path, part) for path, part in nested if part is not None and part.kind == "object"][:1]
    parts.append(("", root))
    named = next((str(found.value) for _, part in parts if (found := member(part, "model_type")) is not None), "")
    return _Config(tuple(parts), model_type(named))


def _special(config: _Config) -> Iterator[Claim]:
    """Settings that more than one key tells, or that the type decides."""
    for read in _READERS:
        claim = read(config)
        if claim is not None:
            yield claim
    for name, value in (("model.architecture", config.type.architecture), ("model.gated_mlp", config.type.gated)):
        if value is not None and value != "":
            found = config.node("model_type")
            yield Claim(
                name,
                derived(value, note="the model_type of its config.json") if found is None else setting(found[1], value),
                "model_type",
            )


def _ffn(config: _Config) -> Claim | None:
    """Four times the hidden size in the families whose classes take that unasked."""
    hidden = config.integer(*config_keys().settings["hidden"])
    if not config.type.wide or hidden is None or config.integer(*config_keys().settings["ffn"]) is not None:
        return None
    return Claim("model.ffn", derived(config.type.wide * hidden, "model.hidden"), "n_inner")


def _kv_heads(config: _Config) -> Claim | None:
    """Falcon and GPT-BigCode: one key-value head unless a flag says otherwise."""
    if config.flag("new_decoder_architecture"):
        return config.claim("model.kv_heads", "num_kv_heads")
    if not config.flag("multi_query"):
        return None
    found = config.node("multi_query")
    one = setting(found[1], 1) if found is not None else default(1, "Transformers")
    return Claim("model.kv_heads", one, "multi_query")


def _tied(config: _Config) -> Claim | None:
    found = config.node("tie_word_embeddings")
    if found is not None and found[1].kind == "bool":
        return Claim("model.tied_embeddings", setting(found[1]), found[0])
    if config.type.tied is None:
        return None
    return Claim("model.tied_embeddings", default(config.type.tied, "Transformers"), "tie_word_embeddings")


def _shared_experts(config: _Config) -> Claim | None:
    """Shared experts are counted in widths of a routed one."""
    found, width = config.node("n_shared_experts"), config.integer("moe_intermediate_size")
    count = _whole(found[1]) if found is not None else None
    if found is None or count is None or width is None:
        return None
    return Claim("model.shared_expert_ffn", setting(found[1], count * width), found[0])


def _moe_layers(config: _Config) -> Claim | None:
    """All but the first few layers, or every Nth."""
    layers = config.integer(*config_keys().settings["layers"])
    dense, step = config.node("first_k_dense_replace"), config.node("decoder_sparse_step")
    if layers is None:
        return None
    if dense is not None and (first := _whole(dense[1])) is not None and first <= layers:
        return Claim("model.moe_layers", setting(dense[1], layers - first), dense[0])
    every = _whole(step[1]) if step is not None else None
    return Claim("model.moe_layers", setting(step[1], layers // every), step[0]) if step and every else None


def _latent_attention(config: _Config) -> Claim | None:
    found = config.node("kv_lora_rank")
    widths = [config.integer(name) for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")]
    rank = _whole(found[1]) if found is not None else None
    if found is None or rank is None or None in widths:
        return None
    rope, nope, value = (width or 0 for width in widths)
    latent = LatentAttention(config.integer("q_lora_rank") or 0, rank, rope, nope, value)
    return Claim("model.latent_attention", setting(found[1], latent), found[0])


_READERS: tuple[Callable[[_Config], Claim | None], ...] = (
    _ffn,
    _kv_heads,
    _tied,
    _shared_experts,
    _moe_layers,
    _latent_attention,
)


def _whole(node: Node) -> int | None:
    return _number(node.value) if node.kind == "number" else None


def _number(value: object) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST
    return value if known and isinstance(value, int) else None
