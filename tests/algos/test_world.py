"""From flags to environment and problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pettingzoo import AECEnv

import rema_env
from algos.config import EnvConfig, EvalConfig
from algos.world import embedded_prompts, eval_sets, make_world, read_system_prompts, set_names, trained_on
from rema_env.problems.listed import Listed
from rema_env.problems.named import load
from rema_env.problems.streamed import Streamed
from rema_env.transcript import Problem


def rows(path: Path, count: int = 5) -> str:
    path.write_text("".join(json.dumps({"question": f"q{n}", "answer": str(n)}) + "\n" for n in range(count)))
    return str(path)


def test_procedural_problems_are_parted_into_training_and_held_out() -> None:
    world = make_world(EnvConfig())
    trained = {world.problems.draw(0, n).id for n in range(500)}
    (held_out,) = eval_sets(EvalConfig(eval_num_problems=64), EnvConfig(), world).values()
    assert len({problem.id for problem in held_out}) == 64
    assert not trained & {problem.id for problem in held_out}


def test_a_file_is_trained_on_whole_and_evaluated_only_where_a_set_is_named(tmp_path: Path) -> None:
    train, test = rows(tmp_path / "train.jsonl"), rows(tmp_path / "test.jsonl", 3)
    env = EnvConfig(dataset_name=train)
    world = make_world(env)
    assert {world.problems.draw(0, n).question for n in range(5)} == {f"q{n}" for n in range(5)}
    assert eval_sets(EvalConfig(), env, world) == {}
    (named,) = eval_sets(EvalConfig(eval_datasets=(test,), eval_num_problems=2), env, world).items()
    assert named[0] == "test"
    assert [problem.question for problem in named[1]] == ["q0", "q1"]


@pytest.mark.parametrize(("env", "name"), [("math_v0", "arithmetic-2"), ("qa_v0", "ranks-3")])
def test_of_a_family_the_part_that_is_never_trained_on_is_evaluated_on(env: str, name: str) -> None:
    config = EnvConfig(env=env, dataset_name=name)
    world = make_world(config)
    trained = {world.problems.draw(42, n).question for n in range(2000)}
    sets = eval_sets(EvalConfig(eval_datasets=(name,), eval_num_problems=40), config, world)
    assert not trained & {problem.question for problem in sets[name]}
    assert trained_on(world.problems, sets[name], name) is None
    part = f"{name}-train"
    named = eval_sets(EvalConfig(eval_datasets=(part,), eval_num_problems=40), config, world)[part]
    assert trained & {problem.question for problem in named}
    assert trained_on(world.problems, named, part) == f"{part} is what is trained on: its score says little"


def test_evaluation_sets_are_told_apart_by_as_much_of_their_paths_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        Path(folder).mkdir()
        rows(Path(folder, "test.jsonl"), 1)
    Path("a", "test.json").write_text('[{"question": "q", "answer": "1"}]')
    assert set_names(["a/test.jsonl", "owner/set"]) == ["test", "owner_set"]
    assert set_names(["a/test.jsonl", "b/test.jsonl"]) == ["a_test", "b_test"]
    assert set_names(["a/test.jsonl", "a/test.json"]) == ["a_test.jsonl", "a_test.json"]
    with pytest.raises(ValueError, match=r"--eval-datasets names a_test.jsonl twice"):
        set_names(["a/test.jsonl", "b/test.jsonl", "a/test.jsonl"])
    sets = eval_sets(EvalConfig(eval_datasets=("a/test.json", "b/test.jsonl")), EnvConfig(), make_world(EnvConfig()))
    assert {name: problems[0].question for name, problems in sets.items()} == {"a_test": "q", "b_test": "q0"}


def riddles(**settings: Any) -> AECEnv:
    """An environment as anyone writes one: problems of its own unless it is told of others."""
    own = Listed("riddles", [Problem("wet", "What gets wetter the more it dries?", "a towel")])
    return rema_env.dialogue_env("vrp", own, "exact", **settings)


def test_a_task_of_ones_own_is_trained_and_evaluated_on_named_files_which_are_read_once(tmp_path: Path) -> None:
    train, test = rows(tmp_path / "train.jsonl"), rows(tmp_path / "test.jsonl", 3)
    own = EnvConfig(env="tests.algos.test_world:riddles")
    config = EnvConfig(env=own.env, dataset_name=train)
    assert make_world(own).problems.name == "riddles"
    world = make_world(config)
    assert world.problems.size == 5
    assert world.make_env().unwrapped.problems is world.problems
    sets = eval_sets(EvalConfig(eval_datasets=(test,)), own, make_world(own))
    assert [problem.question for problem in sets["test"]] == ["q0", "q1", "q2"]


def test_a_data_set_is_read_once_however_many_environments_play_it(tmp_path: Path) -> None:
    world = make_world(EnvConfig(dataset_name=rows(tmp_path / "train.jsonl"), answer_column="answer"))
    assert all(world.make_env().unwrapped.problems is world.problems for _ in range(2))


def test_a_streamed_set_is_streamed_to_train_on_and_read_whole_to_be_evaluated_on(tmp_path: Path) -> None:
    train, test = rows(tmp_path / "train.jsonl"), rows(tmp_path / "test.jsonl", 3)
    env = EnvConfig(dataset_name=train, streaming=True)
    world = make_world(env)
    assert isinstance(world.problems, Streamed)
    assert world.make_env().unwrapped.problems is world.problems
    (problems,) = eval_sets(EvalConfig(eval_datasets=(test,), eval_num_problems=2), env, world).values()
    assert [problem.question for problem in problems] == ["q0", "q1"]


def test_how_data_sets_are_read_holds_for_those_evaluated_on_where_problems_are_made_by_rule(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"frage": "q", "answer": "1"}')
    env = EnvConfig(question_column="frage")
    sets = eval_sets(EvalConfig(eval_datasets=(str(tmp_path / "test.jsonl"),)), env, make_world(env))
    assert [problem.question for problem in sets["test"]] == ["q"]


def test_a_big_file_that_is_trained_on_is_compared_with_what_is_evaluated_on(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["a", "b"], "answer": [1, 2]}), tmp_path / "big.parquet")
    problems = load(tmp_path / "big.parquet", streaming=True)
    assert trained_on(problems, [Problem("x", "B", "2")], "test") == (
        "1 of the 1 questions of test are also trained on: its score says little"
    )


def test_the_environment_is_told_the_flags_that_were_changed(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text("meta: Think.\n")
    config = EnvConfig(system_prompts=str(prompts), max_rounds=2, unfinished_reward="grade")
    env = make_world(config).make_env()
    env.reset(options={"problem": Problem("p", "q", "a")})
    assert env.observe("meta_0")["messages"][0] == {"role": "system", "content": "Think."}
    assert env.unwrapped.limits.max_rounds == 2
    assert env.unwrapped.unfinished_reward == "grade"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (EnvConfig(env="nothing_v0"), "there is no environment 'nothing_v0'"),
        (EnvConfig(env="no.such.module:env"), "there is no module 'no' to import"),
        (EnvConfig(env="builtins:dict"), "--env builtins:dict makes {}, which is no AEC environment"),
        (EnvConfig(env_kwargs={"colour": "red"}), "math_v0 does not take these settings.*colour"),
        (EnvConfig(process="debate"), "debate"),
        (EnvConfig(dataset_name="nowhere.parquet"), "nowhere.parquet"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_message(config: EnvConfig, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_world(config)


def test_columns_without_a_data_set_are_refused() -> None:
    config = EnvConfig(question_column="problem")
    with pytest.raises(ValueError, match="--question-column and --answer-column tell how a data set is read"):
        eval_sets(EvalConfig(), config, make_world(config))


def test_a_prompt_file_must_hold_texts_by_role(tmp_path: Path) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(ValueError, match="must hold `role: text` lines"):
        read_system_prompts(str(path))
    path.write_text("meta: [Think.\n")
    with pytest.raises(ValueError, match=r"prompts.yaml is not YAML: .* line 2"):
        read_system_prompts(str(path))
    path.write_bytes("meta: Überlege.".encode("latin-1"))
    with pytest.raises(ValueError, match=r"prompts.yaml is not YAML: .*can't decode byte"):
        read_system_prompts(str(path))


def test_the_embedded_models_prompts_go_to_those_of_its_roles_that_an_environment_has() -> None:
    def prompt(process: str, agent: str) -> str:
        env = make_world(EnvConfig(system_prompts="embedded", process=process)).make_env()
        env.reset(seed=0)
        return str(env.observe(agent)["messages"][0]["content"])

    assert prompt("multi_turn", "meta_0") == "Plan."
    assert prompt("multi_turn", "reasoner_0") == "Solve."
    assert prompt("vrp", "reasoner_0") == "Think."
    assert embedded_prompts("debate", ["solver_0", "critic_0"]) == {}
    assert embedded_prompts("debate", ["critic_0", "reasoner_0"]) == {"reasoner": "Solve."}


def test_a_way_of_reading_needs_something_to_read():
    with pytest.raises(ValueError, match=r"--streaming tells how a data set is read.*--dataset-name"):
        make_world(EnvConfig(streaming=True))
