"""Rows under way: one token step for all of them, and what is left when a row ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rema_agents.decoder import Asked, Decoder
from rema_agents.draws import pick, stream_keys, uniforms
from rema_agents.kv import RaggedCache, joined
from rema_agents.prefill import Prefilled
from rema_env.transcript import Finish

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ROOM = 32


class Rows:
    """Calls under way together, one row each: what is in the cache, what was sampled, who is done.

    A row that is done stays, idle, until the batch is made up anew.

    Args:
        old: the batch so far, with the rows of it that go on.
        new: calls that join it; their first token is sampled at once.
        tokenizer: needed where a call has stop strings.

    Attributes:
        done: rows whose last token is sampled and that nobody has been told of.
    """

    def __init__(
        self,
        decoder: Decoder,
        old: tuple[Rows, list[int]] | None,
        new: Prefilled | None,
        tokenizer: PreTrainedTokenizerBase | None,
    ) -> None:
        before, staying = old if old is not None else (None, [])
        self.calls: list[Asked] = [before.calls[row] for row in staying] if before is not None else []
        parts: list[tuple[RaggedCache, list[int]]] = []
        if before is not None and staying:
            parts.append((before.cache, staying))
        if new is not None:
            self.calls += new.calls
            parts += new.parts
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._set_params()
        self._set_state()
        if before is not None:
            self._go_on(before, staying)
        self.cache: RaggedCache = joined(parts, int(self.length_N.max()), self._room())
        if new is not None:
            self._take(new.logits_NV, slice(len(staying), len(self.calls)))

    def _set_params(self) -> None:
        """What each step needs of the calls' parameters, as arrays."""
        params, device = [call.params for call in self.calls], self._decoder.device
        self._limit_N = np.array([p.max_tokens for p in params])
        self._keys_N = stream_keys(
            [p.seed for p in params], [call.dialogue for call in self.calls], [call.number for call in self.calls]
        )
        most = max(len(p.stop_token_ids) for p in params)
        self._stops_NK = np.array([[*p.stop_token_ids, *[-1] * (most - len(p.stop_token_ids))] for p in params])
        self._temperature_N = torch.tensor([p.temperature for p in params], device=device)
        self._cuts: tuple[Tensor, Tensor] | None = None
        if any(p.top_p < 1 or p.top_k > 0 for p in params):
            top_p, top_k = [p.top_p for p in params], [p.top_k for p in params]
            self._cuts = torch.tensor(top_p, device=device), torch.tensor(top_k, device=device)
        self._watched = [row for row, p in enumerate(params) if p.stop_strings]

    def _set_state(self) -> None:
        rows, limit = len(self.calls), int(self._limit_N.max())
        self._open_N = np.ones(rows, dtype=bool)
        self._told_N = np.zeros(rows, dtype=bool)
        self._stopped_N = np.zeros(rows, dtype=bool)
        self._count_N = np.zeros(rows, dtype=np.int64)
        self._ids_NL = np.zeros((rows, limit), dtype=np.int64)
        self._logps_NL = np.zeros((rows, limit))
        self._last_N = torch.zeros(rows, dtype=torch.int64, device=self._decoder.device)
        self.length_N: NDArray[np.int64] = np.array([len(call.prompt_ids) for call in self.calls])

    def _go_on(self, before: Rows, staying: list[int]) -> None:
        rows, width = len(staying), min(self._ids_NL.shape[1], before._ids_NL.shape[1])
        self._count_N[:rows] = before._count_N[staying]
        self._ids_NL[:rows, :width] = before._ids_NL[staying, :width]
        self._logps_NL[:rows, :width] = before._logps_NL[staying, :width]
        self._last_N[:rows] = before._last_N[torch.tensor(staying, dtype=torch.int64, device=self._decoder.device)]
        self.length_N[:rows] = before.length_N[staying]

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def open_rows(self) -> list[int]:
        """Rows that go on."""
        return [int(row) for row in np.flatnonzero(self._open_N)]

    @property
    def busy(self) -> bool:
        """Whether any row goes on."""
        return bool(self._open_N.any())

    def step(self) -> None:
        """One token more for every open row."""
        if self.length_N.max() + 1 >= self.cache.columns:
            self.cache = self.cache.widened(self.cache.columns + self._room())
        logits_NV = self._decoder.logits(self._last_N[:, None], self.length_N[:, None], self.cache)
        self.length_N += self._open_N
        self._take(logits_NV, slice(0, len(self.calls)))

    def _room(self) -> int:
        """Columns for tokens to come: as many as may be needed, but not so many that most would stay empty."""
        return min(int((self._limit_N - self._count_N).max()), max(_ROOM, int(self.length_N.max()) // 4))

    def drop(self, row: int) -> None:
        """Stop a row that nobody waits for any more."""
        self._open_N[row] = False
        self._told_N[row] = True

    def answers(self) -> list[tuple[Asked, tuple[int, ...], tuple[float, ...], Finish]]:
        """Each call that got its last token since this was last asked: the call, its ids, log-probabilities, finish."""
        news = np.flatnonzero(~self._open_N & ~self._told_N)
        self._told_N[news] = True
        return [self._answer(int(row)) for row in news]

    def for_shelf(self, rows: list[int]) -> tuple[dict[int, tuple[object, int, tuple[int, ...]]], RaggedCache]:
        """Some rows as the shelf takes them: row -> owner, dialogue, ids in the cache; and a cache that holds them."""
        kept = []
        for row in rows:
            call = self.calls[row]
            sampled = self._ids_NL[row, : self.length_N[row] - len(call.prompt_ids)].tolist()
            kept.append((call.gate, call.dialogue, call.prompt_ids + tuple(sampled)))
        if 2 * len(rows) >= len(self.calls):
            return dict(zip(rows, kept, strict=True)), self.cache
        return dict(enumerate(kept)), joined([(self.cache, rows)], int(self.length_N[rows].max()), 0)

    def _answer(self, row: int) -> tuple[Asked, tuple[int, ...], tuple[float, ...], Finish]:
        count = self._count_N[row]
        logps = self._logps_NL[row, :count]
        if not np.isfinite(logps).all():
            raise FloatingPointError(f"the model's logits are not finite in dialogue {self.calls[row].dialogue}")
        finish = Finish.STOP if self._stopped_N[row] else Finish.LENGTH
        return self.calls[row], tuple(self._ids_NL[row, :count].tolist()), tuple(logps.tolist()), finish

    def _take(self, logits_MV: Tensor, rows: slice) -> None:
        """Sample the next token of some rows and note it for those still open."""
        drawn_M = uniforms(self._keys_N[rows], self._count_N[rows])
        cuts = (None, None) if self._cuts is None else (self._cuts[0][rows], self._cuts[1][rows])
        uniform_M = torch.from_numpy(drawn_M).to(logits_MV.device)
        ids_M, logps_M = pick(logits_MV, self._temperature_N[rows], uniform_M, *cuts)
        self._last_N[rows] = ids_M
        ids, logps = torch.stack((ids_M.double(), logps_M.double())).cpu().numpy()
        took = np.flatnonzero(self._open_N[rows])
        where = took + rows.start
        self._ids_NL[where, self._count_N[where]] = ids[took]
        self._logps_NL[where, self._count_N[where]] = logps[took]
        self._count_N[where] += 1
        self._stopped_N[where] = (self._stops_NK[where] == ids[took, None]).any(1)
        for row in self._watched:
            self._stopped_N[row] |= self._open_N[row] and self._said_stop_string(row)
        self._open_N[where] = ~self._stopped_N[where] & (self._count_N[where] < self._limit_N[where])

    def _said_stop_string(self, row: int) -> bool:
        """Whether the row's last token completed a stop string; a character takes at most four tokens."""
        assert self._tokenizer is not None, "stop strings were let in without a tokenizer"
        strings = self.calls[row].params.stop_strings
        tail = self._count_N[row] - 4 * max(map(len, strings))
        text = self._tokenizer.decode(self._ids_NL[row, max(tail, 0) : self._count_N[row]].tolist())
        return any(string in text for string in strings)
