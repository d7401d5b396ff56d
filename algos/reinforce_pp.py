"""REINFORCE++: every token is paid what is still to come, whitened over the batch, without groups.

    r_t = - beta (old_logp_t - ref_logp_t)  + [t is the trajectory's last token] R_s
    G_t = sum of r over the tokens t, t+1, ... of the trajectory          (each turn later counts gamma times as much)
    A   = (G - mean) / sqrt(var + 1e-8)       over the trained tokens of all ranks, each role by itself
    L   = - sum_t w_t min( r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon_high) A_t )

`--reinforce-baseline group` (REINFORCE++-baseline) takes the group's mean off R_s first and divides by the standard
deviation of R_s - mean_g over all trajectories of the role, without centring again; where all of these are 0 there is
no division, so that a KL keeps its own size.

Bias: mean and deviation contain the own sample; the partner's KL is left out of an agent's return.
Source: arXiv:2501.03262; ReMA's single-turn runs, arXiv:2503.09501, appendix D.1 (KL coefficient 0.01, clip 0.2).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from tyro.conf import OmitArgPrefixes as Flat

from algos.algorithm import Algorithm, Metrics, Out
from algos.command_line import parse
from algos.config import TrainConfig
from algos.functional import group_advantages, returns_to_go, whiten
from algos.surrogate import Share, SurrogateConfig, surrogate_loss

if TYPE_CHECKING:
    from algos.batch import Batch


@dataclass(frozen=True, kw_only=True)
class ReinforcePPConfig(SurrogateConfig):
    """REINFORCE++'s own settings."""

    epsilon: float | None = 0.2
    """The ratio is clipped below at 1 - epsilon."""
    epsilon_high: float | None = 0.2
    """The ratio is clipped above at 1 + epsilon_high."""
    beta: float = 0.01
    """Coefficient of the KL to the start of training; 0 loads no reference."""
    kl_in: Literal["loss", "reward"] = "reward"
    """Whether the KL is taken off every token's reward, or is a term of the loss."""
    share: Share = "token"
    """What the loss weighs equally."""
    gamma: float = 1.0
    """Discount for each turn later; within a turn there is none."""
    reinforce_baseline: Literal["none", "group"] = "none"
    """group: REINFORCE++-baseline."""
    whiten_over: Literal["role", "all"] = "role"
    """Mean and deviation of each role by itself, or of all together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"--gamma must be between 0 and 1, got {self.gamma}")


@dataclass(frozen=True)
class Config(TrainConfig):
    """Train a meta-thinker and a reasoner with REINFORCE++."""

    reinforce_pp: Flat[ReinforcePPConfig] = field(default_factory=ReinforcePPConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reinforce_pp.reinforce_baseline == "group" and self.sampling.num_generations < 2:
            raise ValueError("--reinforce-baseline group needs --num-generations of at least 2")


def advantages(batch: Batch, carry: Any, *, config: ReinforcePPConfig) -> tuple[Tensor, Any]:
    """G and A of the module's docstring."""
    reward_S, kind_S = batch.reward_S, batch.agent_S
    if config.whiten_over == "all":
        kind_S = torch.zeros_like(kind_S)
    paid_BT = torch.zeros_like(batch.old_logp_BT)
    if config.beta and config.kl_in == "reward":
        paid_BT = -config.beta * (batch.old_logp_BT - batch.ref_logp_BT)
    if config.reinforce_baseline == "none":
        return_BT = returns_to_go(paid_BT, reward_S, batch.turn_BT, batch.trajectory_B, gamma=config.gamma)
        return whiten(return_BT, kind_S[batch.trajectory_B], batch.trained_BT), carry
    centred_S = group_advantages(reward_S, batch.group_S, scale="none")
    return_BT = returns_to_go(paid_BT, centred_S, batch.turn_BT, batch.trajectory_B, gamma=config.gamma)
    std_S = torch.ones_like(centred_S)
    for kind in torch.unique(kind_S[centred_S != 0]).tolist():
        std_S[kind_S == kind] = centred_S[kind_S == kind].double().var(correction=0).add(1e-8).sqrt().to(std_S.dtype)
    return return_BT / std_S[batch.trajectory_B, None], carry


def loss(out: Out, batch: Batch, *, config: ReinforcePPConfig) -> tuple[Tensor, Metrics]:
    """The sum over tokens in the module's docstring; scalars are weighted by the same shares."""
    return surrogate_loss(out, batch, "token", config)


def algorithm(config: Config) -> Algorithm:
    """REINFORCE++ as the trainer takes it."""
    return Algorithm(
        advantages=partial(advantages, config=config.reinforce_pp),
        loss=partial(loss, config=config.reinforce_pp),
        share=config.reinforce_pp.share,
        share_length=config.limits.max_completion_length,
        needs=config.reinforce_pp.needs,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `python -m algos.reinforce_pp --env math_v0`."""
    config = parse(Config, sys.argv[1:] if argv is None else argv, prog="python -m algos.reinforce_pp")
    from algos.launch import launch

    launch(config, algorithm(config), command="reinforce_pp")


if __name__ == "__main__":
    main()
