"""What episodes say about a team, on episodes small enough to count by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from algos.batch import make_batch
from algos.metrics import aborted, accuracy, before_choice, episode_metrics, finished, grading_failures, logp_gap
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, Turn

AGENTS = ("meta_0", "reasoner_0")


def episode(
    reward: float, group: int, *, ending: Ending = Ending.FINISHED, score: float | None = None, words: int = 2
) -> Episode:
    """One plan of three tokens, one reply of `words` tokens."""
    problem = Problem("p", "q", "a")
    cut = Finish.LENGTH if ending is Ending.MESSAGE_LIMIT else Finish.STOP
    turns = (Turn("meta_0", Message("plan")), Turn("reasoner_0", Message(" " if words < 2 else "reply", cut)))
    calls = (
        Call("meta_0", 0, (1,), Completion((1, 2, 3), (-1.0, -1.0, -1.0), Finish.STOP)),
        Call("reasoner_0", 1, (1,), Completion((1,) * words, (-1.0,) * words, cut)),
    )
    info = {"score": score, "outcome": None if score is None else "right" if score else "wrong"}
    transcript = Transcript(problem, turns, ending)
    terms = {agent: {"answer": reward} for agent in AGENTS}
    return Episode(problem, transcript, calls, dict.fromkeys(AGENTS, reward), terms, info, group=group)


FOUR = [
    episode(1.0, 0, score=1.0),
    episode(0.0, 0, score=0.0, words=4),
    episode(0.0, 1, ending=Ending.MESSAGE_LIMIT, score=1.0, words=1),
    episode(0.0, 1, ending=Ending.ROUND_LIMIT),
]


def test_what_dynamic_sampling_chose_from_is_counted_by_hand() -> None:
    agree = [episode(1.0, 0, score=1.0), episode(1.0, 0, score=0.5)]
    assert before_choice([FOUR[:2], FOUR[2:], agree], dropped=2) == {
        "sampling/kept": 1 / 3,
        "sampling/dropped": 2,
        "sampling/reward": 0.5,
        "sampling/accuracy": 3.5 / 6,
    }


def test_dialogues_that_were_aborted_are_counted() -> None:
    assert aborted([*FOUR, episode(0.0, 2, ending=Ending.ABORTED)]) == 1


def test_more_than_a_few_answers_that_the_grader_failed_on_are_told() -> None:
    def graded(*outcomes: str) -> list[Episode]:
        return [replace(FOUR[0], info={"score": 0.0, "outcome": outcome}) for outcome in outcomes]

    assert grading_failures([*graded("right", "wrong", "wrong", "timed_out", "wrong"), FOUR[3]]) is None
    assert grading_failures([FOUR[3]]) is None
    assert grading_failures(graded("crashed", "wrong", "timed_out", "crashed")) == (
        "the grader failed on 3 of 4 answers (crashed 2, timed_out 1), which count as wrong: mend the grader first"
    )


def test_metrics_are_those_counted_by_hand() -> None:
    got = episode_metrics(FOUR)
    assert got["reward"] == 0.25
    assert got["reward_std"] == pytest.approx((0.5**0.5 + 0) / 2)
    assert got["frac_reward_zero_std"] == 0.5
    assert got["accuracy"] == 0.5  # the raw grade, whatever was paid
    assert got["turns/mean"] == 2
    assert got["endings/finished"] == 0.5
    assert got["endings/message_limit"] == got["endings/round_limit"] == 0.25
    assert got["endings/aborted"] == 0
    assert (got["grading/right"], got["grading/wrong"]) == (0.5, 0.25)
    assert got["meta/completions/mean_length"] == 3
    assert got["reasoner/completions/mean_length"] == pytest.approx((2 + 4 + 1 + 2) / 4)
    assert got["reasoner/completions/max_length"] == 4
    assert got["completions/mean_length"] == pytest.approx((12 + 9) / 8)
    assert (got["meta/completions/clipped_ratio"], got["reasoner/completions/clipped_ratio"]) == (0, 0.25)
    assert (got["meta/empty_ratio"], got["reasoner/empty_ratio"]) == (0, 0.25)
    assert got["reasoner/reward"] == got["reasoner/reward/answer"] == 0.25


def test_a_group_that_agrees_is_counted_and_one_in_which_only_the_roles_means_agree_is_not() -> None:
    agree = [episode(1.0, 0) for _ in range(4)]
    assert episode_metrics(agree)["frac_reward_zero_std"] == 1.0
    assert episode_metrics(agree)["reward_std"] == 0.0
    first, second = ({"meta_0": pay, "reasoner_0": 1 - pay} for pay in (1.0, 0.0))
    crossed = [replace(agree[0], rewards=first), replace(agree[1], rewards=second)]
    assert episode_metrics(crossed)["frac_reward_zero_std"] == 0.0


def test_a_cut_message_is_logged_with_its_length_though_it_may_not_be_trained_on() -> None:
    got = episode_metrics([episode(0.0, 0, ending=Ending.MESSAGE_LIMIT, words=50)])
    assert got["reasoner/completions/max_length"] == 50
    assert got["reasoner/completions/clipped_ratio"] == 1.0


def test_accuracy_counts_what_was_never_graded_as_wrong() -> None:
    assert accuracy(FOUR) == 0.5
    assert finished(FOUR) == 0.5
    with pytest.raises(ValueError, match="there is no episode to measure"):
        episode_metrics([])


def test_the_gap_is_measured_at_sampled_tokens_only() -> None:
    batch = make_batch(FOUR[:1], AGENTS)
    old = batch.sampled_logp_BT.clone()
    old[0, 0] = 9.0  # a prompt token
    old[0, 2] += 0.5
    got = logp_gap(batch.with_tensors(old_logp_BT=old))
    assert got["sampling/logp_gap_max"] == 0.5
    assert got["sampling/logp_gap_mean"] == pytest.approx(0.1)


def test_a_gap_of_0_012_a_token_compounds_to_a_ratio_of_3_32_and_is_logged_before_any_cap() -> None:
    batch = make_batch([episode(1.0, 0, words=100), episode(1.0, 0)], AGENTS)
    got = logp_gap(batch.with_tensors(old_logp_BT=batch.sampled_logp_BT + 0.012))
    assert got["sampling/logp_gap_mean"] == pytest.approx(0.012, rel=1e-4)
    assert math.exp(got["sampling/log_ratio_max"]) == pytest.approx(3.32, abs=0.01)


def test_answers_whose_grading_failed_and_chats_without_room_are_counted() -> None:
    failed = replace(FOUR[0], info={"score": 0.0, "outcome": "crashed"})
    full = episode(0.0, 1, ending=Ending.CONTEXT_FULL)
    got = episode_metrics([failed, *FOUR[1:3], full])
    assert got["grading/crashed"] == got["endings/context_full"] == 0.25


def test_json_actions_are_told_by_the_difficulty_they_were_taken_at() -> None:
    def planned(level: int, action: str) -> Episode:
        problem = Problem("p", "q", "a", level=level)
        turns = (Turn("meta_0", Message(f'{{"action": "{action}", "output": "x"}}')),)
        return Episode(problem, Transcript(problem, turns, Ending.FINISHED), (), dict.fromkeys(AGENTS, 0.0))

    got = episode_metrics([planned(1, "REWRITE"), planned(4, "REWRITE"), planned(2, "DECOMPOSE")])
    assert {n: v for n, v in got.items() if n.startswith("actions/")} == {
        "actions/REWRITE/level": 2.5,
        "actions/DECOMPOSE/level": 2.0,
    }
    assert not [name for name in episode_metrics(FOUR) if name.startswith("actions/")]
