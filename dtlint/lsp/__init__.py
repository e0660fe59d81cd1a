"""dtlint in editors: findings, values under the cursor and remedies over the Language Server Protocol."""

from __future__ import annotations

from dtlint.request import Reading, Refusal


def serve_editor(reading: Reading) -> int:
    """`dtlint lsp`: answer an editor until it ends."""
    try:
        from dtlint.lsp.server import serve
    except ModuleNotFoundError as error:
        raise Refusal(f"dtlint lsp needs {error.name}: pip install 'dtlint[lsp]'") from None
    return serve(reading)
