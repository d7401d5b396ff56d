"""An event loop in a thread of its own, for engines and connections that outlive the loops of single plays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers in other threads, until `stop`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine there; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine there from another loop; cancelling this cancels it."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for what it returns."""
        return self.submit(coroutine).result()

    @property
    def stopped(self) -> bool:
        """Whether it has been stopped."""
        return self._loop.is_closed()

    def stop(self) -> None:
        """End the loop and its thread; nothing may be under way. A second time, nothing."""
        if self.stopped:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
