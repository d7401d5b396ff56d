"""Problems that are all there: a sequence in its own order, drawn from in a shuffled one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar, overload

import numpy as np

from rema_env.transcript import Problem

Named = TypeVar("Named", bound=Any)


def distinct(items: Iterable[Named]) -> Iterator[Named]:
    """Frozen data with ids, each with an id of its own: the second one that is called `x` becomes `x#2`."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.id
        while name in seen:
            seen[item.id] += 1
            name = f"{item.id}#{seen[item.id]}"
        seen[name] = 1
        yield item if name == item.id else replace(item, id=name)


class Listed(Sequence[Problem]):
    """A finite source: a sequence of problems, each drawn once per epoch.

    Draw `index` is the `index % size`-th of a permutation that belongs to (seed, `index // size`). An id that stands
    twice is made unique.
    """

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError(f"{name} holds no problems")
        if wrong := [problem for problem in problems if not isinstance(problem, Problem)]:
            raise ValueError(f"{name} holds what is no Problem: {wrong[0]!r:.80}")
        self.name = name
        self._problems = tuple(distinct(problems))

    @property
    def size(self) -> int:
        """How many problems there are."""
        return len(self._problems)

    def draw(self, seed: int, index: int) -> Problem:
        """The index-th problem of the order that `seed` stands for."""
        epoch, place = divmod(index, self.size)
        return self._problems[_order(self.size, seed, epoch)[place]]

    def __len__(self) -> int:
        return len(self._problems)

    @overload
    def __getitem__(self, index: int) -> Problem: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Problem, ...]: ...

    def __getitem__(self, index: int | slice) -> Problem | tuple[Problem, ...]:
        return self._problems[index]

    def __repr__(self) -> str:
        return f"Listed({self.name!r}, {self.size} problems)"


@lru_cache(maxsize=8)
def _order(size: int, seed: int, epoch: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch)).permutation(size).tolist())
