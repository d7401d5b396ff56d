"""A named environment as PettingZoo users know it: callable, with `.env`, `.raw_env` and `.parallel_env`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pettingzoo
from pettingzoo.env_registry.registration import aec_registry, parallel_registry
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from rema_env.dialogue import DialogueEnv


class EnvFactory:
    """Makes one kind of environment. Calling it is calling `env`.

    It is a value rather than a module, because a module of the same name would take the name's place in the package on
    its first import. It pickles by name.

    Attributes:
        name: e.g. `math_v0`.
        module: where it stands under its name.
        raw_env: makes the bare environment; the others pass their arguments on to it.
    """

    def __init__(self, name: str, module: str, raw_env: Callable[..., DialogueEnv]) -> None:
        self.name = name
        self.module = module
        self.raw_env = raw_env
        self.__doc__ = raw_env.__doc__
        self.__name__ = name

    def env(self, *args: Any, **kwargs: Any) -> OrderEnforcingWrapper[str, dict[str, Any], str]:
        """The environment behind PettingZoo's wrapper that checks the order of calls."""
        return OrderEnforcingWrapper(self.raw_env(*args, **kwargs))

    def parallel_env(self, *args: Any, **kwargs: Any) -> Any:
        """As a `ParallelEnv`, one turn a step: only the agent whose turn it is acts, so the reasoner sees the plan."""
        return OneTurnAStep(self.env(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> OrderEnforcingWrapper[str, dict[str, Any], str]:
        """As `env`."""
        return self.env(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[[str, str], EnvFactory], tuple[str, str]]:
        return _by_name, (self.module, self.name)

    def __repr__(self) -> str:
        return f"<environment {self.name}>"


class OneTurnAStep(turn_based_aec_to_parallel_wrapper[str, dict[str, Any], str]):
    """PettingZoo's wrapper, which tells whose turn is first too, and says so where that agent has no action."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin; `infos[agent]["active_agent"]` is the agent that speaks, as after a step."""
        observations, infos = super().reset(seed, options)
        turn = {"active_agent": self.aec_env.agent_selection}
        return observations, {agent: {**info, **turn} for agent, info in infos.items()}

    def step(self, actions: Mapping[str, str]) -> Any:
        """One turn. Raises ValueError where `actions` has none of the agent that speaks."""
        if self.agents and self.aec_env.agent_selection not in actions:
            raise ValueError(
                f"it is {self.aec_env.agent_selection}'s turn, and there are actions of "
                f"{', '.join(map(str, actions)) or 'nobody'}; infos[agent]['active_agent'] tells whose turn it is"
            )
        return super().step(actions)


def _by_name(module: str, name: str) -> EnvFactory:
    factory = getattr(importlib.import_module(module), name)
    assert isinstance(factory, EnvFactory)
    return factory


def register(factory: EnvFactory) -> None:
    """Make `pettingzoo.make("aec", "rema/math_v0")` and its parallel twin work. Registering twice changes nothing."""
    name = f"rema/{factory.name}".replace("_v", "-v")
    if name not in aec_registry:
        pettingzoo.register("aec", name, entry_point=f"{factory.module}:{factory.name}")
    if name not in parallel_registry:
        pettingzoo.register("parallel", name, entry_point=f"{factory.module}:parallel_env")
