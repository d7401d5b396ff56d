"""A run that is killed and taken up again is, bit for bit, the run that was never killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.algos.kill_worker import STEPS

CLOCKS = ("time/", "step_time", "train_seconds", "command", "memory/", "rate/")


def killed_and_resumed(folder: Path, moments: list[str]) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    argv = [sys.executable, "-m", "tests.algos.kill_worker", str(folder), *moments]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def timeless(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if not name.startswith(CLOCKS)}


def left_by(run: Path) -> dict[str, Any]:
    """Everything that a run leaves and that does not depend on the clock."""
    metrics = [timeless(json.loads(line)) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "metrics": metrics,
        "summary": timeless(json.loads((run / "summary.json").read_text())),
        "weights": {n: (run / n / "policy" / "model.safetensors").read_bytes() for n in ("best", "final")},
        "episodes": {path.name: path.read_text() for path in (run / "episodes").iterdir()},
        "folders": sorted(path.name for path in run.iterdir() if not path.name.startswith("earlier-")),
    }


def assert_all_equal(folder: Path, moments: list[str]) -> None:
    straight = left_by(folder / "straight")
    assert [line["step"] for line in straight["metrics"]] == list(range(STEPS + 1))
    for moment in moments:
        resumed = left_by(folder / moment)
        for what, expected in straight.items():
            assert resumed[what] == expected, f"killed at {moment}: {what} differ"


def test_a_run_killed_in_any_phase_goes_on_bit_for_bit(tmp_path: Path) -> None:
    moments = ["play", "update", "publish", "save", "swap"]
    killed_and_resumed(tmp_path, moments)
    assert_all_equal(tmp_path, moments)


@pytest.mark.long
def test_a_run_killed_at_twenty_random_moments_goes_on_bit_for_bit(tmp_path: Path) -> None:
    draw = random.Random(0)
    moments = [f"{draw.uniform(0.05, 0.98):.3f}" for _ in range(20)]
    killed_and_resumed(tmp_path, moments)
    assert_all_equal(tmp_path, moments)
