"""A running baseline for each role, which needs no groups.

    A_s = R_s - b_a                    b_a <- decay b_a + (1 - decay) mean of R over the step's trajectories of agent a

The baseline of a step comes from earlier steps alone, so the estimate is unbiased. (Updating it first, as the source
does, would multiply the gradient by less than 1.)

Source: role-conditioned advantage estimation, SPIRAL, arXiv:2506.24119.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from algos.batch import Batch
    from algos.credit import CreditConfig

DECAY = 0.95


def running_baseline(
    batch: Batch, reward_S: Tensor, carry: Mapping[str, float] | None, config: CreditConfig
) -> tuple[Tensor, Any]:
    """One advantage for each trajectory; the carry holds every agent's baseline. The first step's baseline is 0."""
    before = dict(carry or {})
    baseline_A = torch.tensor([before.get(agent, 0.0) for agent in batch.agents], dtype=reward_S.dtype)
    after = dict(before)
    for a, agent in enumerate(batch.agents):
        own = reward_S[batch.agent_S == a]
        if len(own):
            mean = float(own.mean())
            after[agent] = DECAY * before[agent] + (1 - DECAY) * mean if agent in before else mean
    advantage_S = reward_S - baseline_A[batch.agent_S]
    return advantage_S[batch.trajectory_B, None].expand_as(batch.turn_BT), after
