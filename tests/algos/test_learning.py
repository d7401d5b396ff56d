"""Every algorithm, and alternating separate weights, learn the embedded model's task, which takes minutes each."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from statistics import fmean

import pytest

from algos.learning import mean_of


def test_a_scalar_that_some_updates_lack_is_the_mean_of_the_others() -> None:
    means = mean_of([{"loss": 1.0, "kl": 0.5}, {"loss": 3.0}], skipped=1)
    assert means == {"loss": 2.0, "kl": 0.5, "grad_norm": 0.0, "update/count": 2.0, "update/skipped": 1.0}


def learnt(algorithm: str, argv: list[str], folder: Path, *, seed: int = 0) -> tuple[float, float]:
    """Held-out accuracy before and after a run."""
    quiet = ["--eval-steps", "0", "--save-steps", "0", "--seed", str(seed), "--output-dir", str(folder)]
    importlib.import_module(f"algos.{algorithm}").main(["--env", "math_v0", *quiet, *argv])
    summary = json.loads((folder / "summary.json").read_text())
    return summary["accuracy_before"], summary["accuracy_after"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "argv"),
    [
        ("grpo", []),
        ("reinforce_pp", []),
        ("turn_ppo", []),
        ("grpo", ["--team", "separate", "--train", "alternate:10", "--max-steps", "120"]),
    ],
)
def test_accuracy_rises_from_below_half_to_above_85_percent(algorithm: str, argv: list[str], tmp_path: Path) -> None:
    before, after = learnt(algorithm, argv, tmp_path / "run")
    assert before <= 0.50
    assert after >= max(0.85, before + 0.35)


@pytest.mark.long
def test_the_arithmetic_reading_learns_as_much_on_the_mean_of_three_seeds(tmp_path: Path) -> None:
    argv = ["--ratio", "turn_arithmetic"]
    runs = [learnt("turn_ppo", argv, tmp_path / str(seed), seed=seed) for seed in range(3)]
    before, after = (fmean(accuracy) for accuracy in zip(*runs, strict=True))
    assert before <= 0.50
    assert after >= max(0.85, before + 0.35)


@pytest.mark.long
@pytest.mark.parametrize("groups", [[], ["--num-generations", "8", "--num-branches", "4", "--group-by", "context"]])
def test_the_single_turn_process_learns(groups: list[str], tmp_path: Path) -> None:
    before, after = learnt("grpo", ["--process", "single_turn", *groups], tmp_path / "run")
    assert after >= before + 0.15
