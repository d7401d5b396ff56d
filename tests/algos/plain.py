"""Learners that step along the plain gradient, so that what they change can be calculated another way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algos.config import LearnerConfig
from algos.learner import Learner


def plain_sgd(rate: float, *, stage: Any, tokens: int, **more: Any) -> LearnerConfig:
    """SGD without clipping; `tokens` a micro-batch."""
    return LearnerConfig(
        optimizer="sgd",
        learning_rate=rate,
        max_grad_norm=0,
        micro_batch_tokens=tokens,
        gradient_checkpointing=False,
        zero_stage=stage,
        **more,
    )


def weights_of(learner: Learner) -> Tensor:
    """A copy of all weights as one vector."""
    return torch.cat([weight.flatten().clone() for _, weight in learner.named_weights()])
