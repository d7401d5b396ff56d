"""Pay that looks at a whole group, added after play: an environment's own reward never depends on other episodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rema_agents.types import Episode
from rema_env.group_rewards import GROUP_TERMS, graded_from
from rema_env.problems.pairs import swapped
from rema_env.transcript import Problem, role_of


def check_group_rewards(weights: Mapping[str, float], roles: Collection[str]) -> None:
    """Raise ValueError for a term or a role that does not exist or a weight that is no finite number."""
    for name, weight in weights.items():
        role, _, term = name.rpartition("/")
        if role and role not in roles:
            raise ValueError(f"--group-rewards: there is no role {role!r}; there are {', '.join(roles)}")
        if term not in GROUP_TERMS:
            raise ValueError(f"--group-rewards: there is no term {term!r}; there are {', '.join(GROUP_TERMS)}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise ValueError(f"--group-rewards: the weight of {name!r} must be a finite number, got {weight!r}")


def both_orders(weights: Mapping[str, float]) -> bool:
    """Whether a term compares both orders of a pair, so that half of each group is played with the sides exchanged."""
    return any(name.rpartition("/")[2] == "position_consistency" for name in weights)


def check_both_orders(problem: Problem, num_generations: int) -> None:
    """Raise ValueError where no group of this size about such a problem can have two halves of swapped sides."""
    what = "--group-rewards position_consistency plays half of each group with the sides exchanged"
    try:
        swapped(problem)
    except ValueError as error:
        raise ValueError(f"{what}, and {error}: judge pairs, as --env judge_v0 does") from None
    if num_generations % 2:
        raise ValueError(f"{what}: --num-generations must be even, got {num_generations}")


def pay_groups(episodes: Sequence[Episode], weights: Mapping[str, float]) -> list[Episode]:
    """The episodes with each weighted term of their group added to their rewards and noted among their terms.

    Args:
        weights: term -> weight, for every agent, or role/term -> weight for one role: `{"meta/majority_share": 0.5}`.
    """
    groups: dict[int, list[int]] = {}
    for place, episode in enumerate(episodes):
        groups.setdefault(episode.group, []).append(place)
    paid = list(episodes)
    for name, weight in weights.items():
        role, _, term = name.rpartition("/")
        for places in groups.values():
            values = GROUP_TERMS[term]([graded_from(paid[p].transcript, paid[p].info) for p in places])
            for place, value in zip(places, values, strict=True):
                paid[place] = _paid(paid[place], role, term, value, weight)
    return paid


def _paid(episode: Episode, role: str, term: str, value: float, weight: float) -> Episode:
    own = [agent for agent in episode.rewards if role in ("", role_of(agent))]
    rewards = {agent: pay + (weight * value if agent in own else 0.0) for agent, pay in episode.rewards.items()}
    noted = {agent: {**episode.terms.get(agent, {}), term: value} for agent in own}
    return replace(episode, rewards=rewards, terms={**episode.terms, **noted})
