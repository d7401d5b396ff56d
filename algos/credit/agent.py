"""Each agent's rewards are normalised over all trajectories in which it acted, whatever their problem.

    A_s = (R_s - mu_a) / (sigma_a + 1e-6)                    over all trajectories of agent a in the step

One agent's pay then cannot inflate another's gradient by its scale or offset. Bias: without division the estimate is
(1 - 1/N_a) times the policy gradient, N_a trajectories of the agent (`leave_one_out`: none).

Source: Dr. MAS, arXiv:2602.08847.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from algos.functional import group_advantages

if TYPE_CHECKING:
    from algos.batch import Batch
    from algos.credit import CreditConfig


def agent_normalised(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """One advantage for each trajectory."""
    advantage_S = group_advantages(
        reward_S,
        batch.agent_S,
        baseline=config.baseline,
        scale=config.scale_rewards,
        scale_group_S=batch.agent_S,
    )
    return advantage_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry
