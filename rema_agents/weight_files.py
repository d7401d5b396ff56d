"""Weights as safetensors in shared memory, for engines in other processes to read."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

_SHARD_BYTES = 4 * 2**30


class WeightFiles:
    """Weights as safetensors in shared memory where the system has it, else among temporary files."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="rema-weights-", dir=shared_memory_folder())
        self.written = False
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Replace what is there; while that lasts, and where it fails, `written` is False."""
        from safetensors.torch import save_file

        self.written = False
        names = []
        for number, shard in enumerate(_shards(named_tensors)):
            names.append(f"model-{number:05d}.safetensors")
            save_file(shard, Path(self.folder, names[-1]))
        for stale in set(os.listdir(self.folder)) - set(names):
            Path(self.folder, stale).unlink()
        self.written = True

    def remove(self) -> None:
        """Remove the folder."""
        self._finalizer()


def shared_memory_folder() -> str | None:
    """Where files are memory; None, which stands for temporary files, where the system has no such place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def read(folder: str, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """What was written there, one after the other, on a device."""
    return read_files(sorted(Path(folder).glob("*.safetensors")), device)


def read_files(paths: Iterable[Path], device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """The tensors of safetensors files, one after the other, on a device."""
    from safetensors import safe_open

    for path in paths:
        with safe_open(path, "pt") as shard:
            for name in shard.keys():  # noqa: SIM118 (no mapping)
                yield name, shard.get_tensor(name).to(device)


def _shards(named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    held = 0
    for name, tensor in named_tensors:
        if shard and held + tensor.nbytes > _SHARD_BYTES:
            yield shard
            shard, held = {}, 0
        shard[name] = tensor.detach().contiguous().cpu().clone()
        held += tensor.nbytes
    yield shard
