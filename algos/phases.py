"""Training by phases: one agent learns on a fixed set of problems, chosen by how often the team now solves them.

When a phase starts, every further problem is tried by the team as it is: the agent about to learn is sampled, its
partner is greedy (ten solutions of one greedy plan for the reasoner; ten plans, each with its greedy solution, for the
meta-thinker). Problems whose success rate lies within `--success-rate` are the phase's; its steps go through them in
passes, each in an order of its own, and the partner stays frozen. Then the next agent's phase starts.

Source: ReMA, arXiv:2503.09501, Algorithm 1 (appendix C.3): 10 samples, rates 0.2 to 0.8, several passes a phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from algos.config import TrainConfig
from algos.groups import success_rate
from rema_agents.types import Episode

TRIAL = 2**31
"""The word that tells the seeds of a phase's trial from those of its steps."""


def check_phases(config: TrainConfig) -> None:
    """Refuse flags about choosing problems that contradict one another, or would do nothing. Raises ValueError."""
    s = config.sampling
    if s.phase_problems and not config.model.train.startswith("alternate:"):
        raise ValueError("--phase-problems needs phases: give --train alternate:N, one role at a time for N steps each")
    if s.phase_problems and s.dynamic_sampling:
        raise ValueError("--phase-problems keeps to a set, --dynamic-sampling draws further problems: give one of them")
    if s.bounds != (0, 1) and not (s.phase_problems or s.dynamic_sampling):
        raise ValueError(
            f"--success-rate {s.success_rate} chooses nothing by itself: give --dynamic-sampling too, to choose among "
            "each step's groups, or --phase-problems, to choose a phase's set"
        )


def kept(groups: Sequence[Sequence[Episode]], bounds: tuple[float, float]) -> list[int]:
    """The places of the groups whose success rate lies within the bounds."""
    return [place for place, group in enumerate(groups) if bounds[0] <= success_rate(group) <= bounds[1]]


def in_passes(problems: Sequence[int], first: int, count: int, *, seed: Sequence[int]) -> list[int]:
    """`count` of a phase's problems from the `first` on: pass after pass, each a permutation drawn from `seed`."""
    size = len(problems)
    orders = {
        number: np.random.default_rng([*seed, number]).permutation(size)
        for number in range(first // size, (first + count - 1) // size + 1)
    }
    return [problems[orders[n // size][n % size]] for n in range(first, first + count)]


def said(learning: Sequence[str], groups: Sequence[Sequence[Episode]], chosen: Sequence[int], rate: str) -> str:
    """One line about a phase that starts."""
    mean = fmean(success_rate(group) for group in groups)
    return (
        f"a phase of {', '.join(learning)} starts: {len(chosen)} of {len(groups)} problems have a success rate within "
        f"{rate} (mean {mean:.2f})"
    )
