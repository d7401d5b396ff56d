"""`check_text_env` passes every environment here, and says what is wrong with one that breaks a requirement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import pytest

import rema_env
from rema_env.dialogue import DialogueEnv
from rema_env.testing import check_text_env
from rema_env.transcript import Message, Problem, Transcript
from rema_env.views import TokenObs


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


def scores_in_words(self: DialogueEnv, graded: Any) -> None:
    DialogueEnv._pay(self, graded)
    self.infos = {agent: {**info, "score": "high"} for agent, info in self.infos.items()}


def tells_no_terms(self: DialogueEnv, graded: Any) -> None:
    DialogueEnv._pay(self, graded)
    self.infos = {agent: {**info, "terms": None} for agent, info in self.infos.items()}


def speaks_twice(self: DialogueEnv, agent: str) -> dict[str, Any]:
    observation = DialogueEnv.observe(self, agent)
    return {**observation, "messages": (*observation["messages"], {"role": "user", "content": "Well?"})}


def shows_a_surrogate(self: DialogueEnv, agent: str) -> dict[str, Any]:
    return {**DialogueEnv.observe(self, agent), "messages": ({"role": "user", "content": "\ud800"},)}


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
        ({"_pay": pays_nan}, "meta_0's reward is nan, expected a finite number"),
        ({"_pay": scores_in_words}, "meta_0's score is 'high', expected a finite number"),
        ({"_pay": tells_no_terms}, "meta_0's terms are a mapping from name to value, got None"),
        ({"observe": speaks_twice}, "user and assistant do not take turns, as chat templates demand: user, user"),
        ({"observe": shows_a_surrogate}, "meta_0 is shown a lone surrogate, which nothing can encode"),
        ({"_settle": never_ends}, "outside of its space|did not end"),
        ({"action_space": lambda self, agent: gymnasium.spaces.Text(9)}, "refuses ''"),
    ],
)
def test_a_broken_requirement_is_named(changes: dict[str, Callable[..., Any]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_text_env(made(**changes))


class Once:
    """Problems that are there once only."""

    name = "once"
    size = 1

    def draw(self, seed: int, index: int) -> Problem:
        return [Problem("q", "1+1?", "2")][index]


def test_problems_that_run_out_are_told() -> None:
    with pytest.raises(AssertionError, match=r"problems.draw\(1, 1\) fails .* epoch after epoch"):
        check_text_env(rema_env.math_v0(Once()))


def test_a_grader_that_gives_no_grade_is_told() -> None:
    env = rema_env.math_v0(process="vrp", grader=lambda problem, text: 1.0)
    with pytest.raises(TypeError, match=r"the grader of math_v0 gave 1.0, expected a Grade"):
        check_text_env(env)


def test_an_ending_may_be_named_and_an_unknown_one_is_told() -> None:
    rules = rema_env.math_v0.raw_env(process="vrp").process
    env = rema_env.dialogue_env(replace(rules, ending=lambda transcript: "finished"))  # type: ignore[arg-type,return-value]
    check_text_env(env)
    env.reset(seed=0)
    env.step("7")
    assert env.terminations == {"reasoner_0": True}
    with pytest.raises(ValueError, match=r"process .* ends with True; an ending is finished, .* or None"):
        check_text_env(rema_env.dialogue_env(replace(rules, ending=lambda transcript: True)))  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("shown", [None, "hello", ["hello"]])
def test_a_view_that_is_no_chat_is_told(shown: Any) -> None:
    rules = replace(rema_env.math_v0.raw_env().process, view=lambda transcript, role: shown)
    with pytest.raises(ValueError, match=r"process 'multi_turn' shows meta .*, no list of messages"):
        check_text_env(rema_env.dialogue_env(rules))


def test_an_environment_of_numbers_is_told_what_it_lacks() -> None:
    with pytest.raises(AssertionError, match="meta_0's observation needs messages and turn"):
        check_text_env(TokenObs(rema_env.math_v0()))


def test_an_environment_without_problems_or_with_odd_names_is_told() -> None:
    env = rema_env.math_v0.raw_env()
    del env.problems
    with pytest.raises(AssertionError, match="problems needs name, size and draw"):
        check_text_env(env)
    env = rema_env.math_v0.raw_env()
    env.possible_agents = ["Meta"]
    with pytest.raises(AssertionError, match="named role_number"):
        check_text_env(env)
