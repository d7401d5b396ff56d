"""Group terms, by hand."""

from __future__ import annotations

import pytest

import rema_env
from rema_env.group_rewards import GROUP_TERMS, graded_from, majority_share, mean_over_solutions, position_consistency
from rema_env.rewards import Graded
from rema_env.transcript import Grade, Outcome, Problem, Transcript


def answered(extracted: str | None, score: float = 0.0, plan: str = "plan", order: str = "AB") -> Graded:
    transcript = Transcript(Problem("q", "?", "4", extra={"order": order})).said("meta_0", plan)
    outcome = Outcome.NO_ANSWER if extracted is None else Outcome.RIGHT if score else Outcome.WRONG
    return Graded(transcript, Grade(score, outcome, extracted))


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        (["4", "4", "5", "4"], 0.75),
        (["4", " 4 ", "5", None], 0.5),
        (["4", None, None, None], 0.0),
        (["4", "4", None, None], 0.5),
        ([None, None], 0.0),
        (["", "", ""], 0.0),
    ],
)
def test_majority_share_is_the_share_of_the_most_frequent_answer(answers: list[str | None], share: float) -> None:
    assert majority_share([answered(a) for a in answers]) == [share] * len(answers)


def test_judges_agree_where_they_prefer_the_same_answer_whatever_side_it_stands_on() -> None:
    group = [answered("A", order="AB"), answered("B", order="BA"), answered("A", order="AB"), answered("A", order="BA")]
    assert majority_share(group) == [0.75] * 4


def test_a_judge_is_consistent_where_it_prefers_the_same_answer_in_both_orders() -> None:
    group = [
        answered("A", 1.0, order="AB"),  # prefers the better one
        answered("B", 0.0, order="AB"),  # prefers the worse one
        answered("B", 1.0, order="BA"),  # prefers the better one
        answered("B", 1.0, order="BA"),
        answered(None, order="BA"),
    ]
    assert position_consistency(group) == [pytest.approx(2 / 3), 0.0, 0.5, 0.5, 0.0]
    assert position_consistency(group[:2]) == [0.0, 0.0]


def test_an_always_a_judge_is_never_consistent() -> None:
    group = [answered("A", 1.0, order="AB"), answered("A", 0.0, order="BA")]
    assert position_consistency(group) == [0.0, 0.0]


def test_a_plan_is_worth_the_mean_of_its_solutions() -> None:
    group = [answered("4", 1.0, "a"), answered("5", 0.0, "a"), answered("4", 1.0, "b"), answered("5", 0.0, "c")]
    assert mean_over_solutions(group) == [0.5, 0.5, 1.0, 0.0]


@pytest.mark.parametrize("name", GROUP_TERMS)
def test_every_term_gives_one_value_for_each_episode(name: str) -> None:
    for size in (0, 1, 5):
        assert len(GROUP_TERMS[name]([answered("4")] * size)) == size


def test_a_graded_episode_is_made_from_what_the_environment_tells() -> None:
    env = rema_env.math_v0.raw_env(process="vrp")
    env.reset(options={"problem": Problem("q", "2+2?", "4")})
    env.step(r"\boxed{4}")
    graded = graded_from(env.transcript, env.infos["reasoner_0"])
    assert graded.grade == Grade(1.0, Outcome.RIGHT, "4")
    assert graded_from(env.transcript, {"outcome": None}).grade is None
