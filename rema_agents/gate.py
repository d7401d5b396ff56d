"""Counts the environment steps under way, so that a batch is made up by events and never by the clock.

A dialogue is at work while its environment steps, since that can lead to another call at any moment; it is not while
its seat thinks. When no dialogue is at work, no further call can arrive before one of the waiting calls is answered,
so whatever waits then is the same set in every run. (A seat that awaits anything but its sampler before it calls is on
its own: nobody waits for it.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """The count of one play; made by `play`, passed through seats to samplers.

    A dialogue enters when it starts, is out while a seat speaks (`waiting`), and leaves when it ends. A sampler that
    answers a call enters for it in the same breath and leaves when the call has returned, so that no moment passes in
    which a dialogue with news is not counted. A sampler that batches by itself need not care.
    """

    def __init__(self) -> None:
        self._at_work = 0
        self._watchers: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"Gate(at_work={self._at_work})"

    @property
    def at_work(self) -> int:
        """Dialogues that may make a call before any waiting call is answered."""
        return self._at_work

    def enter(self) -> None:
        """One dialogue more is at work."""
        self._at_work += 1

    def leave(self) -> None:
        """One dialogue less is at work. Raises RuntimeError when none was."""
        if self._at_work == 0:
            raise RuntimeError("a dialogue left the gate that had not entered it")
        self._at_work -= 1
        if self._at_work == 0:
            for watcher in self._watchers:
                if not watcher.done():
                    watcher.set_result(None)
            self._watchers.clear()

    async def clear(self) -> None:
        """Return once no dialogue is at work."""
        while self._at_work:
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Out of the count while a seat thinks, or while something is awaited that leads to no call."""
        self.leave()
        try:
            yield
        finally:
            self.enter()
