"""Evaluation and cross-play of real models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algos.evaluate import main
from rema_agents.episodes import read_episodes

FEW = ["--eval-num-problems", "24"]


def test_the_same_evaluation_gives_the_same_figures_by_name_and_by_folder(
    embedded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["embedded", *FEW, "--output-dir", str(tmp_path / "kept")])
    by_name = capsys.readouterr().out
    main([str(embedded), "--preset", "embedded", *FEW])
    assert capsys.readouterr().out == by_name
    assert "heldout: 24 problems, accuracy 0." in by_name
    kept = list(read_episodes(tmp_path / "kept" / "evaluation" / "heldout.jsonl"))
    accuracy = sum(float(e.info["score"]) for e in kept) / 24
    assert f"accuracy {accuracy:.3f} (24 episodes at temperature 1)" in by_name


def test_more_samples_a_problem_are_averaged(capsys: pytest.CaptureFixture[str]) -> None:
    main(["embedded", *FEW, "--eval-num-samples", "3"])
    assert "(72 episodes at temperature 1)" in capsys.readouterr().out


def test_any_file_can_be_evaluated_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"question": "Compute 1+2*3 modulo 10.", "answer": 7}) + "\n")
    main(["embedded", "--eval-datasets", str(file)])
    assert capsys.readouterr().out.startswith("mine: 1 problems, accuracy ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name what to evaluate: a run folder"),
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
