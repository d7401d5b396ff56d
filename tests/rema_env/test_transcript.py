"""What is said, as frozen data: what it refuses to hold, and its JSON."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, Turn, problem_from_json

SUM = Problem("sum", "3+4?", "7", level=1, extra={"answer_a": "7"})
texts = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)
messages = st.builds(Message, texts, st.sampled_from(Finish), texts)


@given(st.lists(messages, max_size=4), st.sampled_from([None, *Ending]))
def test_a_transcript_survives_json_pickling_and_copying(said: list[Message], ending: Ending | None) -> None:
    turns = tuple(Turn(("meta_0", "reasoner_0")[k % 2], message) for k, message in enumerate(said))
    transcript = Transcript(SUM, turns, ending)
    for twin in (Transcript.from_json(transcript.to_json()), pickle.loads(pickle.dumps(transcript))):
        assert twin == transcript
    assert copy.deepcopy(transcript) == transcript


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (5, "a transcript is a mapping with problem, turns"),
        ("{}", "a transcript is a mapping with problem, turns"),
        ({"turns": 5}, "a transcript is a mapping with problem, turns"),
        ({"turns": [{"agent": "meta_0", "text": "a"}, {"agent": "meta_0"}]}, "turn 1 of the transcript needs agent"),
        ({"turns": [{"agent": "meta_0", "text": 5}]}, "turn 0 of the transcript needs agent and text"),
        ({"turns": [5]}, "turn 0 of the transcript needs agent and text"),
        (
            {"turns": [{"agent": "meta_0", "text": "a", "finish": "tired"}]},
            "a message's finish is stop, .*, got 'tired'",
        ),
        ({"ending": "tired"}, "a dialogue's ending is finished, round_limit, .*, got 'tired'"),
        ({"problem": None}, "a problem is a Problem or a mapping with question and answer, got None"),
        ({"problem": {"question": "q"}}, "answer missing"),
        ({"problem": {"question": "q", "answer": "7", "extra": 5}}, "extra is a mapping from name to value, got 5"),
    ],
)
def test_json_that_is_no_transcript_is_refused_with_what_does_not_fit(changed: Any, message: str) -> None:
    data = Transcript(SUM).to_json() | changed if isinstance(changed, dict) else changed
    with pytest.raises(ValueError, match=message):
        Transcript.from_json(data)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (0.5, "0.5"),
        ("7.0", "7.0"),
        (10**30, "1" + "0" * 30),
        (np.int64(7), "7"),
        (np.float64(7.0), "7"),
        (np.float32(0.1), "0.1"),
    ],
)
def test_a_number_in_a_mapping_is_written_out_as_in_a_data_set(answer: Any, text: str) -> None:
    assert problem_from_json({"question": "q", "answer": answer, "unknown": 1, "extra": None}).answer == text


@pytest.mark.parametrize("answer", [None, ["7"], True, b"7", {"value": 7}, float("nan"), float("inf")])
def test_a_golden_answer_that_is_no_text_is_refused_and_named(answer: Any) -> None:
    for make in (lambda: Problem("p", "q", answer), lambda: problem_from_json({"question": "q", "answer": answer})):
        with pytest.raises(ValueError, match="question and answer are text"):
            make()


@pytest.mark.parametrize("text", [None, 5, b"x"])
def test_a_message_is_text_and_nothing_else(text: Any) -> None:
    with pytest.raises(TypeError, match="a message and its reasoning are text"):
        Message(text)
    with pytest.raises(TypeError, match="a message and its reasoning are text"):
        Message("", reasoning=text)


def test_a_problem_and_what_was_said_about_it_can_stand_in_a_set() -> None:
    other = Problem("sum", "3+4?", "7", level=1, extra={"answer_a": "8"})
    begun = Transcript(SUM).said("meta_0", "Add.")
    assert len({SUM, copy.deepcopy(SUM), other}) == 2
    assert {begun} == {Transcript.from_json(begun.to_json())}


def test_a_turn_in_which_a_role_could_not_speak_says_nothing_of_it() -> None:
    transcript = Transcript(SUM).said("meta_0", "Add.").said("meta_0", Message("", "context_full"))
    assert transcript.by("meta") == (Message("Add."),)
    assert [turn.was_said for turn in transcript.turns] == [True, False]
