"""The benchmark of the turn-ratio loss: both ways of writing it are one loss, and its last line is a JSON object."""

from __future__ import annotations

import json

import pytest

from benchmarks import loss_speed


def test_the_figures_come_from_two_losses_with_the_same_gradient(capfd: pytest.CaptureFixture[str]) -> None:
    loss_speed.main(["--rows", "8", "--tokens", "1152", "--repeats", "3"])
    figures = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert figures["gradient_distance"] < 1e-5
    assert figures["memory_ratio"] <= 0.1
    assert figures["time_ratio"] > 1
