"""Pay that looks at a whole group, added after play: an environment's own reward never depends on other episodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rema_agents.types import Episode
from rema_env.group_rewards import GROUP_TERMS, graded_from
from rema_env.transcript import role_of


def check_group_rewards(weights: Mapping[str, float]) -> None:
    """Raise ValueError for a term that does not exist or a weight that is no finite number."""
    for name, weight in weights.items():
        term = name.rpartition("/")[2]
        if term not in GROUP_TERMS:
            raise ValueError(f"--group-rewards: there is no term {term!r}; there are {', '.join(GROUP_TERMS)}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise ValueError(f"--group-rewards: the weight of {name!r} must be a finite number, got {weight!r}")


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
