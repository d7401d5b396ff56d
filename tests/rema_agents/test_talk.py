"""Asking a pair a question, and playing a seat by hand."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path

import pytest

from rema_agents.talk import main
from rema_agents.tiny import MODEL_FOLDER


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that are typed one after the other, then the end of input."""
    lines: list[str] = []

    def read(prompt: str = "") -> str:
        print(prompt)
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr(builtins, "input", read)
    return lines


def test_the_embedded_pair_answers_a_question_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Compute 3+4 modulo 10.", "--answer", "7"]) == 0
    said = capsys.readouterr().out
    assert said.index("meta_0:") < said.index("reasoner_0:")
    assert "graded" in said


def test_a_question_that_the_model_has_no_room_for_ends_as_context_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Compute " + "1+" * 600 + "1 modulo 10."]) == 0
    said = capsys.readouterr().out
    assert "the chat of meta_0 is too long: " in said
    assert "takes 1024 tokens, 48 of them for the answer (--max-tokens)\n(context_full)" in said


def test_an_answer_that_the_model_has_no_room_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Hello", "--max-tokens", "1024"]) == 2
    assert "takes 1024 tokens, the chat included" in capsys.readouterr().err


def test_a_role_that_nobody_has_cannot_be_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Hello", "--process", "mrp", "--play", "meta"]) == 2
    assert "--play meta: there is no such role; there are: reasoner" in capsys.readouterr().err


def test_a_person_plays_a_seat_and_asks_until_the_input_ends(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += [
        "Compute 3+4*2 modulo 10.",
        "Compute 4*2",
        "Compute 3+8 [FINISH]",
        "Compute 1+1 modulo 10.",
        "Compute 1+1 [FINISH]",
    ]
    assert main(["--play", "meta"]) == 0
    said = capsys.readouterr().out
    assert said.count("[meta_0] >") == 3
    assert said.count("(finished)") == 2


def test_a_blank_line_is_no_question(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    typed += ["", " ", "Compute 1+1 modulo 10.", ""]
    assert main([]) == 0
    said = capsys.readouterr().out
    assert (said.count("question >"), said.count("(finished)")) == (5, 1)


def test_a_dialogue_of_no_rounds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Hello", "--max-rounds", "0"]) == 2
    assert "max_rounds must be a whole number of at least 1, got 0" in capsys.readouterr().err


def test_a_model_that_is_nowhere_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Hello", "--model", "./nowhere"]) == 2
    assert "./nowhere: there is no such folder" in capsys.readouterr().err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the embedded model with prompts and limits of its own, interrupted after its first checkpoint."""
    run = tmp_path / "run"
    for checkpoint in ("best", "checkpoint-1"):
        shutil.copytree(MODEL_FOLDER, run / checkpoint / "policy")
    (run / "best" / "policy" / "model.safetensors").unlink()  # so that it cannot be what is taken
    (run / "latest").write_text("checkpoint-1")
    (run / "system_prompts.yaml").write_text("meta: Plan.\nreasoner: Solve.\n")
    (run / "config.yaml").write_text("model_name_or_path: embedded\nmax_rounds: 1:0,3:10\nmax_completion_length: 40\n")
    return run


@pytest.mark.parametrize("part", ["", "checkpoint-1", "checkpoint-1/policy"])
def test_a_run_and_each_part_of_it_are_talked_with_as_they_were_trained(
    run: Path, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["Compute 3+4 modulo 10.", "--answer", "7", "--model", str(run / part)]) == 0
    assert "(finished, graded right)" in capsys.readouterr().out
