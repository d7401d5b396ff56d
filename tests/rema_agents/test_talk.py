"""Asking a pair a question, and playing a seat by hand."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path

import pytest

from rema_agents.talk import folder_of, main, terse
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
    assert "(context_full)" in capsys.readouterr().out


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


def test_a_model_that_is_nowhere_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Hello", "--model", "nowhere"]) == 2
    assert "nowhere holds no model for meta" in capsys.readouterr().err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with weights for each role."""
    for role in ("meta", "reasoner"):
        shutil.copytree(MODEL_FOLDER, tmp_path / "final" / role)
    (tmp_path / "config.yaml").write_text("system_prompts: embedded\n")
    return tmp_path


def test_a_run_is_found_by_its_roles_and_keeps_its_short_prompts(run: Path) -> None:
    assert folder_of(str(run), "meta") == run / "final" / "meta"
    assert folder_of(str(run / "final"), "reasoner") == run / "final" / "reasoner"
    assert terse(str(run))
    assert not terse(str(run / "final"))


def test_a_run_with_shared_weights_serves_every_role(run: Path) -> None:
    shutil.rmtree(run / "final" / "meta")
    (run / "final" / "reasoner").rename(run / "final" / "policy")
    assert folder_of(str(run), "meta") == folder_of(str(run), "reasoner") == run / "final" / "policy"
