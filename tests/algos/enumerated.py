"""Expected gradients on the exact game in plain Python: loops over ordered groups, formulas with numbers, no autograd.

Written from the formulas of the docstrings, independent of the tensors that it is compared with.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from algos.exact import Context, Table, choices

Token = tuple[Context, int]  # a context and the letter (0 or 1) that was chosen in it


@dataclass(frozen=True)
class Trajectory:
    """One agent's part of an episode: its pay and its turns, each a list of tokens."""

    agent: str
    reward: float
    turns: tuple[tuple[Token, ...], ...]

    @property
    def tokens(self) -> list[Token]:
        return [token for turn in self.turns for token in turn]


Pay = Callable[[Sequence[Trajectory]], list[list[float]]]
"""All trajectories of a step -> the advantage of every token of each."""


class Numbers:
    """A table policy as plain numbers."""

    def __init__(self, table: Table) -> None:
        logp_CV = table.logp_CV().detach().tolist()
        self.row = {context: logp_CV[n] for context, n in table.game.contexts.items()}

    def logp(self, token: Token) -> float:
        context, letter = token
        return self.row[context][letter]


def trajectories_of(table: Table) -> list[list[Trajectory]]:
    """The trajectories of the learning agents, for every episode."""
    out = []
    for episode in table.game.episodes:
        told = []
        for agent in table.game.agents:
            calls = [call for call in episode.calls if call.agent == agent]
            turns = tuple(tuple((context, token - 3) for context, token in choices(call)) for call in calls)
            told.append(Trajectory(agent, episode.rewards[agent], turns))
        out.append(told)
    return out


def share_of(step: Sequence[Trajectory], share: str, length: int = 1) -> list[list[float]]:
    """The share of every token of each trajectory, flat over its turns."""
    S, tokens, turns = len(step), sum(len(s.tokens) for s in step), sum(len(s.turns) for s in step)
    rule: dict[str, Callable[[Trajectory, int], float]] = {
        "token": lambda s, n: 1 / tokens,
        "trajectory": lambda s, n: 1 / S / len(s.tokens),
        "turn": lambda s, n: 1 / turns / n,
        "turn_in_trajectory": lambda s, n: 1 / S / len(s.turns) / n,
        "turn_sum": lambda s, n: 1 / S / n,
        "constant": lambda s, n: 1 / S / length,
    }
    return [[rule[share](s, len(turn)) for turn in s.turns for _ in turn] for s in step]


def segments(trajectory: Trajectory, ratio: str) -> list[list[int]]:
    """Which tokens have a ratio in common."""
    if ratio == "token":
        return [[n] for n in range(len(trajectory.tokens))]
    if ratio == "sequence":
        return [list(range(len(trajectory.tokens)))]
    ends = list(itertools.accumulate(len(turn) for turn in trajectory.turns))
    return [list(range(end - len(turn), end)) for end, turn in zip(ends, trajectory.turns, strict=True)]


def surrogate_coefficients(
    log_ratio: Sequence[float], share: Sequence[float], adv: Sequence[float], arithmetic: bool, clip: Clip
) -> list[float]:
    """d (w min(r A, clip(r) A)) / d logp_t for the tokens of one segment."""
    weight = sum(share)
    A = sum(w * a for w, a in zip(share, adv, strict=True)) / weight
    mean = sum(w * x for w, x in zip(share, log_ratio, strict=True)) / weight
    if arithmetic:
        r = sum(w * math.exp(x) for w, x in zip(share, log_ratio, strict=True)) / weight
        part = [w * math.exp(x) for w, x in zip(share, log_ratio, strict=True)]
    else:
        r = math.exp(mean)
        part = [w * r for w in share]
        if abs(mean) > clip.limit:
            return [0.0] * len(share)
    cut = r > 1 + clip.high if A > 0 else r < 1 - clip.low
    if cut or (A < 0 and clip.dual is not None and r > clip.dual):
        return [0.0] * len(share)
    return [p * A for p in part]


