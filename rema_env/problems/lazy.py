"""Problems of a data set too big to hold: read when drawn, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from rema_env.problems.files import GoldFault, first_is_worked, problems_of
from rema_env.problems.tables import Row, Table, file_table, parquet_faults, rows_as_written
from rema_env.transcript import Problem

Block = tuple[Problem, ...]


class Lazy:
    """A finite source whose problems are read block by block; a few blocks are kept.

    An epoch draws every problem once: the blocks in an order of their own, and the rows of a block in one of theirs, so
    that neighbouring draws read the same block.

    Args:
        name: how the source is called.
        sizes: the number of problems in each block.
        read: reads one block by its number; a function that can be imported, so that sources pickle.
    """

    KEPT = 4

    def __init__(self, name: str, sizes: Sequence[int], read: Callable[[int], Block]) -> None:
        self.name = name
        self.sizes = tuple(size for size in sizes if size)
        if not self.sizes:
            raise ValueError(f"{name} holds no problems")
        self._made_from = (name, tuple(sizes), read)
        self._numbers = tuple(number for number, size in enumerate(sizes) if size)
        self._read = lru_cache(self.KEPT)(read)

    def __reduce__(self) -> tuple[type[Lazy], tuple[str, tuple[int, ...], Callable[[int], Block]]]:
        return type(self), self._made_from

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
    with parquet_faults(path):
        metadata = _opened(path).metadata
    sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    starts = (0, *accumulate(sizes))
    columns: dict[str, Any] = {"question_column": question_column, "answer_column": answer_column}
    worked = first_is_worked(file_table(Path(path)), **columns)
    read = partial(_read_block, path, starts, **columns, gold_fault=gold_fault, worked=worked)
    return Lazy(str(path), sizes, read)


def _opened(path: str | Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path)


def _read_block(path: str | Path, starts: Sequence[int], block: int, **columns: Any) -> Block:
    """The problems of one row group; `columns` and the like as of `problems_of`."""
    with parquet_faults(path):
        file = _opened(path)

    def rows(wanted: Sequence[str]) -> list[Row]:
        with parquet_faults(path):
            found = rows_as_written(file.read_row_group(block, columns=list(wanted)))
        return found

    table = Table(str(path), tuple(file.schema_arrow.names), rows)
    return tuple(problems_of(table, **columns, first_row=starts[block]))


@lru_cache(maxsize=4)
def _block_order(sizes: tuple[int, ...], seed: int, epoch: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The blocks in an epoch's order, and the number of rows up to the end of each."""
    order = np.random.default_rng((seed, epoch)).permutation(len(sizes)).tolist()
    return tuple(order), tuple(accumulate(sizes[block] for block in order))


@lru_cache(maxsize=8)
def _row_order(size: int, seed: int, epoch: int, block: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch, 1 + block)).permutation(size).tolist())
