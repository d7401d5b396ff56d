"""Who plays and who learns: agent -> policy. Shared or separate weights is a fact of the team, not a second trainer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from algos import ranks
from algos.config import ModelConfig, TrainConfig
from algos.samplers import Room, make_samplers, sampler_kind, servers_of
from algos.schedule import Schedule
from rema_agents.chat import ChatCodec
from rema_agents.models import SHARED, model_folder
from rema_agents.remote import RemoteSeat
from rema_agents.seat import LMSeat
from rema_agents.server import Server
from rema_agents.types import SamplingParams, Seat
from rema_env.transcript import role_of

if TYPE_CHECKING:
    from torch import Tensor

    from algos.learner import AdaptersOff, Learner
    from algos.scoring import Precision, Reference


@dataclass
class Policy:
    """One set of weights: how it speaks, samples and, unless frozen, learns.

    Attributes:
        name: `policy` where all roles share it, else the role's name; its folder in checkpoints.
        agents: those who speak with it and learn. Empty: it only plays.
        folder: the model folder (or hub name) it started from.
        version: grows by one with each publish.
    """

    name: str
    agents: tuple[str, ...]
    folder: str
    codec: ChatCodec
    sampler: Any
    learner: Learner | None = None
    reference: Reference | AdaptersOff | None = None
    version: int = 0
    share_thinking: bool = False

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """What its sampler takes of the learner: its adapter where the sampler has the base, else all weights."""
        assert self.learner is not None
        return self.learner.adapter_weights() if self.plays_as_adapter else self.learner.named_weights()

    @property
    def plays_as_adapter(self) -> bool:
        """Whether its sampler has the base and takes the adapter alone."""
        return getattr(self.sampler, "takes_adapters", False)

    def seat(self, agent: str, params: SamplingParams, dialogue: int, max_prompt_length: int) -> Seat:
        """A new seat for one dialogue; on a server that gives no token ids, one that speaks text."""
        if isinstance(self.sampler, Server):
            return RemoteSeat(self.sampler, params, share_thinking=self.share_thinking)
        return LMSeat(
            agent,
            self.codec,
            self.sampler,
            params,
            dialogue=dialogue,
            max_prompt_length=max_prompt_length,
            share_thinking=self.share_thinking,
        )


class Team(Mapping[str, Policy]):
    """`team["meta_0"]` and `team["reasoner_0"]` are one policy, or two."""

    def __init__(self, policy_of: Mapping[str, Policy]) -> None:
        self._policy_of = dict(policy_of)

    def __getitem__(self, agent: str) -> Policy:
        return self._policy_of[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policy_of)

    def __len__(self) -> int:
        return len(self._policy_of)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Each set of weights once."""
        return tuple({id(policy): policy for policy in self.values()}.values())

    def learning(self) -> tuple[Policy, ...]:
        """The policies that learn."""
        return tuple(policy for policy in self.policies if policy.agents)

    def seats(self, params: SamplingParams, *, max_prompt_length: int) -> Callable[[int], Mapping[str, Seat]]:
        """For `play`: dialogue number -> a new seat for each agent."""
        return lambda dialogue: {
            agent: policy.seat(agent, params, dialogue, max_prompt_length) for agent, policy in self.items()
        }

    def sleep(self) -> None:
        """Have the samplers leave the GPU to learners, as far as they can, until their next call or weights."""
        for policy in self.policies:
            if hasattr(policy.sampler, "sleep"):
                policy.sampler.sleep()

    def close(self) -> None:
        """Let go of the samplers."""
        for policy in self.policies:
            policy.sampler.close()


def learning_agents(config: ModelConfig, agents: Sequence[str]) -> tuple[str, ...]:
    """The agents that ever learn. Raises ValueError for a role that the environment does not have."""
    ever = Schedule.parse(config.train, agents, first=config.first).agents
    return tuple(agent for agent in agents if agent in ever)


def policy_names(config: ModelConfig, agents: Sequence[str]) -> dict[str, str]:
    """agent -> the name of its policy."""
    return {agent: SHARED if config.team == "shared" else role_of(agent) for agent in agents}