@dataclass(frozen=True)
class Clip:
    low: float = 1e9
    high: float = 1e9
    dual: float | None = None
    limit: float = 20.0


def expected(
    old: Table,
    pay: Pay,
    share: str,
    *,
    policy: Table | None = None,
    ratio: str = "token",
    clip: Clip | None = None,
    penalty: Callable[[Token], float] = lambda token: 0.0,
    entropy: float = 0.0,
    group_size: int = 2,
) -> Tensor:
    """The expected gradient, by loops over all ordered groups.

    Args:
        penalty: what a token's log-probability is pulled by besides, per share.
        entropy: coefficient of the entropy of every context that was faced.
    """
    policy = policy or old
    before, now = Numbers(old), Numbers(policy)
    played = trajectories_of(old)
    chance = [math.exp(sum(before.logp(t) for s in told for t in s.tokens)) for told in played]
    if len(old.game.agents) == 1:
        chance = [math.exp(float(old.logp(e).detach())) for e in old.game.episodes]
    pull: dict[Token, float] = defaultdict(float)
    faced: dict[Context, float] = defaultdict(float)
    for group in itertools.product(range(len(played)), repeat=group_size):
        p = math.prod(chance[e] for e in group)
        step = [s for e in group for s in played[e]]
        for s, adv, weight in zip(step, pay(step), share_of(step, share), strict=True):
            moved = [now.logp(t) - before.logp(t) for t in s.tokens]
            for part in segments(s, ratio):
                got = surrogate_coefficients(
                    [moved[n] for n in part],
                    [weight[n] for n in part],
                    [adv[n] for n in part],
                    ratio == "turn_arithmetic",
                    clip or Clip(),
                )
                for n, c in zip(part, got, strict=True):
                    pull[s.tokens[n]] += p * c
            for n, token in enumerate(s.tokens):
                pull[token] += p * weight[n] * penalty(token)
                faced[token[0]] += p * weight[n] * entropy
    return as_gradient(policy, pull, faced)


def as_gradient(policy: Table, pull: dict[Token, float], faced: dict[Context, float] | None = None) -> Tensor:
    """sum of pull d logp / d logits, with d logp(c, v) / d z_u = [u = v] - p_u, and dH / dz_u = - p_u (log p_u + H)."""
    now = Numbers(policy)
    grad = {context: [0.0, 0.0] for context in policy.game.contexts}
    for (context, letter), c in pull.items():
        for u in (0, 1):
            grad[context][u] += c * ((u == letter) - math.exp(now.row[context][u]))
    for context, c in (faced or {}).items():
        H = -sum(math.exp(x) * x for x in now.row[context])
        for u in (0, 1):
            x = now.row[context][u]
            grad[context][u] -= c * math.exp(x) * (x + H)
    return torch.tensor([x for context in policy.game.contexts for x in grad[context]], dtype=torch.float64)


def flat(pay: Callable[[Sequence[Trajectory]], Sequence[float]]) -> Pay:
    """One advantage for each trajectory, the same for all its tokens."""
    return lambda step: [[a] * len(s.tokens) for s, a in zip(step, pay(step), strict=True)]


def group_pay(*, loo: bool = False, scale: bool = False, reward: Callable[[Trajectory], float] | None = None) -> Pay:
    """A reward against its agent's other rewards in the step, divided by their deviation or not."""
    worth = reward or (lambda s: s.reward)

    def pay(step: Sequence[Trajectory]) -> list[float]:
        out = []
        for n, s in enumerate(step):
            own = [worth(other) for other in step if other.agent == s.agent]
            others = [worth(other) for m, other in enumerate(step) if other.agent == s.agent and m != n]
            A = worth(s) - fmean(others if loo else own)
            if scale:
                mean = fmean(own)
                A /= math.sqrt(sum((r - mean) ** 2 for r in own) / (len(own) - 1)) + 1e-6
            out.append(0.0 if max(own) == min(own) else A)
        return out

    return flat(pay)
