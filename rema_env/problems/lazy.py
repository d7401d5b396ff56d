"""Problems of a data set too big to hold: read when drawn, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from rema_env.problems.files import GoldFault, problems_of
from rema_env.problems.tables import Row, Table, parquet_faults
from rema_env.transcript import Problem

Block = tuple[Problem, ...]


class Lazy:
    """A finite source whose problems are read block by block; a few blocks are kept.

    An epoch draws every problem once: the blocks in an order of their own, and the rows of a block in one of theirs, so
    that neighbouring draws read the same block.

    Args:
        name: how the source is called.
        sizes: the number of problems in each block.
        read: reads one block by its number.
    """

    KEPT = 4

    def __init__(self, name: str, sizes: Sequence[int], read: Callable[[int], Block]) -> None:
        self.name = name
        self.sizes = tuple(size for size in sizes if size)
        if not self.sizes:
            raise ValueError(f"{name} holds no problems")
        self._numbers = tuple(number for number, size in enumerate(sizes) if size)
        self._read = lru_cache(self.KEPT)(read)

    @property
    def size(self) -> int:
        """How many problems there are."""
        return sum(self.sizes)

    def draw(self, seed: int, index: int) -> Problem:
        """The index-th problem of the order that `seed` stands for."""
        epoch, place = divmod(index, self.size)
        order, ends = _block_order(self.sizes, seed, epoch)
        nth = int(np.searchsorted(ends, place, side="right"))
        block = order[nth]
        row = place - (ends[nth - 1] if nth else 0)
        return self._read(self._numbers[block])[_row_order(self.sizes[block], seed, epoch, block)[row]]

    def __iter__(self) -> Iterator[Problem]:
        """All problems in file order."""
        for number in self._numbers:
            yield from self._read(number)


def lazy_parquet(
    path: str | Path,
    *,
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
) -> Lazy:
    """A parquet file of any size as a source; a block is one of its row groups. Only the columns needed are read.

    Raises:
        ValueError: as `load_problems`; what is wrong with a row is said when its block is read.
    """
    import pyarrow.parquet

    with parquet_faults(path):
        file = pyarrow.parquet.ParquetFile(path)
    sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    starts = [0, *accumulate(sizes)]
    columns = tuple(file.schema_arrow.names)

    def read(block: int) -> Block:
        def rows(wanted: Sequence[str]) -> list[Row]:
            with parquet_faults(path):
                found: list[Row] = file.read_row_group(block, columns=list(wanted)).to_pylist()
            return found

        table = Table(str(path), columns, rows)
        found = problems_of(
            table,
            question_column=question_column,
            answer_column=answer_column,
            gold_fault=gold_fault,
            first_row=starts[block],
        )
        return tuple(found)

    return Lazy(str(path), sizes, read)


@lru_cache(maxsize=4)
def _block_order(sizes: tuple[int, ...], seed: int, epoch: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The blocks in an epoch's order, and the number of rows up to the end of each."""
    order = np.random.default_rng((seed, epoch)).permutation(len(sizes)).tolist()
    return tuple(order), tuple(accumulate(sizes[block] for block in order))


@lru_cache(maxsize=8)
def _row_order(size: int, seed: int, epoch: int, block: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch, 1 + block)).permutation(size).tolist())