def make_team(
    config: ModelConfig,
    agents: Sequence[str],
    precision: Precision,
    *,
    add_learner: Callable[[Policy], None] | None = None,
    model: str | None = None,
    room: Room | None = None,
    seed: int = 0,
) -> Team:
    """Load every policy once. Samplers' flags and chat formats are checked before any weights are read.

    Args:
        add_learner: called for each policy that learns; None for play alone.
        model: instead of `config.model_name_or_path`.
        room: what samplers must have room for; default: what they are made for.
        seed: of samplers that are seeded as a whole.
    """
    where = model or config.model_name_or_path
    if where is None:
        raise ValueError("no model is named: give --model-name-or-path, or --preset embedded")
    learning = learning_agents(config, agents) if add_learner else ()
    names = policy_names(config, agents)
    learners = {names[agent] for agent in learning}
    servers = servers_of(config, dict.fromkeys(names.values()), learners)
    kind = sampler_kind(config.sampler, precision)
    codecs = {}
    for name in dict.fromkeys(names.values()):
        folder = model_folder(where, name)
        codec = ChatCodec.from_pretrained(folder, chat_template_kwargs=config.chat_template_kwargs)
        codecs[name] = folder, codec
    if config.lora_rank:
        _check_one_base({codecs[name][0] for name in learners})
    samplers = make_samplers(config, kind, codecs, servers, learners, precision, room=room, seed=seed)
    policies = {}
    for name, (folder, codec) in codecs.items():
        own = tuple(agent for agent in learning if names[agent] == name)
        policy = policies[name] = Policy(name, own, folder, codec, samplers[name], share_thinking=config.share_thinking)
        if own and add_learner:
            for sampler in samplers.values():
                if hasattr(sampler, "sleep"):
                    sampler.sleep()  # the learner is loaded onto the same GPU
            add_learner(policy)
            if name in servers or policy.plays_as_adapter:  # a server may hold others, and an engine has none yet
                policy.sampler.update_weights(policy.weights(), policy.version)
                ranks.wait()
    return Team({agent: policies[name] for agent, name in names.items()})


def _check_one_base(folders: Collection[str]) -> None:
    if len(folders) > 1:
        raise ValueError(
            f"--lora-rank puts the adapters of all roles on one base, but they start from {len(folders)} models, "
            f"{' and '.join(sorted(folders))}: start from one (--model-name-or-path), or train all weights"
        )


def learning_rates(config: TrainConfig, agents: Sequence[str]) -> dict[str, float]:
    """Policy name -> its own learning rate, where it has one. Raises ValueError for weights that there are not."""
    rates = dict(config.learner.learning_rates)
    names = set(policy_names(config.model, agents).values())
    for name, rate in rates.items():
        if name not in names:
            raise ValueError(
                f"--learning-rates: there are no weights of {name!r} alone; there are: {', '.join(sorted(names))} "
                "(--team separate gives each role its own)"
            )
        if not isinstance(rate, int | float) or not 0 <= rate < math.inf:
            raise ValueError(f"--learning-rates: {name} needs a number of at least 0, got {rate!r}")
    return {name: float(rate) for name, rate in rates.items()}


def total_updates(config: TrainConfig, agents: Sequence[str], own: Sequence[str]) -> int:
    """Optimizer steps of the weights of `own` in a whole run: the length of their learning-rate schedule."""
    schedule = Schedule.parse(config.model.train, agents, first=config.model.first)
    steps = sum(not set(own).isdisjoint(schedule.learning(step)) for step in range(1, config.run.max_steps + 1))
    return max(1, steps * config.learner.num_iterations * config.learner.num_minibatches)


def batch_layout(config: TrainConfig, agents: Sequence[str], ranks: int) -> str:
    """One line that says what a step consists of."""
    s, n = config.sampling, config.learner
    rows = s.problems_per_step * s.num_generations * len(agents)
    updates = n.num_minibatches * n.num_iterations
    return (
        f"{s.problems_per_step} problems x {s.num_generations} episodes x {len(agents)} roles = {rows} rows a step, "
        f"{updates} optimizer step{'s' * (updates != 1)} of about {math.ceil(rows / n.num_minibatches)} rows, "
        f"{ranks} rank{'s' * (ranks != 1)}, {n.micro_batch_tokens} tokens a micro-batch"
    )
