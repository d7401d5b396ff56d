"""Ctrl-C that loses nothing: play stops at once, an update under way is finished first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupts:
    """Within: SIGINT sets `asked` instead of raising, except inside `or_none`; a second one raises in any case."""

    def __init__(self) -> None:
        self.asked = False
        self._may_raise = False

    def __enter__(self) -> Interrupts:
        self._before: Any = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if self._may_raise or again:
            raise KeyboardInterrupt

    def or_none(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, or None where Ctrl-C stopped it."""
        self._may_raise = True
        try:
            return work()
        except KeyboardInterrupt:
            self.asked = True
            return None
        finally:
            self._may_raise = False
