"""Credit: what each sampled token is paid. Plug-ins of an algorithm's advantages, one idea a file.

A plug-in is a function (batch, reward_S, carry, config) -> (adv_BT, carry). `--credit` names one of those here, or
anyone's as `package.module:function`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from algos.credit.agent_turn import agent_turn_groups
from algos.credit.counterfactual import counterfactual
from algos.credit.group import agent, group
from algos.credit.running import running_baseline

if TYPE_CHECKING:
    from algos.batch import Batch


@dataclass(frozen=True, kw_only=True)
class CreditConfig:
    """How tokens are paid."""

    credit: str = "group"
    """group, agent_turn, running, agent, counterfactual, or package.module:function."""
    baseline: Literal["mean", "leave_one_out"] = "mean"
    """What a reward is compared with: its group's mean, or the mean of the group's other members (unbiased)."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """Divide by the standard deviation of the group or of the batch, or not at all (Dr. GRPO)."""

    def check_group(self, group_size: int) -> None:
        """Raises ValueError where a group is too small for the baseline that was asked for."""
        plug_in(self.credit)
        if group_size < 2 and self.credit not in ("running", "agent"):
            raise ValueError(
                f"--num-generations must be at least 2 for a group to have a baseline, got {group_size} "
                "(branches count as well; --credit running needs no group)"
            )


Credit = Callable[["Batch", Tensor, Any, CreditConfig], tuple[Tensor, Any]]

CREDITS: Mapping[str, Credit] = {
    "group": group,
    "agent_turn": agent_turn_groups,
    "running": running_baseline,
    "agent": agent,
    "counterfactual": counterfactual,
}


def plug_in(name: str) -> Credit:
    """The function that `--credit` names. Raises ValueError where there is none."""
    if name in CREDITS:
        return CREDITS[name]
    module, _, function = name.partition(":")
    try:
        found: Credit = getattr(importlib.import_module(module), function)
        if not callable(found):
            raise TypeError(f"{name} is no function")
    except (ImportError, AttributeError, ValueError, TypeError):
        raise ValueError(
            f"--credit {name}: there is no such credit; there are {', '.join(CREDITS)}, or package.module:function"
        ) from None
    return found


def credit(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """(adv_BT, carry) by the plug-in that the configuration names.

    Args:
        reward_S: what the trajectories are paid, e.g. less a KL.
    """
    return plug_in(config.credit)(batch, reward_S, carry, config)
