"""Every token of a trajectory is paid the trajectory's reward against those of the trajectories it is compared with.

    A_s = (R_s - b_s) / (sigma + 1e-6)

`group` compares one agent's trajectories of one problem: GRPO's credit, arXiv:2402.03300. `agent` compares all of one
agent in the step, whatever their problem: Dr. MAS, arXiv:2602.08847. Neither compares agents: under one mean mu and
one deviation sigma for all of them, agent a's own offset and scale would inflate the second moment of its gradient,

    E_a[A_s^2] = (sigma_a^2 + (mu_a - mu)^2) / sigma^2

Bias: `algos.functional.group_advantages` states it, with G trajectories compared; leave-one-out without division has
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from algos.functional import group_advantages

if TYPE_CHECKING:
    from algos.batch import Batch
    from algos.credit import CreditConfig


def group(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """One advantage for each trajectory; with `scale_rewards="batch"` each agent has its own standard deviation."""
    return _against(batch.group_S, batch, reward_S, config), carry


def agent(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """As `group`, with all trajectories of an agent as one group."""
    return _against(batch.agent_S, batch, reward_S, config), carry


def _against(compared_S: Tensor, batch: Batch, reward_S: Tensor, config: CreditConfig) -> Tensor:
    """adv_BT; trajectories with the same number are compared."""
    advantage_S = group_advantages(
        reward_S, compared_S, baseline=config.baseline, scale=config.scale_rewards, scale_group_S=batch.agent_S
    )
    return advantage_S[batch.trajectory_B, None].expand_as(batch.turn_BT)
