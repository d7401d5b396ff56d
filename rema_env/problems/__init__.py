"""Where questions come from.

A source is anything with the attributes of `Problems`: procedural families, files, the hub, a list of your own.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rema_env.transcript import Problem

__all__ = ["Problem", "Problems"]


@runtime_checkable
class Problems(Protocol):
    """A source of problems in which every draw is decided by two numbers.

    Attributes:
        name: how the source is called in metrics, run folders and messages.
        size: how many problems there are; None where they never run out.
    """

    @property
    def name(self) -> str:
        """How the source is called."""
        ...

    @property
    def size(self) -> int | None:
        """How many problems there are, or None."""
        ...

    def draw(self, seed: int, index: int) -> Problem:
        """The index-th problem (0, 1, ...) of the order that `seed` stands for.

        A pure function of its arguments: the same on every rank, in every process and in any order of calls. A
        finite source gives each problem once per epoch of `size` draws, in an order of its own for every epoch.
        """
        ...
