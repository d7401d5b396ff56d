"""Turn-ratio PPO: one clipped ratio for each turn instead of one for each token; ReMA's multi-turn objective.

    geometric    r_k = exp( mean over t in turn k of (logp_t - old_logp_t) )      ReMA's released code; the default
    arithmetic   r_k = mean over t in turn k of exp(logp_t - old_logp_t)          the paper's Eq. 13
    L = - sum_k w_k min( r_k A_k, clip(r_k, 1 - epsilon, 1 + epsilon_high) A_k )

With the default share `turn_in_trajectory` w_k = 1 / (S T_s): trajectories count equally, and turns within them.
A_k is the trajectory's group advantage (the paper's), or a critic's (`--credit critic`: one value a turn, GAE over
turns); then value_coef sum_k w_k (V_k - G_k)^2 / 2 is added, with the same w_k: whatever they sum to, value_coef weighs
the critic against the policy. The scalar `value_loss` is a mean, as all scalars are: sum_k w_k (V_k - G_k)^2 / 2 over
the sum of all w_k. The sum of a turn's log-ratios is neither reading.

Source: ReMA, arXiv:2503.09501, Eq. 12 and 13, and its released code (`clip_mode=turn agg_mode=trajectory`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor
from tyro.conf import OmitArgPrefixes as Flat

from algos.algorithm import Algorithm, Metrics, Out
from algos.command_line import parse
from algos.config import TrainConfig
from algos.credit import CreditConfig, credit
from algos.credit.critic import turn_critic
from algos.functional import turn_sums
from algos.surrogate import Share, SurrogateConfig, means, reward_less_kl, surrogate_loss

if TYPE_CHECKING:
    from algos.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TurnPPOConfig(SurrogateConfig, CreditConfig):
    """Turn-ratio PPO's own settings."""

    ratio: Literal["turn_geometric", "turn_arithmetic"] = "turn_geometric"
    """The turn's ratio: exp of the mean log-ratio, or the mean of the tokens' ratios."""
    share: Share = "turn_in_trajectory"
    """What the loss weighs equally."""
    gamma: float = 1.0
    """The critic's discount for each turn later."""
    lam: float = 0.95
    """The critic's GAE lambda; 1 is unbiased."""
    value_coef: float = 0.5
    """Weight of the critic's loss against the policy's, whatever the share."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"--{name} must be between 0 and 1, got {getattr(self, name)}")
        if not 0 <= self.value_coef < math.inf:
            raise ValueError(f"--value-coef must be at least 0 and finite, got {self.value_coef}")


@dataclass(frozen=True)
class Config(TrainConfig):
    """Train a meta-thinker and a reasoner with turn-ratio PPO."""

    turn_ppo: Flat[TurnPPOConfig] = field(default_factory=TurnPPOConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turn_ppo.credit != "critic":
            self.turn_ppo.check_group(self.sampling.num_generations * self.sampling.num_branches)


def advantages(batch: Batch, carry: Any, *, config: TurnPPOConfig) -> tuple[Tensor | dict[str, Tensor], Any]:
    """Every turn is paid its trajectory's advantage (or what `--credit` names instead)."""
    reward_S = reward_less_kl(batch, config)
    if config.credit == "critic":
        white = config.scale_rewards != "none"
        return turn_critic(batch, reward_S, gamma=config.gamma, lam=config.lam, white=white), carry
    return credit(batch, reward_S, carry, config)


def loss(out: Out, batch: Batch, *, config: TurnPPOConfig) -> tuple[Tensor, Metrics]:
    """The sum over turns in the module's docstring; scalars are weighted by the same shares."""
    value, scalars = surrogate_loss(out, batch, config.ratio, config)
    if config.credit != "critic":
        return value, scalars
    assert out.value_BK is not None
    K = out.value_BK.shape[1]
    share_BK = turn_sums(batch.turn_BT)(batch.share_BT)
    error = (share_BK * (out.value_BK - batch.return_BK[:, :K]) ** 2 / 2).sum()
    return value + config.value_coef * error, {**scalars, **means({"value_loss": error}, batch)}


def algorithm(config: Config) -> Algorithm:
    """Turn-ratio PPO as the trainer takes it."""
    return Algorithm(
        advantages=partial(advantages, config=config.turn_ppo),
        loss=partial(loss, config=config.turn_ppo),
        share=config.turn_ppo.share,
        share_length=config.limits.max_completion_length,
        needs=config.turn_ppo.needs + ("value", "old_value") * (config.turn_ppo.credit == "critic"),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `python -m algos.turn_ppo --env math_v0`."""
    config = parse(Config, sys.argv[1:] if argv is None else argv, prog="python -m algos.turn_ppo")
    from algos.launch import launch

    launch(config, algorithm(config), command="turn_ppo")


if __name__ == "__main__":
    main()
