"""Keys and values of many rows of different lengths, and the shelf on which they wait between a dialogue's calls.

A row's token at position p lies in column p, so rows need no left padding and one rule masks everything: a query at
position p sees the columns up to p. Padded queries of a prefill count as position 0, so each sees one real key and no
softmax runs over nothing; what they write goes into a spare last column that no mask admits.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_SPARE_COLUMNS = 32
_ENTRIES_A_DIALOGUE = 4


class _Layer(CacheLayerMixin):
    """One layer's keys and values, `[rows, heads, columns, width]`, written at given positions."""

    is_sliding = False

    def __init__(self, cache: RaggedCache) -> None:
        super().__init__()
        self._cache = weakref.proxy(cache)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Room for the cache's rows and columns; zeros, since softmax weighs masked columns by 0, not by absence."""
        size = (self._cache.rows, key_states.shape[1], self._cache.columns)
        self.keys = key_states.new_zeros(*size, key_states.shape[-1])
        self.values = value_states.new_zeros(*size, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Write `[N, heads, S, width]` at the cache's current places; all that is seen so far comes back."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows_N1, columns_NS, seen = self._cache.place
        self.keys[rows_N1, :, columns_NS] = key_states.transpose(1, 2)
        self.values[rows_N1, :, columns_NS] = value_states.transpose(1, 2)
        return self.keys[:, :, :seen], self.values[:, :, :seen]

    def get_seq_length(self) -> int:
        """Columns in use by the longest row."""
        return int(self._cache.place[2])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Key length and offset of the mask."""
        return self.get_seq_length(), 0

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class RaggedCache(Cache):
    """A transformers cache for rows of different lengths.

    Args:
        rows: how many.
        columns: tokens that the longest row holds or will hold.
        layers: how many layers the model has.
    """

    def __init__(self, rows: int, columns: int, layers: int) -> None:
        self.rows = rows
        self.columns = columns + 1
        self.place: tuple[Tensor, Tensor, int] = (torch.empty(0), torch.empty(0), 0)
        super().__init__(layers=[_Layer(self) for _ in range(layers)])

    def at(self, positions_NS: Tensor, seen: int) -> None:
        """Where the next forward writes: positions of N rows, -1 for padding; `seen` columns come back to attention."""
        rows_N1 = torch.arange(self.rows, device=positions_NS.device)[:, None]
        self.place = (rows_N1, torch.where(positions_NS < 0, self.columns - 1, positions_NS), seen)

    def fill(self, rows: Tensor | slice, source: RaggedCache, source_rows: Sequence[int], width: int) -> None:
        """Copy the first `width` columns of some rows from another cache."""
        for layer, other in zip(self.layers, source.layers, strict=True):
            if not layer.is_initialized:
                layer.lazy_initialization(other.keys, other.values)
            picked = torch.as_tensor(source_rows, device=other.keys.device)
            layer.keys[rows, :, :width] = other.keys[:, :, :width].index_select(0, picked)
            layer.values[rows, :, :width] = other.values[:, :, :width].index_select(0, picked)

    def widened(self, columns: int) -> RaggedCache:
        """The same rows with room for more columns."""
        wider = RaggedCache(self.rows, columns, len(self.layers))
        wider.fill(slice(0, self.rows), self, range(self.rows), self.columns - 1)
        return wider

    @property
    def nbytes(self) -> int:
        """Memory held [bytes]."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.layers if layer.is_initialized)


def joined(parts: Sequence[tuple[RaggedCache, Sequence[int]]], width: int, room: int) -> RaggedCache:
    """One cache of chosen rows of several, in order; `width` columns copied, room for `room` more."""
    whole = RaggedCache(sum(len(rows) for _, rows in parts), width + room, len(parts[0][0].layers))
    start = 0
    for cache, rows in parts:
        if len(rows):
            whole.fill(slice(start, start + len(rows)), cache, rows, min(width, cache.columns - 1))
            start += len(rows)
    return whole


class _Slab:
    """Rows put on the shelf together; they leave memory together, when none is wanted or room is short."""

    def __init__(self, cache: RaggedCache) -> None:
        self.cache: RaggedCache | None = cache


@dataclass(frozen=True)
class Kept:
    """One row on the shelf: the ids whose keys and values it holds, and where."""

    ids: tuple[int, ...]
    slab: _Slab
    row: int


class Shelf:
    """Rows that wait for their dialogue's next call, at most `max_bytes` of them; the oldest go first.

    What a play left behind goes with its owner, any object that lives as long as the play.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: weakref.WeakKeyDictionary[object, dict[int, list[Kept]]] = weakref.WeakKeyDictionary()
        self._slabs: weakref.WeakValueDictionary[int, _Slab] = weakref.WeakValueDictionary()
        self._serial = count()

    def put(self, rows: Mapping[int, tuple[object, int, tuple[int, ...]]], cache: RaggedCache) -> None:
        """Keep rows of a cache, row -> `(owner, dialogue, ids)`; the cache is not written to again."""
        if cache.nbytes > self._max_bytes:
            return
        slab = _Slab(cache)
        self._slabs[next(self._serial)] = slab
        for row, (owner, dialogue, ids) in rows.items():
            kept = self._kept.setdefault(owner, {}).setdefault(dialogue, [])
            others = [k for k in kept if k.slab.cache is not None and k.ids != ids[: len(k.ids)]]
            kept[:] = [*others[1 - _ENTRIES_A_DIALOGUE :], Kept(ids, slab, row)]
        self._make_room()

    def find(self, owner: object, dialogue: int, prompt_ids: tuple[int, ...]) -> tuple[Kept, int] | None:
        """The kept row that begins like a prompt for longest, and for how many tokens; None where none helps."""
        best, longest = None, 0
        for kept in self._kept.get(owner, {}).get(dialogue, ()):
            length = min(common_prefix(kept.ids, prompt_ids), len(prompt_ids) - 1)
            helps = 2 * length >= len(kept.ids) or 2 * length >= len(prompt_ids)
            if kept.slab.cache is not None and helps and length > longest:
                best, longest = kept, length
        return None if best is None else (best, longest)

    def clear(self) -> None:
        """Forget all: the weights that computed it are gone."""
        self._kept.clear()
        self._slabs.clear()

    def _make_room(self) -> None:
        slabs = [slab for slab in self._slabs.values() if slab.cache is not None]
        held = sum(slab.cache.nbytes for slab in slabs if slab.cache is not None)
        for slab in slabs:
            if held <= self._max_bytes or slab.cache is None:
                return
            held -= slab.cache.nbytes
            slab.cache = None


def common_prefix(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many ids two sequences begin with alike."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
