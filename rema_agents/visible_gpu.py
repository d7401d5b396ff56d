"""Which GPU the processes that are started see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeing(gpu: int | None) -> Iterator[None]:
    """Within: processes that are started see one GPU alone."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpu is None:
        yield
        return
    os.environ["CUDA_VISIBLE_DEVICES"] = before.split(",")[gpu] if before else str(gpu)
    try:
        yield
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES")
        os.environ.update({} if before is None else {"CUDA_VISIBLE_DEVICES": before})
