"""A run whose learning rate is far too high: its alarm is heard in time, it can be stopped, and the best is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from algos import evaluate
from algos.grpo import main
from tests.algos.steps import steps_of

TOO_HIGH = ["--learning-rate", "2e-2", "--seed", "0", "--save-steps", "0"]


def test_a_collapse_raises_its_alarm_stops_the_run_when_asked_and_leaves_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as exit_:
        main([*TOO_HIGH, "--max-steps", "10", "--on-alarm", "stop", "--output-dir", str(folder)])
    assert exit_.value.code == 3
    lines = steps_of(folder)
    rewards = [line["reward"] for line in lines]
    fall = next(n for n in range(1, len(rewards)) if rewards[n] < max(rewards[:n]) / 2)
    heard = next(n for n, line in enumerate(lines) if "alarm/reward" in line)
    assert fall <= heard <= fall + 2
    assert len(lines) == heard + 1 < 10
    out = capsys.readouterr().out
    assert "the first signal to move was " in out
    assert f"stopped by its alarm after step {len(lines)}; what was done is in {folder}/checkpoint-{len(lines)}" in out
    before = json.loads((folder / f"checkpoint-{len(lines)}" / "trainer" / "progress.json").read_text())["before"]
    evaluate.main([str(folder / "best"), "--preset", "embedded"])
    assert f"accuracy {before['heldout'][0]:.3f}" in capsys.readouterr().out
