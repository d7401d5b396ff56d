"""A text game so small that every episode can be written down, and exact gradients on it.

Two agents write letters. A plan of the meta-thinker is `x`, `yx` or `yy`; a reply of the reasoner is `x` or `y`. After
the reply to a plan `x`, or after `rounds` rounds, the game is over. Each agent is paid a number of its own for every
episode. A policy is a table: one distribution over the two letters for every sequence of tokens that an agent can face.

So the expectation of any estimator over all groups of episodes is a finite sum, in float64.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from algos.algorithm import Algorithm, Out, advantages_of, loss_of
from algos.batch import Batch, make_batch
from algos.functional import token_shares, turn_sums
from algos.scoring import turn_starts
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, Turn

AGENTS = ("meta_0", "reasoner_0")
PLANS, REPLIES = ("x", "yx", "yy"), ("x", "y")
LETTERS = ("x", "y")
_OPENING = {"meta_0": (1,), "reasoner_0": (2,)}
_ID = {"x": 3, "y": 4}

Context = tuple[int, ...]


@dataclass(frozen=True)
class Game:
    """All episodes of the game.

    Attributes:
        rounds: at most this many.
        agents: those who learn; their trajectories make up batches.
    """

    rounds: int = 2
    agents: tuple[str, ...] = AGENTS

    @cached_property
    def episodes(self) -> tuple[Episode, ...]:
        """Every one that can happen, 2 rounds: 26."""
        return tuple(_episode(messages, number) for number, messages in enumerate(_dialogues(self.rounds)))

    @cached_property
    def contexts(self) -> Mapping[Context, int]:
        """Every sequence of tokens after which a letter is chosen, numbered."""
        seen = (prefix for e in self.episodes for call in e.calls for prefix, _ in choices(call))
        return {context: n for n, context in enumerate(dict.fromkeys(seen))}

    def batch(self, groups: Sequence[Sequence[Episode]], *, split_rows: bool = False) -> Batch:
        """Groups of episodes as one batch, in float64."""
        numbered = [replace(episode, group=g) for g, group in enumerate(groups) for episode in group]
        batch = make_batch(numbered, self.agents, split_rows=split_rows)
        return replace(batch, reward_S=batch.reward_S.double(), sampled_logp_BT=batch.sampled_logp_BT.double())

    def index_BT(self, batch: Batch) -> Tensor:
        """The number of the context in front of each trained token; 0 elsewhere."""
        rows = batch.ids_BT.tolist()
        out = [[0] * len(row) for row in rows]
        for b, t in torch.nonzero(batch.trained_BT).tolist():
            out[b][t] = self.contexts[tuple(rows[b][:t])]
        return torch.tensor(out)

    def groups(self, size: int) -> Iterator[tuple[tuple[Episode, ...], int]]:
        """Every group of `size` episodes up to order, and in how many orders it can come."""
        for group in itertools.combinations_with_replacement(self.episodes, size):
            orders = math.factorial(size)
            for count in Counter(e.dialogue for e in group).values():
                orders //= math.factorial(count)
            yield group, orders


def choices(call: Call) -> Iterator[tuple[Context, int]]:
    """Each letter that a call chose, with the tokens in front of it."""
    prompt, said = call.prompt_ids, call.completion.token_ids
    for n, token in enumerate(said):
        yield (*prompt, *said[:n]), token


def _dialogues(rounds: int) -> Iterator[tuple[str, ...]]:
    for plan, reply in itertools.product(PLANS, REPLIES):
        if plan == "x" or rounds == 1:
            yield plan, reply
        else:
            yield from ((plan, reply, *rest) for rest in _dialogues(rounds - 1))


def _episode(messages: Sequence[str], number: int) -> Episode:
    problem = Problem(id="game", question="?", answer="")
    turns, calls = [], []
    said: tuple[int, ...] = ()
    for n, message in enumerate(messages):
        agent, ids = AGENTS[n % 2], tuple(_ID[letter] for letter in message)
        completion = Completion(ids, (0.0,) * len(ids), Finish.STOP)
        calls.append(Call(agent, n, _OPENING[agent] + said, completion))
        turns.append(Turn(agent, Message(message)))
        said += ids
    generator = torch.Generator().manual_seed(number)
    meta, reasoner = (torch.randint(-8, 9, (2,), generator=generator) / 8).tolist()
    transcript = Transcript(problem, tuple(turns), Ending.FINISHED)
    return Episode(problem, transcript, tuple(calls), {"meta_0": meta, "reasoner_0": reasoner}, dialogue=number)


class Table:
    """A policy: logits of both letters for every context, drawn from a seed, float64, differentiable.

    It also has a critic: any number for every context, drawn from the same seed.
    """

    def __init__(self, game: Game, seed: int = 0, *, scale: float = 1.0, near: Table | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        drawn_CV = scale * torch.randn(len(game.contexts), len(LETTERS), generator=generator, dtype=torch.float64)
        self.game = game
        start_CV = torch.zeros_like(drawn_CV) if near is None else near.logits_CV.detach()
        self.value_C = torch.randn(len(game.contexts), generator=generator, dtype=torch.float64)
        self.logits_CV: Tensor = (start_CV + drawn_CV).requires_grad_()

    def logp_CV(self) -> Tensor:
        """[nats]."""
        return torch.log_softmax(self.logits_CV, -1)

    def say(self, batch: Batch) -> Out:
        """What a learner would say about a batch."""
        context_BT, logp_CV = self.game.index_BT(batch), self.logp_CV()
        letter_BT = (batch.ids_BT - _ID["x"]).clamp(0, 1)
        zero = torch.zeros((), dtype=torch.float64)
        entropy_C = -(logp_CV.exp() * logp_CV).sum(-1)
        first_BT = turn_starts(batch.turn_BT)
        value_BT = torch.where(first_BT, self.value_C[context_BT], zero)
        return Out(
            torch.where(batch.trained_BT, logp_CV[context_BT, letter_BT], zero),
            torch.where(batch.trained_BT, entropy_C[context_BT], zero),
            turn_sums(batch.turn_BT)(value_BT),
        )

    def logp(self, episode: Episode, agent: str | None = None) -> Tensor:
        """Log-probability of an episode's letters, or of one agent's part of them."""
        logp_CV = self.logp_CV()
        calls = [call for call in episode.calls if agent in (None, call.agent)]
        chosen = [(self.game.contexts[context], token - _ID["x"]) for call in calls for context, token in choices(call)]
        index = torch.tensor(chosen).T
        return logp_CV[index[0], index[1]].sum()

    def gradient(self, value: Tensor) -> Tensor:
        """The derivative of a value by the logits, flat."""
        (grad,) = torch.autograd.grad(value, self.logits_CV, allow_unused=True)
        return torch.zeros_like(self.logits_CV).flatten() if grad is None else grad.flatten()


def policy_gradient(policy: Table) -> Tensor:
    """sum over the learning agents a of d E[R_a] / d (the choices of a): what policy gradients estimate.

    Each agent climbs its own pay, so for shared weights the gradients of both add up.
    """
    game = policy.game
    total = torch.zeros((), dtype=torch.float64)
    for episode in game.episodes:
        p = policy.logp(episode).exp().detach()
        for agent in game.agents:
            total = total + p * episode.rewards[agent] * policy.logp(episode, agent)
    return policy.gradient(total)


def step(batch: Batch, trajectories: slice) -> Batch:
    """A batch cut to a range of trajectories, as if they had been played alone."""
    rows = torch.nonzero(
        (batch.trajectory_B >= trajectories.start) & (batch.trajectory_B < trajectories.stop)
    ).flatten()
    part = batch.rows(rows)
    S = ("reward_S", "group_S", "agent_S", "episode_S")
    return replace(
        part, trajectory_B=part.trajectory_B - trajectories.start, **{n: getattr(part, n)[trajectories] for n in S}
    )


def prepared(
    algorithm: Algorithm,
    batch: Batch,
    sizes: Sequence[int],
    weights: Sequence[float],
    old: Table,
    reference: Table | None,
) -> Batch:
    """Many steps side by side as one batch that holds what `loss` needs; advantages and shares are each step's own.

    Args:
        sizes: the number of trajectories in each step.
        weights: of each step; its shares are multiplied by it.
    """
    with torch.no_grad():
        batch = batch.with_tensors(old_logp_BT=old.say(batch).logp_BT)
        if reference is not None:
            batch = batch.with_tensors(ref_logp_BT=reference.say(batch).logp_BT)
        if "old_value" in algorithm.needs:
            value_BK = old.say(batch).value_BK
            assert value_BK is not None
            batch = batch.with_tensors(old_value_BK=value_BK)
        found: dict[str, list[Tensor]] = {}
        start = 0
        for size, weight in zip(sizes, weights, strict=True):
            part = step(batch, slice(start, start + size))
            paid, _ = advantages_of(algorithm, part, algorithm.carry)
            share_BT = token_shares(part.turn_BT, part.trajectory_B, algorithm.share, length=algorithm.share_length)
            for name, tensor in {**paid, "share_BT": weight * share_BT}.items():
                found.setdefault(name, []).append(tensor)
            start += size
    return batch.with_tensors(**{name: _stacked(tensors) for name, tensors in found.items()})


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Rows below one another, padded on the right with 0."""
    width = max(tensor.shape[1] for tensor in tensors)
    return torch.cat([torch.nn.functional.pad(tensor, (0, width - tensor.shape[1])) for tensor in tensors])


def expected_gradient(
    algorithm: Algorithm,
    old: Table,
    *,
    policy: Table | None = None,
    reference: Table | None = None,
    group_size: int = 2,
) -> Tensor:
    """The expectation of minus an algorithm's gradient, over all steps of one group of episodes sampled from `old`.

    Args:
        policy: whose gradient is taken; `old` itself by default, as in a first update.
        reference: the frozen policy of a KL term.
    """
    policy = policy or old
    game = old.game
    logp = {e.dialogue: float(old.logp(e).detach()) for e in game.episodes}
    groups, orders = zip(*game.groups(group_size), strict=True)
    chances = [
        order * math.exp(sum(logp[e.dialogue] for e in group)) for group, order in zip(groups, orders, strict=True)
    ]
    sizes = [len(group) * len(game.agents) for group in groups]
    batch = prepared(algorithm, game.batch(groups), sizes, chances, old, reference)
    value, _ = loss_of(algorithm, policy.say(batch), batch)
    return policy.gradient(-value)
