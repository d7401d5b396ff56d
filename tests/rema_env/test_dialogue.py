"""Endings, pay, views and the books of the environment over the multi-turn process, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rema_env
from rema_env.dialogue import DialogueEnv
from rema_env.process import Process
from rema_env.spaces import MAX_CHARACTERS
from rema_env.transcript import Ending, Finish, Grade, Message, Outcome, Problem, Transcript

SUM = Problem("sum", "What is 3 + 4?", "7")
RIGHT = r"So it is \boxed{7}."


def play(messages: Sequence[Any], problem: Problem = SUM, **arguments: Any) -> DialogueEnv:
    """The environment after these messages, dead steps not taken."""
    env = rema_env.math_v0.raw_env(**arguments)
    env.reset(seed=0, options={"problem": problem})
    for message in messages:
        env.step(message)
    return env


def ended(messages: Sequence[Any], **arguments: Any) -> tuple[str | None, dict[str, float], dict[str, Any]]:
    env = play(messages, **arguments)
    ending = env.transcript.ending
    return ending, env.rewards, env.infos["reasoner_0"]


@pytest.mark.parametrize(
    ("messages", "arguments", "ending"),
    [
        (["Add them. [FINISH]", RIGHT], {}, "finished"),
        (["Add.", "7", "Right. [FINISH] \n", RIGHT], {}, "finished"),
        (["[FINISH]", "no box"], {}, "finished"),
        (["Add.", "7"] * 3, {"max_rounds": 3}, "round_limit"),
        (["Add.", "7"] * 3, {"max_cycles": 3}, "round_limit"),
        ([Message("Add", "length")], {}, "message_limit"),
        (["Go. [FINISH]", Message(RIGHT, "length")], {}, "message_limit"),
        (["Go. [FINISH]", Message(RIGHT, "length")], {"on_cut": "continue"}, "message_limit"),
        ([Message("Go. [FINISH]", "length"), RIGHT], {"on_cut": "continue"}, "finished"),
        (["Add.", Message("7", "length")], {"on_cut": "continue"}, None),
        (["Add.", Message("7", "length")], {"on_cut": "continue", "max_rounds": 1}, "message_limit"),
        (["Add.", Message("", "context_full")], {}, "context_full"),
        (["Go. [FINISH]", Message("", "context_full")], {"on_cut": "continue"}, "context_full"),
        ([Message("", "aborted")], {}, "aborted"),
        (["Add.", ""], {}, None),
    ],
)
def test_every_ending_is_named(messages: list[str], arguments: dict[str, Any], ending: str | None) -> None:
    env = play(messages, **arguments)
    assert env.transcript.ending == ending
    assert [str(turn.message) for turn in env.transcript.turns] == [str(m) for m in messages]
    for agent in env.possible_agents:
        assert env.terminations[agent] is (ending == "finished")
        assert env.truncations[agent] is (ending is not None and ending != "finished")
        assert env.infos[agent].get("ending") == ending


@pytest.mark.parametrize(
    "plan",
    [
        "Do not write [FINISH] yet, check step 2",
        '"[FINISH]"',
        "`[FINISH]`",
        "We are done[FINISH]",
        "[FINISH].",
        "[FINISH] now",
        "[finish]",
        "",
    ],
)
def test_a_quoted_or_followed_flag_does_not_finish(plan: str) -> None:
    assert play([plan, RIGHT]).transcript.ending is None


def test_a_flag_in_question_or_reasoning_or_from_the_reasoner_does_not_finish() -> None:
    assert play(["Go.", RIGHT], Problem("q", "Say [FINISH]", "7")).transcript.ending is None
    assert play([Message("Go.", reasoning="[FINISH]"), RIGHT]).transcript.ending is None
    assert play(["Go.", RIGHT + " [FINISH]"]).transcript.ending is None


def test_after_the_flag_the_reasoner_answers_exactly_once() -> None:
    env = play(["Go. [FINISH]"])
    assert env.agent_selection == "reasoner_0"
    assert env.transcript.ending is None
    env.step(RIGHT)
    assert env.transcript.ending is Ending.FINISHED


def test_both_are_paid_for_the_answer_once_finished() -> None:
    _, rewards, info = ended(["Go. [FINISH]", RIGHT])
    assert rewards == {"meta_0": 1.0, "reasoner_0": 1.0}
    assert info == {
        "ending": "finished",
        "outcome": "right",
        "score": 1.0,
        "extracted": "7",
        "terms": {"answer": 1.0},
        "dropped": False,
    }
    assert type(info["ending"]) is type(info["outcome"]) is str
    assert ended(["Go. [FINISH]", r"\boxed{8}"])[1] == {"meta_0": 0.0, "reasoner_0": 0.0}


@pytest.mark.parametrize(
    ("unfinished", "paid", "dropped"), [("zero", 0.0, False), ("drop", 1.0, True), ("grade", 1.0, False)]
)
def test_an_unfinished_dialogue_is_worth_what_was_configured(unfinished: str, paid: float, dropped: bool) -> None:
    _, rewards, info = ended(["Go.", RIGHT], max_rounds=1, unfinished_reward=unfinished)
    assert rewards == {"meta_0": paid, "reasoner_0": paid}
    assert (info["score"], info["outcome"], info["terms"], info["dropped"]) == (1.0, "right", {"answer": paid}, dropped)


def test_what_was_not_said_is_not_graded() -> None:
    assert ended([Message("", "context_full")])[2]["outcome"] is None
    assert ended([Message("Go", "length")], unfinished_reward="grade")[1] == {"meta_0": 0.0, "reasoner_0": 0.0}
    overfull = ended(["Go.", RIGHT, Message("", "context_full")], unfinished_reward="grade")
    assert (overfull[1]["meta_0"], overfull[2]["extracted"]) == (1.0, "7")
    assert ended(["[FINISH]", RIGHT], problem=Problem("open", "Why?", ""))[2]["score"] is None


def test_an_answer_in_the_reasoning_block_or_of_the_meta_thinker_does_not_count() -> None:
    assert ended(["Go. [FINISH]", Message("Done.", reasoning=RIGHT)])[2]["outcome"] == "no_answer"
    assert ended([RIGHT + " [FINISH]", "Done."])[2]["outcome"] == "no_answer"


def test_an_aborted_episode_is_always_dropped() -> None:
    assert ended([Message("", "aborted")], unfinished_reward="grade")[2]["dropped"] is True


def test_each_sees_the_dialogue_as_its_own_chat() -> None:
    env = play(["Add them.", "7", "Sure?"], system_prompts={"meta": "You plan.", "reasoner": None})
    meta, reasoner = env.observe("meta_0"), env.observe("reasoner_0")
    assert meta["messages"] == (
        {"role": "system", "content": "You plan."},
        {"role": "user", "content": "What is 3 + 4?"},
        {"role": "assistant", "content": "Add them."},
        {"role": "user", "content": "7"},
        {"role": "assistant", "content": "Sure?"},
    )
    assert reasoner["messages"] == (
        {"role": "user", "content": "Question:\nWhat is 3 + 4?\n\nInstruction:\nAdd them."},
        {"role": "assistant", "content": "7"},
        {"role": "user", "content": "Sure?"},
    )
    assert meta["turn"] == reasoner["turn"] == 3
    assert all(type(m["content"]) is str for m in meta["messages"])


def test_an_observation_is_the_callers_to_change() -> None:
    env = play(["Add them."])
    for message in env.observe("reasoner_0")["messages"]:
        message["content"] = "changed"
    env.state()[0]["content"] = "changed"
    assert "changed" not in str(env.observe("reasoner_0")) + str(env.state())


def test_a_view_that_a_process_shares_is_not_the_callers_to_change() -> None:
    chat = [{"role": "user", "content": "q"}]
    rules = Process("echo", ("echo",), lambda t: "echo", lambda t, role: chat, lambda t: None)
    env = rema_env.dialogue_env(rules)
    env.reset(seed=0)
    env.last()[0]["messages"][0]["content"] = "changed"
    assert chat == [{"role": "user", "content": "q"}]


def test_default_prompts_stand_first_and_name_the_tags() -> None:
    env = play([])
    system = {agent: env.observe(agent)["messages"][0] for agent in env.agents}
    assert all(message["role"] == "system" for message in system.values())
    assert "[FINISH]" in system["meta_0"]["content"]
    assert r"\boxed{" in system["reasoner_0"]["content"]


# The books.


def test_eight_iterations_six_actions_and_two_dead_steps() -> None:
    env = rema_env.math_v0(max_rounds=3)
    env.reset(seed=0)
    actions, rewards, order = 0, dict.fromkeys(env.possible_agents, 0.0), []
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        rewards[agent] += reward
        order.append(agent)
        over = terminated or truncated
        actions += not over
        env.step(None if over else "hm")
    assert order == ["meta_0", "reasoner_0"] * 4
    assert actions == 6
    assert env.agents == []


def test_rewards_seen_by_last_sum_to_the_pay_exactly() -> None:
    env = rema_env.math_v0()
    env.reset(options={"problem": SUM})
    script = iter(["Add.", "7", "Sure?", "Yes.", "Go. [FINISH]", RIGHT])
    total = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        total[agent] += reward
        env.step(None if terminated or truncated else next(script))
    assert total == {"meta_0": 1.0, "reasoner_0": 1.0}


def test_one_environment_serves_episode_after_episode() -> None:
    env = play(["Go. [FINISH]", RIGHT])
    for _ in range(3):
        env.reset(options={"problem": SUM})
        assert (env.rewards, env.agents) == ({"meta_0": 0.0, "reasoner_0": 0.0}, ["meta_0", "reasoner_0"])
        assert env.transcript == Transcript(SUM)
        env.step("Go. [FINISH]")
        env.step(RIGHT)
        assert env.rewards["meta_0"] == 1.0


# What it refuses.


@pytest.mark.parametrize("action", [None, 5, b"bytes", ["text"], 1.5])
def test_a_live_agent_that_says_no_text_is_named(action: Any) -> None:
    with pytest.raises(TypeError, match="meta_0 must say a str or a Message"):
        play([action])


def test_a_dead_agent_may_say_nothing() -> None:
    with pytest.raises(ValueError, match="only valid action is None"):
        play(["[FINISH]", RIGHT, "more"])


def test_before_reset_and_after_the_end_nobody_can_speak() -> None:
    env = rema_env.math_v0.raw_env()
    with pytest.raises(ValueError, match=r"the dialogue is over or has not begun; reset\(\) begins one"):
        env.step("hm")
    env = play(["[FINISH]", RIGHT, None, None])
    with pytest.raises(ValueError, match="the dialogue is over"):
        env.step("hm")


def test_before_reset_there_is_nothing_to_see() -> None:
    env = rema_env.math_v0.raw_env(render_mode="ansi")
    for look in (env.last, lambda: env.observe("meta_0"), env.state, env.render):
        with pytest.raises(ValueError, match=r"the dialogue has not begun; reset\(\) begins one"):
            look()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_rounds": 0}, "max_rounds must be a whole number of at least 1, got 0"),
        ({"max_rounds": 3, "max_cycles": 4}, "name one limit, got 3 and 4"),
        ({"on_cut": "stop"}, "on_cut must be end or continue, got 'stop'"),
        ({"unfinished_reward": "half"}, "unfinished_reward must be zero, drop or grade, got 'half'"),
        ({"render_mode": "rgb_array"}, "render_mode must be human, ansi or None"),
        ({"process": "debate"}, "unknown process 'debate'; there are multi_turn, single_turn, mrp, vrp"),
        ({"system_prompts": {"critic": "x"}}, "system_prompts names critic; the roles here are meta, reasoner"),
        ({"dataset": "nowhere.parquet"}, "nowhere.parquet: no such file"),
        ({"grader": "maths"}, "a grader is one of"),
        ({"grader": 5}, r"a grader is a function \(problem, text\) -> Grade, got 5"),
        ({"max_rounds": 2.5}, "max_rounds must be a whole number of at least 1, got 2.5"),
        ({"max_rounds": "3"}, "max_rounds must be a whole number of at least 1, got '3'"),
        ({"max_rounds": True}, "max_rounds must be a whole number of at least 1, got True"),
        ({"process": ["vrp"]}, "unknown process"),
        ({"rewards": ["answer"]}, "rewards are a mapping from term to weight, or Reward terms, got"),
        ({"rewards": 5}, "rewards are a mapping from term to weight, or Reward terms, got 5"),
        ({"rewards": {"answer": None}}, "the weight of reward term 'answer' must be a finite number, got None"),
        ({"invalid_action": 0.5}, "invalid_action=0.5 is about JSON actions: give actions='json' with it"),
        ({"actions": "json", "invalid_action": None}, "costs is a number of at least 0, got None"),
        ({"dataset": ["a.jsonl", "b.jsonl"]}, "a data set is named by a text or a path, got"),
        ({"question_column": "q"}, "math_v0: question_column tells how a dataset is read, and there is none"),
        ({"problems": [SUM]}, r"problems needs name, size and draw\(seed, index\), as .*Listed"),
        ({"system_prompts": "Think."}, "system_prompts is a mapping from role to text, got 'Think.'"),
        ({"system_prompts": {"meta": 5}}, "the system prompt of 'meta' must be text or None, got 5"),
        ({"dataset": ""}, "the name of a data set is empty"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rema_env.math_v0(**arguments)


def test_a_golden_answer_that_the_grader_cannot_read_is_named_at_load(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q", "answer": "1"}\n{"question": "q", "answer": "{"}')
    with pytest.raises(ValueError, match=r"bad.jsonl, row 1, column 'answer': '\{' is no answer to be checked"):
        rema_env.math_v0(dataset=tmp_path / "bad.jsonl")


def test_a_dataset_can_be_a_family_by_name() -> None:
    assert rema_env.math_v0(dataset="chains-4").unwrapped.problems.name == "chains-4"


def test_problems_and_dataset_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="problems or dataset, not both"):
        rema_env.math_v0([SUM], dataset="x.csv")


# Reset.


def test_reset_pins_a_problem_given_as_object_or_mapping() -> None:
    env = rema_env.math_v0.raw_env()
    env.reset(options={"problem": {"question": "1+1?", "answer": 2}, "other": 1})
    assert env.transcript.problem == Problem("1+1?", "1+1?", "2")
    env.reset(options={"problem": SUM})
    assert env.transcript.problem is SUM
    with pytest.raises(ValueError, match="a problem needs question and answer; answer missing"):
        env.reset(options={"problem": {"question": "1+1?"}})
    with pytest.raises(ValueError, match="a problem is a Problem or a mapping with question and answer, got 5"):
        env.reset(options={"problem": 5})
    with pytest.raises(ValueError, match="problem ' ' has an empty question"):
        env.reset(options={"problem": {"question": " ", "answer": "2"}})


@pytest.mark.parametrize("options", ["problem", 5, ["problem"]])
def test_options_that_are_no_mapping_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"options is a mapping, e.g. \{'problem': p\}, got"):
        rema_env.math_v0().reset(seed=0, options=options)


@pytest.mark.parametrize(("finish", "thought"), [("weird", ""), ("stop", 5)])
def test_a_text_that_ended_or_thought_as_no_message_does_is_refused(finish: str, thought: Any) -> None:
    class Said(str):
        reasoning = thought

    said = Said("hm")
    said.finish = finish  # type: ignore[attr-defined]
    env = rema_env.math_v0()
    env.reset(seed=0)
    with pytest.raises(TypeError, match=f"meta_0's message has finish '{finish}' and reasoning {thought!r}"):
        env.step(said)


def test_a_limit_of_rounds_may_be_numpys() -> None:
    env = rema_env.math_v0(max_rounds=np.int64(2)).unwrapped
    assert type(env.limits.max_rounds) is int
    assert env.limits.max_rounds == 2


@pytest.mark.parametrize("seed", [-1, "seven", 1.5, True])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0"):
        rema_env.math_v0().reset(seed=seed)


def test_a_seed_decides_the_order_of_draws_and_a_pinned_problem_takes_none() -> None:
    def questions(seed: int, pinned: bool = False) -> list[str]:
        env = rema_env.math_v0.raw_env()
        found = []
        for k in range(5):
            env.reset(seed=seed if k == 0 else None)
            found.append(env.transcript.problem.question)
            if pinned:
                env.reset(options={"problem": SUM})
        return found

    assert questions(7) == questions(7) == questions(7, pinned=True)
    assert questions(7) != questions(8)
    assert len(set(questions(7))) > 1


SEVEN = """
import rema_env
env = rema_env.math_v0(max_rounds=2)
for start in (7, None, None, 7):
    env.reset(seed=start)
    print(env.unwrapped.transcript.problem.question)
