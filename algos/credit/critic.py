"""A critic says what each turn starts from: one value a turn, advantages by GAE over turns.

    delta_k = r_k + gamma V_{k+1} - V_k           r is R_s at the last turn, 0 before; V after the last turn is 0
    A_k     = delta_k + gamma lam A_{k+1}         G_k = A_k + V_k is what the critic learns

V_k is read in front of the turn's first token, so it does not depend on what is said in the turn: with lam = 1 the
estimate is unbiased whatever the critic says, and below 1 its bias is that of the critic's values.

Source: GAE, arXiv:1506.02438, with turns as time steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from algos.functional import generalised_advantages, spread, turn_segments, whiten

if TYPE_CHECKING:
    from algos.batch import Batch


def turn_critic(batch: Batch, reward_S: Tensor, *, gamma: float, lam: float, white: bool) -> dict[str, Tensor]:
    """adv_BT and return_BK, from `batch.old_value_BK`; advantages are whitened for each role where `white`."""
    segment_BT, count = turn_segments(batch.turn_BT, batch.trajectory_B)
    S = int(batch.trajectory_B.max()) + 1
    K = count // S
    value_BK = batch.old_value_BK.to(reward_S.dtype)
    value_SK = torch.zeros(S, K, dtype=reward_S.dtype).index_add(0, batch.trajectory_B, value_BK[:, :K])
    real_SK = torch.zeros(count, dtype=torch.bool)
    real_SK[segment_BT[segment_BT >= 0]] = True
    real_SK = real_SK.view(S, K)
    last_SK = torch.arange(K) == (real_SK.sum(1, keepdim=True) - 1)
    adv_SK = generalised_advantages(last_SK * reward_S[:S, None], value_SK, real_SK, gamma=gamma, lam=lam)
    adv_BT = spread(adv_SK.flatten(), segment_BT)
    if white:
        adv_BT = whiten(adv_BT, batch.agent_S[batch.trajectory_B], batch.trained_BT)
    return {"adv_BT": adv_BT, "return_BK": (adv_SK + value_SK)[batch.trajectory_B]}
