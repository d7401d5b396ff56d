"""Evaluation and cross-play of real models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from algos.evaluate import EvaluateConfig, Evaluation, Scores, main
from algos.metrics import aborted, accuracy, grading_failures
from algos.team import Team
from algos.world import make_world, read_system_prompts
from rema_agents.episodes import read_episodes
from rema_agents.play import play
from rema_agents.seat import ScriptedSeat
from rema_agents.types import Seat
from rema_env.grading.__main__ import main as grading
from rema_env.roles import digest
from rema_env.transcript import Finish, Message, Problem

FEW = ["--eval-num-problems", "24"]


def test_the_same_evaluation_gives_the_same_figures_by_name_and_by_folder(
    embedded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["embedded", *FEW, "--output-dir", str(tmp_path / "kept")])
    by_name = capsys.readouterr().out
    main(["--preset", "embedded", *FEW, str(embedded)])
    assert capsys.readouterr().out == by_name
    assert "heldout: 24 problems, accuracy 0." in by_name
    kept = list(read_episodes(tmp_path / "kept" / "evaluation" / "heldout.jsonl"))
    accuracy = sum(float(e.info["score"]) for e in kept) / 24
    assert f"accuracy {accuracy:.3f} (24 episodes at temperature 1)" in by_name
    summary = json.loads((tmp_path / "kept" / "summary.json").read_text())
    assert summary["evaluation"]["heldout"]["accuracy"] == accuracy
    prompts = read_system_prompts(str(tmp_path / "kept" / "system_prompts.yaml"))
    assert (summary["grader"], summary["grader_options"], summary["shots"]) == ("math", {"rtol": None}, 0)
    assert (summary["version"], summary["system_prompts"]) == (version("rema-rl"), digest(prompts))


SAVED = [
    r"\boxed{\frac12}", r"\boxed{0.5}", r"\boxed{1/2}", "1/2", r"\boxed{}", r"First \boxed{1}. No: \boxed{\frac{1}{2}}",
    r"\boxed{\frac{2}{3}}", r"\boxed{1} or \boxed{0.5}", "", r"\boxed{\sqrt{\frac14}}",
]  # fmt: skip


def test_saved_outputs_score_the_same_in_training_evaluation_and_by_the_grading_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = EvaluateConfig()
    problem = Problem("half", "What is half of 1?", r"\frac12")
    world, evaluation = make_world(config.env), Evaluation.of(config)

    def seats(dialogue: int) -> dict[str, Seat]:
        return {"meta_0": ScriptedSeat(["Go. [FINISH]"]), "reasoner_0": ScriptedSeat([SAVED[dialogue]])}

    trained = [e.rewards["reasoner_0"] for e in play(world.make_env, seats, [problem] * 10)]
    evaluated = [e.info["score"] for e in evaluation.play(seats, [problem] * 10)]
    rows = [{"id": n, "answer": problem.answer, "response": text} for n, text in enumerate(SAVED)]
    (tmp_path / "saved.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    grading([str(tmp_path / "saved.jsonl")])
    graded = [json.loads(line)["score"] for line in capsys.readouterr().out.splitlines()]
    assert trained == evaluated == graded
    assert 0 < sum(graded) < 10


def test_more_samples_a_problem_are_averaged(capsys: pytest.CaptureFixture[str]) -> None:
    main(["embedded", *FEW, "--eval-num-samples", "3"])
    assert "(72 episodes at temperature 1)" in capsys.readouterr().out


def test_an_evaluation_at_temperature_0_is_the_greedy_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["embedded", "--eval-num-problems", "24", "--eval-temperature", "0"])
    told = re.search(r"accuracy ([\d.]+) \(24 episodes at temperature 0\), greedy ([\d.]+)", capsys.readouterr().out)
    assert told is not None
    assert told[1] == told[2]


def test_any_file_can_be_evaluated_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"question": "Compute 1+2*3 modulo 10.", "answer": 7}) + "\n")
    main(["embedded", "--eval-datasets", str(file)])
    assert capsys.readouterr().out.startswith("mine: 1 problems, accuracy ")


def test_an_evaluation_in_which_all_dialogues_were_aborted_has_no_score(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed: list[Team] = []
    monkeypatch.setattr(Team, "close", lambda team: closed.append(team))
    with pytest.raises(SystemExit) as exit_:
        main(["embedded", *FEW, "--dialogue-timeout", "1e-9"])
    assert exit_.value.code == 1
    out, err = capsys.readouterr()
    assert "accuracy" not in out
    assert err.startswith("python -m algos.evaluate: there is no score: all 24 dialogues were aborted")
    assert closed, "an engine is stopped however it ends"


def test_what_speaks_against_a_score_is_said_beside_it() -> None:
    config = EvaluateConfig()
    world, evaluation = make_world(config.env), Evaluation.of(config)

    def seats(dialogue: int) -> dict[str, Seat]:
        plan = Message("", Finish.ABORTED) if dialogue else Message("Go. [FINISH]")
        return {"meta_0": ScriptedSeat(lambda chat: plan), "reasoner_0": ScriptedSeat([r"\boxed{1}"])}

    episodes = evaluation.play(seats, [world.problems.draw(0, n) for n in range(3)])
    (doubt,) = Scores(accuracy(episodes), None, episodes, aborted(episodes)).doubts()
    assert doubt.startswith("2 dialogues were aborted, as a model's server did not answer or")
    crashed = [replace(episodes[0], info={"score": 0.0, "outcome": "crashed"})]
    assert Scores(0.0, None, crashed, 0).doubts() == [grading_failures(crashed)]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name what to evaluate: a run folder"),
        (["embedded", "--cross-play"], "--cross-play pairs before with after training, and embedded is no run"),
        (["./nowhere"], "./nowhere: there is no such folder"),
        (["embedded", "--eval-datasets", "nowhere.csv"], "nowhere.csv"),
        (["embedded", "--eval-num-samples", "0"], "--eval-num-samples must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_evaluated_is_said_with_exit_code_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert said in " ".join((captured.err + captured.out).replace("│", " ").split())