for agent in env.possible_agents:
    for space in (env.action_space(agent), env.observation_space(agent)):
        space.seed(7)
        print([space.sample() for _ in range(2)])
"""


def test_a_seed_gives_the_same_questions_and_samples_in_every_process() -> None:
    outputs = {
        subprocess.check_output([sys.executable, "-c", SEVEN], text=True, env={**os.environ, "PYTHONHASHSEED": number})
        for number in ("1", "2")
    }
    (output,) = outputs
    first, second, third, again, *_ = output.splitlines()
    assert first == again
    assert len({first, second, third}) > 1


def test_environments_without_a_seed_differ() -> None:
    def first() -> list[str]:
        env = rema_env.math_v0.raw_env()
        found = []
        for _ in range(6):
            env.reset()
            found.append(env.transcript.problem.question)
        return found

    assert first() != first()


def test_a_transcript_that_breaks_the_rules_is_refused() -> None:
    env = rema_env.math_v0.raw_env(max_rounds=2)
    start = Transcript(SUM)
    with pytest.raises(ValueError, match="turn 0 of the transcript is reasoner_0's, but it is meta_0's turn"):
        env.reset(options={"transcript": start.said("reasoner_0", "7")})
    over = start.said("meta_0", "[FINISH]").said("reasoner_0", "7").said("meta_0", "more")
    with pytest.raises(ValueError, match="goes on after its end: turn 2 follows finished"):
        env.reset(options={"transcript": over})


def test_a_transcript_ended_by_a_limit_goes_on_under_a_wider_one() -> None:
    short = play(["Add.", "7"], max_rounds=1).transcript
    assert short.ending is Ending.ROUND_LIMIT
    env = rema_env.math_v0.raw_env(max_rounds=2)
    env.reset(options={"transcript": short.to_json()})
    assert (env.transcript.ending, env.agent_selection) == (None, "meta_0")


# Text that would break others.


def test_lone_surrogates_are_replaced_before_anything_is_kept() -> None:
    env = play(["\ud800 and \ud83d\ude00", "é\udfff"], Problem("q", "what \udc00?", "7"))
    assert [str(t.message) for t in env.transcript.turns] == ["\ufffd and \U0001f600", "é\ufffd"]
    assert env.transcript.problem.question == "what \ufffd?"
    str(env.state()).encode()
    extra = {"answer_a": "\ud800", "answer_b": "b", "level": 1, "tags": ["\ud800"]}
    judge = rema_env.judge_v0.raw_env(process="vrp", system_prompts={"reasoner": "\ud800"})
    judge.reset(options={"transcript": Transcript(Problem("\ud800", "q", "A\ud800", "\ud800", "\ud800", extra))})
    str(judge.observe("reasoner_0")).encode()
    json.dumps(judge.transcript.to_json(), ensure_ascii=False).encode()
    assert judge.transcript.problem.answer == "A\ufffd"


def test_any_text_that_knows_how_it_ended_is_a_message() -> None:
    class Reply(str):
        finish = "context_full"

    assert play([Reply("")]).transcript.ending is Ending.CONTEXT_FULL


def test_an_overlong_message_is_cut_and_counts_as_cut() -> None:
    env = play(["x" * (MAX_CHARACTERS + 1)])
    assert env.transcript.ending is Ending.MESSAGE_LIMIT
    assert len(env.transcript.turns[0].message) == MAX_CHARACTERS
    assert env.action_space("meta_0").contains(env.transcript.turns[0].message)


messages = st.builds(
    Message,
    st.one_of(
        st.sampled_from(
            ["[FINISH]", "Go. [FINISH]", 'Say "[FINISH]".', RIGHT, r"\boxed{", "", "{}", "<|im_end|>", "7"]
        ),
        st.text(max_size=40),
    ),
    st.sampled_from([Finish.STOP] * 6 + [Finish.LENGTH, Finish.CONTEXT_FULL, Finish.ABORTED]),
    st.sampled_from(["", "", "thought [FINISH]"]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(messages, max_size=9),
    process=st.sampled_from(["multi_turn", "single_turn", "mrp", "vrp"]),
    on_cut=st.sampled_from(["end", "continue"]),
    unfinished=st.sampled_from(["zero", "drop", "grade"]),
    rounds=st.integers(1, 4),
)
def test_replaying_turn_by_turn_and_resetting_to_a_transcript_agree(
    script: list[Message], process: str, on_cut: Any, unfinished: Any, rounds: int
) -> None:
    arguments: dict[str, Any] = {
        "process": process, "on_cut": on_cut, "unfinished_reward": unfinished, "max_rounds": rounds
    }  # fmt: skip
    played, continued = (rema_env.math_v0.raw_env(**arguments) for _ in range(2))
    played.reset(options={"problem": SUM})
    for message in script:
        if played.transcript.ending is not None:
            break
        played.step(message)
        continued.reset(options={"transcript": played.transcript.to_json()})
        assert continued.transcript == played.transcript
        assert continued.agent_selection == played.agent_selection
        for books in ("rewards", "terminations", "truncations", "infos", "agents"):
            assert getattr(continued, books) == getattr(played, books)
        for agent in played.agents:
            assert continued.observe(agent) == played.observe(agent)
            assert played.observation_space(agent).contains(played.observe(agent))
            assert continued._cumulative_rewards[agent] == played._cumulative_rewards[agent]


def test_a_last_turn_whose_grader_fails_can_be_taken_again() -> None:
    failures = [OSError("no memory")]

    def fails_once(problem: Problem, text: str) -> Grade:
        if failures:
            raise failures.pop()
        return Grade(1.0, Outcome.RIGHT, text)

    env = play(["Go. [FINISH]"], grader=fails_once)
    with pytest.raises(OSError, match="no memory"):
        env.step(RIGHT)
    assert (env.transcript.ending, len(env.transcript.turns), env.agent_selection) == (None, 1, "reasoner_0")
    env.step(RIGHT)
    assert env.transcript.ending is Ending.FINISHED
    assert env.rewards == {"meta_0": 1.0, "reasoner_0": 1.0}


@pytest.mark.parametrize("score", [5.0, -0.1, float("nan"), "1", np.True_])
def test_a_score_that_is_none_is_never_paid(score: Any) -> None:
    env = play(["Go. [FINISH]"], grader=lambda problem, text: Grade(score, Outcome.RIGHT, text))
    said = rf"the grader of math_v0 gave Grade\(score={re.escape(repr(score))}.*a score is a number in \[0, 1\]"
    with pytest.raises(ValueError, match=said):
        env.step(RIGHT)
    assert env.transcript.ending is None


def test_a_transcript_and_a_problem_together_are_refused() -> None:
    env = rema_env.math_v0()
    env.reset(options={"problem": SUM})
    begun = env.unwrapped.transcript
    with pytest.raises(ValueError, match="a transcript holds its own problem"):
        env.reset(options={"problem": SUM, "transcript": begun})
