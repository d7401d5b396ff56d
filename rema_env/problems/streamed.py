"""Problems of a data set too big to fetch: read as they are drawn, nothing held but a buffer to mix them in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from rema_env.problems.files import GoldFault, problems_of
from rema_env.problems.overlap import asked
from rema_env.problems.pairs import Orders, as_problem, orders_of, pairs_of
from rema_env.problems.sources import streamed_tables
from rema_env.problems.tables import Table
from rema_env.transcript import Problem

BUFFER = 10_000  # problems

Shard = Callable[[], Iterator[Problem]]


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
        never: questions that are passed over, in the form in which they are compared (`rema_env.problems.overlap`).
    """

    KEPT = 4096  # of the latest draws, so that one may look back

    def __init__(
        self, name: str, shards: tuple[Shard, ...], buffer: int = BUFFER, never: frozenset[str] = frozenset()
    ) -> None:
        if buffer < 1:
            raise ValueError(f"buffer must hold at least 1 problem, got {buffer}")
        self.name = name
        self._made_from = (name, shards, buffer, never)
        self._shards, self._buffer, self._never = shards, buffer, never
        self._passed: set[str] = set()
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

    def without(self, problems: Iterable[Problem]) -> Streamed:
        """The same stream, in which what asks the same as one of these problems is passed over when it is read."""
        name, shards, buffer, never = self._made_from
        return Streamed(name, shards, buffer, never | {asked(problem.question) for problem in problems})

    @property
    def left_out(self) -> int:
        """How many different questions were passed over so far."""
        return len(self._passed)

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
            read = chain.from_iterable(self._shards[k]() for k in order)
            problems = mixed(filter(self._may_be_drawn, read) if self._never else read, self._buffer, rng)
            first = next(problems, None)
            if first is None:
                raise ValueError(f"{self.name} holds no problems{' but those left out' if self._passed else ''}")
            yield first
            yield from problems

    def _may_be_drawn(self, problem: Problem) -> bool:
        question = asked(problem.question)
        if question in self._never:
            self._passed.add(question)
        return question not in self._never


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
    read = partial(
        problems_of,
        question_column=question_column,
        answer_column=answer_column,
        gold_fault=gold_fault,
        may_be_empty=True,
    )
    return _stream(source, split, read, buffer)


def streamed_pairs(
    source: str | Path, *, orders: Orders = "both", split: str = "train", buffer: int = BUFFER
) -> Streamed:
    """As `streamed`, for pairs to be judged; `orders` as of `load_pairs`. Both orders of a pair are drawn apart.

    Pairs that share an id, as those of different subsets may, keep it: telling them apart would mean holding every id.
    """
    return _stream(source, split, partial(_judged, orders=orders), buffer)


def _stream(source: str | Path, split: str, read: Callable[[Table], Iterator[Problem]], buffer: int) -> Streamed:
    shards = tuple(partial(read, table) for table in streamed_tables(source, split))
    next(chain.from_iterable(shard() for shard in shards), None)  # what is wrong with the columns is said at once
    return Streamed(str(source), shards, buffer)


def _judged(table: Table, orders: Orders) -> Iterator[Problem]:
    """A shard's pairs in the orders asked for."""
    pairs = pairs_of(table, may_be_empty=True)
    return (as_problem(pair, order) for pair in pairs for order in orders_of(pair, orders))
