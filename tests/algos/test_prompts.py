"""Prompts travel with the weights that they taught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from algos import evaluate, grpo
from algos.prompts import mismatch, write_prompts
from algos.world import read_system_prompts
from rema_agents.episodes import read_episodes

SMALL = ["--problems-per-step", "2", "--num-generations", "2", "--eval-num-problems", "4", "--save-steps", "0"]


def test_a_folder_taught_with_other_prompts_says_for_which_role_and_what_to_do(tmp_path: Path) -> None:
    write_prompts(tmp_path, {"meta": "Plan.", "reasoner": "Solve."})
    assert mismatch(str(tmp_path), {"meta": "Plan.", "reasoner": "Solve."}) is None
    assert mismatch(str(tmp_path), {"reasoner": "Solve."}) is None
    said = mismatch(str(tmp_path), {"meta": "Think.", "reasoner": "Solve."})
    assert said is not None
    assert "other system prompts for meta (digest" in said
    assert f"--system-prompts {tmp_path / 'system_prompts.yaml'} uses its own" in said
    assert mismatch("some/hub-name", {"meta": "Think."}) is None


def test_run_and_model_folders_keep_their_prompts_and_another_evaluation_is_warned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = tmp_path / "run", tmp_path / "other.yaml"
    grpo.main([*SMALL, "--max-steps", "1", "--output-dir", str(run)])
    kept = read_system_prompts(str(run / "system_prompts.yaml"))
    assert kept == read_system_prompts(str(run / "final" / "policy" / "system_prompts.yaml"))
    assert "was taught with" not in capsys.readouterr().out
    other.write_text(yaml.safe_dump({**kept, "meta": "Solve."}))
    evaluate.main([str(run), "--system-prompts", str(other)])
    assert "was taught with other system prompts for meta" in capsys.readouterr().out


def test_training_on_what_is_evaluated_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    rows = ({"question": f"Compute {n}+2*3 modulo 10.", "answer": (n + 6) % 10} for n in range(4))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = ["--dataset-name", str(file), "--eval-datasets", str(file)]
    grpo.main([*SMALL, *data, "--max-steps", "0", "--output-dir", str(tmp_path / "run")])
    assert "4 of the 4 questions of mine are also trained on" in capsys.readouterr().out


def test_a_stream_is_trained_on_without_what_is_evaluated_which_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test, run = tmp_path / "train.jsonl", tmp_path / "test.jsonl", tmp_path / "run"
    rows = [json.dumps({"question": f"Compute {n}+2*3 modulo 10.", "answer": (n + 6) % 10}) for n in range(4)]
    train.write_text("\n".join(rows))
    test.write_text("\n".join(rows[:3]))
    data = ["--dataset-name", str(train), "--streaming", "--eval-datasets", str(test), "--eval-num-problems", "2"]
    grpo.main([*SMALL, *data, "--max-steps", "1", "--output-dir", str(run)])
    assert f"2 questions of {train} are evaluated on and were not trained on" in capsys.readouterr().out
    played = read_episodes(run / "episodes" / "step-000001.jsonl")
    assert {e.problem.question for e in played} == {f"Compute {n}+2*3 modulo 10." for n in (2, 3)}
