"""Engines that give a trainer its answers on GPUs of their own: vLLM or SGLang beside the ranks that train.

The collection `launch.engines` holds what tells of them; `sure` is no where the engine may be on the ranks' own GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.flag_list import Flags
from dtlint.frameworks.interpreter import program_name
from dtlint.languages.traced import Command, Word
from dtlint.source import Span

ENGINES = "launch.engines"

_SHARING = "colocate"
_ELSEWHERE = ("vllm-device", "vllm-server-host", "vllm-server-base-url")
"""Where TRL's engine is, if not on the GPUs of the ranks: on one behind them (trl 0.14 and 0.15), or at an address."""
_COMMANDS = frozenset(
    (
        ("vllm", "serve"), ("trl", "vllm-serve"), ("axolotl", "vllm-serve"), ("swift", "rollout"), ("swift", "deploy"),
        ("lmdeploy", "serve"), ("sglang", "serve"), ("llamafactory-cli", "api"),
    )
)  # fmt: skip
_PROGRAMS = frozenset(
    (
        "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "trl.scripts.vllm_serve", "vllm_serve.py",
        "sglang.launch_server", "text-generation-launcher",
    )
)  # fmt: skip
"""Programs and modules that serve a model until they are stopped."""


def of_flags(flags: Flags) -> Mapping[str, tuple[Member, ...]]:
    """vLLM as TRL's arguments ask for it. Where none of them says on which GPUs, the releases differ: a server's, then
    the ranks' own.
    """
    asked = flags.flags.get("use-vllm")
    if asked is None or flags.on("use-vllm") is False:
        return {}
    mode, place = flags.flags.get("vllm-mode"), flags.first(_ELSEWHERE)
    if mode is None or mode.value is None:
        return _found(asked.place, place is not None)
    return {} if mode.value.text == _SHARING else _found(mode.place, mode.value.text is not None)


def of_keys(keys: Keys) -> Mapping[str, tuple[Member, ...]]:
    """vLLM as the section `trl` of Axolotl's config asks for it, which hands its keys on to TRL."""
    asked, mode, host = (keys.node(f"trl.{name}") for name in ("use_vllm", "vllm_mode", "vllm_server_host"))
    if asked is None or asked.value is False or keys.known("trl.vllm_mode") == _SHARING:
        return {}
    return _found(asked.span, (mode or host) is not None)


def of_commands(commands: Sequence[Command]) -> tuple[Member, ...]:
    """The commands of a script that serve a model."""
    return tuple(Member(each.place, texts(each.place, sure="yes")) for each in commands if _serves(each.argv))


def _serves(words: Sequence[Word]) -> bool:
    names = [program_name(word) for word in words]
    return not _PROGRAMS.isdisjoint(names) or not _COMMANDS.isdisjoint(pairwise(names))


def _found(place: Span, sure: bool) -> Mapping[str, tuple[Member, ...]]:
    return {ENGINES: (Member(place, texts(place, sure="yes" if sure else "no")),)}
