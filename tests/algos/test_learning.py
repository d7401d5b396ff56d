"""Every algorithm, and alternating separate weights, learn the embedded model's task, which takes minutes each."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from algos.learning import mean_of


def test_a_scalar_that_some_updates_lack_is_the_mean_of_the_others() -> None:
    means = mean_of([{"loss": 1.0, "kl": 0.5}, {"loss": 3.0}], skipped=1)
    assert means == {"loss": 2.0, "kl": 0.5, "grad_norm": 0.0, "update/count": 2.0, "update/skipped": 1.0}


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "argv", "least"),
    [
        ("grpo", [], 0.85),
        ("reinforce_pp", [], 0.85),
        ("turn_ppo", [], 0.85),
        ("turn_ppo", ["--ratio", "turn_arithmetic"], 0.75),  # its mean reward sways by ten points from step to step
        ("grpo", ["--team", "separate", "--train", "alternate:10", "--max-steps", "120"], 0.85),
    ],
)
def test_accuracy_rises_from_below_half_by_35_points_and_more(
    algorithm: str, argv: list[str], least: float, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    quiet = ["--eval-steps", "0", "--save-steps", "0", "--seed", "0", "--output-dir", str(folder)]
    importlib.import_module(f"algos.{algorithm}").main(["--env", "math_v0", *quiet, *argv])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy_before"] <= 0.50
    assert summary["accuracy_after"] >= max(least, summary["accuracy_before"] + 0.35)


@pytest.mark.long
@pytest.mark.parametrize("groups", [[], ["--num-generations", "8", "--num-branches", "4", "--group-by", "context"]])
def test_the_single_turn_process_learns(groups: list[str], tmp_path: Path) -> None:
    from algos import grpo

    quiet = ["--eval-steps", "0", "--save-steps", "0", "--output-dir", str(tmp_path / "run")]
    grpo.main(["--env", "math_v0", "--process", "single_turn", *quiet, *groups])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["accuracy_after"] >= summary["accuracy_before"] + 0.15
