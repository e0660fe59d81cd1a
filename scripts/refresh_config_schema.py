"""Writes the cluster keys of dtlint.schema.json from the vocabulary, which is the one source of settings."""

from __future__ import annotations

import json

from dtlint.config_schema import FILE
from dtlint.plan.vocabulary import Term, vocabulary

TYPES = {
    "integer": "integer",
    "number": "number",
    "flag": "boolean",
    "word": "string",
    "words": "array",
    "map": "object",
}


def cluster_key(term: Term) -> dict[str, object]:
    """The JSON Schema of one key of a [clusters] table."""
    unit = f" ({term.unit})" if term.unit else ""
    limits = {"minimum": term.minimum} if term.minimum is not None else {}
    values = {"enum": list(term.values)} if term.values else {}
    return {"type": TYPES[term.type], **limits, **values, "description": term.meaning + unit}


PATHS = {
    "type": "array",
    "items": {"type": "string"},
    "description": "patterns of the files that run on this cluster, relative to this file; without it, for all files",
}


def main() -> None:
    """Rewrite the file in place."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    clusters = schema["properties"]["clusters"]["additionalProperties"]
    cluster_terms = {name: term for name, term in vocabulary().items() if name.startswith("cluster.")}
    keys = {name.removeprefix("cluster."): cluster_key(term) for name, term in cluster_terms.items()}
    clusters["properties"] = {**keys, "paths": PATHS}
    FILE.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
