"""Tells by its words whether a call may have the ranks agree, and which only sound like it."""

from __future__ import annotations

import ast
import re

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.names import qualified
from dtlint.languages.python.tree import Module, Scope

_MESSAGES = frozenset((
    "recv_string", "recv_json", "recv_pyobj", "recv_multipart", "recv_serialized", "recv_bytes", "recv_into",
    "recvfrom", "recvfrom_into", "recvmsg",
))  # fmt: skip
"""Methods that read a message of ZeroMQ (pyzmq, zmq/sugar/socket.py), a socket or a pipe: of who sent it, not of the
other ranks.
"""
_LINES = re.compile(r"sock|conn|pipe|subscriber|dealer|router", re.IGNORECASE)
"""Names of what a plain `recv` is read from where it is no group of ranks."""
_OWN = re.compile(
    r"torch\.(?:\w+\.)?synchronize|torch\.(?:gather|scatter|scatter_add|scatter_reduce|index_reduce)"
    r"|torch\.optim\.lr_scheduler\.ReduceLROnPlateau|functools\.reduce|einops\.reduce|asyncio\.gather"
    r"|(?:numpy|jax\.numpy)\.\w+\.reduce"
)
"""Functions that a rank runs by itself: waits for its own device, picks out of its own tensors, folds its own lists."""


def agreeing_word(module: Module, scope: Scope, node: ast.Call) -> str:
    """The last word of what is called, by which people name what the ranks do together; "" where it only sounds so."""
    function = node.func
    last = function.attr if isinstance(function, ast.Attribute) else dotted(function).rpartition(".")[2]
    return "" if last in _MESSAGES or _is_own(module, scope, function, last) else last


def _is_own(module: Module, scope: Scope, function: ast.expr, last: str) -> bool:
    if last == "recv" and isinstance(function, ast.Attribute):
        return bool(_LINES.search(module.text(function.value, 100)))
    names = qualified(module, function, scope)
    return bool(names) and all(_OWN.fullmatch(name) for name in names)
