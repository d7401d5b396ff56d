"""A number that two places hold the same weights by: what a learner publishes, and what a sampler then has."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor


def checksum(named_tensors: Iterable[tuple[str, Tensor]]) -> int:
    """Of names, shapes and bits, in whatever order the tensors come."""
    counted = Counted(lambda: named_tensors)
    for _ in counted:
        pass
    return counted.checksum


class Counted:
    """Named tensors that go by, and the checksum of those that have.

    Args:
        weights: gives the named tensors, from the first on.
        again: whether it may be called at any later time, by this process alone.

    Attributes:
        checksum: of those that went by since the first.
    """

    def __init__(self, weights: Callable[[], Iterable[tuple[str, Tensor]]], *, again: bool = False) -> None:
        self._weights = weights
        self.again = again
        self.checksum = 0

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        self.checksum = 0
        for name, tensor in self._weights():
            self.checksum = (self.checksum + _one(name, tensor)) % 2**64
            yield name, tensor


_AS_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _one(name: str, tensor: Tensor) -> int:
    bits = tensor.detach().contiguous().view(_AS_INTEGERS[tensor.element_size()])
    shape = zlib.crc32(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
    return shape * (2 * int(bits.sum(dtype=torch.int64)) + 1)
