"""`check_text_env` passes every environment here, and says what is wrong with one that breaks a requirement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

import rema_env
from rema_env.dialogue import DialogueEnv
from rema_env.testing import check_text_env
from rema_env.transcript import Message, Transcript


def made(**changes: Callable[..., Any]) -> DialogueEnv:
    """The math environment with some of its methods replaced."""
    broken = type("Broken", (DialogueEnv,), changes)
    whole = rema_env.math_v0.raw_env(max_rounds=3)
    return broken(whole.process, whole.problems, whole.grade, max_rounds=3)


@pytest.mark.parametrize("process", ["multi_turn", "single_turn", "mrp", "vrp"])
@pytest.mark.parametrize(
    "arguments", [{}, {"on_cut": "continue", "max_rounds": 2}, {"system_prompts": {"reasoner": ""}}]
)
def test_every_process_passes(process: str, arguments: dict[str, Any]) -> None:
    check_text_env(rema_env.math_v0(process=process, **arguments))
    check_text_env(rema_env.dialogue_env(process, **arguments))


def shows_a_list(self: DialogueEnv, agent: str) -> dict[str, Any]:
    observation = DialogueEnv.observe(self, agent)
    return {**observation, "messages": list(observation["messages"])}


def counts_from_one(self: DialogueEnv, agent: str) -> dict[str, Any]:
    observation = DialogueEnv.observe(self, agent)
    return {**observation, "turn": observation["turn"] + 1}


def ends_with_the_assistant(self: DialogueEnv, agent: str) -> dict[str, Any]:
    observation = DialogueEnv.observe(self, agent)
    return {**observation, "messages": (*observation["messages"], {"role": "assistant", "content": "I"})}


def accepts_anything(self: DialogueEnv, action: Any) -> None:
    dead = self.terminations[self.agent_selection] or self.truncations[self.agent_selection]
    DialogueEnv.step(self, action if dead or isinstance(action, str) else "")


def forgets_how_messages_ended(self: DialogueEnv, action: Any) -> None:
    DialogueEnv.step(self, Message(str(action)) if isinstance(action, Message) else action)


def shortens_what_is_said(self: DialogueEnv, action: Any) -> None:
    DialogueEnv.step(self, action[:5] if type(action) is str else action)


def forgets_the_pinned_problem(self: DialogueEnv, seed: int | None = None, options: Any = None) -> None:
    DialogueEnv.reset(self, seed, None)


def refuses_unknown_options(self: DialogueEnv, seed: int | None = None, options: Any = None) -> None:
    assert set(options or ()) <= {"problem"}, "unknown option"
    DialogueEnv.reset(self, seed, options)


def pays_nan(self: DialogueEnv, graded: Any) -> None:
    DialogueEnv._pay(self, graded)
    self.rewards = dict.fromkeys(self.agents, float("nan"))


def never_ends(self: DialogueEnv, transcript: Transcript) -> None:
    self.transcript = transcript
    self.agent_selection = self._next_agent(transcript)
    self.infos = {agent: {} for agent in self.agents}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observe": shows_a_list}, "observation is outside of its space"),
        ({"observe": counts_from_one}, "is told turn 1, but 0 turns have been said"),
        ({"observe": ends_with_the_assistant}, "is to answer, but its chat ends with 'assistant'"),
        ({"step": accepts_anything}, "expected a TypeError that names it"),
        ({"step": forgets_how_messages_ended}, "a context_full message does not truncate"),
        ({"step": shortens_what_is_said}, "the transcript has"),
        ({"reset": forgets_the_pinned_problem}, "does not play p"),
        ({"reset": refuses_unknown_options}, "unknown option"),
        ({"_pay": pays_nan}, "a reward is not finite"),
        ({"_settle": never_ends}, "outside of its space|did not end"),
        ({"action_space": lambda self, agent: gymnasium.spaces.Text(9)}, "refuses ''"),
    ],
)
def test_a_broken_requirement_is_named(changes: dict[str, Callable[..., Any]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_text_env(made(**changes))


def test_an_environment_without_problems_or_with_odd_names_is_told() -> None:
    env = rema_env.math_v0.raw_env()
    del env.problems
    with pytest.raises(AssertionError, match="problems needs name, size and draw"):
        check_text_env(env)
    env = rema_env.math_v0.raw_env()
    env.possible_agents = ["Meta"]
    with pytest.raises(AssertionError, match="named role_number"):
        check_text_env(env)
