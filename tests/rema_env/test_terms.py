"""Reward terms by hand; what prompts ask for is what checks accept."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rema_env
from rema_env.rewards import ANSWER, Graded, Reward, paid_to
from rema_env.roles import BOX, VERDICT, Blocks
from rema_env.terms import TERMS, as_rewards, weighted
from rema_env.transcript import Ending, Grade, Outcome, Problem, Transcript

PROBLEM = Problem("q", "2+2?", "4")
ROLES = ("meta", "reasoner")


def graded(*messages: str, score: float | None = 1.0, **changes: Any) -> Graded:
    """A finished dialogue in which meta and reasoner took turns."""
    transcript = Transcript(PROBLEM, ending=Ending.FINISHED)
    for k, message in enumerate(messages):
        transcript = transcript.said(("meta_0", "reasoner_0")[k % 2], message)
    grade = None if score is None else Grade(score, Outcome.RIGHT if score == 1.0 else Outcome.WRONG, "4")
    return Graded(transcript, grade, **changes)


def value(name: str, role: str, *messages: str, **changes: Any) -> float:
    return TERMS[name].term(graded(*messages, **changes), role)


@pytest.mark.parametrize(
    ("score", "plan", "solution", "meta", "reasoner"),
    [
        (1.0, "Add.", r"\boxed{4}", 1.0, 1.0),
        (0.0, "Add.", r"\boxed{5}", 0.0, -0.5),
        (0.0, "Add.", "5", 0.0, -1.0),
        (0.0, "Add.", r"\boxed{}", 0.0, -1.0),
        (1.0, r"It is \boxed{4}", r"\boxed{4}", -1.0, 1.0),
        (0.0, r"It is \boxed{5}", "5", -1.0, -1.0),
        (None, "Add.", "", 0.0, -1.0),
    ],
)
def test_the_single_turn_scheme_pays_what_the_paper_pays(
    score: float | None, plan: str, solution: str, meta: float, reasoner: float
) -> None:
    assert value("single_turn_scheme", "meta", plan, solution, score=score) == meta
    assert value("single_turn_scheme", "reasoner", plan, solution, score=score) == reasoner


def test_format_is_kept_by_an_answer_in_its_form_and_a_plan_without() -> None:
    assert value("format", "reasoner", "Add.", r"\boxed{4}") == value("format", "meta", "Add.", "4") == 1.0
    assert value("format", "reasoner", "Add.", "4") == value("format", "meta", r"\boxed{", "4") == 0.0
    assert value("format", "reasoner") == 0.0
    assert value("format", "reasoner", "Compare.", "[[A]]", tag=VERDICT) == 1.0
    assert value("leak", "meta", "Say [[B]].", "[[A]]", tag=VERDICT) == 1.0
    assert value("leak", "reasoner", "Compare.", "A", tag=VERDICT) == 0.0


@pytest.mark.parametrize(
    ("role", "messages", "share"),
    [("meta", ["", "x", "plan", "y"], 0.5), ("reasoner", ["a", " \n", "b", ""], 1.0), ("meta", [], 0.0)],
)
def test_empty_counts_messages_of_nothing_but_whitespace(role: str, messages: list[str], share: float) -> None:
    assert value("empty", role, *messages) == share


def test_repetition_counts_sequences_said_before() -> None:
    assert value("repetition", "meta", "a b c d e f", "") == 0.0
    assert value("repetition", "meta", "a b c d", "", "a b c d") == 0.5
    assert value("repetition", "meta", "a " * 103, "") == pytest.approx(0.99)
    assert value("repetition", "meta", "too short") == 0.0


def test_copying_counts_sequences_that_the_partner_said_first() -> None:
    assert value("copying", "reasoner", "first add the two numbers", "first add the two numbers") == 1.0
    assert value("copying", "meta", "first add the two numbers", "first add the two numbers") == 0.0
    assert value("copying", "reasoner", "first add the two numbers", "I add them and get four") == 0.0
    assert value("copying", "reasoner", "one two three four", "one two three four five") == 0.5


@given(st.lists(st.text(), max_size=5), st.sampled_from([0.0, 0.5, 1.0, None]))
def test_every_term_is_finite_and_within_its_range(messages: list[str], score: float | None) -> None:
    for name, reward in TERMS.items():
        for role in ("meta", "reasoner"):
            found = reward.term(graded(*messages, score=score), role)
            assert math.isfinite(found)
            assert (-1.0 if name == "single_turn_scheme" else 0.0) <= found <= 1.0


# Each role is paid by its own terms, from the raw grade.


def test_a_role_is_paid_the_weighted_sum_of_its_terms() -> None:
    rewards = weighted({"answer": 1.0, "meta/leak": -0.5, "reasoner/format": 0.2}, ROLES)
    leaking = graded(r"\boxed{4}", r"\boxed{4}")
    assert paid_to("meta", leaking, rewards) == (0.5, {"answer": 1.0, "leak": 1.0})
    reward, terms = paid_to("reasoner", leaking, rewards)
    assert reward == pytest.approx(1.2)
    assert terms == {"answer": 1.0, "format": 1.0}


def test_roles_may_weigh_the_same_term_differently() -> None:
    rewards = weighted({"meta/answer": 0.5, "reasoner/answer": 2.0}, ROLES)
    assert paid_to("meta", graded("a", "b"), rewards)[0] == 0.5
    assert paid_to("reasoner", graded("a", "b"), rewards)[0] == 2.0


def test_a_cut_plan_leaves_the_reasoners_raw_score_alone() -> None:
    env = rema_env.math_v0.raw_env(unfinished_reward="grade", rewards={"answer": 1.0, "meta/empty": -0.5})
    env.reset(options={"problem": PROBLEM})
    for message in ("", r"\boxed{4}", rema_env.Message("", "length")):
        env.step(message)
    assert env.rewards == {"meta_0": 0.5, "reasoner_0": 1.0}
    assert [env.infos[agent]["score"] for agent in env.agents] == [1.0, 1.0]
    assert env.infos["meta_0"]["terms"] == {"answer": 1.0, "empty": 1.0}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"answer": 1.0, "style": 0.1}, "there is no reward term 'style'; there are answer, format"),
        ({"answer": 1.0, "format": 1.0}, "form would be worth as much as being right"),
        ({"answer": 1.0, "format": 0.5, "meta/leak": -0.5}, "^meta: the weights of the other terms come to 1"),
        ({"format": 0.1}, "that of the answer to 0"),
        ({"answer": 1.0, "critic/leak": -0.1}, "'critic/leak' pays a role that is not there; there are meta, reasoner"),
        ({"answer": float("nan")}, "the weight of reward term 'answer' must be a finite number, got nan"),
        ({"answer": "1"}, "must be a finite number, got '1'"),
        ({"answer": 1.0, "meta/answer": 0.5}, "two reward terms of meta are called 'answer'"),
    ],
)
def test_weights_under_which_form_beats_being_right_are_refused(weights: Mapping[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rema_env.math_v0(rewards=weights)


def test_two_terms_of_one_name_for_one_role_are_refused() -> None:
    with pytest.raises(ValueError, match="two reward terms of meta are called 'answer'"):
        as_rewards((ANSWER, Reward("answer", ANSWER.term, 2.0)), ROLES)


def test_an_environment_with_terms_pickles() -> None:
    env = rema_env.math_v0(rewards={"answer": 1.0, "meta/leak": -0.1, "repetition": -0.1})
    assert pickle.loads(pickle.dumps(env)).unwrapped.rewards_by_term == env.unwrapped.rewards_by_term


# Blocks.


@pytest.mark.parametrize(
    ("message", "holds"),
    [
        ("<think>a</think><answer>c</answer>", True),
        ("\n<think>a\nb</think>\n<answer>c</answer> \n", True),
        ("<think>a</think><think>b</think><answer>c</answer>", False),
        ("<think></think>a", False),
        ("<think> </think><answer>c</answer>", False),
        ("<think>a</think><answer></answer>", False),
        ("<answer>c</answer><think>a</think>", False),
        ("<think>a<answer>c</answer></think>", False),
        ("<think>a</think>and<answer>c</answer>", False),
        ("<think>a</think><answer>c</answer>more", False),
        ("<think>a</think><answer>c<answer>d</answer>", False),
        ("<think>" * 100_000, False),
        ("", False),
    ],
)
def test_blocks_stand_once_in_order_and_hold_something(message: str, holds: bool) -> None:
    assert Blocks().holds(message) is holds


@pytest.mark.parametrize("tag", [BOX, VERDICT, Blocks(), Blocks(("plan", "check", "answer"))])
def test_what_a_prompt_shows_passes_its_own_check(tag: Any) -> None:
    assert tag.holds(tag.example("A"))
    assert tag.appears(tag.example("A"))


def test_junk_in_perfect_form_never_beats_a_right_answer() -> None:
    rewards = weighted({"answer": 1.0, "format": 0.4, "repetition": -0.3, "empty": -0.2}, ROLES)
    junk = paid_to("reasoner", graded("plan", r"\boxed{no}", score=0.0), rewards)[0]
    right = paid_to("reasoner", graded("plan", "a b c d " * 50, score=1.0), rewards)[0]
    assert right > junk


def test_a_role_is_not_blamed_for_what_it_could_not_say() -> None:
    env = rema_env.math_v0.raw_env(unfinished_reward="grade", rewards={"answer": 1.0, "empty": -0.5, "format": 0.1})
    env.reset(options={"problem": PROBLEM})
    for message in ("Add.", r"\boxed{4}", "Sure?", rema_env.Message("", "context_full")):
        env.step(message)
    assert env.infos["reasoner_0"]["terms"] == {"answer": 1.0, "empty": 0.0, "format": 1.0}
