"""Ctrl-C and SIGTERM that lose nothing: play stops at once, an update under way is finished first.

Every rank may be told, or one alone; they agree after each play and each step.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from algos import ranks

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """Raised on every rank where a signal to any of them has stopped a play."""


class Interrupts:
    """Within: SIGINT and SIGTERM are noted in `asked` instead of ending the process, and stop what `stoppable` runs.

    A second signal ends the process in any case, with nothing saved.

    Attributes:
        asked: the signal's number; 0 for none.
    """

    active: Interrupts | None = None

    def __init__(self) -> None:
        self.asked = 0
        self._may_raise = False

    def __enter__(self) -> Interrupts:
        self._before: Any = {number: signal.signal(number, self._handle) for number in SIGNALS}
        Interrupts.active = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        Interrupts.active = None
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as a shell has it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.asked

    def agreed(self) -> bool:
        """Whether any rank was asked to stop; every rank has to ask, and then knows it."""
        self.asked = max(ranks.gather(self.asked))
        return bool(self.asked)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = bool(self.asked), number
        if again:
            raise SystemExit(self.exit_code)
        if self._may_raise:
            raise KeyboardInterrupt

    def or_none(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, or None where a signal stopped it or came before."""
        self._may_raise = True
        try:
            return None if self.asked else work()
        except KeyboardInterrupt:
            self.asked = self.asked or signal.SIGINT
            return None
        finally:
            self._may_raise = False


def stoppable(work: Callable[[], T]) -> T | None:
    """Do some work that a signal may stop at once; None where it did. Without `Interrupts` signals do as ever."""
    return work() if Interrupts.active is None else Interrupts.active.or_none(work)
