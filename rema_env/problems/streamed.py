"""Problems of a data set too big to fetch: read as they are drawn, nothing held but a buffer to mix them in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from rema_env.problems.files import GoldFault, problems_of
from rema_env.problems.sources import streamed_tables
from rema_env.problems.tables import Table
from rema_env.transcript import Problem

BUFFER = 10_000  # problems


class Streamed:
    """A source that reads on and on, epoch after epoch, and mixes what it reads.

    An epoch reads the shards in an order of its own. The first `buffer` problems are held; each draw takes one of
    them, and the next that is read takes its place. So every problem is drawn once an epoch, and a set no bigger than
    the buffer in a true permutation.

    A draw is decided by (seed, index) alone, yet costs little only where it follows those before it: any other begins
    the seed's order anew and reads up to it, as a run does that goes on from a checkpoint.

    Args:
        name: how the source is called.
        shards: each gives its problems in order; functions that can be imported, so that sources pickle.
        buffer: how many problems are held.
    """

    KEPT = 4096  # of the latest draws, so that one may look back

    def __init__(self, name: str, shards: tuple[Callable[[], Iterator[Problem]], ...], buffer: int = BUFFER) -> None:
        if buffer < 1:
            raise ValueError(f"buffer must hold at least 1 problem, got {buffer}")
        self.name = name
        self._made_from = (name, shards, buffer)
        self._shards, self._buffer = shards, buffer
        self._seed: int | None = None
        self._order: Iterator[Problem] = iter(())
        self._next = 0
        self._latest: deque[Problem] = deque(maxlen=self.KEPT)

    def __reduce__(self) -> tuple[type[Streamed], tuple[Any, ...]]:
        return type(self), self._made_from

    @property
    def size(self) -> None:
        """None: how many there are shows only in reading them."""
        return None

    def draw(self, seed: int, index: int) -> Problem:
        """The index-th problem of the order that `seed` stands for.

        Raises:
            ValueError: where the set holds no problems, or what is read on the way is none.
        """
        if seed != self._seed or index < self._next - len(self._latest):
            self._next, self._order = 0, self._epochs(seed)
            self._latest.clear()
        self._seed = None  # where reading on fails, the next draw begins anew
        while self._next <= index:
            self._latest.append(next(self._order))
            self._next += 1
        self._seed = seed
        return self._latest[index - self._next]

    def _epochs(self, seed: int) -> Iterator[Problem]:
        for epoch in count():
            rng = np.random.default_rng((seed, epoch))
            order = rng.permutation(len(self._shards)).tolist()
            problems = mixed(chain.from_iterable(self._shards[k]() for k in order), self._buffer, rng)
            first = next(problems, None)
            if first is None:
                raise ValueError(f"{self.name} holds no problems")
            yield first
            yield from problems


def mixed(problems: Iterator[Problem], buffer: int, rng: np.random.Generator) -> Iterator[Problem]:
    """The same problems in another order, of which at most `buffer` are held at once."""
    held = list(islice(problems, buffer))
    for problem in problems:
        k = int(rng.integers(len(held)))
        yield held[k]
        held[k] = problem
    for k in rng.permutation(len(held)):
        yield held[k]


def streamed(
    source: str | Path,
    *,
    split: str = "train",
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
    buffer: int = BUFFER,
) -> Streamed:
    """A data set on the hub, or files of one kind, as a source that reads them as it is drawn from.

    Args:
        source, split, question_column, answer_column, gold_fault: as of `load_problems`.
        buffer: how many problems are held to be mixed.

    Raises:
        ValueError: as `load_problems`; what is wrong with a row but the first is said when it is read.
    """
    tables = streamed_tables(source, split)
    columns = {"question_column": question_column, "answer_column": answer_column, "gold_fault": gold_fault}
    shards = tuple(partial(_problems, table, columns) for table in tables)
    next(chain.from_iterable(shard() for shard in shards), None)  # what is wrong with the columns is said at once
    return Streamed(str(source), shards, buffer)


def _problems(table: Table, columns: dict[str, Any]) -> Iterator[Problem]:
    """A shard's problems; none where it has no rows, which others may have."""
    return problems_of(table, **columns, may_be_empty=True)
