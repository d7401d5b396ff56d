"""Every token of a trajectory is paid the trajectory's reward against its group's: GRPO's credit.

    A_s = (R_s - b_s) / (sigma + 1e-6)

Bias: `algos.functional.group_advantages` states it; leave-one-out without division has none.
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
    advantage_S = group_advantages(
        reward_S,
        batch.group_S,
        baseline=config.baseline,
        scale=config.scale_rewards,
        scale_group_S=batch.agent_S,
    )
    return advantage_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry
