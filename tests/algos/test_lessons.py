"""Dialogues to learn from: by the oracle, from files, and as episodes in tokens."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rema_env
from algos.batch import join_calls
from algos.lessons import Lesson, Mistakes, make_lessons, play_lessons, read_dialogues
from rema_agents.chat import ChatCodec
from rema_agents.tiny import MODEL_FOLDER, SYSTEM_PROMPTS
from rema_env.transcript import Ending

AGENTS = ("meta_0", "reasoner_0")
TURNS = [{"meta": "Compute 4*2", "reasoning": "8"}, {"meta": "Compute 3+8", "reasoning": "\\boxed{1} [FINISH]"}]
MULTI_TURN = ("multi_turn", AGENTS)
make_env = partial(rema_env.math_v0, system_prompts=SYSTEM_PROMPTS["multi_turn"], max_rounds=4)


@pytest.fixture(scope="module")
def codec() -> ChatCodec:
    return ChatCodec.from_pretrained(MODEL_FOLDER)


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def oracle_lessons(count: int, **mistakes: Any) -> list[Lesson]:
    lesson = make_lessons(None, Mistakes(**mistakes), [MULTI_TURN], seed=0)
    return [lesson(index) for index in range(count)]


def test_lessons_without_mistakes_earn_the_whole_reward(codec: ChatCodec) -> None:
    episodes = play_lessons(make_env, codec, oracle_lessons(8, operations=(1, 2, 3)), max_length=128)
    assert {episode.rewards["meta_0"] for episode in episodes} == {1.0}
    assert [episode.problem.level for episode in episodes] == [1, 2, 3, 1, 2, 3, 1, 2]


def test_lessons_draw_from_the_training_split_alone() -> None:
    from rema_env.problems.arithmetic import arithmetic

    heldout = {problem.id for problem in arithmetic(1, "heldout").listed(29)}
    assert not heldout & {lesson.problem.id for lesson in oracle_lessons(300, operations=(1,))}


def test_mistakes_cost_reward_and_nothing_else(codec: ChatCodec) -> None:
    lessons = oracle_lessons(200, plain=0.5, slip=0.15, early=0.1)
    episodes = play_lessons(make_env, codec, lessons, max_length=128)
    assert {episode.ending for episode in episodes} == {Ending.FINISHED}
    assert 0.4 < sum(episode.rewards["meta_0"] for episode in episodes) / 200 < 0.65


def test_every_word_said_is_learnt_and_nothing_else(codec: ChatCodec) -> None:
    (episode,) = play_lessons(make_env, codec, oracle_lessons(1), max_length=128)
    for agent in AGENTS:
        (row,) = join_calls([call for call in episode.calls if call.agent == agent])
        said = [codec.decode(row.ids[row.turn == turn].tolist()) for turn in range(row.turn.max() + 1)]
        assert said == [str(message) for message in episode.transcript.by(agent.removesuffix("_0"))]
        assert all(row.ids[row.turn == turn][-1] in codec.stop_token_ids for turn in range(len(said)))


def test_a_dialogue_stops_before_the_message_that_would_not_fit(codec: ChatCodec) -> None:
    (episode,) = play_lessons(make_env, codec, oracle_lessons(1), max_length=25)
    assert episode.ending is Ending.CONTEXT_FULL
    assert [call.turn for call in episode.calls] == [0, 1]


def test_a_file_of_dialogues_is_spoken_with_the_flag_where_it_belongs(tmp_path: Path, codec: ChatCodec) -> None:
    name = write(
        tmp_path / "d.jsonl", {"id": "a", "question": "Compute 3+4*2 modulo 10.", "answer": "1", "turns": TURNS}
    )
    lesson = make_lessons(name, Mistakes(), [MULTI_TURN], seed=0)
    (episode,) = play_lessons(make_env, codec, [lesson(0)], max_length=128)
    said = [str(turn.message) for turn in episode.transcript.turns]
    assert said == ["Compute 4*2", "8", "Compute 3+8 [FINISH]", "\\boxed{1}"]
    assert episode.ending is Ending.FINISHED


def test_a_lesson_can_be_played_again(tmp_path: Path, codec: ChatCodec) -> None:
    name = write(tmp_path / "d.jsonl", {"question": "Compute 3+4*2 modulo 10.", "turns": TURNS})
    lesson = make_lessons(name, Mistakes(), [MULTI_TURN], seed=0)(0)
    first, again = (play_lessons(make_env, codec, [lesson], max_length=128)[0] for _ in range(2))
    assert first.calls == again.calls != ()


def long(rounds: int) -> dict[str, Any]:
    turns = [{"meta": f"Compute {n}", "reasoning": f"\\boxed{{{n}}}"} for n in range(rounds)]
    return {"id": "long", "question": "q", "turns": turns}


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (
            long(5),
            {},
            "'long' would end as round_limit after 8 messages of its 10 in process .*raise --max-rounds above 4",
        ),
        (
            long(2),
            {"process": "single_turn"},
            "'long' would end as finished after 2 messages of its 4 .* name another --process",
        ),
    ],
)
def test_a_dialogue_that_would_be_cut_short_is_refused(
    tmp_path: Path, row: Any, settings: dict[str, Any], message: str
) -> None:
    name = write(tmp_path / "d.jsonl", row)
    with pytest.raises(ValueError, match=message):
        make_lessons(name, Mistakes(), [MULTI_TURN], 0, {"multi_turn": rema_env.math_v0(max_rounds=4, **settings)})


def test_an_oracle_that_has_too_few_rounds_or_no_such_level_is_refused() -> None:
    envs = {"multi_turn": rema_env.math_v0(max_rounds=2)}
    make_lessons(None, Mistakes((1, 2)), [MULTI_TURN], 0, envs)
    with pytest.raises(ValueError, match="would end as round_limit after 4 messages in process multi_turn"):
        make_lessons(None, Mistakes((1, 2, 3)), [MULTI_TURN], 0, envs)
    with pytest.raises(ValueError, match="got 9"):
        make_lessons(None, Mistakes((1, 9)), [MULTI_TURN], 0, envs)


def test_a_dialogue_goes_on_after_flags_that_do_not_end_it(tmp_path: Path) -> None:
    turns = [{"meta": "a [FINISH] [FINISH]", "reasoning": "b"}, *TURNS]
    (problem,) = read_dialogues(write(tmp_path / "d.jsonl", {"question": "q", "turns": turns}), AGENTS)
    assert problem.extra["meta_0"] == ["a", "Compute 4*2", "Compute 3+8 [FINISH]"]


def test_every_epoch_holds_each_dialogue_once(tmp_path: Path) -> None:
    rows = [{"id": str(n), "question": "q", "turns": TURNS} for n in range(5)]
    lesson = make_lessons(write(tmp_path / "d.jsonl", *rows), Mistakes(), [MULTI_TURN], seed=3)
    epochs = [[lesson(index).problem.id for index in range(start, start + 5)] for start in (0, 5)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == ["0", "1", "2", "3", "4"]
    assert epochs[0] != epochs[1]


def test_a_dialogue_without_a_boxed_answer_is_left_out(tmp_path: Path) -> None:
    broken = {"question": "q", "turns": [{"meta": "m", "reasoning": "r"}]}
    name = write(tmp_path / "d.jsonl", broken, {"question": "q", "turns": TURNS})
    assert len(read_dialogues(name, AGENTS)) == 1
    with pytest.raises(ValueError, match="none of 1 dialogues ends with a boxed answer"):
        read_dialogues(write(tmp_path / "e.jsonl", broken), AGENTS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "answer": "1"}, "columns question and turns .*; turns missing, there are question, answer"),
        ({"question": "q", "turns": [{"meta": "m"}]}, "row 0: turns must be a list of"),
        ({"question": "q", "turns": []}, "row 0: turns must be a list of"),
        ({"question": None, "turns": TURNS}, "row 0, column 'question': the cell is missing"),
        ({"question": ["a", "b"], "turns": TURNS}, "row 0, column 'question': expected text or a number"),
        ({"question": "q", "answer": ["1"], "turns": TURNS}, "row 0, column 'answer': expected text or a number"),
    ],
)
def test_a_file_of_another_shape_is_an_error_that_names_it(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_dialogues(write(tmp_path / "d.jsonl", row), AGENTS)


@pytest.mark.parametrize("process", ["single_turn", "mrp", "vrp"])
def test_lessons_of_every_process_earn_the_whole_reward(process: str, codec: ChatCodec) -> None:
    prompts = SYSTEM_PROMPTS[process]
    agents = tuple(f"{role}_0" for role in prompts)
    lesson = make_lessons(None, Mistakes(), [(process, agents)], seed=0)
    make = partial(rema_env.math_v0, process=process, system_prompts=prompts)
    episodes = play_lessons(make, codec, [lesson(index) for index in range(8)], max_length=128)
    assert {episode.rewards["reasoner_0"] for episode in episodes} == {1.0}


def test_processes_are_dealt_in_turn_and_every_level_comes_to_each_of_them() -> None:
    casts = [MULTI_TURN, ("vrp", ("reasoner_0",)), MULTI_TURN]
    lesson = make_lessons(None, Mistakes(operations=(1, 2, 3)), casts, seed=0)
    lessons = [lesson(index) for index in range(9)]
    assert [each.process for each in lessons] == ["multi_turn", "vrp", "multi_turn"] * 3
    assert [each.problem.level for each in lessons] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [tuple(each.speak) for each in lessons[:2]] == [AGENTS, ("reasoner_0",)]


def test_a_process_without_an_oracle_is_named() -> None:
    with pytest.raises(ValueError, match="no oracle speaks in process 'debate'"):
        make_lessons(None, Mistakes(), [MULTI_TURN, ("debate", AGENTS)], seed=0)


def test_a_file_of_dialogues_is_for_a_planner_and_a_solver(tmp_path: Path) -> None:
    name = write(tmp_path / "d.jsonl", {"question": "q", "turns": TURNS})
    with pytest.raises(ValueError, match="a planner and a solver in one process, here are reasoner_0"):
        make_lessons(name, Mistakes(), [("vrp", ("reasoner_0",))], seed=0)


def test_the_published_dialogues_can_be_read(data: Path) -> None:
    dialogues = read_dialogues(str(data / "mamrp_sft.parquet"), AGENTS)
    assert len(dialogues) == 799
    assert all(problem.extra["meta_0"][-1].endswith(" [FINISH]") for problem in dialogues)
    assert not any("[FINISH]" in line for problem in dialogues for line in problem.extra["reasoner_0"])
