"""Which trajectories are compared with one another, and what a shared part of several episodes is paid.

    problem    one agent's trajectories on one problem
    context    ... that also answered the very same first prompt: the plans of one question for the meta-thinker, the
               solutions of one plan for the reasoner

Branching makes contexts that several episodes share: an episode is played on from a transcript of its first turns, and
what was said in them is paid the mean over all its continuations. With the single-turn process that is the paper's
scheme: k1 plans (`--num-generations`) of each question, k2 solutions (`--num-branches`) of each plan.

Source: ReMA, arXiv:2503.09501, appendix C.2 and C.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch

from algos.batch import Batch
from rema_agents.types import Episode
from rema_env.transcript import Transcript


def by_context(batch: Batch) -> Batch:
    """Groups within groups: trajectories whose first prompts differ are no longer compared."""
    first_rows: dict[int, int] = {}
    for b, s in enumerate(batch.trajectory_B.tolist()):
        first_rows.setdefault(s, b)
    numbers: dict[tuple[int, bytes], int] = {}
    group = batch.group_S.tolist()
    for s, b in sorted(first_rows.items()):
        start = int(batch.trained_BT[b].int().argmax())
        key = int(batch.group_S[s]), batch.ids_BT[b, :start].numpy().tobytes()
        group[s] = numbers.setdefault(key, len(numbers))
    return replace(batch, group_S=torch.tensor(group))


@dataclass(frozen=True)
class Stem:
    """Where an episode is branched: its index, how many turns its branches share, and what was said in them."""

    episode: int
    turns: int
    transcript: Transcript


def stems(episodes: Sequence[Episode], turns: int, *, seed: Sequence[int] = ()) -> list[Stem]:
    """Where to branch each episode that goes on after so many turns.

    Args:
        turns: of the stem; 0: any turn but the last, drawn for each episode.
        seed: of that draw.
    """
    found = []
    for e, episode in enumerate(episodes):
        said = episode.transcript.turns
        at = turns
        if turns == 0 and len(said) > 1:
            at = int(np.random.default_rng([*seed, e]).integers(1, len(said)))
        if 0 < at < len(said):
            found.append(Stem(e, at, Transcript(episode.problem, said[:at])))
    return found


def grafted(episodes: Sequence[Episode], branches: Sequence[Episode], stem_of: Sequence[Stem]) -> list[Episode]:
    """Episodes and their branches as one list, numbered; a branch has its stem's group and says where it left it."""
    marked = []
    for branch, stem in zip(branches, stem_of, strict=True):
        info = {**branch.info, "branch_of": stem.episode, "branch_turn": stem.turns}
        marked.append(replace(branch, group=episodes[stem.episode].group, info=info))
    return [replace(episode, dialogue=number) for number, episode in enumerate([*episodes, *marked])]


def paid_by_branches(batch: Batch, episodes: Sequence[Episode]) -> Batch:
    """A trajectory that was over before its episode branched is paid the mean reward of all continuations."""
    family: dict[int, list[Episode]] = {}
    shared: dict[int, int] = {}
    for episode in episodes:
        if "branch_of" in episode.info:
            root = int(episode.info["branch_of"])
            family.setdefault(root, [episodes[root]]).append(episode)
            shared[root] = int(episode.info["branch_turn"])
    reward = batch.reward_S.tolist()
    for s, (e, a) in enumerate(zip(batch.episode_S.tolist(), batch.agent_S.tolist(), strict=True)):
        agent = batch.agents[a]
        if e in family and all(call.turn < shared[e] for call in episodes[e].calls if call.agent == agent):
            reward[s] = fmean(member.rewards[agent] for member in family[e])
    return replace(batch, reward_S=torch.tensor(reward, dtype=batch.reward_S.dtype))


def by_group(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """The episodes of each group, in the order in which the groups first appear."""
    groups: dict[int, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(episode.group, []).append(episode)
    return list(groups.values())


def vary(group: Sequence[Episode]) -> bool:
    """Whether the rewards of some agent differ within a group."""
    agents = group[0].rewards
    return any(max(e.rewards[a] for e in group) > min(e.rewards[a] for e in group) for a in agents)


def success_rate(group: Sequence[Episode]) -> float:
    """The mean raw grade of a group; an episode that was never graded counts 0."""
    return fmean(float(e.info.get("score") or 0.0) for e in group)
