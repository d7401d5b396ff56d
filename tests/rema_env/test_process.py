from __future__ import annotations

import pickle
from typing import Any

import pytest

from rema_env.process import PROCESSES, Process, final_message, multi_turn, process_named
from rema_env.transcript import Ending, Message, Problem, Transcript

START = Transcript(Problem("q", "2+2?", "4"))


def said(*turns: tuple[str, str]) -> Transcript:
    transcript = START
    for agent, text in turns:
        transcript = transcript.said(agent, text)
    return transcript


@pytest.mark.parametrize("name", PROCESSES)
def test_each_of_the_papers_processes_is_a_picklable_value(name: str) -> None:
    process = process_named(name)
    assert process.name == name
    assert process_named(process) is process
    assert pickle.loads(pickle.dumps(process)).roles == process.roles


@pytest.mark.parametrize(
    ("name", "agents"), [("single_turn", ["meta_0", "reasoner_0"]), ("mrp", ["reasoner_0"]), ("vrp", ["reasoner_0"])]
)
def test_processes_of_one_round_finish_with_the_reasoners_message(name: str, agents: list[str]) -> None:
    process, transcript = process_named(name), START
    for agent in agents:
        assert process.ending(transcript) is None
        assert process.next_speaker(transcript) == agent.removesuffix("_0")
        transcript = transcript.said(agent, "x")
    assert process.ending(transcript) is Ending.FINISHED


@pytest.mark.parametrize("name", ["mrp", "vrp"])
def test_an_agent_alone_sees_the_question(name: str) -> None:
    assert process_named(name).view(START, "reasoner") == [{"role": "user", "content": "Question:\n2+2?"}]


def test_the_meta_thinker_sees_the_bare_question_and_the_reasoner_question_and_instruction() -> None:
    process = multi_turn()
    assert process.view(START, "meta") == [{"role": "user", "content": "2+2?"}]
    assert process.view(said(("meta_0", "Add.")), "reasoner") == [
        {"role": "user", "content": "Question:\n2+2?\n\nInstruction:\nAdd."}
    ]


def test_what_a_role_is_shown_of_the_problem_is_up_to_the_task() -> None:
    process = process_named("multi_turn", lambda problem, role: f"{role}: {problem.question}")
    assert process.view(START, "meta")[0]["content"] == "meta: 2+2?"
    assert process.view(START, "reasoner")[0]["content"] == "Question:\nreasoner: 2+2?"


def test_neighbouring_messages_of_one_chat_role_are_joined() -> None:
    process = multi_turn()
    transcript = said(("meta_0", "a"), ("reasoner_0", "b"), ("reasoner_0", "c"), ("meta_0", "d"))
    assert [m["content"] for m in process.view(transcript, "meta")] == ["2+2?", "a", "b\n\nc", "d"]


def test_the_final_message_is_the_answerers_last_that_was_really_said() -> None:
    process = multi_turn()
    assert final_message(process, START) is None
    assert final_message(process, said(("meta_0", "plan"))) is None
    transcript = said(("meta_0", "plan"), ("reasoner_0", "one"), ("meta_0", "more"))
    assert final_message(process, transcript) == "one"
    assert final_message(process, transcript.said("reasoner_0", Message("", "context_full"))) == "one"
    assert final_message(process, transcript.said("reasoner_0", "")) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roles": ()}, "needs roles, each named once"),
        ({"roles": "solver"}, "needs roles, each named once, got 'solver'"),
        ({"roles": (1,)}, "lower-case letters a-z, got 1"),
        ({"view": None}, "view is a function, got None"),
        ({"turns_per_round": -1}, "turns_per_round is a whole number, got -1"),
        ({"turns_per_round": 1.5}, "turns_per_round is a whole number, got 1.5"),
        ({"roles": ("a", "a")}, "needs roles, each named once"),
        ({"roles": ("Meta_1",)}, "lower-case letters a-z, got 'Meta_1'"),
        ({"answerer": "judge"}, "answerer 'judge' is none of its roles"),
    ],
)
def test_a_malformed_process_is_refused(changes: dict[str, Any], message: str) -> None:
    rules: dict[str, Any] = dict.fromkeys(("next_speaker", "view", "ending"), lambda *_: None)
    with pytest.raises(ValueError, match=message):
        Process(**{"name": "mine", "roles": ("solver", "critic"), **rules, **changes})
