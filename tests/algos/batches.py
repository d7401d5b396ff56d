"""Small batches written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from algos.batch import Batch
from algos.functional import token_shares


def batch_of(
    turn: Sequence[Sequence[int]],
    *,
    trajectory: Sequence[int] | None = None,
    reward: Sequence[float] | None = None,
    group: Sequence[int] | None = None,
    agent: Sequence[int] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Batch:
    """Rows by the turn of each token (-1: not trained); by default every row is a trajectory and a group of its own."""
    turn_BT = torch.tensor(turn)
    trajectory_B = torch.tensor(trajectory if trajectory is not None else range(len(turn)))
    S = int(trajectory_B.max()) + 1
    return Batch(
        ids_BT=torch.zeros_like(turn_BT),
        turn_BT=turn_BT,
        sampled_logp_BT=torch.zeros(turn_BT.shape, dtype=dtype),
        length_B=torch.full((len(turn),), turn_BT.shape[1]),
        trajectory_B=trajectory_B,
        reward_S=torch.tensor(reward if reward is not None else [0.0] * S, dtype=dtype),
        group_S=torch.tensor(group if group is not None else range(S)),
        agent_S=torch.tensor(agent if agent is not None else [0] * S),
        episode_S=torch.arange(S),
        agents=("meta_0", "reasoner_0"),
    )


def weighed(batch: Batch, share: str, *, length: int = 0) -> Batch:
    """With shares in the batch's own precision."""
    share_BT = token_shares(batch.turn_BT, batch.trajectory_B, share, length=length)
    return batch.with_tensors(share_BT=share_BT.to(batch.reward_S.dtype))


def on_policy(batch: Batch, adv: float | Tensor, share: str) -> Batch:
    """Old log-probabilities of 0 everywhere, an advantage, shares."""
    zero_BT = torch.zeros(batch.turn_BT.shape, dtype=batch.reward_S.dtype)
    return weighed(batch.with_tensors(old_logp_BT=zero_BT, adv_BT=zero_BT + adv), share)


def rewarded(batch: Batch, reward: Sequence[float]) -> Batch:
    """The same batch with other rewards."""
    return replace(batch, reward_S=torch.tensor(reward, dtype=batch.reward_S.dtype))
