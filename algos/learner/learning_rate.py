"""How the learning rate changes from update to update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from algos.config import LearnerConfig


def learning_rate_factor(config: LearnerConfig, total_updates: int) -> Callable[[int], float]:
    """The learning rate's factor by update: a linear warm-up, then constant, linear or cosine decay to 0."""
    decays: Mapping[str, Callable[[float], float]] = {
        "constant": lambda _: 1.0,
        "linear": lambda done: 1 - done,
        "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    }
    decay = decays[config.lr_scheduler_type]
    warmup = config.warmup_steps

    def factor(update: int) -> float:
        if update < warmup:
            return (update + 1) / (warmup + 1)
        return decay(min(1.0, (update - warmup) / max(1, total_updates - warmup)))

    return factor
