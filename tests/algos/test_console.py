"""What a person reads while a run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from algos.console import Console, step_line
from rema_agents.types import Episode
from rema_env.transcript import Ending, Problem, Transcript

PLAYED = {
    "reward": 0.5,
    "accuracy": 0.25,
    "endings/finished": 1.0,
    "turns/mean": 4.0,
    "completions/mean_length": 9.0,
    "meta/completions/mean_length": 12.0,
    "reasoner/completions/mean_length": 6.0,
    "step_time": 1.5,
    "time/play": 1.0,
}


@pytest.mark.parametrize(
    ("learnt", "said"),
    [
        ({"grad_norm": 0.25, "sampling/logp_gap_max": 1e-6}, "grad 0.250  clip -  gap 1.0e-06"),
        ({"meta/grad_norm": 0.25, "reasoner/grad_norm": 2.0}, "grad meta 0.250 reasoner 2.000  clip -  gap -"),
        ({"meta/grad_norm": 0.25, "meta/clip_ratio/region_mean": 0.1}, "grad meta 0.250  clip meta 0.100  gap -"),
        ({}, "grad -  clip -  gap -"),
    ],
)
def test_the_line_of_a_step_shows_the_numbers_of_each_policy_that_learnt(learnt: dict[str, Any], said: str) -> None:
    line = step_line(3, 10, PLAYED | learnt)
    assert line == (
        "step 3/10  reward 0.500  accuracy 0.250  finished 100%  tokens: meta 12.0 reasoner 6.0  turns 4.0  "
        f"{said}  1.50 s (play 1.00)"
    )


def test_a_dialogue_is_shown_once_with_its_problem_and_its_pay(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = Transcript(Problem("sum", "1+1?", "2")).said("meta_0", "Add. [FINISH]").said("reasoner_0", "two")
    rewards = {"meta_0": 0.0, "reasoner_0": 0.5}
    episode = Episode(transcript.problem, transcript.ended(Ending.FINISHED), (), rewards)
    Console().dialogues("step 1", [episode], 2)
    said = capsys.readouterr().out
    assert "finished, meta_0 0, reasoner_0 0.5; golden answer: 2\n" in said
    assert [said.count(text) for text in ("step 1", "1+1?", "golden", "finished")] == [1, 1, 1, 1]
