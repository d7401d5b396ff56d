from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rema_env
from rema_env.actions import (
    ACTIONS,
    PROMPT,
    SCHEMA,
    MetaAction,
    action_counts,
    example,
    level_by_action,
    parse,
    with_json_actions,
)
from rema_env.process import multi_turn, vrp
from rema_env.transcript import Ending, Message, Problem, Transcript

SUM = Problem("sum", "What is 3 + 4?", "7", level=2)
SPLIT, ALONE = example("DECOMPOSE", "First 3, then 4."), example("EMPTY")


def play(*messages: str, process: str = "single_turn", **arguments: Any) -> Any:
    env = rema_env.math_v0.raw_env(process=process, actions="json", **arguments)
    env.reset(options={"problem": SUM})
    for message in messages:
        env.step(message)
    return env


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (SPLIT, MetaAction("DECOMPOSE", "First 3, then 4.")),
        (f" \n{ALONE}\n", MetaAction("EMPTY", "")),
        ('{"output": "Sum?", "action": "REWRITE"}', MetaAction("REWRITE", "Sum?")),
        ('{"action": "EMPTY", "output": "text"}', None),
        ('{"action": "REWRITE", "output": " "}', None),
        ('{"action": "SOLVE", "output": "7"}', None),
        ('{"action": "REWRITE"}', None),
        ('{"action": "REWRITE", "output": "x", "why": "y"}', None),
        ('{"action": ["REWRITE"], "output": "x"}', None),
        ('{"action": "REWRITE", "output": 7}', None),
        ('{"action": "EMPTY", "action": "REWRITE", "output": "x"}', None),
        ('{"action": "REWRITE", "output": {"action": "EMPTY"}}', None),
        ('{"action": "REWRITE", "output": "\\ud800"}', MetaAction("REWRITE", "\ufffd")),
        ('```json\n{"action": "EMPTY", "output": ""}\n```', None),
        ("[" * 100_000, None),
        ("1" * 10_000, None),
        ("", None),
        ("null", None),
    ],
)
def test_a_message_is_an_action_or_it_is_none(message: str, action: MetaAction | None) -> None:
    assert parse(message) == action


@given(st.sampled_from(ACTIONS), st.text())
def test_an_example_is_read_back_wherever_its_text_fits_its_action(action: str, output: str) -> None:
    fits = bool(output.strip()) is (action != "EMPTY")
    assert parse(example(action, output)) == (MetaAction(action, output) if fits else None)


def test_the_prompt_shows_an_example_of_every_action_and_the_schema_names_them() -> None:
    shown = [action for line in PROMPT.splitlines() if (action := parse(line[: line.rfind("}") + 1]))]
    assert [action.action for action in shown] == list(ACTIONS) == SCHEMA["properties"]["action"]["enum"]


def test_the_reasoner_sees_the_text_of_an_action_and_nothing_of_an_empty_one() -> None:
    assert play(SPLIT).observe("reasoner_0")["messages"][-1]["content"] == (
        "Question:\nWhat is 3 + 4?\n\nInstruction:\nFirst 3, then 4."
    )
    assert play(ALONE).observe("reasoner_0")["messages"][-1]["content"] == "Question:\nWhat is 3 + 4?"
    assert play(SPLIT).observe("meta_0")["messages"][-1]["content"] == SPLIT


def test_an_invalid_action_ends_the_dialogue_truncated_and_unpaid() -> None:
    env = play("Add them.")
    assert env.transcript.ending is Ending.INVALID_ACTION
    assert env.truncations == {"meta_0": True, "reasoner_0": True}
    assert env.rewards == {"meta_0": 0.0, "reasoner_0": 0.0}
    assert env.infos["meta_0"]["ending"] == "invalid_action"


def test_an_invalid_action_passes_at_a_price_where_so_configured() -> None:
    env = play("Add them.", r"\boxed{7}", invalid_action=0.25)
    assert env.rewards == {"meta_0": 0.75, "reasoner_0": 1.0}
    assert env.infos["meta_0"]["terms"]["invalid_action"] == 1.0


def test_actions_are_counted_and_logged_without_pay() -> None:
    env = play(SPLIT, r"\boxed{7}")
    assert env.infos["meta_0"]["terms"] == {
        "answer": 1.0,
        "action_decompose": 1.0,
        "action_rewrite": 0.0,
        "action_empty": 0.0,
        "invalid_action": 0.0,
    }
    assert env.rewards == {"meta_0": 1.0, "reasoner_0": 1.0}
    assert env.infos["reasoner_0"]["terms"] == {"answer": 1.0}


def test_levels_are_averaged_by_action() -> None:
    def took(message: str, level: int | str | None) -> Transcript:
        return Transcript(Problem("q", "?", "1", level)).said("meta_0", message)

    episodes = [
        took(SPLIT, 4),
        took(SPLIT, 2),
        took(ALONE, 1),
        took("no action", 5),
        took(ALONE, None),
        took(ALONE, "hard"),
    ]
    assert level_by_action(episodes) == {"DECOMPOSE": 3.0, "EMPTY": 1.0, "INVALID": 5.0}
    assert action_counts(episodes[0]) == {"DECOMPOSE": 1, "REWRITE": 0, "EMPTY": 0, "INVALID": 0}


def test_actions_work_over_several_turns() -> None:
    env = play(ALONE, "3 + 4", SPLIT, "7", process="multi_turn")
    assert [m["content"] for m in env.observe("reasoner_0")["messages"][1:]] == [
        "Question:\nWhat is 3 + 4?", "3 + 4", "First 3, then 4.", "7"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: with_json_actions(vrp()), "process 'vrp' has no role 'meta'"),
        (lambda: with_json_actions(multi_turn(), "ignore"), "invalid must be end or pass, got 'ignore'"),  # type: ignore[arg-type]
        (lambda: rema_env.math_v0(actions="yaml"), "actions must be text or json, got 'yaml'"),
    ],
)
def test_what_does_not_go_together_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_an_action_whose_text_ends_with_the_flag_closes_a_dialogue_in_turns() -> None:
    close = example("REWRITE", "State the answer. [FINISH]")
    assert play(SPLIT, "7", close, r"\boxed{7}", process="multi_turn").transcript.ending is Ending.FINISHED
    assert play(SPLIT, "7", SPLIT, r"\boxed{7}", process="multi_turn").transcript.ending is None
    passed = play("no action [FINISH]", r"\boxed{7}", process="multi_turn", invalid_action=0.5)
    assert passed.transcript.ending is None
    assert "[FINISH]" in passed.system_prompts["meta"]
    assert "[FINISH]" not in play().system_prompts["meta"]


def test_what_was_never_said_is_no_invalid_action() -> None:
    env = play(Message("", "context_full"), invalid_action=0.5)
    assert env.rewards == {"meta_0": 0.0, "reasoner_0": 0.0}
    assert action_counts(env.transcript)["INVALID"] == 0


@pytest.mark.parametrize("price", ["penalty", -1, float("inf")])
def test_a_penalty_that_is_none_is_refused(price: Any) -> None:
    with pytest.raises(ValueError, match="costs is a number of at least 0, got"):
        play(invalid_action=price)
