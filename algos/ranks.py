"""The ranks of a run: processes that each play a part and learn as one. Without a launcher there is one.

Every rank knows all episodes of a step, so everything but playing and scoring is the same computation on each of
them; what they exchange passes through `gather` and `add_up`, which every rank has to enter.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

T = TypeVar("T")

PATIENCE = timedelta(hours=2)
"""How long a rank waits for the others: the longest play of a step must be shorter."""


def count() -> int:
    """How many ranks a launcher started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def number() -> int:
    """This process's place among them, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return number() == 0


def start() -> None:
    """Bring the process group up: the launcher's ranks, or this process alone, which needs no port."""
    if dist.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl"
    if os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_SIZE", str(count()))) == str(count()):
        names = {name for _, name in socket.if_nameindex()}
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if "lo" in names else "lo0")  # macOS has lo0
    os.environ.setdefault("LOCAL_RANK", "0")
    if {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        dist.init_process_group(backend, timeout=PATIENCE)
    else:
        store = dist.HashStore()  # type: ignore[attr-defined]  # a rendezvous that never leaves this process
        dist.init_process_group(backend, store=store, rank=0, world_size=1)


def gather(value: T) -> list[T]:
    """Every rank's value, in the order of the ranks, on every rank."""
    if count() == 1:
        return [value]
    start()
    values: list[Any] = [None] * count()
    dist.all_gather_object(values, value)
    return values


def add_up(tensor: Tensor) -> Tensor:
    """The sum of every rank's tensor (on the CPU, of one shape), on every rank."""
    if count() > 1:
        start()
        tensor = tensor.clone()
        dist.all_reduce(tensor)
    return tensor


def wait() -> None:
    """Until every rank is here."""
    gather(None)


def part(items: int) -> range:
    """This rank's consecutive part of so many items; sizes differ by one at most."""
    return range(items * number() // count(), items * (number() + 1) // count())


@contextmanager
def ending_together() -> Iterator[None]:
    """Within: a rank that fails ends at once, so that the others see it, say so in one line, and end too."""
    try:
        yield
    except Exception as error:
        if count() == 1:
            raise
        if not _lost_a_rank(error):
            traceback.print_exc()
        elif _speaks_of_it():
            print(f"rank {number()}: another rank has died, so this run ends", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _lost_a_rank(error: Exception) -> bool:
    if isinstance(error, dist.DistError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("by peer" in text or "gloo" in text or "Broken pipe" in text)


def _speaks_of_it() -> bool:
    """Whether this rank is the one that tells: the first to notice, or, where that cannot be found out, the lowest."""
    try:
        return int(dist.distributed_c10d._get_default_store().add("rema/lost", 1)) == 1
    except (RuntimeError, ValueError):
        return number() <= 1
