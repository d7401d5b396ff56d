"""Other faces of a text environment: numbers for classic MARL libraries, one seat for single-agent ones.

    numbers = TokenObs(MacroActions(rema_env.math_v0(), ARITHMETIC_MACROS))     # Box observations, Discrete actions
    alone = gymnasium.make("rema/MathMeta-v0")                                  # the partner is part of the world

No tokenizer is needed: observations are encoded by any function, by default as UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import BaseWrapper

from rema_env.problems.arithmetic import Oracle
from rema_env.tasks.math import math_v0
from rema_env.transcript import role_of

Observation = Mapping[str, Any]
Macro = str | Callable[[Observation], str]
Partner = Callable[[Any], Any]


def utf8(text: str) -> list[int]:
    """The bytes of a text, 0 to 255."""
    return list(text.encode())


def rendered(observation: Observation) -> str:
    """A chat as plain text, one `role: content` paragraph for each message but the system prompt."""
    said = (message for message in observation["messages"] if message["role"] != "system")
    return "\n".join(f"{message['role']}: {message['content']}" for message in said)


class TokenObs(BaseWrapper[str, Any, Any]):
    """Observations as a fixed number of token ids: `Box(0, vocabulary, (length,), int64)`, equal for all agents.

    The newest tokens are kept, and stand at the end; what is missing before them is 0, so token i is written as i + 1.

    Args:
        env: a text environment.
        encode: text -> token ids; default: UTF-8 bytes.
        length: tokens in an observation.
        vocabulary: how many different ids `encode` gives, 0 to vocabulary - 1.
    """

    def __init__(
        self,
        env: AECEnv,
        encode: Callable[[str], Sequence[int]] = utf8,
        length: int = 256,
        vocabulary: int = 256,
    ) -> None:
        super().__init__(env)
        if length < 1 or vocabulary < 1:
            raise ValueError(f"length and vocabulary must be at least 1, got {length} and {vocabulary}")
        self.encode = encode
        self.length = length
        self.vocabulary = vocabulary
        self._spaces = {agent: Box(0, vocabulary, (length,), np.int64) for agent in env.possible_agents}
        self.state_space = Box(0, vocabulary, (length,), np.int64)

    def observation_space(self, agent: str) -> Space[Any]:
        """`Box(0, vocabulary, (length,), int64)`."""
        return self._spaces[agent]

    def observe(self, agent: str) -> NDArray[np.int64]:
        """The newest `length` tokens of the agent's chat, zeros before them.

        Raises:
            ValueError: where `encode` gives an id outside of the vocabulary.
        """
        return self._encoded(self.env.observe(agent))

    def state(self) -> NDArray[np.int64]:
        """The newest `length` tokens of the whole dialogue, as for `observe`; for critics that see everything."""
        return self._encoded({"messages": self.env.state()})

    def _encoded(self, observation: Observation) -> NDArray[np.int64]:
        ids = np.asarray(self.encode(rendered(observation))[-self.length :], dtype=np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocabulary:
            raise ValueError(f"encode gave ids {ids.min()}..{ids.max()}, the vocabulary is 0..{self.vocabulary - 1}")
        found = np.zeros(self.length, dtype=np.int64)
        found[self.length - ids.size :] = ids + 1
        return found


class MacroActions(BaseWrapper[str, Any, Any]):
    """Actions as a choice among texts: `Discrete(n)`, the same n for all agents.

    Args:
        env: a text environment.
        macros: what an index stands for: a text, or a function of the agent's observation. One list for everyone, or
            one for each role (of equal length). A function sees what the agent sees, hence never the golden answer.
    """

    def __init__(self, env: AECEnv, macros: Sequence[Macro] | Mapping[str, Sequence[Macro]]) -> None:
        super().__init__(env)
        roles = {agent: role_of(agent) for agent in env.possible_agents}
        by_role = macros if isinstance(macros, Mapping) else dict.fromkeys(roles.values(), macros)
        if missing := sorted(set(roles.values()) - set(by_role)):
            raise ValueError(f"there are no macros for the role {', '.join(missing)}")
        self._macros = {agent: tuple(by_role[role]) for agent, role in roles.items()}
        if isinstance(macros, str) or not all(isinstance(m, str) or callable(m) for m in chain(*self._macros.values())):
            raise ValueError(f"macros are a list of texts and functions, got {macros!r:.60}")
        sizes = {len(found) for found in self._macros.values()}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(f"every role needs the same number of macros, at least 1, got {sorted(sizes)}")
        self._spaces = {agent: Discrete(len(found)) for agent, found in self._macros.items()}

    def action_space(self, agent: str) -> Space[Any]:
        """`Discrete(n)`."""
        return self._spaces[agent]

    def step(self, action: int | None) -> None:
        """Say what the index stands for. Raises ValueError where it stands for nothing."""
        agent = self.env.agent_selection
        if action is None or self.env.terminations[agent] or self.env.truncations[agent]:
            self.env.step(action)
            return
        if not self._spaces[agent].contains(action):
            raise ValueError(f"{agent} chooses one of {len(self._macros[agent])} macros from 0 on, got {action!r:.60}")
        macro = self._macros[agent][int(action)]
        self.env.step(macro if isinstance(macro, str) else macro(self.env.observe(agent)))


class OneSeat(gymnasium.Env[Any, Any]):
    """One seat of a dialogue as a Gymnasium environment; its partners are part of the world.

    Args:
        env: a PettingZoo environment, of text or of numbers.
        agent: whose seat it is.
        partner: observation -> action, for every other agent, or a mapping agent -> function.
        render_mode: of `env`; taken from it.
    """

    def __init__(self, env: AECEnv, agent: str, partner: Partner | Mapping[str, Partner]) -> None:
        if agent not in env.possible_agents:
            raise ValueError(f"there is no agent {agent!r}; there are {', '.join(env.possible_agents)}")
        self.env = env
        self.agent = agent
        others = [other for other in env.possible_agents if other != agent]
        self.partners = dict(partner) if isinstance(partner, Mapping) else dict.fromkeys(others, partner)
        if missing := sorted(other for other in others if not callable(self.partners.get(other))):
            raise ValueError(f"nobody plays {', '.join(missing)}")
        self.observation_space = env.observation_space(agent)
        self.action_space = env.action_space(agent)
        self.metadata = {"render_fps": 1, **env.metadata}  # which Gymnasium wants of anything it renders
        self.render_mode = env.unwrapped.render_mode
        self._over_unseen = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a dialogue and play it up to this seat's first turn. Options as of the environment."""
        super().reset(seed=seed)
        self.env.reset(seed=seed, options=options)
        observation, _, _, _, info = self._next()
        self._over_unseen = self._over(self.agent)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and play up to this seat's next turn or the end.

        Where the partners ended the dialogue before this seat came to speak, the first action says nothing and gets the
        end told.
        """
        if not self._over_unseen:
            self.env.step(action)
        self._over_unseen = False
        return self._next()

    def render(self) -> Any:
        """As the environment renders."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def _next(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        env = self.env
        while env.agent_selection != self.agent and not self._over(env.agent_selection):
            env.step(self.partners[env.agent_selection](env.observe(env.agent_selection)))
        reward = float(env._cumulative_rewards[self.agent])
        over = env.terminations[self.agent], env.truncations[self.agent]
        return env.observe(self.agent), reward, *over, deepcopy(env.infos[self.agent])

    def _over(self, agent: str) -> bool:
        return bool(self.env.terminations[agent] or self.env.truncations[agent])


