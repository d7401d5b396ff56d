"""A learner's weights on their way to a vLLM engine in another process: through a shared buffer, or from files.

What an engine lost, because it died or slept, it is given again: from the files, or from the learner, which still holds
what it published.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from rema_agents.checksum import Counted
from rema_agents.weight_files import WeightFiles
from rema_agents.weight_ipc import chunks


class Handover:
    """The weights published last, for an engine to take as often as it needs them.

    Args:
        by_ipc: through a buffer, where the weights can be had again; else, and where that fails, through files.
        gpu: where the buffer is; None without a GPU.

    Attributes:
        checksum: of what arrived; None before.
        whole: it is a whole model that is handed over.
    """

    whole = True

    def __init__(self, *, by_ipc: bool, gpu: int | None) -> None:
        self._by_ipc = by_ipc
        self._gpu = gpu
        self._files = WeightFiles()
        self._learner: Counted | None = None
        self.checksum: int | None = None

    @property
    def ready(self) -> bool:
        """Whether there is anything to take."""
        return self._learner is not None or self._files.written

    def publish(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Weights to take from now on."""
        self.checksum = None
        can_be_had_again = isinstance(named_tensors, Counted) and named_tensors.again
        self._learner = named_tensors if self._by_ipc and can_be_had_again else None  # type: ignore[assignment]
        if self._learner is None:
            self._files.write(named_tensors)

    async def give(self, engine: Any) -> None:
        """Have an engine take them.

        Raises:
            RuntimeError: the learner has changed them since they were published.
            Exception: the engine died.
        """
        arrived = await self._through_files(engine) if self._learner is None else await self._through_buffer(engine)
        if self.checksum not in (None, arrived):
            raise RuntimeError("the learner no longer has the weights that it published last")
        self.checksum = arrived

    def remove(self) -> None:
        """Remove the files."""
        self._files.remove()

    async def _through_files(self, engine: Any) -> int:
        arrived: list[int] = await engine.collective_rpc("take_weights", args=(self._files.folder,))
        return arrived[0]

    async def _through_buffer(self, engine: Any) -> int:
        assert self._learner is not None, "weights that can be had only once go through files"
        try:
            return await self._send_chunks(engine, self._learner)
        except Exception as error:
            if engine.errored:
                raise
            warnings.warn(
                f"weights cannot go through a buffer that vLLM shares ({error}); they go through files from now on",
                stacklevel=2,
            )
        self._files.write(self._learner)
        self._by_ipc, self._learner = False, None
        return await self._through_files(engine)

    async def _send_chunks(self, engine: Any, named_tensors: Iterable[tuple[str, Tensor]]) -> int:
        device, arrived = torch.device("cpu"), 0
        if self._gpu is not None:
            device = torch.device("cuda", self._gpu)
            torch.cuda.set_device(device)  # of this thread
        await engine.start_weight_update()
        try:
            for chunk in chunks(named_tensors, device):
                arrived += (await engine.collective_rpc("take_chunk", args=(chunk,)))[0]
        finally:
            if not engine.errored:
                await engine.collective_rpc("end_chunks")
            if self._gpu is not None:
                torch.cuda.ipc_collect()  # or the buffer would stay
        return arrived % 2**64
