"""Each alarm on series written by hand: quiet on a healthy run, and heard when its signal leaves its band."""

from __future__ import annotations

from typing import Any

import pytest

from algos.alarms import Alarms, alarm_metrics, apart_at_first, moved

HEALTHY = {
    "reward": 0.5,
    "turns/mean": 4.0,
    "endings/finished": 0.9,
    "meta/empty_ratio": 0.0,
    "reasoner/repeated_ratio": 0.1,
    "entropy": 0.5,
    "grad_norm": 0.4,
    "clip_ratio/region_mean": 0.05,
    "sampling/logp_gap_mean": 1e-5,
}


def run(*last: dict[str, float], healthy: int = 8) -> list[dict[str, Any]]:
    lines = [HEALTHY] * healthy + [{**HEALTHY, **line} for line in last]
    return [{"step": step, **line} for step, line in enumerate(lines, start=1)]


def test_a_healthy_run_raises_none() -> None:
    assert moved(run()) == []
    for steps in range(1, 9):
        assert moved(run()[:steps]) == []


@pytest.mark.parametrize(
    ("signal", "value"),
    [
        ("reward", 0.2),
        ("turns/mean", 1.0),
        ("turns/mean", 9.0),
        ("endings/finished", 0.3),
        ("meta/empty_ratio", 0.5),
        ("reasoner/repeated_ratio", 0.5),
        ("entropy", 0.004),
        ("entropy", 3.0),
        ("grad_norm", 8.0),
        ("clip_ratio/region_mean", 0.6),
        ("sampling/logp_gap_mean", 0.2),
    ],
)
def test_each_signal_is_heard_when_it_leaves_its_band(signal: str, value: float) -> None:
    (found,) = moved(run({signal: value}))
    assert (found.signal, found.step, found.value) == (signal, 9, value)


def test_signals_of_one_policy_of_several_are_heard_too() -> None:
    lines = [{"step": s, "meta/grad_norm": 0.1, "reasoner/clip_ratio/region_mean": 0.0} for s in range(1, 8)]
    lines.append({"step": 8, "meta/grad_norm": 5.0, "reasoner/clip_ratio/region_mean": 0.9})
    assert {m.signal for m in moved(lines)} == {"meta/grad_norm", "reasoner/clip_ratio/region_mean"}


def test_the_first_signal_to_move_is_named_with_its_step_though_others_follow() -> None:
    alarms = Alarms()
    for line in run({"grad_norm": 9.0}, {"grad_norm": 9.0, "reward": 0.1, "meta/empty_ratio": 0.9}):
        alarms.look(line)
    assert [m.signal for m in alarms.now][-1] == "reward"
    said = alarms.said()
    assert said.startswith("alarm after step 10: ")
    assert "reward at 0.1" in said
    assert said.endswith("the first signal to move was grad_norm in step 9")
    assert alarm_metrics(alarms.now)["alarm/reward"] == 1.0


def test_a_resumed_run_remembers_what_moved_before() -> None:
    history = run({"grad_norm": 9.0})
    assert Alarms(history).first == Alarms(history[:-1]).look(history[-1])[0]


def test_an_alarm_that_a_stored_step_holds_is_no_signal() -> None:
    last = {"step": 1, "grading/crashed": 0.9}
    stored = last | alarm_metrics(moved([last]))
    assert [m.signal for m in Alarms([stored]).now] == ["grading/crashed"]


def test_a_number_that_is_none_raises_no_alarm_and_no_error() -> None:
    assert moved(run({"grad_norm": float("nan")})) == []


def test_a_signal_is_news_only_the_first_time_that_it_moves() -> None:
    alarms = Alarms(run())
    bad, good = {**HEALTHY, "step": 9, "grad_norm": 9.0}, {**HEALTHY, "step": 10}
    news = []
    for line in (bad, good, {**bad, "step": 11}):
        alarms.look(line)
        news.append([m.signal for m in alarms.news])
    assert news == [["grad_norm"], [], []]


def test_a_grader_that_fails_on_more_than_a_few_answers_is_told_from_the_first_step_on() -> None:
    assert moved([{**HEALTHY, "step": 1, "grading/crashed": 0.1, "grading/timed_out": 0.2}]) == []
    assert [m.signal for m in moved([{**HEALTHY, "step": 1, "grading/crashed": 0.3}])] == ["grading/crashed"]


def test_a_reward_that_was_never_above_0_has_no_half_to_fall_below() -> None:
    alarms = Alarms()
    for reward in (-0.8, -0.8, -1.0):
        assert not alarms.look({"step": 1, "reward": reward})


@pytest.mark.parametrize(
    ("most", "mean", "bf16", "apart"),
    [
        (3e-6, 5e-7, False, False),
        (0.4, 0.02, True, False),
        (2.5, 0.02, True, False),  # one rare token of many
        (2.5, 0.02, False, True),
        (11.0, 0.3, True, True),
        (float("nan"), float("nan"), False, True),
    ],
)
def test_a_sampler_that_starts_apart_from_its_learner_is_told_in_the_first_step(
    most: float, mean: float, bf16: bool, apart: bool
) -> None:
    said = apart_at_first({"sampling/logp_gap_max": most, "sampling/logp_gap_mean": mean}, bf16=bf16)
    assert (said is not None) == apart