def scripted(observation: Observation) -> str:
    """The partner that follows a procedural arithmetic problem's steps; any other chat it answers with a few words."""
    return spoken(Oracle(), observation)


def left_to_right(observation: Observation) -> str:
    """As `scripted`, but ignoring brackets and precedence."""
    return spoken(Oracle(plain=True), observation)


def spoken(oracle: Oracle, observation: Observation) -> str:
    """What the oracle says to a chat; "Go on." where the chat is not about arithmetic."""
    try:
        return oracle(observation["messages"])
    except (ValueError, IndexError, KeyError):
        return "Go on."


ARITHMETIC_MACROS: tuple[Macro, ...] = (scripted, left_to_right, "Let me think.", "[FINISH]")


def math_meta(partner: Partner = scripted, **arguments: Any) -> OneSeat:
    """The meta-thinker's seat of `math_v0`; `rema/MathMeta-v0` for Gymnasium. Arguments go to `math_v0`."""
    return OneSeat(math_v0(**arguments), "meta_0", partner)


def math_reasoner(partner: Partner = scripted, **arguments: Any) -> OneSeat:
    """The reasoner's seat of `math_v0`; `rema/MathReasoner-v0` for Gymnasium. Arguments go to `math_v0`."""
    return OneSeat(math_v0(**arguments), "reasoner_0", partner)


def register() -> None:
    """Make `gymnasium.make("rema/MathMeta-v0")` work. Registering twice changes nothing."""
    for name, made in (("rema/MathMeta-v0", math_meta), ("rema/MathReasoner-v0", math_reasoner)):
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{__name__}:{made.__name__}")
