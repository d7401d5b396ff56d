"""Numeric and single-agent views pass the tests of their libraries, and hold what they promise."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test, state_test
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

import rema_env
from rema_env.process import PROCESSES
from rema_env.transcript import Message, Problem
from rema_env.views import ARITHMETIC_MACROS, MacroActions, OneSeat, TokenObs, scripted

SUM = Problem("sum", "Compute 3+4*2 modulo 10.", "1")


def numbers(**arguments: Any) -> TokenObs:
    return TokenObs(MacroActions(rema_env.math_v0(**arguments), ARITHMETIC_MACROS), length=64)


@pytest.mark.parametrize("process", PROCESSES)
def test_the_numeric_view_passes_pettingzoos_tests_without_any_warning(process: str) -> None:
    """Warnings are errors in this test run."""
    api_test(numbers(process=process), num_cycles=50)
    seed_test(lambda: numbers(process=process), num_cycles=50)
    parallel_api_test(turn_based_aec_to_parallel(numbers(process=process)), num_cycles=50)
    parallel_seed_test(lambda: turn_based_aec_to_parallel(numbers(process=process)), num_cycles=50)
    render_test(lambda render_mode: numbers(process=process, render_mode=render_mode))
    state_test(numbers(process=process), turn_based_aec_to_parallel(numbers(process=process)))


def test_both_agents_have_equal_spaces() -> None:
    env = numbers()
    assert env.observation_space("meta_0") == env.observation_space("reasoner_0")
    assert env.action_space("meta_0") == env.action_space("reasoner_0") == gymnasium.spaces.Discrete(4)
    first, second = (env.observation_space("meta_0"), env.observation_space("reasoner_0"))
    first.seed(0)
    drawn = first.sample()
    first.seed(0)
    second.sample()
    assert np.array_equal(first.sample(), drawn), "each agent's space draws by itself"


def test_the_newest_tokens_are_kept_at_the_end() -> None:
    env = TokenObs(rema_env.math_v0(system_prompts={"meta": "Not shown."}), length=16)
    env.reset(options={"problem": SUM})
    assert bytes((env.observe("meta_0") - 1).tolist()).decode() == "3+4*2 modulo 10."
    wide = TokenObs(rema_env.math_v0(), length=1000)
    wide.reset(options={"problem": SUM})
    ids = wide.observe("meta_0")
    assert bytes((ids[ids > 0] - 1).tolist()).decode() == "user: Compute 3+4*2 modulo 10."
    assert not ids[: np.flatnonzero(ids)[0]].any()


def test_any_encoder_can_be_used_and_a_foreign_id_is_refused() -> None:
    env = TokenObs(rema_env.math_v0(), encode=lambda text: [len(text)], length=2, vocabulary=100)
    env.reset(options={"problem": SUM})
    assert env.observe("meta_0").tolist() == [0, len("user: Compute 3+4*2 modulo 10.") + 1]
    small = TokenObs(rema_env.math_v0(), vocabulary=10)
    small.reset(seed=0)
    with pytest.raises(ValueError, match=r"encode gave ids .*, the vocabulary is 0\.\.9"):
        small.observe("meta_0")


def test_a_macro_stands_for_a_text_or_a_function_of_what_the_agent_sees() -> None:
    seen: list[Any] = []

    def listening(observation: Any) -> str:
        seen.append(observation)
        return "I heard you."

    env = MacroActions(rema_env.math_v0(), {"meta": ["Go.", "Stop."], "reasoner": [listening, "No."]})
    env.reset(options={"problem": SUM})
    env.step(1)
    env.step(0)
    assert [str(t.message) for t in env.unwrapped.transcript.turns] == ["Stop.", "I heard you."]
    assert seen[0]["messages"][-1]["content"].endswith("Instruction:\nStop.")


def test_macros_never_read_the_answer() -> None:
    """With the golden answer replaced, every macro says the same."""
    played = []
    for answer in ("1", "never said"):
        env = MacroActions(rema_env.math_v0(max_rounds=4), ARITHMETIC_MACROS)
        env.reset(options={"problem": Problem("sum", SUM.question, answer)})
        rng = np.random.default_rng(0)
        for _ in env.agent_iter():
            over = env.last(observe=False)[2] or env.last(observe=False)[3]
            env.step(None if over else int(rng.integers(4)))
        played.append([str(turn.message) for turn in env.unwrapped.transcript.turns])
    assert played[0] == played[1]


def test_the_right_macro_earns_more_than_a_random_one() -> None:
    def mean_pay(choose: Any) -> float:
        env, rng = numbers(max_rounds=5), np.random.default_rng(0)
        env.reset(seed=0)
        total = 0.0
        for episode in range(60):
            if episode:
                env.reset()
            for _ in env.agent_iter():
                _, reward, terminated, truncated, _ = env.last(observe=False)
                total += reward
                env.step(None if terminated or truncated else choose(rng))
        return total / 120

    assert mean_pay(lambda rng: 0) == 1.0
    assert mean_pay(lambda rng: int(rng.integers(4))) < 0.5


@pytest.mark.parametrize(
    ("macros", "message"),
    [
        ({"meta": ["Go."]}, "there are no macros for the role reasoner"),
        ({"meta": ["Go."], "reasoner": ["a", "b"]}, r"the same number of macros, at least 1, got \[1, 2\]"),
        ([], r"got \[0\]"),
        ("ab", "macros are a list of texts and functions, got 'ab'"),
        ([1, 2], r"macros are a list of texts and functions, got \[1, 2\]"),
    ],
)
def test_macros_that_do_not_fit_are_refused(macros: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MacroActions(rema_env.math_v0(), macros)


def test_the_numeric_view_pickles() -> None:
    env = numbers()
    env.reset(seed=3)
    twin = pickle.loads(pickle.dumps(env))
    assert np.array_equal(twin.observe("meta_0"), env.observe("meta_0"))


# One seat.


@pytest.mark.parametrize("name", ["rema/MathMeta-v0", "rema/MathReasoner-v0"])
def test_the_single_agent_view_passes_gymnasiums_checker(name: str) -> None:
    check_env(gymnasium.make(name, max_rounds=3).unwrapped, skip_render_check=True)


def test_a_seat_of_numbers_passes_it_without_a_warning() -> None:
    env = OneSeat(numbers(max_rounds=3), "meta_0", partner=lambda observation: 0)
    check_env(env, skip_render_check=True)


def test_the_scripted_partner_follows_the_problems_steps() -> None:
    env = gymnasium.make("rema/MathMeta-v0", disable_env_checker=True)
    env.reset(options={"problem": SUM})
    observation, reward, terminated, *_ = env.step("Compute 4*2")
    assert (observation["messages"][-1]["content"], reward, terminated) == ("8", 0.0, False)
    _, reward, terminated, truncated, info = env.step("Compute 3+8 [FINISH]")
    assert (reward, terminated, truncated, info["ending"]) == (1.0, True, False, "finished")


def test_the_reasoner_hears_the_partners_plan_first() -> None:
    env = gymnasium.make("rema/MathReasoner-v0", disable_env_checker=True)
    observation, _ = env.reset(options={"problem": SUM})
    assert observation["messages"][-1]["content"].endswith("Instruction:\nCompute 4*2")
    env.step("8")
    _, reward, terminated, _, _ = env.step(r"\boxed{1}")
    assert (reward, terminated) == (1.0, True)


def test_a_partner_can_be_any_function() -> None:
    env = gymnasium.make("rema/MathMeta-v0", partner=lambda o: r"\boxed{1}", disable_env_checker=True)
    env.reset(options={"problem": SUM})
    assert env.step("[FINISH]")[1] == 1.0


@pytest.mark.parametrize("words", ["", "Go on.", "Compute", "Compute 99999", "\ud800", "x" * 1000])
def test_the_scripted_partner_answers_anything(words: str) -> None:
    chat = tuple({"role": role, "content": words} for role in ("user", "assistant", "user"))
    assert isinstance(scripted({"messages": chat, "turn": 2}), str)


def test_a_seat_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no agent 'critic_0'; there are meta_0, reasoner_0"):
        OneSeat(rema_env.math_v0(), "critic_0", scripted)
    with pytest.raises(ValueError, match="nobody plays reasoner_0"):
        OneSeat(rema_env.math_v0(), "meta_0", {})


@pytest.mark.parametrize("partner", [None, "follow"])
def test_a_partner_that_cannot_play_is_refused(partner: Any) -> None:
    with pytest.raises(ValueError, match="nobody plays meta_0"):
        gymnasium.make("rema/MathReasoner-v0", partner=partner)


@pytest.mark.parametrize("index", [4, -1, 1.5, "x"])
def test_an_index_that_stands_for_no_macro_is_refused(index: Any) -> None:
    env = MacroActions(rema_env.math_v0(), ARITHMETIC_MACROS)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="meta_0 chooses one of 4 macros from 0 on"):
        env.step(index)


def test_a_dialogue_that_ends_before_the_seat_speaks_is_told_with_its_first_action() -> None:
    env = gymnasium.make("rema/MathReasoner-v0", partner=lambda observation: Message("", "aborted"))
    env.reset(seed=0)
    *_, reward, terminated, truncated, info = env.step("hm")
    assert (reward, terminated, truncated, info["ending"]) == (0.0, False, True, "aborted")
    env.reset(seed=0)


def test_a_seat_renders_without_a_warning() -> None:
    env = gymnasium.make("rema/MathMeta-v0", render_mode="ansi")
    env.reset(options={"problem": SUM})
    assert "Compute 3+4*2" in str(env.render())
