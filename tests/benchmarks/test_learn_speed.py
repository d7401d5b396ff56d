"""The benchmark of learning speed runs, and what can be held to a figure in seconds is."""

from __future__ import annotations

import json

import pytest

from benchmarks.learn_speed import main, padding


def test_micro_batches_of_mixed_lengths_are_hardly_padded() -> None:
    assert 1.0 <= padding() <= 1.05


def test_the_last_line_is_a_json_object_of_ratios(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--small", "--without-trl"]) == 0
    figures = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert set(figures) == {"over_minimal", "padding", "logp_memory_ratio", "logp_time_ratio"}
    assert all(value >= 0 for value in figures.values())


@pytest.mark.long
def test_a_step_costs_what_is_claimed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    figures = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert figures["over_trl"] >= 2.0
    assert figures["over_minimal"] <= 1.3
    assert figures["memory_over_trl"] <= 0.5
    assert figures["padding"] <= 1.05
    assert figures["logp_memory_ratio"] <= 0.35
    assert figures["logp_time_ratio"] <= 1.6
