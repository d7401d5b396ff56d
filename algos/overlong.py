"""Messages that were cut at the token limit, or came near it.

    keep       nothing special: an environment that ends a dialogue at a cut message has its own word on the pay
    mask       trajectories with a cut message leave the loss, and stay in their group's baseline
    penalise   R_s less how far its longest message ran into the last `buffer` tokens of the limit, between 0 and 1

Source: overlong filtering and soft overlong punishment, DAPO, arXiv:2503.14476.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from algos.batch import Batch
from rema_agents.types import Call, Episode
from rema_env.transcript import Finish


def cut(batch: Batch, episodes: Sequence[Episode]) -> Tensor:
    """cut_S, bool: whether a trajectory holds a message that was cut at the token limit."""
    return torch.tensor([any(c.completion.finish is Finish.LENGTH for c in calls) for calls in _calls(batch, episodes)])


def penalised(batch: Batch, episodes: Sequence[Episode], *, limit: int, buffer: int) -> Batch:
    """The batch with rewards less max(0, (n - (limit - buffer)) / buffer), n the longest message [tokens]."""
    longest = [max((len(c.completion.token_ids) for c in calls), default=0) for calls in _calls(batch, episodes)]
    into_S = (torch.tensor(longest, dtype=batch.reward_S.dtype) - (limit - buffer)) / buffer
    return replace(batch, reward_S=batch.reward_S - into_S.clamp(0, 1))


def _calls(batch: Batch, episodes: Sequence[Episode]) -> list[list[Call]]:
    """Each trajectory's calls."""
    return [
        [call for call in episodes[e].calls if call.agent == batch.agents[a]]
        for e, a in zip(batch.episode_S.tolist(), batch.agent_S.tolist(), strict=True)
    ]
