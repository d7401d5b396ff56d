from __future__ import annotations

import pytest

import rema_env
from rema_env.transcript import Problem

CAPITAL = Problem("q", "Which city is the capital of France?", "the city of Paris")


@pytest.mark.parametrize(
    ("grader", "message", "pay"),
    [
        ("exact", r"\boxed{City of Paris}", 1.0),
        ("exact", r"\boxed{Paris}", 0.0),
        ("token_f1", r"\boxed{Paris}", 0.5),
        ("token_f1", r"\boxed{Lyon}", 0.0),
    ],
)
def test_a_short_answer_is_paid_by_the_words_it_shares(grader: str, message: str, pay: float) -> None:
    env = rema_env.qa_v0.raw_env(grader=grader)
    env.reset(options={"problem": CAPITAL})
    env.step("Name it. [FINISH]")
    env.step(message)
    assert env.rewards == {"meta_0": pytest.approx(pay), "reasoner_0": pytest.approx(pay)}
