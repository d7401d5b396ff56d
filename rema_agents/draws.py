"""Sampling one token for each row, by draws that depend on nothing but seed, dialogue, call and position.

A counter-based generator (SplitMix64's finaliser: Steele, Lea and Flood, OOPSLA 2014, doi:10.1145/2660193.2660195)
gives every position of every call its own number, so the ids do not depend on who shares the batch or when.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = 2**64 - 1


def stream_keys(seeds: Sequence[int], dialogues: Sequence[int], calls: Sequence[int]) -> NDArray[np.uint64]:
    """One stream of draws for each call, named by seed, dialogue and the call's number within its dialogue."""
    key = np.zeros(len(seeds), dtype=np.uint64)
    for part in (seeds, dialogues, calls):
        key = _mixed(key + _GOLDEN + np.array([value & _MASK for value in part], dtype=np.uint64))
    return key


def uniforms(keys_N: NDArray[np.uint64], positions_N: NDArray[np.int64]) -> NDArray[np.float64]:
    """The draws of N streams at given positions, in [0, 1) with 53 random bits."""
    bits = _mixed(keys_N + _GOLDEN * (positions_N.astype(np.uint64) + np.uint64(1)))
    drawn: NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def pick(
    logits_NV: Tensor,
    temperature_N: Tensor,
    uniform_N: Tensor,
    top_p_N: Tensor | None = None,
    top_k_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sample by inverting the cumulative distribution.

        p = softmax(logits / T);  id = the first i with  p_0 + ... + p_i > u

    Args:
        logits_NV: of any floating type; computed in float32, summed up in float64.
        temperature_N: 0 takes the most likely token; its log-probability is then given at temperature 1.
        uniform_N: float64 in [0, 1).
        top_p_N, top_k_N: None where no row cuts its distribution; 1.0 and 0 cut nothing.

    Returns:
        ids_N (int64) and their log-probabilities [nats] under the temperature and cuts used (float32).
    """
    greedy_N = temperature_N == 0
    logp_NV = torch.log_softmax(logits_NV.float() / torch.where(greedy_N, 1.0, temperature_N)[:, None], dim=-1)
    if top_p_N is not None and top_k_N is not None:
        logp_NV = _cut(logp_NV, top_p_N, top_k_N)
    cumulative_NV = logp_NV.exp().double().cumsum(-1)
    threshold_N1 = (uniform_N * cumulative_NV[:, -1])[:, None]
    ids_N = torch.searchsorted(cumulative_NV, threshold_N1, right=True)[:, 0].clamp_(max=logp_NV.shape[-1] - 1)
    ids_N = torch.where(greedy_N, logp_NV.argmax(-1), ids_N)
    return ids_N, logp_NV.gather(-1, ids_N[:, None])[:, 0]


def _cut(logp_NV: Tensor, top_p_N: Tensor, top_k_N: Tensor) -> Tensor:
    """The distribution kept to its k likeliest tokens and then to the smallest set that holds top_p of it."""
    sorted_NV, order_NV = logp_NV.sort(dim=-1, descending=True)
    rank_V = torch.arange(logp_NV.shape[-1], device=logp_NV.device)
    kept_NV = (rank_V < top_k_N[:, None]) | (top_k_N[:, None] <= 0)
    p_NV = torch.where(kept_NV, sorted_NV, -torch.inf).softmax(-1)
    kept_NV &= p_NV.cumsum(-1) - p_NV < top_p_N[:, None]
    cut_NV = torch.full_like(logp_NV, -torch.inf).scatter(-1, order_NV, sorted_NV.masked_fill(~kept_NV, -torch.inf))
    return cut_NV.log_softmax(-1)
