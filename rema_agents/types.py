"""What passes between seats, samplers and learners: calls and episodes, in tokens, frozen.

Token ids are kept exactly as sampled; nothing in the project encodes them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rema_env.transcript import Ending, Finish, Message, Problem, Transcript

if TYPE_CHECKING:
    from rema_agents.gate import Gate


@dataclass(frozen=True)
class SamplingParams:
    """How to sample one message.

    Attributes:
        max_tokens: the limit of new tokens.
        temperature: above 0 divides the logits; 0 is greedy.
        stop_token_ids: the ids that end a message; the one sampled is kept as its last id.
        stop_strings: texts that end a message; kept in it.
        top_p, top_k: nucleus and top-k cuts, off at 1.0 and 0; refused in training, where the learner's
            log-probabilities would no longer be the sampler's.
        seed: with the dialogue's number and the call's, decides every draw of a sampler that can be seeded.

    Raises:
        ValueError: for a limit, temperature, cut or stop string that cannot be.
    """

    max_tokens: int
    temperature: float = 1.0
    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be 0 (greedy) or above, got {self.temperature}")
        if not 0 < self.top_p <= 1 or self.top_k < 0:
            raise ValueError(
                f"top_p is in (0, 1], 1 for off, top_k at least 0, 0 for off: got {self.top_p}, {self.top_k}"
            )
        if "" in self.stop_strings:
            raise ValueError("an empty stop string would end every message at once")


@dataclass(frozen=True)
class Completion:
    """What a sampler returns for one prompt.

    Attributes:
        token_ids: sampled ids in order, a sampled stop token included, no forged one.
        logps: [nats], one for each id, under the temperature used; empty where a server gives none.
        finish: `STOP` (a stop token or string), `LENGTH`; `ABORTED` or `CONTEXT_FULL` where there is no completion.
        weight_version: the number of the weights that sampled it; it grows by one with each publish.
    """

    token_ids: tuple[int, ...]
    logps: tuple[float, ...]
    finish: Finish
    weight_version: int = 0


class Sampler(Protocol):
    """Anything that continues token ids. One sampler serves many dialogues at once."""

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """Continue one prompt.

        Args:
            prompt_ids: the rendered chat.
            params: limits and temperature.
            dialogue: the dialogue's number within this play; orders waiting calls and seeds the draws.
            gate: counts the env steps under way that can lead to another call, so that a batch is made up by events
                and never by the clock.
        """
        ...


@dataclass(frozen=True)
class Call:
    """One prompt and its completion, in tokens.

    Attributes:
        agent: who spoke.
        turn: index of the turn in the transcript.
        prompt_ids: the rendered chat that the sampler saw.
        completion: what it answered.
    """

    agent: str
    turn: int
    prompt_ids: tuple[int, ...]
    completion: Completion


@dataclass(frozen=True)
class Episode:
    """One dialogue from first plan to pay.

    Attributes:
        problem: what it was about.
        transcript: all text, with its ending.
        calls: one for each sampled turn, in the order of the transcript.
        rewards: total reward of each agent.
        terms: agent -> name -> value of each reward term, before weighting.
        info: what the environment said besides: grading outcome, extracted answer.
        group: episodes of one group share it; by default the problem's place in the step's draw.
        dialogue: its number within the play that made it.
    """

    problem: Problem
    transcript: Transcript
    calls: tuple[Call, ...]
    rewards: Mapping[str, float]
    terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    group: int = 0
    dialogue: int = 0

    @property
    def ending(self) -> Ending:
        """How it ended."""
        if self.transcript.ending is None:
            raise ValueError(f"episode {self.dialogue} on problem {self.problem.id!r} has not ended")
        return self.transcript.ending


class Seat(Protocol):
    """Who sits at the table: sees an observation, says a message. Any object with this method can play."""

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message | str:
        """The next message, given `{"messages": ({"role", "content"}, ...), "turn": int}`."""
        ...
