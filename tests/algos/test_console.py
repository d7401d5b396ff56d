"""What a person reads while a run goes on."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from algos.console import Console, step_line
from rema_agents.types import Episode
from rema_env.transcript import Ending, Problem, Transcript

PLAYED = {
    "reward": 0.5,
    "accuracy": 0.25,
    "endings/finished": 1.0,
    "turns/mean": 4.0,
    "completions/mean_length": 9.0,
    "meta/completions/mean_length": 12.0,
    "reasoner/completions/mean_length": 6.0,
    "step_time": 1.5,
    "time/play": 1.0,
}


@pytest.mark.parametrize(
    ("learnt", "grad", "rest"),
    [
        ({"grad_norm": 0.25, "sampling/logp_gap_max": 1e-6}, "  grad 0.250", "  gap 1.0e-06"),
        ({"meta/grad_norm": 0.25, "reasoner/grad_norm": 2.0}, "  grad meta 0.250 reasoner 2.000", ""),
        ({"meta/grad_norm": 0.25, "meta/clip_ratio/region_mean": 0.1}, "  grad meta 0.250", "  clip meta 0.100"),
        ({}, "", ""),
    ],
)
def test_the_line_of_a_step_shows_the_numbers_of_each_policy_that_learnt(
    learnt: dict[str, Any], grad: str, rest: str
) -> None:
    assert step_line(3, 10, PLAYED | learnt) == (
        f"step 3/10  reward 0.500  accuracy 0.250  finished 100%  1.50 s{grad}  turns 4.0  "
        f"tokens meta 12.0 reasoner 6.0{rest}  (play 1.00)"
    )


def test_the_line_of_a_step_fits_a_terminal_with_what_tells_most() -> None:
    assert step_line(500, 500, PLAYED | {"grad_norm": 0.25, "step_time": 123.4}, 80) == (
        "step 500/500  reward 0.500  accuracy 0.250  finished 100%  123.40 s  grad 0.250"
    )
    separate = PLAYED | {"meta/grad_norm": 0.25, "reasoner/grad_norm": 2.0, "sampling/kept": 0.5}
    assert step_line(3, 10, separate, 80) == (
        "step 3/10  reward 0.500  accuracy 0.250  finished 100%  1.50 s  kept 50%"
    )


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    """A console that takes the captured output for a terminal of 80 columns."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    return Console()


def test_a_play_tells_its_dialogues_on_a_terminal_and_nothing_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for console in (Console(), on_a_terminal(monkeypatch)):
        with console:
            console.progress("steps", 1, 2)
            console.playing(3, 4)
        said.append(capsys.readouterr().out)
    assert said[0] == ""
    assert "dialogues 3/4" in said[1]


def test_a_long_line_is_folded_between_words_on_a_terminal_and_whole_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "runs/" + 30 * "name-"
    Console().say(f"what was done is in {path}")
    assert capsys.readouterr().out == f"what was done is in {path}\n"
    on_a_terminal(monkeypatch).say(f"what was done is in {path}")
    assert capsys.readouterr().out == f"what was done is in\n  {path}\n"


def test_a_dialogue_is_shown_once_with_its_problem_and_its_pay(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = Transcript(Problem("sum", "1+1?", "2")).said("meta_0", "Add. [FINISH]").said("reasoner_0", "two")
    rewards = {"meta_0": 0.0, "reasoner_0": 0.5}
    episode = Episode(transcript.problem, transcript.ended(Ending.FINISHED), (), rewards)
    Console().dialogues("step 1", [episode], 2)
    said = capsys.readouterr().out
    assert "finished, meta_0 0, reasoner_0 0.5; golden answer: 2\n" in said
    assert [said.count(text) for text in ("step 1", "1+1?", "golden", "finished")] == [1, 1, 1, 1]


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii", write_through=True))
    transcript = Transcript(Problem("sum", "Wieviel ist 1÷1, Jörg? 🤔", "1")).said("meta_0", "Teilen")
    Console().dialogues("step 1", [Episode(transcript.problem, transcript, (), {})], 1)
    assert rb"Wieviel ist 1\xf71, J\xf6rg? \U0001f914" in out.getvalue()
