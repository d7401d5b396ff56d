"""Weights from one process to another on the same device through one small buffer: the model never exists twice.

Both processes see the buffer's memory: on a GPU by CUDA IPC, on a CPU as a mapped file. The sender fills it with as
many tensors as fit, the receiver copies them out, and the sender fills it again.
"""

from __future__ import annotations

import math
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from rema_agents.weight_files import shared_memory_folder

BUFFER_BYTES = 256 * 2**20

_OUR_OWN = {0: torch.Tensor, 4: torch.storage.TypedStorage, 5: torch.uint8}
"""Places in the arguments of torch's `rebuild_cuda_tensor` that are classes, not data: the same for every buffer."""
_DEVICE = 6


def chunks(
    named_tensors: Iterable[tuple[str, Tensor]], device: torch.device, room: int = BUFFER_BYTES
) -> Iterator[dict[str, Any]]:
    """Messages of plain values, each of what lies in the buffer until the next is asked for.

    Args:
        device: where the buffer is; tensors may come from anywhere, and need to exist only until the next is asked for.
        room: [bytes] of the buffer; more where a single tensor is larger.
    """
    buffer, full, used = _Buffer(0, device), _nothing(), 0
    for name, tensor in named_tensors:
        size = tensor.nbytes
        if full["names"] and used + size > buffer.size:
            yield buffer.sent(full)
            full, used = _nothing(), 0
        if size > buffer.size or not buffer.size:
            buffer = _Buffer(max(room, size), device)
        buffer.bytes[used : used + size].copy_(tensor.detach().contiguous().view(-1).view(torch.uint8))
        full["names"].append(name)
        full["dtypes"].append(str(tensor.dtype).removeprefix("torch."))
        full["shapes"].append(list(tensor.shape))
        used += size
    if full["names"]:
        yield buffer.sent(full)


class Receiver:
    """The other end: opens each buffer once, and copies out what lies in it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._handle: Any = None
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def take(self, chunk: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
        """The named tensors of one chunk, as copies on this device. Raises ValueError for a buffer on another GPU."""
        if chunk["handle"] != self._handle:
            self.close()
            self._bytes, self._handle = _opened(chunk["handle"], self._device), chunk["handle"]
        start = 0
        for name, dtype_name, shape in zip(chunk["names"], chunk["dtypes"], chunk["shapes"], strict=True):
            dtype: torch.dtype = getattr(torch, dtype_name)
            end = start + math.prod(shape) * dtype.itemsize
            yield name, self._bytes[start:end].clone().view(dtype).view(shape)
            start = end

    def close(self) -> None:
        """Let go of the buffer."""
        self._bytes, self._handle = torch.empty(0, dtype=torch.uint8), None


class _Buffer:
    """Bytes that another process can open by `handle`."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self.handle: dict[str, Any]
        if device.type == "cuda":
            self.bytes = torch.empty(size, dtype=torch.uint8, device=device)
            self.handle = _cuda_handle(self.bytes) if size else {}
            return
        file, path = tempfile.mkstemp(prefix="rema-buffer-", dir=shared_memory_folder())
        os.close(file)
        weakref.finalize(self, os.unlink, path)
        self.bytes = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
        self.handle = {"path": path, "size": size}

    def sent(self, full: Mapping[str, Any]) -> dict[str, Any]:
        """The message about what it is full of, once that has really been written."""
        if self.bytes.is_cuda:
            torch.cuda.synchronize(self.bytes.device)
        return {"handle": self.handle, **full}


def _nothing() -> dict[str, list[Any]]:
    return {"names": [], "dtypes": [], "shapes": []}


def _cuda_handle(buffer: Tensor) -> dict[str, Any]:
    from torch.multiprocessing.reductions import reduce_tensor

    _, arguments = reduce_tensor(buffer)
    plain = [list(a) if isinstance(a, tuple) else a for n, a in enumerate(arguments) if n not in _OUR_OWN]
    return {"gpu": _name_of(buffer.device), "arguments": plain}


def _opened(handle: Mapping[str, Any], device: torch.device) -> Tensor:
    if "path" in handle:
        return torch.from_file(handle["path"], shared=True, size=handle["size"], dtype=torch.uint8)
    if handle["gpu"] != _name_of(device):
        raise ValueError(f"the weights lie on the GPU {handle['gpu']} and the engine is on {_name_of(device)}")
    from torch.multiprocessing.reductions import rebuild_cuda_tensor

    given = iter(handle["arguments"])
    arguments = [_OUR_OWN[n] if n in _OUR_OWN else next(given) for n in range(len(_OUR_OWN) + len(handle["arguments"]))]
    arguments[_DEVICE] = device.index or 0  # the receiver may count its GPUs otherwise
    opened: Tensor = rebuild_cuda_tensor(*arguments)
    return opened


def _name_of(device: torch.device) -> str:
    """The GPU's own name, the same in every process."""
    return str(torch.cuda.get_device_properties(device).uuid)
