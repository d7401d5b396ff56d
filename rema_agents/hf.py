"""A transformers model that serves many dialogues at once, with a KV cache kept across their turns.

Waiting calls are admitted at fixed token steps, once no dialogue can make another call (see `gate`), in the order of
their dialogues. A batch is therefore made up by events and never by the clock, and a seed gives the same run.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rema_agents.checksum import checksum
from rema_agents.decoder import Asked, Decoder
from rema_agents.gate import Gate
from rema_agents.kv import Shelf
from rema_agents.prefill import prefill
from rema_agents.pretrained import load_causal_lm
from rema_agents.rows import Rows
from rema_agents.types import Completion, SamplingParams

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class HFSampler:
    """Samples from a transformers causal language model.

    Args:
        model: with `sdpa` or `eager` attention; put into evaluation mode.
        pad_token_id: any id of the vocabulary; fills prefills up and is never attended to.
        tokenizer: needed for stop strings only.
        max_rows: calls decoded at once; more wait, in the order of their dialogues.
        admit_every: token steps between admissions of waiting calls.
        prefill_tokens: most tokens, padding included, of one forward over prompts.
        kept_bytes: most memory for keys and values that wait for their dialogue's next call.

    Raises:
        ValueError: the model keeps a state other than keys and values, or its attention takes no masks.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad_token_id: int = 0,
        tokenizer: PreTrainedTokenizerBase | None = None,
        max_rows: int = 256,
        admit_every: int = 4,
        prefill_tokens: int = 16_384,
        kept_bytes: int = 2**31,
    ) -> None:
        if max_rows < 1 or admit_every < 1 or prefill_tokens < 1:
            raise ValueError("max_rows, admit_every and prefill_tokens must be at least 1")
        self._decoder = Decoder(model, pad_token_id=pad_token_id, prefill_tokens=prefill_tokens)
        self._tokenizer = tokenizer
        self._max_rows = max_rows
        self._admit_every = admit_every
        self._shelf = Shelf(kept_bytes)
        self._calls_made: weakref.WeakKeyDictionary[Gate, Counter[int]] = weakref.WeakKeyDictionary()
        self._waiting: list[Asked] = []
        self._batch: Rows | None = None
        self._engine: asyncio.Task[None] | None = None
        self._weight_version = 0

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, dtype: torch.dtype | None = None, device: str | None = None, **settings: Any
    ) -> HFSampler:
        """Load a model folder: in bfloat16 on a GPU where there is one, else in float32 on the CPU.

        Raises:
            ValueError: its weights are not whole; see `load_causal_lm`.
        """
        from transformers import AutoTokenizer

        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        model = load_causal_lm(folder, dtype=dtype, attn_implementation="sdpa").to(device)
        return cls(model, tokenizer=AutoTokenizer.from_pretrained(folder), **settings)

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """Continue one prompt; see `Sampler`. Raises ValueError for a prompt the model has no room for."""
        self._check(prompt_ids, params)
        made = self._calls_made.setdefault(gate, Counter())
        future = asyncio.get_running_loop().create_future()
        call = Asked(tuple(prompt_ids), params, dialogue, made[dialogue], gate, future)
        made[dialogue] += 1
        self._waiting.append(call)
        if self._engine is None or self._engine.done():
            self._engine = asyncio.create_task(self._run())
        try:
            return await future
        finally:
            if not future.cancelled():
                gate.leave()  # entered by whoever answered

    @property
    def room(self) -> int | None:
        """Tokens of prompt and completion together that the model has positions for; None where it does not tell."""
        return self._decoder.max_positions

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Copy weights in place; later completions carry `version`.

        Raises:
            RuntimeError: while calls are under way.
            ValueError: for a name that the model does not have or a shape that is not its own.
        """
        if self._waiting or self._busy:
            raise RuntimeError("weights cannot change while calls are under way")
        self._forget()
        self._decoder.load(named_tensors)
        self._weight_version = version

    def checksum(self) -> int:
        """Of the weights it samples from; see `rema_agents.checksum`."""
        return checksum(self._decoder.model.named_parameters())

    def close(self) -> None:
        """Let go of all cached keys and values."""
        self._forget()

    @property
    def _busy(self) -> bool:
        return self._batch is not None and self._batch.busy

    def _forget(self) -> None:
        self._batch = None
        self._shelf.clear()

    def _check(self, prompt_ids: Sequence[int], params: SamplingParams) -> None:
        if not prompt_ids:
            raise ValueError("a prompt needs at least one token")
        vocabulary = self._decoder.model.get_input_embeddings().num_embeddings
        if not 0 <= min(prompt_ids) <= max(prompt_ids) < vocabulary:
            raise ValueError(
                f"a prompt holds ids from {min(prompt_ids)} to {max(prompt_ids)}, the model has 0 to {vocabulary - 1}: "
                "codec and sampler need one model folder"
            )
        if params.stop_strings and self._tokenizer is None:
            raise ValueError("stop strings need HFSampler(..., tokenizer=...)")
        if self.room is not None and len(prompt_ids) + params.max_tokens > self.room:
            raise ValueError(
                f"a prompt of {len(prompt_ids)} tokens and {params.max_tokens} new ones do not fit into the model's "
                f"{self.room} positions; lower max_prompt_length or max_tokens"
            )

    async def _run(self) -> None:
        """Token step after token step, as long as a call waits or is under way."""
        step = 0
        try:
            self._decoder.model.eval()
            while self._waiting or self._busy:
                if not self._busy or step % self._admit_every == 0:
                    await self._all_clear()
                    self._admit()
                if self._batch is not None and self._batch.busy:
                    self._step(self._batch)
                step = step + 1 if self._busy else 0
                await asyncio.sleep(0)
            self._put_away()
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise

    async def _all_clear(self) -> None:
        """Wait until no play that is served here can make another call."""
        under_way = [self._batch.calls[row] for row in self._batch.open_rows] if self._batch is not None else []
        for gate in dict.fromkeys(call.gate for call in (*self._waiting, *under_way)):
            await gate.clear()

    @torch.inference_mode()
    def _admit(self) -> None:
        """Let waiting calls in, as far as there is room, and make up the batch anew where that is worth it."""
        waiting = sorted((call for call in self._waiting if not call.future.done()), key=lambda call: call.dialogue)
        self._waiting = waiting
        old, staying = self._batch, self._staying()
        admitted = waiting[: self._max_rows - len(staying)]
        if not admitted and (old is None or 2 * len(staying) >= len(old)):
            return
        if old is not None:
            self._shelve(old, staying)
        new = prefill(self._decoder, [self._with_kept(call) for call in admitted]) if admitted else None
        if new is None and not staying:
            self._batch = None
            return
        self._batch = Rows(self._decoder, None if old is None else (old, staying), new, self._tokenizer)
        self._waiting = waiting[len(admitted) :]
        self._answer(self._batch)

    def _staying(self) -> list[int]:
        """Rows that go on; those that nobody waits for any more are stopped here."""
        if self._batch is None:
            return []
        for row in self._batch.open_rows:
            if self._batch.calls[row].future.done():
                self._batch.drop(row)
        return self._batch.open_rows

    def _put_away(self) -> None:
        """Shelve all rows, which are then held for as long as their play lasts and no longer."""
        if self._batch is not None:
            self._shelve(self._batch, [])
            self._batch = None

    def _shelve(self, batch: Rows, staying: list[int]) -> None:
        done = sorted(set(range(len(batch))) - set(staying))
        if done:
            self._shelf.put(*batch.for_shelf(done))

    def _with_kept(self, call: Asked) -> Asked:
        kept, start = self._shelf.find(call.gate, call.dialogue, call.prompt_ids) or (None, 0)
        return replace(call, kept=kept, start=start)

    @torch.inference_mode()
    def _step(self, batch: Rows) -> None:
        batch.step()
        self._answer(batch)

    def _answer(self, batch: Rows) -> None:
        """Hand out what is done; each dialogue counts as at work before anything else can happen."""
        for call, ids, logps, finish in batch.answers():
            if not call.future.done():
                call.gate.enter()
                call.future.set_result(Completion(ids, logps, finish, self._weight_version))

    def _fail(self, error: BaseException) -> None:
        """Whatever stops the engine is told to everyone who waits for it."""
        batch, self._batch = self._batch, None
        calls = [*self._waiting, *(batch.calls if batch is not None else ())]
        self._waiting = []
        for call in calls:
            if not call.future.done() and isinstance(error, Exception):
                call.gate.enter()
                call.future.set_exception(error)
            elif not call.future.done():
                call.future.cancel()
