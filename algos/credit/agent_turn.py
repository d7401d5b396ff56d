"""Groups by problem, agent and turn: turn k is compared with the k-th turns of the same agent alone.

    A_sk = (R_s - b_gk) / (sigma_gk + 1e-6)                  over the trajectories of group g that have a turn k

Bias, without division: turn k's part of the gradient is multiplied by E[1 - 1/(1 + m)] (baseline `mean`) or P(m > 0)
(`leave_one_out`), where m of the other G - 1 trajectories have a turn k. Later turns, which fewer reach, so weigh less.

Source: AT-GRPO, arXiv:2510.11062 (there with candidates branched at each turn; see `counterfactual` for that).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from algos.functional import group_advantages, spread, turn_segments

if TYPE_CHECKING:
    from algos.batch import Batch
    from algos.credit import CreditConfig


def agent_turn_groups(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """One advantage for each turn."""
    segment_BT, count = turn_segments(batch.turn_BT, batch.trajectory_B)
    turn_N = torch.unique(segment_BT[segment_BT >= 0])  # the turns that are there, as s * K + k
    K = count // (int(batch.trajectory_B.max()) + 1)
    s_N, k_N = turn_N // K, turn_N % K
    advantage_N = group_advantages(
        reward_S[s_N],
        batch.group_S[s_N] * K + k_N,
        baseline=config.baseline,
        scale=config.scale_rewards,
        scale_group_S=batch.agent_S[s_N],
    )
    advantage_SK = torch.zeros(count, dtype=reward_S.dtype).index_put((turn_N,), advantage_N)
    return spread(advantage_SK, segment_BT), carry
