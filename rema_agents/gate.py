"""Counts the dialogues at work outside any sampler, so that a batch is made up by events and never by the clock.

A dialogue is at work while its environment steps or its seat prepares a prompt: what it does then can lead to another
call. It is not at work while it waits for a sampler. When the count is zero, no further call can arrive before one of
the waiting calls is answered, so whatever waits then is the same set in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """The count of one play; made by `play`, passed through seats to samplers.

    A dialogue enters when it starts and leaves when it ends. A sampler takes it out with `waiting()`, or with `leave`
    when it queues a call and `enter` in the same breath in which it answers it.
    """

    def __init__(self) -> None:
        self._at_work = 0
        self._watchers: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"Gate(at_work={self._at_work})"

    @property
    def at_work(self) -> int:
        """Dialogues that may still make a call without any waiting call being answered."""
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
        """Out of the count while something that is no business of this play's batches is awaited."""
        self.leave()
        try:
            yield
        finally:
            self.enter()
