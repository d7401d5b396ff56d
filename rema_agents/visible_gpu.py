"""Which GPU the processes that are started see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeing(gpu: int | None) -> Iterator[None]:
    """Within: processes that are started see one GPU alone.

    Args:
        gpu: its number among those that this process sees, from 0; None: they see what this process sees.

    Raises:
        ValueError: this process does not see that many.
    """
    if gpu is None:
        yield
        return
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = _named(gpu, before)
    try:
        yield
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES")
        os.environ.update({} if before is None else {"CUDA_VISIBLE_DEVICES": before})


def _named(gpu: int, visible: str | None) -> str:
    """What CUDA calls a GPU, by its number among the visible ones."""
    if visible is None:
        return str(gpu)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if not 0 <= gpu < len(names):
        raise ValueError(
            f"GPU {gpu}, counted from 0, is not visible: CUDA_VISIBLE_DEVICES={visible} shows {len(names)} of them"
        )
    return names[gpu]
