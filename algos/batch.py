"""Episodes -> rows -> padded tensors, and how a batch is cut: minibatches, ranks, then micro-batches by token budget.

A trajectory is one agent's calls in one episode. Its calls join into one row of tokens as long as each prompt starts
with the row so far; where a chat template rewrites history a trajectory becomes several rows. Rewards, groups and
shares count trajectories, never rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rema_agents.types import Call, Episode
from rema_env.transcript import Ending


class NothingToTrainOn(ValueError):
    """No episode holds a sampled token of the agents that learn."""


@dataclass(frozen=True)
class Batch:
    """All rows of the policy's trajectories in one step, padded on the right, on the CPU.

    Stages never write into it: `with_tensors` returns a new batch that also holds what a stage computed, read as an
    attribute (`batch.old_logp_BT`, `batch.adv_BT`, `batch.share_BT`, ...). A tensor's suffix names its axes; those
    that start with B are cut with the rows.

    Attributes:
        ids_BT: int64 token ids; 0 beyond a row's length.
        turn_BT: int64, the turn within its trajectory of each sampled token, -1 for all others (prompt, padding).
        sampled_logp_BT: float32 [nats] as the sampler reported; 0 where turn_BT is -1.
        length_B: int64 [tokens].
        trajectory_B: int64, index into the S axis.
        reward_S: float32, the trajectory's total reward.
        group_S: int64, one number for each (agent, problem).
        agent_S: int64, index into `agents`.
        episode_S: int64, index into the list of episodes.
        agents: names.
        more: what later stages added.
    """

    ids_BT: Tensor
    turn_BT: Tensor
    sampled_logp_BT: Tensor
    length_B: Tensor
    trajectory_B: Tensor
    reward_S: Tensor
    group_S: Tensor
    agent_S: Tensor
    episode_S: Tensor
    agents: tuple[str, ...]
    more: Mapping[str, Tensor] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        more = self.__dict__.get("more", {})
        if name in more:
            return more[name]
        raise AttributeError(f"the batch has no {name} here; later stages have added: {', '.join(more) or 'nothing'}")

    def __len__(self) -> int:
        return len(self.ids_BT)

    @property
    def trained_BT(self) -> Tensor:
        """bool, True at exactly the sampled tokens."""
        return self.turn_BT >= 0

    @property
    def tokens(self) -> int:
        """Real tokens, padding not counted."""
        return int(self.length_B.sum())

    def check_ids(self, vocabulary: int) -> None:
        """Raise ValueError, naming token and trajectory, for an id that a model of so many tokens does not have."""
        outside_BT = (self.ids_BT < 0) | (self.ids_BT >= vocabulary)
        if not outside_BT.any():
            return
        b, t = torch.nonzero(outside_BT)[0].tolist()
        s = int(self.trajectory_B[b])
        raise ValueError(
            f"token {t} of {self.agents[int(self.agent_S[s])]} in episode {int(self.episode_S[s])} is id "
            f"{int(self.ids_BT[b, t])}, but the model has 0 to {vocabulary - 1}: sampler and learner need one model"
        )

    def with_tensors(self, **tensors: Tensor) -> Batch:
        """A new batch that also holds these."""
        return replace(self, more={**self.more, **tensors})

    def rows(self, index: Tensor) -> Batch:
        """The rows at `index`, cut to the longest of them. Trajectory numbers stay those of the whole step."""
        length_B = self.length_B[index]
        T = int(length_B.max()) if len(index) else 0

        def cut(name: str, tensor: Tensor) -> Tensor:
            axes = name.rpartition("_")[2]
            if not axes.startswith("B"):
                return tensor
            return tensor[index, :T] if axes.startswith("BT") else tensor[index]

        of_rows = ("ids_BT", "turn_BT", "sampled_logp_BT", "trajectory_B")
        kept: dict[str, Any] = {name: cut(name, getattr(self, name)) for name in of_rows}
        return replace(self, **kept, length_B=length_B, more={n: cut(n, t) for n, t in self.more.items()})

    def to(self, device: torch.device) -> Batch:
        """The same batch with all tensors on a device."""
        names = [f.name for f in fields(self) if isinstance(getattr(self, f.name), Tensor)]
        moved: dict[str, Any] = {name: getattr(self, name).to(device) for name in names}
        return replace(self, **moved, more={n: t.to(device) for n, t in self.more.items()})

    def of_trajectories(self, keep_S: Tensor) -> Batch:
        """The rows whose trajectory has True in `keep_S`."""
        return self.rows(torch.nonzero(keep_S[self.trajectory_B]).flatten())


@dataclass(frozen=True)
class Row:
    """Calls of one trajectory joined into one token sequence; three arrays of the same length."""

    ids: np.ndarray
    turn: np.ndarray
    sampled_logp: np.ndarray


def join_calls(calls: Sequence[Call], *, split: bool = False) -> list[Row]:
    """The rows of one trajectory: a call extends the row only where its prompt starts with the row so far.

    Args:
        calls: of one agent in one episode, in order.
        split: keep every call as a row of its own.
    """
    rows: list[Row] = []
    ids: list[int] = []
    turn: list[int] = []
    logp: list[float] = []

    def close() -> None:
        if ids:
            rows.append(Row(np.array(ids), np.array(turn), np.array(logp, dtype=np.float32)))

    k = 0  # the turn: a call without a token is none
    for call in calls:
        done, prompt = call.completion, list(call.prompt_ids)
        if len(done.logps) not in (0, len(done.token_ids)):
            raise ValueError(
                f"{call.agent}, turn {call.turn}: {len(done.token_ids)} sampled ids but {len(done.logps)} "
                "log-probabilities"
            )
        if split or prompt[: len(ids)] != ids:
            close()
            ids, turn, logp = [], [], []
        fresh = prompt[len(ids) :]
        ids += [*fresh, *done.token_ids]
        turn += [-1] * len(fresh) + [k] * len(done.token_ids)
        logp += [0.0] * len(fresh) + list(done.logps or [0.0] * len(done.token_ids))
        k += bool(done.token_ids)
    close()
    return rows


def make_batch(episodes: Sequence[Episode], agents: Sequence[str], *, split_rows: bool = False) -> Batch:
    """The batch of all trajectories of `agents` in `episodes`.

    An aborted episode is never trained on, nor one that the environment says to drop (`unfinished_reward="drop"`), nor
    a trajectory without a sampled token. Raises NothingToTrainOn where nothing is left.

    Args:
        episodes: of one step; `episode.group` says which of them share a problem.
        agents: those that learn; each has its own groups, so shared weights never mix the roles' baselines.
        split_rows: one row for each call (for tests and for templates that rewrite everything).
    """
    rows: list[Row] = []
    trajectory: list[int] = []
    per_trajectory: list[tuple[float, int, int, int]] = []
    for e, episode in enumerate(episodes):
        if episode.ending is Ending.ABORTED or episode.info.get("dropped"):
            continue
        for a, agent in enumerate(agents):
            joined = join_calls([c for c in episode.calls if c.agent == agent], split=split_rows)
            if not any((row.turn >= 0).any() for row in joined):
                continue
            rows += joined
            trajectory += [len(per_trajectory)] * len(joined)
            per_trajectory.append((episode.rewards[agent], episode.group * len(agents) + a, a, e))
    if not rows:
        ended = Counter(f"{e.ending}{' and dropped' if e.info.get('dropped') else ''}" for e in episodes)
        raise NothingToTrainOn(
            f"nothing to train on: none of the {len(episodes)} episodes holds a sampled token of {', '.join(agents)} "
            f"that counts (they ended as {', '.join(f'{ending}: {count}' for ending, count in ended.items())})"
        )
    reward, group, agent_index, episode_index = zip(*per_trajectory, strict=True)
    return Batch(
        ids_BT=_pad([row.ids for row in rows], 0, torch.int64),
        turn_BT=_pad([row.turn for row in rows], -1, torch.int64),
        sampled_logp_BT=_pad([row.sampled_logp for row in rows], 0.0, torch.float32),
        length_B=torch.tensor([len(row.ids) for row in rows]),
        trajectory_B=torch.tensor(trajectory),
        reward_S=torch.tensor(reward, dtype=torch.float32),
        group_S=torch.tensor(group),
        agent_S=torch.tensor(agent_index),
        episode_S=torch.tensor(episode_index),
        agents=tuple(agents),
    )


def _pad(rows: Sequence[np.ndarray], fill: float, dtype: torch.dtype) -> Tensor:
    out_BT = torch.full((len(rows), max(len(row) for row in rows)), fill, dtype=dtype)
    for b, row in enumerate(rows):
        out_BT[b, : len(row)] = torch.from_numpy(row)
    return out_BT


def minibatches(batch: Batch, count: int, *, seed: Sequence[int]) -> Iterator[Batch]:
    """The batch in `count` parts of whole trajectories, shuffled by `seed`; a part left empty is skipped."""
    trajectories = torch.unique(batch.trajectory_B)
    order = np.random.default_rng(list(seed)).permutation(len(trajectories))
    for part in np.array_split(order, count):
        if len(part):
            keep_S = torch.zeros(len(batch.reward_S), dtype=torch.bool)
            keep_S[trajectories[torch.from_numpy(part)]] = True
            yield batch.of_trajectories(keep_S)


PADDING = 1.04
"""A micro-batch is closed early where one more trajectory would pad it to more than this times its real tokens, ..."""
LEAST_FILLED = 1 / 16
"""... unless it is still smaller than this part of the budget."""


def micro_batches(batch: Batch, tokens: int) -> Iterator[Tensor]:
    """Row indices of micro-batches: rows x longest row <= `tokens`, sorted by length, trajectories kept whole.

    A single trajectory beyond the budget gets a micro-batch of its own: it has to be computed somewhere.
    """
    return _cut(_trajectories(batch), tokens)


def deal(batch: Batch, tokens: int, ranks: int) -> list[list[Tensor]]:
    """Every rank's micro-batches as row indices; all ranks have the same number of them, some perhaps empty.

    Trajectories are dealt out by length, so that the ranks' micro-batches are of like size one by one.
    """
    ordered = _trajectories(batch)
    parts = [list(_cut(ordered[rank::ranks], tokens)) for rank in range(ranks)]
    most = max(len(part) for part in parts)
    nothing = torch.zeros(0, dtype=torch.int64)
    return [part + [nothing] * (most - len(part)) for part in parts]


@dataclass
class _Trajectory:
    """A trajectory's rows, its longest row and all its real tokens."""

    rows: list[int] = field(default_factory=list)
    longest: int = 0
    tokens: int = 0


def _trajectories(batch: Batch) -> list[_Trajectory]:
    """All trajectories, the shortest first."""
    found: dict[int, _Trajectory] = {}
    for b, (s, length) in enumerate(zip(batch.trajectory_B.tolist(), batch.length_B.tolist(), strict=True)):
        trajectory = found.setdefault(s, _Trajectory())
        trajectory.rows.append(b)
        trajectory.longest = max(trajectory.longest, length)
        trajectory.tokens += length
    return sorted(found.values(), key=lambda trajectory: trajectory.longest)


def _cut(ordered: Sequence[_Trajectory], tokens: int) -> Iterator[Tensor]:
    rows: list[int] = []
    real = 0
    for next_ in ordered:
        padded = (len(rows) + len(next_.rows)) * next_.longest
        wasteful = padded > PADDING * (real + next_.tokens) and real >= tokens * LEAST_FILLED
        if rows and (padded > tokens or wasteful):
            yield torch.tensor(rows)
            rows, real = [], 0
        rows, real = rows + next_.rows, real + next_.tokens
    if rows:
        yield torch.tensor(rows)
