"""Prompts into keys and values: of each only what is not kept already, similar lengths together, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rema_agents.decoder import Asked, Decoder
from rema_agents.kv import Kept, RaggedCache

_PADDING_ALLOWED = 256


@dataclass(frozen=True)
class Prefilled:
    """Prompts that have been run: caches with the row of each call, the calls in that order, the logits behind each."""

    parts: list[tuple[RaggedCache, list[int]]]
    calls: list[Asked]
    logits_NV: Tensor


def prefill(decoder: Decoder, calls: Sequence[Asked]) -> Prefilled:
    """Run the prompts of calls, of each only what no kept row holds, and each distinct prompt once.

    Prompts of similar length run together, at most `decoder.prefill_tokens` tokens at a time.
    """
    shared: dict[object, list[Asked]] = {}
    for call in calls:
        shared.setdefault(call.prompt_ids if call.kept is None else call, []).append(call)
    prompts = sorted(shared.values(), key=lambda same: same[0].start - len(same[0].prompt_ids))
    parts, ordered, logits = [], [], []
    for bucket in buckets([len(same[0].prompt_ids) - same[0].start for same in prompts], decoder.prefill_tokens):
        members = prompts[bucket]
        cache, logits_NV = _run_prompts(decoder, [same[0] for same in members])
        rows = [row for row, same in enumerate(members) for _ in same]
        parts.append((cache, rows))
        ordered += [call for same in members for call in same]
        logits.append(logits_NV[torch.tensor(rows, device=logits_NV.device)])
    return Prefilled(parts, ordered, torch.cat(logits))


def buckets(lengths: Sequence[int], budget: int) -> list[slice]:
    """Split lengths, longest first, into runs that pad little and hold at most `budget` tokens, padding included."""
    runs, start, real = [], 0, 0
    for i, length in enumerate(lengths):
        padded = lengths[start] * (i + 1 - start)
        if i > start and (padded > budget or padded - real - length > max(_PADDING_ALLOWED, real // 4)):
            runs.append(slice(start, i))
            start, real = i, 0
        real += length
    return [*runs, slice(start, len(lengths))]


def _run_prompts(decoder: Decoder, calls: Sequence[Asked]) -> tuple[RaggedCache, Tensor]:
    cache = RaggedCache(len(calls), max(len(call.prompt_ids) for call in calls), decoder.layers)
    _take_kept(cache, calls)
    width = max(len(call.prompt_ids) - call.start for call in calls)
    ids_NS = np.full((len(calls), width), decoder.pad_token_id)
    positions_NS = np.full((len(calls), width), -1)
    for row, call in enumerate(calls):
        new = len(call.prompt_ids) - call.start
        ids_NS[row, width - new :] = call.prompt_ids[call.start :]
        positions_NS[row, width - new :] = np.arange(call.start, len(call.prompt_ids))
    stride = max(1, decoder.prefill_tokens // len(calls))
    for begin in range(0, width, stride):
        end = begin + stride
        logits_NV = decoder.logits(ids_NS[:, begin:end], positions_NS[:, begin:end], cache)
    return cache, logits_NV


def _take_kept(cache: RaggedCache, calls: Sequence[Asked]) -> None:
    """Copy what the shelf holds of the calls' prompts, slab by slab."""
    by_slab: dict[int, list[tuple[int, Asked, Kept]]] = {}
    for row, call in enumerate(calls):
        if call.kept is not None:
            by_slab.setdefault(id(call.kept.slab), []).append((row, call, call.kept))
    for taken in by_slab.values():
        source = taken[0][2].slab.cache
        assert source is not None, "a slab was dropped between find and prefill"
        width = max(call.start for _, call, _ in taken)
        rows = torch.tensor([row for row, _, _ in taken])
        cache.fill(rows, source, [kept.row for _, _, kept in taken], width)
