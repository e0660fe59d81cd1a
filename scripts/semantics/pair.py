"""Runs a function on two gloo ranks and brings back what each of them saw."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

Outcome = tuple[str, str]
TIMEOUT = timedelta(seconds=4)
"""How long a collective waits for the other rank."""
WAITS = "waits until the timeout"
_LONGEST_SECONDS = 60


def run_pair(function: Callable[[], str]) -> Outcome:
    """What `function` returns on rank 0 and on rank 1; an error is its type, a collective that nobody joins is WAITS.

    A rank that says nothing for long waits too: not all of DeepSpeed's collectives know the timeout of the group.
    """
    context = multiprocessing.get_context("fork")
    port = _free_port()
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    ranks = [
        context.Process(target=_rank, args=(function, rank, port, pipes[rank][1]), daemon=True) for rank in range(2)
    ]
    for process in ranks:
        process.start()
    seen = [receiver.recv() if receiver.poll(_LONGEST_SECONDS) else WAITS for receiver, _ in pipes]
    for process in ranks:
        process.terminate()
        process.join()
    return seen[0], seen[1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank(function: Callable[[], str], rank: int, port: int, answer: Connection) -> None:
    """Run a rank, and stay until the other has answered too: a closed connection is not what it shall see."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=TIMEOUT)
    answer.send(_told(function))
    signal.pause()


def _told(function: Callable[[], str]) -> str:
    """What a rank saw; one that is left alone in a collective sees the timeout."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - whatever torch raises is the observation
        text = str(error)
        alone = "timed out" in text.lower() or "timeout" in text.lower()
        return WAITS if alone else type(error).__name__
