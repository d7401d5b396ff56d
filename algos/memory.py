"""Running out of memory, said so that it can be mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class OutOfMemory(RuntimeError):
    """Memory ran out; the message names the limit to lower."""


@contextmanager
def mending(doing: str, **limits: float) -> Iterator[None]:
    """Within: running out of memory becomes an `OutOfMemory` that names the limits, as flags, and their values."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        flags = " or ".join(f"--{name.replace('_', '-')} (now {value:g})" for name, value in limits.items())
        raise OutOfMemory(f"out of memory while {doing}: lower {flags}") from error


def _out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return "can't allocate memory" in str(error) or "out of memory" in str(error).lower()
