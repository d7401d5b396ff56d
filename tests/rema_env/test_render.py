from __future__ import annotations

import pytest

import rema_env
from rema_env.render import transcript_text
from rema_env.transcript import Message, Problem, Transcript

SUM = Problem("sum", "What is 3 + 4?", "7", level=1)


def test_a_transcript_shows_problem_turns_ending_and_pay() -> None:
    transcript = (
        Transcript(SUM)
        .said("meta_0", Message("Add.", reasoning="Easy."))
        .said("reasoner_0", Message("3 + ", "length"))
        .ended(rema_env.Ending.MESSAGE_LIMIT)
    )
    assert transcript_text(transcript, {"meta_0": 0.0, "reasoner_0": 0.5}) == (
        "problem sum, level 1:\nWhat is 3 + 4?\n\n"
        "meta_0:\n[thinks] Easy.\nAdd.\n\n"
        "reasoner_0 (length):\n3 + \n\n"
        "message_limit, meta_0 0, reasoner_0 0.5; golden answer: 7\n"
    )


def test_a_dialogue_under_way_keeps_its_answer_to_itself() -> None:
    assert "golden" not in transcript_text(Transcript(SUM).said("meta_0", "Add."))


def test_a_pair_shows_both_answers() -> None:
    pair = Problem("p", "Which?", "A", extra={"answer_a": "one", "answer_b": "two"})
    assert "answer A:\none\n\nanswer B:\ntwo\n" in transcript_text(Transcript(pair))


def test_human_mode_prints_every_turn_once(capsys: pytest.CaptureFixture[str]) -> None:
    env = rema_env.math_v0(render_mode="human")
    env.reset(options={"problem": SUM})
    for message in ("First.", "Second.", "Third. [FINISH]", r"\boxed{7}"):
        env.step(message)
        assert env.render() is None
    env.step(None)
    out = capsys.readouterr().out
    for text in (
        "What is 3 + 4?",
        "First.",
        "Second.",
        "Third. [FINISH]",
        r"\boxed{7}",
        "finished, meta_0 1, reasoner_0 1",
    ):
        assert out.count(text) == 1


def test_ansi_mode_returns_the_whole_dialogue() -> None:
    env = rema_env.math_v0(render_mode="ansi")
    env.reset(options={"problem": SUM})
    env.step("First.")
    assert env.render() == transcript_text(env.unwrapped.transcript)
    silent = rema_env.math_v0.raw_env()
    silent.reset(seed=0)
    assert silent.render() is None
