"""Files of settings that a program lays over a config of Megatron-Bridge's, or builds one of."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.languages.json_tree import Node, setting
from dtlint.languages.python.built import LIST, Built, Part
from dtlint.languages.python.calls import argument
from dtlint.languages.python.program import Program, config_file
from dtlint.languages.python.reach import standing
from dtlint.value import Origin, Setting, Unknown, Value

_TOOLS = "megatron.bridge.training.utils.omegaconf_utils."
_PROCESS = "process_config_with_overrides"
_APPLIES = tuple(_TOOLS + name for name in ("apply_overrides", "_apply_overrides"))
"""What lays a dict over a config in place (NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/
omegaconf_utils.py): of the files that OmegaConf loads in the same program, and of the words of its command line.
"""
_FILES = (_TOOLS + _PROCESS, f"megatron.bridge.training.utils.config_utils.{_PROCESS}")
"""The function that does all this at once, and returns the config; `config_filepath` is the file."""
_LOADS = ("omegaconf.OmegaConf.load",)
_MADE = "ConfigContainer.from_yaml"


def with_files(built: Built, program: Program) -> Built:
    """A config with the file that is laid over it: what statements assign later stays."""
    config = built
    if built.name.endswith(_PROCESS) and isinstance(inner := built.given.get("0", built.given.get("config")), Built):
        config = inner
        config.fields.update(built.fields)
    root = _file(config, program)
    if root is not None:
        _lay_over(config, root)
    return config


def _file(config: Built, program: Program) -> Node | None:
    """The one file that is laid over a config; None where there are several, or one that is not here."""
    if config.name.endswith(_MADE):
        return _root(program, _setting(config.given.get("0", config.given.get("yaml_path"))))
    found = [_root(program, path) for path in _paths(program)]
    return found[0] if len(found) == 1 else None


def _setting(part: Part | None) -> Setting | None:
    return None if isinstance(part, Built) else part


def _paths(program: Program) -> Iterator[Setting | None]:
    """The paths of what is laid over a config somewhere in a program; a file that is None is none."""
    found = [argument(call, "config_filepath", 1) for call in standing(program, _FILES)]
    if standing(program, _APPLIES):
        found += [argument(call, "file_", 0) for call in standing(program, _LOADS)]
    return (path for path in found if path is not None and not (isinstance(path, Value) and path.value is None))


def _root(program: Program, path: Setting | None) -> Node | None:
    known = isinstance(path, Value) and isinstance(path.value, str)
    return config_file(program, str(path.value)) if isinstance(path, Value) and known else None


def _lay_over(config: Built, node: Node) -> None:
    """Give an object the keys of a file, but where a statement has assigned a value behind what may have changed it."""
    for entry in node.entries:
        inner = entry.node
        held = config.fields.get(entry.key)
        if inner.kind == "object":
            owner = held if isinstance(held, Built) else Built("", inner.span, open_=config.open)
            config.fields[entry.key] = owner
            _lay_over(owner, inner)
        elif not isinstance(held, Value):
            config.fields[entry.key] = _list(inner) if inner.kind == "array" else _scalar(inner)


def _list(node: Node) -> Built:
    return Built(LIST, node.span, {str(number): _scalar(item) for number, item in enumerate(node.items)})


def _scalar(node: Node) -> Setting:
    """A scalar; one that OmegaConf resolves is not known."""
    if isinstance(node.value, str) and "${" in node.value:
        return Unknown("the file leaves it to another key", "", Origin("written", node.span))
    return setting(node)
